//! Directories that a server creates as root for the user that it becomes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};

use rustix::process::{Signal, geteuid};

use crate::child::Child;
use crate::support::Dir;

const SITE: &str = "[[site]]\nhosts = 'a.test'\n[[site.mount]]\nfiles = '{root}'\n[site.tls]\n";

/// The server's user, who owns `state`, could have put a link there, and each start made the
/// directory behind it that user's.
#[test]
fn a_link_to_a_directory_of_root_makes_it_nobody_elses() {
    if !geteuid().is_root() {
        return;
    }
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid.as_raw();
    let acme = "listen_tls = '127.0.0.1:0'\n[acme]\naccept_terms = true\n\
                storage = '{root}/../state/of-server'\n[[acme.authority]]\n\
                directory = 'https://127.0.0.1:9/'\n";
    let local = "listen_tls = '127.0.0.1:0'\nlocal_authority = '{root}/../state/of-server'\n";
    for (kind, certificate, keys) in [("ACME", "auto", acme), ("local", "local", local)] {
        for (sentence, is_link, is_sticky, expected) in [
            ("a new directory", false, false, nobody),
            ("a link to a directory of root", true, false, 0),
            ("a link in a sticky directory, with a slash", true, true, 0),
        ] {
            let dir = Dir::new(&[("a.txt", "a")]);
            let (state, secret) = (dir.path("../state"), dir.path("../secret"));
            for made in [&state, &secret] {
                fs::create_dir(made).unwrap();
            }
            match is_sticky {
                true => fs::set_permissions(&state, Permissions::from_mode(0o1777)).unwrap(),
                false => chown(&state, Some(nobody), None).unwrap(),
            }
            if is_link {
                symlink(&secret, state.join("of-server")).unwrap();
                lchown(state.join("of-server"), Some(nobody), None).unwrap();
            }
            let end = if is_sticky { "of-server/'" } else { "of-server'" };
            let keys = keys.replace("of-server'", end);
            let config = format!("{keys}{SITE}certificate = '{certificate}'\n");
            let mut child = Child::configured(&dir, &config);
            let owner = fs::metadata(state.join("of-server")).unwrap().uid();
            assert_eq!(owner, expected, "{kind}, {sentence}: {}", child.stderr());
            child.signal(Signal::TERM);
            child.wait();
            let warning = "belongs to another user (uid 0)";
            assert_eq!(child.stderr().contains(warning), is_link, "{kind}: {}", child.stderr());
        }
    }
}

/// It was made by hand before the first start.
#[test]
fn a_directory_behind_a_link_of_root_becomes_the_servers() {
    if !geteuid().is_root() {
        return;
    }
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap().uid.as_raw();
    let dir = Dir::new(&[("a.txt", "a")]);
    let real = dir.path("../real");
    fs::create_dir_all(real.join("of-server")).unwrap();
    symlink("real", dir.path("../state")).unwrap();
    let keys = "listen_tls = '127.0.0.1:0'\nlocal_authority = '{root}/../state/of-server'\n";
    let child = Child::configured(&dir, &format!("{keys}{SITE}certificate = 'local'\n"));
    let owner = fs::metadata(real.join("of-server")).unwrap().uid();
    assert_eq!(owner, nobody, "{}", child.stderr());
}
