//! Logs of a server that is started by root and has another user.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};

use rustix::process::{Pid, Signal, geteuid};

use crate::child::{Child, Killed, eventually, hurtle};
use crate::support::Dir;

/// The user of a server that has given up root could not open the logs again that root had created:
/// SIGUSR1 and upgrades failed.
#[test]
fn logs_that_root_creates_are_opened_again_by_the_servers_user() {
    if !geteuid().is_root() {
        return;
    }
    let dir = Dir::new(&[("a.txt", "a\n"), ("../logs/", "")]);
    let log = |name: &str| dir.path("../logs").join(name);
    let config = format!(
        "admin = '{{root}}/../admin.sock'\nroot = '{{root}}'\n[access_log]\nformat = 'combined'\n\
         path = {:?}\n[error_log]\nlevel = 'info'\npath = {:?}\n",
        log("access.log"),
        log("error.log")
    );
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let owner = |name: &str| fs::metadata(log(name)).unwrap().uid();
    let errors = || fs::read_to_string(log("error.log")).unwrap_or_default();
    let child = Child::configured(&dir, &config);
    for name in ["access.log", "error.log"] {
        let metadata = fs::metadata(log(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (nobody.uid.as_raw(), nobody.gid.as_raw()));
        assert_eq!(metadata.mode() & 0o777, 0o640, "{name}");
    }
    child.signal(Signal::USR1);
    eventually("a line is written after the signal", || {
        child.get("/a.txt");
        fs::read_to_string(log("access.log")).unwrap().contains("GET /a.txt ")
    });
    let mut upgrade = hurtle();
    upgrade.arg("upgrade").arg("--admin").arg(dir.path("../admin.sock"));
    let output = upgrade.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(said.starts_with("upgraded: process "), "{said}");
    let new = said.split_whitespace().nth(2).unwrap().parse().unwrap();
    let new = Killed(Pid::from_raw(new).unwrap());
    eventually("the log tells of the upgrade", || errors().contains("replaces process"));
    assert!(!errors().contains("cannot reopen"), "{}", errors());
    drop((child, new));

    // A file that exists keeps its owner, also one to which a link leads, or one that a link makes.
    fs::remove_file(log("error.log")).unwrap();
    fs::remove_file(log("access.log")).unwrap();
    fs::write(log("secret"), "").unwrap();
    symlink("secret", log("access.log")).unwrap();
    symlink("made", log("error.log")).unwrap();
    let child = Child::configured(&dir, &config);
    child.get("/a.txt");
    assert_eq!((owner("secret"), owner("made")), (0, 0));
}

/// Regression: the file belonged to root, so that the server's user could not open it again.
#[test]
fn a_log_that_root_rotates_at_the_start_belongs_to_the_servers_user() {
    if !geteuid().is_root() {
        return;
    }
    let full = "x".repeat(4_095) + "\n";
    let dir = Dir::new(&[("a.txt", "a\n"), ("../logs/error.log", &full)]);
    let log = dir.path("../logs/error.log");
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    for path in [dir.path("../logs"), log.clone()] {
        chown(path, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    }
    let config = format!(
        "root = '{{root}}'\n[error_log]\nlevel = 'info'\nrotate_bytes = '4 KiB'\npath = {log:?}\n"
    );
    let mut child = Child::configured(&dir, &config);
    assert_eq!(child.connect().request("GET", "/a.txt").status, 200);
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0));
    assert_eq!(fs::read_to_string(dir.path("../logs/error.log.1")).unwrap(), full);
    let metadata = fs::metadata(&log).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (nobody.uid.as_raw(), nobody.gid.as_raw()));
}
