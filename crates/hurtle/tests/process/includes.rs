//! Files that a configuration includes, in a server that runs: in a sandbox, with reloads.

use std::fs;

use rustix::process::Signal;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::support::Dir;

fn site(name: &str, text: &str) -> String {
    format!("[[site]]\nhosts = '{name}'\n[[site.mount]]\nrespond = '{text}'\n")
}

#[test]
fn a_reload_reads_changed_new_and_removed_files() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    dir.write("../sites/a.toml", site("a.example", "a"));
    dir.write("../sites/b.toml", site("b.example", "b"));
    let config = write_config(&dir, "include = 'sites/*.toml'\n");
    let child = Child::start(hurtle().arg("--config").arg(config));
    let get = |host: &str| {
        let mut client = child.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let response = client.response();
        (response.status, response.text().to_owned())
    };
    assert_eq!(get("a.example"), (200, "a".to_owned()));
    assert_eq!(get("b.example"), (200, "b".to_owned()));

    dir.write("../sites/a.toml", site("a.example", "another"));
    dir.write("../sites/c.toml", site("c.example", "c"));
    fs::remove_file(dir.path("../sites/b.toml")).unwrap();
    child.signal(Signal::HUP);
    eventually("the new file is read", || get("c.example") == (200, "c".to_owned()));
    assert_eq!(get("a.example"), (200, "another".to_owned()), "the changed file");
    assert_eq!(get("b.example").0, 421, "the removed file");

    dir.write("../sites/c.toml", "listting = true\n");
    child.signal(Signal::HUP);
    let problem = "sites/c.toml:1:1: listting: unknown key";
    eventually("a problem names its file", || child.stderr().contains(problem));
    assert_eq!(get("c.example"), (200, "c".to_owned()), "the configuration before stays");
}

#[test]
fn included_files_are_watched_with_the_file_that_includes_them() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    dir.write("../sites/a.toml", site("a.example", "a"));
    let config = write_config(&dir, "include = 'sites/*.toml'\n");
    let child = Child::start(hurtle().arg("--watch").arg(config));
    let status = |host: &str| {
        let mut client = child.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.response().status
    };
    assert_eq!(status("b.example"), 421);
    dir.write("../sites/b.toml", "listting = true");
    eventually("a new file is read", || child.stderr().contains("listting: unknown key"));
    dir.write("../sites/b.toml", site("b.example", "b"));
    eventually("a file that had a problem is read", || status("b.example") == 200);
    fs::remove_file(dir.path("../sites/a.toml")).unwrap();
    eventually("a removed file is gone", || status("a.example") == 421);
}
