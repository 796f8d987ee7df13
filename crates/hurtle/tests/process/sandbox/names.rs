//! Names that lead elsewhere while a confined server runs: releases by symbolic link.

use std::thread;
use std::time::{Duration, Instant};

use super::{Confined, Later, serves, switch};
use crate::child::eventually;
use crate::support::Dir;

fn releases() -> Dir {
    Dir::new(&[
        ("releases/1/public/x.txt", "first"),
        ("releases/2/public/x.txt", "second"),
        ("releases/3/public/x.txt", "third"),
        ("shared/secret.txt", "secret"),
    ])
}

/// A release was 403 until SIGHUP after `current` led to it, because the sandbox's permission was
/// for the directory of the release before.
#[test]
fn a_release_by_link_is_served_soon_after_the_switch_by_one_other_process() {
    let cap = releases();
    let current = cap.path("current");
    switch(&current, "releases/1");
    let server =
        Confined::start(&format!("revalidate = '0s'\n{}", serves(&current.join("public"))));
    let later = Later(&server.child);
    if !server.is_confined() {
        return;
    }
    assert_eq!(server.get("/x.txt"), (200, "first".to_owned()));

    switch(&current, "releases/none");
    assert_ne!(server.get("/x.txt").0, 200, "a deployment under way");
    switch(&current, "releases/2");
    let begun = Instant::now();
    eventually("the second release is served", || server.get("/x.txt").1 == "second");
    println!("served {:?} after the switch", begun.elapsed());
    eventually("the log names the path", || {
        let log = server.child.stderr();
        log.contains(&current.join("public").display().to_string()) && log.contains("releases/2")
    });
    assert_eq!(later.ids().len(), 1, "{}", server.child.stderr());

    // A link that leads elsewhere again and again does not start a process each time.
    for turn in 0..20 {
        switch(&current, ["releases/1", "releases/3"][turn % 2]);
        thread::sleep(Duration::from_millis(50));
    }
    eventually("the log says when", || server.child.stderr().contains("once a minute"));
    assert_eq!(later.ids().len(), 1, "{}", server.child.stderr());
    // An operator does not wait.
    let (code, said) = server.command("reload");
    assert_eq!((code, said.contains("upgraded")), (Some(0), true), "{said}");
    assert_eq!(server.get("/x.txt").1, "third");
    assert_eq!(later.ids().len(), 2, "{}", server.child.stderr());
}

/// `symlinks` permits the directories that it names and no others.
#[test]
fn links_lead_to_the_named_directories_and_the_sandbox_permits_no_more() {
    let tree = Dir::new(&[
        ("www/a.txt", "a"),
        ("../library/jquery.js", "$"),
        ("../private/secret.txt", "secret"),
    ]);
    let outside = |name: &str| tree.path(format!("../{name}")).canonicalize().unwrap();
    let (library, private) = (outside("library"), outside("private"));
    std::os::unix::fs::symlink(&library, tree.path("www/library")).unwrap();
    std::os::unix::fs::symlink(&private, tree.path("www/private")).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", tree.path("www/shadow")).unwrap();
    let config = format!(
        "error_log = {{ level = 'info' }}\n[[site]]\n[[site.mount]]\nfiles = '{}'\n\
         symlinks = ['{}']\n",
        tree.path("www").display(),
        library.display()
    );
    let server = Confined::start(&config);
    let _later = Later(&server.child);
    if !server.is_confined() {
        return;
    }
    assert_eq!(server.get("/library/jquery.js"), (200, "$".to_owned()));
    for path in ["/private/secret.txt", "/shadow"] {
        assert_eq!(server.get(path).0, 404, "{path}");
    }
    let reads = server.child.stderr();
    let reads = reads.lines().find(|line| line.contains("sandbox: the server reads")).unwrap();
    assert!(reads.contains(&library.display().to_string()), "{reads}");
    assert!(!reads.contains(&private.display().to_string()), "{reads}");
}
