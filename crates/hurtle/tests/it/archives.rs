//! Tests of archives: what they hold, and what stays out.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;

use http::{HeaderValue, StatusCode};
use hurtle::config::{Archive, Config, Matcher, Mount, MountHandler, Rule, RuleAction};

use crate::support::client::PATIENCE;
use crate::support::site::files;
use crate::support::{Response, Server};

fn with(tree: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Server {
    Server::with(tree, |config| {
        let files = files(config);
        files.listing = true;
        files.archive = Some(Archive::default());
        change(config);
    })
}

/// Files and directories of an archive: name and content. A directory's name ends in `/`.
type Tree = BTreeMap<String, String>;

fn unzipped(response: &Response) -> Tree {
    assert_eq!(response.status, 200, "{}", response.text());
    let mut archive = zip::ZipArchive::new(Cursor::new(&response.body)).unwrap();
    let mut tree = Tree::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        tree.insert(file.name().unwrap().into_owned(), content);
    }
    tree
}

fn untarred(response: &Response) -> Tree {
    assert_eq!(response.status, 200, "{}", response.text());
    let mut archive = tar::Archive::new(&response.body[..]);
    let mut tree = Tree::new();
    for file in archive.entries().unwrap() {
        let mut file = file.unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        tree.insert(file.path().unwrap().to_str().unwrap().to_owned(), content);
    }
    tree
}

fn names(tree: &Tree) -> Vec<&str> {
    tree.keys().map(String::as_str).collect()
}

#[test]
fn an_archive_of_many_small_files_holds_all_of_them() {
    let server = with(&[], |_| ());
    let mut expected = Tree::from([("d/".to_owned(), String::new())]);
    for number in 0..200 {
        let (name, content) = (format!("d/{number}"), format!("content {number}"));
        server.dir.write(&name, &content);
        expected.insert(name, content);
    }
    assert!(unzipped(&server.get("/d/?archive=zip")) == expected);
    assert!(untarred(&server.get("/d/?archive=tar")) == expected);
}

#[test]
fn an_archive_holds_the_directory_and_all_beneath_it() {
    let long = format!("d/{0}/{0}/{0}.txt", "long".repeat(40));
    let tree =
        [("d/a.txt", "alpha"), ("d/empty", ""), ("d/none/", ""), ("d/é/b", "beta"), (&long, "end")];
    let server = with(&tree, |_| ());
    let large = "0123456789abcdef".repeat(70_000);
    server.dir.write("d/large", &large);
    let zip = server.get("/d/?archive=zip");
    assert_eq!(zip.field("Content-Type"), Some("application/zip"));
    assert_eq!(zip.field("Content-Disposition"), Some("attachment; filename=\"d.zip\""));
    let len = zip.body.len().to_string();
    assert_eq!(zip.field("Content-Length"), Some(&*len));
    assert_eq!(server.head("/d/?archive=zip").field("Content-Length"), Some(&*len));
    let unzipped = unzipped(&zip);
    let long_directory = format!("d/{}/", "long".repeat(40));
    let longer = format!("{long_directory}{}/", "long".repeat(40));
    let mut expected: Tree = tree.map(|(name, content)| (name.into(), content.into())).into();
    expected.extend(["d/", "d/é/", &long_directory, &longer].map(|name| (name.into(), "".into())));
    expected.insert("d/large".into(), large);
    assert_eq!(names(&unzipped), names(&expected));
    assert!(unzipped == expected, "the contents differ");
    let tar = server.get("/d/?archive=tar");
    assert_eq!(tar.field("Content-Type"), Some("application/x-tar"));
    assert!(untarred(&tar) == expected, "{:?}", names(&untarred(&tar)));
    assert_eq!(tar.body.len() % 512, 0);
    // The root has no name of its own.
    let root = server.get("/?archive=tar");
    assert_eq!(root.field("Content-Disposition"), Some("attachment; filename=\"files.tar\""));
    assert!(untarred(&root).contains_key("files/d/a.txt"));
}

#[test]
fn an_archive_holds_only_names_that_listings_lead_to() {
    let tree = [
        ("d/a", "a"),
        ("d/.hidden", "no"),
        ("d/.git/config", "no"),
        ("d/.well-known/x", "yes"),
        ("d/page/index.html", "page"),
        ("d/page/unlisted", "no"),
        ("d/members/list", "no"),
        ("d/membership", "yes"),
        ("d/moved/x", "no"),
        ("d/x.php", "no"),
        ("../beside", "no"),
    ];
    let server = with(&tree, |config| {
        let site = &mut config.sites[0];
        let refusal = MountHandler::Fixed {
            status: StatusCode::FORBIDDEN,
            body: String::new(),
            content_type: HeaderValue::from_static("text/plain"),
        };
        site.mounts.push(Mount::new("/d/members", refusal));
        let rule = |pattern: &str, to: &str| Rule {
            matcher: Matcher::of_pattern(pattern),
            action: RuleAction::Redirect(StatusCode::FOUND, to.to_owned()),
        };
        site.rules.extend([rule("/d/moved/**", "/"), rule("*.php", "/")]);
    });
    symlink("../a", server.dir.path("d/page-of-nothing")).unwrap();
    symlink("a", server.dir.path("d/link")).unwrap();
    symlink("../../beside", server.dir.path("d/out")).unwrap();
    symlink(".", server.dir.path("d/loop")).unwrap();
    symlink("gone", server.dir.path("d/broken")).unwrap();
    let expected = [
        "d/",
        "d/.well-known/",
        "d/.well-known/x",
        "d/a",
        "d/link",
        "d/membership",
        "d/page/",
        "d/page/index.html",
    ];
    let zip = unzipped(&server.get("/d/?archive=zip"));
    assert_eq!(names(&zip), expected);
    assert_eq!(zip["d/link"], "a", "a link is the file it leads to");
    assert_eq!(names(&untarred(&server.get("/d/?archive=tar"))), expected);
    // A directory with an index file has no listing, so it has no archive.
    assert_eq!(server.get("/d/page/?archive=zip").text(), "page");
}

#[test]
fn archives_are_off_unless_they_are_configured() {
    let server = with(&[("a", "alpha")], |config| files(config).archive = None);
    let page = server.get("/?archive=zip");
    assert!(page.text().contains("<table>") && !page.text().contains("archive="));
    let server = with(&[("a", "alpha")], |_| ());
    assert!(server.get("/").text().contains("href=\"?archive=zip\""));
    assert!(server.get("/?archive=rar").text().contains("<table>"));
}

#[test]
fn an_archive_has_limits() {
    let tree = [("d/a", "12345"), ("d/b", "12345"), ("e/a", "12345")];
    let refused = |archive: Archive, path: &str| {
        let server = with(&tree, |config| files(config).archive = Some(archive));
        let response = server.get(path);
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };
    let limits = |bytes, entries| Archive { bytes, entries };
    let (status, text) = refused(limits(9, 100), "/d/?archive=zip");
    assert!(status == 403 && text.contains("larger than an archive may be (9 bytes)"), "{text}");
    let (status, text) = refused(limits(100, 2), "/d/?archive=tar");
    assert!(status == 403 && text.contains("may have (2)"), "{text}");
    assert_eq!(refused(limits(10, 3), "/d/?archive=zip").0, 200);
    let server = with(&[], |_| ());
    fs::create_dir_all(server.dir.path("deep/".repeat(70))).unwrap();
    let response = server.get("/?archive=zip");
    assert!(response.status == 403 && response.text().contains("nested too deep"));
}

#[test]
fn a_file_that_changes_meanwhile_ends_the_archive_early() {
    let server = with(&[], |_| ());
    // Larger than all buffers between the server and a client that does not read.
    server.dir.write("a", vec![b'a'; 32 << 20]);
    server.dir.write("b", vec![b'b'; 1 << 20]);
    let mut client = TcpStream::connect(server.address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET /?archive=tar HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // The first byte follows the walk.
    client.read_exact(&mut [0]).unwrap();
    server.dir.write("b", vec![b'b'; 1 << 19]);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.len() >= 32 << 20 && rest.len() < 33 << 20, "{} bytes", rest.len());
}
