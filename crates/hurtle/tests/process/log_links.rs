//! Logs of a server that root starts, in a directory of another user.

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;

use rustix::process::geteuid;

use crate::child::{Child, hurtle, write_config};
use crate::support::Dir;

/// As images of containers have it: the text of the last link, `pipe:[…]`, is no path.
#[test]
fn a_log_may_be_a_link_of_root_to_standard_output() {
    let dir = Dir::new(&[("a.txt", "a\n"), ("etc/", "")]);
    symlink("/dev/stdout", dir.path("etc/access.log")).unwrap();
    // More than lead to the root.
    let up = "../".repeat(20);
    symlink(format!("{up}proc/self/fd/2"), dir.path("etc/error.log")).unwrap();
    let text = "root = '{root}'\n[access_log]\npath = '{root}/etc/access.log'\n\
                [error_log]\npath = '{root}/etc/error.log'\n";
    let child = Child::configured(&dir, text);
    assert_eq!(child.get("/a.txt").status, 200);
}

/// A process of the server's user put a link in place of a log, and asked for an upgrade.
#[test]
fn root_follows_no_link_of_the_servers_user_to_a_log() {
    if !geteuid().is_root() {
        return;
    }
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let own = |path: &Path| lchown(path, Some(nobody.uid.as_raw()), None).unwrap();
    let (logs, secrets) = (dir.path("../logs"), dir.path("../secrets"));
    let secret = secrets.join("access.log");
    for directory in [&logs, &secrets] {
        fs::create_dir(directory).unwrap();
    }
    own(&logs);
    fs::write(&secret, "").unwrap();
    let link = logs.join("access.log");
    let nested = logs.join("nested");
    type Place = fn(&Path, &Path);
    let rows: [(&str, &Path, Place, &Path, bool); 4] = [
        ("a link", &link, |to, at| symlink(to, at).unwrap(), &link, false),
        ("a hard link", &link, |to, at| fs::hard_link(to, at).unwrap(), &link, false),
        (
            "a link in place of a directory",
            &nested,
            |to, at| symlink(to.parent().unwrap(), at).unwrap(),
            &nested.join("access.log"),
            false,
        ),
        ("a file of the user", &link, |_, at| fs::write(at, "").unwrap(), &link, true),
    ];
    for (why, at, place, log, is_opened) in rows {
        place(&secret, at);
        if !why.contains("hard") {
            own(at);
        }
        let text = format!("root = '{{root}}'\n[access_log]\npath = {log:?}\n");
        let path = write_config(&dir, &text);
        if is_opened {
            drop(Child::configured(&dir, &text));
        } else {
            let output = hurtle().arg("serve").arg("--config").arg(&path).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains("that another user can place"), "{why}: {said}");
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "", "{why}");
        fs::remove_file(at).unwrap();
    }
}
