//! Symbolic links in the directory of a FastCGI application: those of Debian's packages, which lead
//! to shared libraries, and those of a release.

use std::fs;

use crate::dir::{Dir, eventually};
use crate::fastcgi::{DOCUMENT, server};
use crate::peer::receive;
use crate::php_fpm::PhpFpm;
use crate::support::{Proxy, Upstream};

/// A directory like that of Debian's phpMyAdmin, whose scripts and libraries lie elsewhere.
fn package() -> Dir {
    let dir = Dir::new(&[
        ("app/index.php", ""),
        ("javascript/jquery.js", "$"),
        ("shared/tool.php", ""),
        ("etc/secret.php", ""),
        ("etc/secret.txt", "secret"),
    ]);
    dir.link("app/jquery", "../javascript");
    dir.link("app/absolute.js", dir.path("javascript/jquery.js"));
    dir.link("app/tool.php", dir.path("shared/tool.php"));
    dir.link("app/stolen.php", dir.path("etc/secret.php"));
    dir.link("app/stolen.txt", "../etc/secret.txt");
    dir.link("javascript/out.js", "../etc/secret.txt");
    dir
}

#[test]
fn links_lead_to_the_named_directories_and_nowhere_else() {
    crate::log::begin();
    let dir = package();
    let (root, to) = (dir.path("app"), [dir.path("javascript"), dir.path("shared")]);
    let upstream = Upstream::new();
    let keys = format!("root = {root:?}\nsymlinks = {to:?}");
    let scripts = server(&upstream, &keys);
    let files = Proxy::of("", &format!("files = {root:?}\nindex = []\nsymlinks = {to:?}"));
    let rows = [
        ("a file in a linked directory", "/jquery/jquery.js", 200),
        ("a link to one file", "/absolute.js", 200),
        ("a link that leads elsewhere", "/stolen.txt", 404),
        ("a link in a linked directory that leads elsewhere", "/jquery/out.js", 404),
    ];
    for server in [&scripts, &files] {
        for (sentence, path, status) in rows {
            let mut client = server.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let (head, _) = client.answer();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{sentence}: {head}");
        }
    }
    let mut client = scripts.send("GET /stolen.php HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().0.starts_with("HTTP/1.1 404 "), "a script that leads elsewhere");
    upstream.expect_no_connection();
    let mut client = scripts.send("GET /tool.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let received = receive(&upstream);
    let file = root.join("tool.php").display().to_string();
    assert_eq!(received.variables["SCRIPT_FILENAME"], file, "a linked script");
    received.answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
    let said = crate::log::lines_with(&format!("{}/stolen.txt: a symbolic link", root.display()));
    assert!(!said.is_empty() && said[0].contains("etc/secret.txt"), "{said:?}");
    assert!(said[0].contains("`symlinks`"), "{said:?}");
}

/// php-fpm keeps compiled scripts by their paths: it would go on running the release before.
#[test]
fn a_new_release_is_a_new_path_unless_the_path_is_kept_as_written() {
    let dir = Dir::new(&[("releases/1/index.php", ""), ("releases/2/index.php", "")]);
    dir.link("current", "releases/1");
    let upstream = Upstream::new();
    let root = dir.path("current");
    let real = server(&upstream, &format!("root = {root:?}"));
    let written = server(&upstream, &format!("root = {root:?}\nreal_path = false"));
    let ask = |server: &Proxy| {
        let _client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let variables = receive(&upstream).variables;
        (variables["SCRIPT_FILENAME"].clone(), variables["DOCUMENT_ROOT"].clone())
    };
    let releases = dir.path("releases").canonicalize().unwrap();
    for release in ["1", "2"] {
        dir.link("next", format!("releases/{release}"));
        fs::rename(dir.path("next"), &root).unwrap();
        let of = |root: String| (format!("{root}/index.php"), root);
        assert_eq!(ask(&real), of(releases.join(release).display().to_string()));
        assert_eq!(ask(&written), of(root.display().to_string()));
    }
}

#[test]
fn php_runs_the_release_to_which_a_link_leads() {
    let php = PhpFpm::start(1);
    for release in ["1", "2"] {
        php.dir
            .write(&format!("releases/{release}/index.php"), &format!("<?php echo '{release}';"));
    }
    let (socket, root) = (php.dir.path("fpm.sock"), php.dir.path("current"));
    let mount = format!("fastcgi = \"unix:{}\"\nroot = {root:?}\n", socket.display());
    php.dir.link("current", "releases/1");
    let server = Proxy::of("", &mount);
    for release in ["1", "2", "1"] {
        php.dir.link("next", format!("releases/{release}"));
        fs::rename(php.dir.path("next"), &root).unwrap();
        let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().1, release);
    }
}

#[test]
fn static_files_are_compressed_as_those_of_a_files_mount() {
    let text = "body { color: green }\n".repeat(500);
    let dir = Dir::new(&[("app/index.php", ""), ("app/style.css", &text)]);
    let (root, before) = (dir.path("app"), std::time::SystemTime::UNIX_EPOCH);
    let style = fs::File::options().append(true).open(root.join("style.css")).unwrap();
    style.set_modified(before + std::time::Duration::from_secs(1_700_000_000)).unwrap();
    let upstream = Upstream::new();
    let scripts = server(&upstream, &format!("root = {root:?}"));
    let files = Proxy::of("", &format!("files = {root:?}"));
    for server in [&scripts, &files] {
        eventually("the file is sent compressed", || {
            let request = "GET /style.css HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                           Accept-Encoding: gzip\r\n\r\n";
            let mut client = server.send(request);
            client.head().contains("Content-Encoding: gzip")
        });
    }
}
