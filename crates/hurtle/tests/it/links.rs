//! Tests of symbolic links, hidden names and files that are not regular.

use hurtle::config::Symlinks;

use crate::support::rows::check;
use crate::support::site::files;
use crate::support::{Dir, Server};

/// A tree of links: inside the root, out of it, in circles, to nothing.
fn tree_of_links() -> Dir {
    let tree = [("a.txt", "a"), ("dir/b.txt", "b"), ("dir/index.html", "index")];
    let dir = Dir::new(&tree);
    dir.write("../beside.txt", "secret");
    dir.write("../rooted/c.txt", "secret");
    dir.link("relative", "a.txt");
    dir.link("dir/up", "../a.txt");
    dir.link("to-dir", "dir");
    dir.link("absolute", dir.path("a.txt"));
    dir.link("absolute-dir", dir.path("dir"));
    dir.link("chain", "absolute");
    dir.link("out", "../beside.txt");
    dir.link("out-absolute", dir.path("../beside.txt"));
    dir.link("out-dir", "../rooted");
    dir.link("out-and-back", format!("../{}/a.txt", "root"));
    dir.link("same-prefix", dir.path("../rooted/c.txt"));
    dir.link("loop", "loop");
    dir.link("loop-a", "loop-b");
    dir.link("loop-b", dir.path("loop-a"));
    dir.link("nowhere", "none");
    dir.link("etc", "/etc/passwd");
    dir.link("magic", "/proc/self/root/etc/passwd");
    dir
}

#[test]
fn links_within_the_root() {
    let server = Server::of(tree_of_links(), |_| ());
    check(
        &server,
        &[
            ("relative", "/relative", 200, &["Content-Type: application/octet-stream"], Some("a")),
            ("upwards, but inside", "/dir/up", 200, &[], Some("a")),
            ("to a directory", "/to-dir/b.txt", 200, &[], Some("b")),
            ("with its slash", "/to-dir", 301, &["Location: /to-dir/"], None),
            ("and its index", "/to-dir/", 200, &[], Some("index")),
            ("absolute, but inside", "/absolute", 200, &[], Some("a")),
            ("an absolute one to a directory", "/absolute-dir/b.txt", 200, &[], Some("b")),
            ("its index", "/absolute-dir/", 200, &[], Some("index")),
            ("its slash", "/absolute-dir", 301, &["Location: /absolute-dir/"], None),
            ("a link to a link", "/chain", 200, &[], Some("a")),
            ("outside", "/out", 404, &[], None),
            ("outside, absolute", "/out-absolute", 404, &[], None),
            ("a directory outside", "/out-dir/c.txt", 404, &[], None),
            ("a directory whose name begins as the root's", "/same-prefix", 404, &[], None),
            ("itself", "/loop", 404, &[], None),
            ("a circle", "/loop-a", 404, &[], None),
            ("nothing", "/nowhere", 404, &[], None),
            ("the system's", "/etc", 404, &[], None),
            ("by way of /proc", "/magic", 404, &[], None),
        ],
    );
}

#[test]
fn no_links_at_all() {
    let server = Server::of(tree_of_links(), |config| files(config).symlinks = Symlinks::Never);
    let links = ["relative", "dir/up", "to-dir/b.txt", "to-dir/", "absolute", "out", "loop"];
    for path in links {
        assert_eq!(server.get(&format!("/{path}")).status, 404, "{path}");
    }
    assert_eq!(server.get("/dir/b.txt").text(), "b");
}

#[test]
fn links_anywhere() {
    let server = Server::of(tree_of_links(), |config| files(config).symlinks = Symlinks::Anywhere);
    check(
        &server,
        &[
            ("outside", "/out", 200, &[], Some("secret")),
            ("outside, absolute", "/out-absolute", 200, &[], Some("secret")),
            ("a directory", "/out-dir/c.txt", 200, &[], Some("secret")),
            ("a circle is still nothing", "/loop-a", 404, &[], None),
            ("dots are resolved first", "/out-dir/../a.txt", 200, &[], Some("a")),
            ("and lead nowhere else", "/out-dir/../../beside.txt", 400, &[], None),
        ],
    );
}

/// Regression: the names, sizes and times of files outside of the root were listed.
#[test]
fn listings_omit_links_that_are_not_served() {
    let inside = ["relative", "to-dir", "absolute", "absolute-dir", "chain"];
    let outside = ["out", "out-absolute", "out-dir", "same-prefix", "etc", "magic"];
    let rows = [
        (Symlinks::WithinRoot, true, false),
        (Symlinks::Never, false, false),
        (Symlinks::Anywhere, true, true),
    ];
    for (symlinks, lists_inside, lists_outside) in rows {
        let server = Server::of(tree_of_links(), |config| {
            files(config).symlinks = symlinks.clone();
            files(config).listing = true;
        });
        for query in ["", "?sort=size", "?sort=modified&order=desc"] {
            let json = server.get(&format!("/{query}\nAccept: application/json"));
            let html = server.get(&format!("/{query}\nAccept: text/html"));
            let lists = |name: &str| {
                let listed = json.text().contains(&format!("\"{name}\""));
                let is_linked =
                    ["", "/"].iter().any(|end| html.text().contains(&format!("/{name}{end}\"")));
                assert_eq!(listed, is_linked, "{symlinks:?} {query} {name}: {}", html.text());
                listed
            };
            assert!(lists("a.txt") && !lists("loop") && !lists("nowhere"), "{symlinks:?}");
            assert!(inside.iter().all(|name| lists(name) == lists_inside), "{symlinks:?}");
            for name in outside {
                assert_eq!(lists(name), lists_outside, "{symlinks:?} {name}");
            }
        }
    }
}

#[test]
fn a_root_that_is_a_link() {
    let dir = Dir::new(&[("../real/a.txt", "a")]);
    dir.link("../link", "real");
    dir.link("../real/absolute", dir.path("../link/a.txt"));
    dir.link("../real/other-name", dir.path("../real/a.txt"));
    let server = Server::of(dir, |config| {
        let files = files(config);
        files.root = files.root.join("../link");
    });
    check(
        &server,
        &[
            ("a file", "/a.txt", 200, &[], Some("a")),
            ("an absolute link by the link's name", "/absolute", 200, &[], Some("a")),
            ("and by the directory's", "/other-name", 200, &[], Some("a")),
        ],
    );
}

/// Look-ups share an open root for a moment; a name that it does not have is looked for in the new
/// one.
#[test]
fn a_new_name_is_found_at_once_after_the_root_has_changed() {
    let dir = Dir::new(&[("../1/a.txt", "a"), ("../2/b.txt", "b"), ("../2/dir/index.html", "i")]);
    dir.link("../link", "1");
    let server = Server::of(dir, |config| {
        let files = files(config);
        files.root = files.root.join("../link");
    });
    check(&server, &[("of the first", "/a.txt", 200, &[], Some("a"))]);
    server.dir.link("../next", "2");
    std::fs::rename(server.dir.path("../next"), server.dir.path("../link")).unwrap();
    check(
        &server,
        &[
            ("a file", "/b.txt", 200, &[], Some("b")),
            ("a directory", "/dir/", 200, &[], Some("i")),
            ("a directory without its slash", "/dir", 301, &[], None),
            ("neither has it", "/c.txt", 404, &[], None),
        ],
    );
}

#[test]
fn hidden_names() {
    let tree = [
        (".env", "secret"),
        (".git/config", "secret"),
        ("dir/.hidden/a.txt", "secret"),
        ("a.txt", "a"),
        ("..x", "secret"),
        (".well-known/security.txt", "contact"),
        (".well-known/.secret", "secret"),
        (".well-known-not", "secret"),
        ("dots...txt", "dots"),
    ];
    let server = Server::start(&tree);
    check(
        &server,
        &[
            ("a hidden file", "/.env", 404, &[], None),
            ("written otherwise", "/%2Eenv", 404, &[], None),
            ("in a hidden directory", "/.git/config", 404, &[], None),
            ("the directory", "/.git", 404, &[], None),
            ("with its slash", "/.git/", 404, &[], None),
            ("deeper", "/dir/.hidden/a.txt", 404, &[], None),
            ("by way of dots", "/dir/./../.env", 404, &[], None),
            ("two dots begin a hidden name", "/..x", 404, &[], None),
            ("RFC 8615's place", "/.well-known/security.txt", 200, &[], Some("contact")),
            ("but not what hides there", "/.well-known/.secret", 404, &[], None),
            ("nor what begins alike", "/.well-known-not", 404, &[], None),
            ("dots inside a name", "/dots...txt", 200, &[], Some("dots")),
        ],
    );
    let shown = Server::with(&tree, |config| files(config).dotfiles = true);
    assert_eq!(shown.get("/.env").text(), "secret", "if configured");
}

#[test]
fn irregular_files_are_not_found() {
    let server = Server::start(&[("a.txt", "a"), ("index.html/", "")]);
    nix::unistd::mkfifo(&server.dir.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    nix::unistd::mkfifo(&server.dir.path("a.txt.gz"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(server.dir.path("socket")).unwrap();
    server.dir.link("fifo-link", "fifo");
    check(
        &server,
        &[
            ("a FIFO without a writer does not block", "/fifo", 404, &[], None),
            ("nor by a link", "/fifo-link", 404, &[], None),
            ("nor as a directory", "/fifo/", 404, &[], None),
            ("nor as a variant", "/a.txt\nAccept-Encoding: gzip", 200, &["!Vary"], Some("a")),
            ("a socket", "/socket", 404, &[], None),
            ("a directory as an index", "/", 404, &[], None),
        ],
    );
    let device = Server::with(&[], |config| files(config).root = "/dev".into());
    assert_eq!(device.get("/null").status, 404);
    assert_eq!(device.get("/zero").status, 404);
}

#[test]
fn unreadable_files_are_refused() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    let server = Server::with(&[("a.txt", "a"), ("dir/b.txt", "b")], |config| {
        files(config).symlinks = Symlinks::Anywhere;
    });
    fs::set_permissions(server.dir.path("a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read all files, except write-only ones of the kernel.
    let (path, refused) = match fs::read(server.dir.path("a.txt")) {
        Err(_) => ("/a.txt", true),
        Ok(_) => {
            let write_only = "/sys/bus/clocksource/uevent";
            server.dir.link("write-only", write_only);
            let e = fs::read(write_only).err().map(|e| e.kind());
            ("/write-only", e == Some(std::io::ErrorKind::PermissionDenied))
        }
    };
    if refused {
        check(&server, &[("it is there, but not for us", path, 403, &[], None)]);
    } else {
        eprintln!("skipped: this user may read everything");
    }
}
