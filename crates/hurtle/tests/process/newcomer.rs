//! The command line as somebody types it who knows other servers.

use crate::child::{Child, hurtle};
use crate::support::{Dir, reserved_address};

#[test]
fn a_port_is_taken_in_every_spelling() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let root = dir.root();
    let root = root.to_str().unwrap();
    let port = &reserved_address().port().to_string();
    let (bound, every) = (format!("--bind=127.0.0.1:{port}"), format!(":{port}"));
    let table: [(&str, &[&str], Option<&str>); 11] = [
        ("a short option", &[root, "-p", port], None),
        ("a long option", &[root, "--port", port], None),
        ("an option before the directory", &["-p", port, root], None),
        ("an address and a port", &[root, "--bind", "127.0.0.1", "--port", port], None),
        ("both in one", &[root, &bound], None),
        ("a bare port behind the directory", &[root, port], None),
        ("a bare port for every address", &[root, &every], None),
        ("a bare port for the current directory", &[port], Some(root)),
        // Regression: the port was given twice, or could not be used with --bind.
        ("a bare port and an address", &[port, "--bind", "127.0.0.1"], Some(root)),
        ("the directory, a bare port and an address", &[root, port, "-b", "127.0.0.1"], None),
        ("the name of the command", &["serve", root, "-p", port], None),
    ];
    for (sentence, arguments, here) in table {
        let mut command = hurtle();
        command.args(arguments).args(["--workers", "1"]);
        command.current_dir(here.unwrap_or("/"));
        let child = Child::start(&mut command);
        assert_eq!(child.address().port().to_string(), *port, "{sentence}");
        assert_eq!(child.get("/").text(), "home\n", "{sentence}");
    }
    for (sentence, arguments) in [
        // Regression: it listened on both.
        ("a bare port and another address", &[port, "--listen", ":0"][..]),
        ("two bare ports", &[port, "0"]),
        ("an address and an address", &[root, "127.0.0.1:0", "--bind", "0.0.0.0"]),
        ("a bare port for every address, and one", &[root, ":0", "--bind", "127.0.0.1"]),
        ("two ports", &[root, port, "-p", port]),
        ("two spellings", &[root, "--listen", port, "-p", port]),
        ("a port twice", &[root, &bound, "-p", port]),
        ("an address without a port beside a configuration", &["-c", "x", "--bind", "::1"]),
    ] {
        let output = hurtle().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{sentence}");
        let said = String::from_utf8_lossy(&output.stderr);
        let why = ["given twice", "--bind needs --port", "cannot be used with"];
        assert!(why.iter().any(|why| said.contains(why)), "{sentence}: {said}");
    }
}

#[test]
fn a_single_file_is_served_and_nothing_beside_it() {
    let dir = Dir::new(&[("page.html", "a page\n"), ("other.html", ""), (".env", "secret\n")]);
    std::os::unix::fs::symlink("../linked.txt", dir.path("link.html")).unwrap();
    std::fs::write(dir.path("../linked.txt"), "linked\n").unwrap();
    let rows = [
        ("link.html", "/", 200),
        ("link.html", "/link.html", 200),
        ("page.html", "/", 200),
        ("page.html", "/page.html", 200),
        ("page.html", "/other.html", 404),
        ("page.html", "/.env", 404),
        ("page.html", "/favicon.ico", 404),
        // It is named, so it is meant.
        (".env", "/.env", 200),
    ];
    for (file, target, status) in rows {
        let path = dir.path(file);
        let mut command = hurtle();
        let child = Child::start(command.arg(&path).args(["-l", "127.0.0.1:0", "--workers", "1"]));
        assert_eq!(child.get(target).status, status, "{file}: {target}");
        let said = child.stdout();
        let real = path.canonicalize().unwrap();
        assert!(said.contains(&format!("serves {}\n", real.display())), "{said}");
    }
    let conf = dir.path("site.conf");
    std::fs::write(&conf, "listen 80;\n").unwrap();
    let output = hurtle().arg(&conf).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a configuration is not published by mistake");
}

#[test]
fn the_start_names_addresses_to_open_and_no_configuration_that_does_not_exist() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let mut command = hurtle();
    let child = Child::start(command.arg(dir.root()).args(["-l", ":0", "--workers", "1"]));
    let said = child.stdout();
    assert!(said.contains("  http://127.0.0.1:"), "{said}");
    assert!(!said.contains("0.0.0.0"), "no browser opens it: {said}");
    assert_eq!(child.get("/").text(), "home\n");
    let log = child.stderr();
    assert!(!log.contains("configuration"), "{log}");
    assert!(!log.contains("`user"), "{log}");
}
