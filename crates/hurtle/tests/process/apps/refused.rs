//! Applications that are not deployed: only root and the server's own user may decide which
//! programs the server starts.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use rustix::process::{Signal, geteuid};

use super::{Apps, ECHO, get_until, is_root, logged};

/// A user who is neither root nor `nobody`.
const STRANGER: u32 = 12_345;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A sentence, the change to the application's directory, the expected log line, and whether the
/// change needs root.
type Row = (&'static str, fn(&Path), &'static str, bool);

const TABLE: &[Row] = &[
    ("others may write", |dir| chmod(dir, 0o757), "it is writable by others (mode 757)", false),
    ("its group may", |dir| chmod(dir, 0o775), "it is writable by others (mode 775)", false),
    (
        "others may write its manifest",
        |dir| chmod(&dir.join("app.toml"), 0o646),
        "app.toml is writable by others (mode 646)",
        false,
    ),
    (
        "it is somebody else's",
        |dir| chown(dir, Some(STRANGER), None).unwrap(),
        "it belongs to the user 12345, which is neither root nor the server's user",
        true,
    ),
    (
        "its manifest is",
        |dir| chown(dir.join("app.toml"), Some(STRANGER), None).unwrap(),
        "app.toml belongs to the user 12345, which is neither root nor the server's user",
        true,
    ),
    (
        "it is a link",
        |dir| {
            let away = dir.with_file_name(".away");
            fs::rename(dir, &away).unwrap();
            symlink(away, dir).unwrap();
        },
        "it is a symbolic link",
        false,
    ),
    (
        "its manifest is a link",
        |dir| {
            fs::rename(dir.join("app.toml"), dir.join("real.toml")).unwrap();
            symlink("real.toml", dir.join("app.toml")).unwrap();
        },
        "app.toml is a symbolic link",
        false,
    ),
    (
        "its manifest is a directory",
        |dir| {
            fs::remove_file(dir.join("app.toml")).unwrap();
            fs::create_dir(dir.join("app.toml")).unwrap();
        },
        "app.toml is not a file",
        false,
    ),
    (
        "it has none",
        |dir| fs::remove_file(dir.join("app.toml")).unwrap(),
        "it has no app.toml",
        false,
    ),
    (
        "it is too large",
        |dir| fs::write(dir.join("app.toml"), "#".repeat(70_000)).unwrap(),
        "app.toml has more than 65536 bytes",
        false,
    ),
    (
        "it asks for a user that nobody but root can become",
        |dir| {
            let manifest = "path = \"/a\"\ncommand = \"true\"\nuser = \"daemon\"\n";
            fs::write(dir.join("app.toml"), manifest).unwrap();
        },
        "only a server that runs as root can start it as daemon",
        false,
    ),
    (
        "it asks for root",
        |dir| {
            let manifest = "path = \"/a\"\ncommand = \"true\"\nuser = \"root\"\n";
            fs::write(dir.join("app.toml"), manifest).unwrap();
        },
        "no application is started as root",
        false,
    ),
    (
        "it says what is no key",
        |dir| fs::write(dir.join("app.toml"), "path = \"/a\"\ncomand = \"a\"\n").unwrap(),
        "comand: unknown key; did you mean \"command\"?",
        false,
    ),
];

#[test]
fn an_application_that_others_can_write_is_not_deployed() {
    let apps = Apps::new(&[]);
    let rows = || TABLE.iter().enumerate().filter(|(_, row)| is_root() || !row.3);
    for (number, (_, spoil, ..)) in rows() {
        let name = format!("app{number}");
        apps.deploy_python(&name, &format!("/{name}"), "", ECHO);
        spoil(&apps.path(&name));
    }
    apps.deploy_python("good", "/good", "", ECHO);
    let child = apps.serve();
    get_until(&child, "/good", 200);
    for (number, (sentence, _, why, _)) in rows() {
        let log = child.stderr();
        let begin = format!("app app{number}: not deployed: ");
        let mut lines = log.lines().filter(|line| line.contains(&begin));
        let told = lines.next().unwrap_or_else(|| panic!("{sentence}: nothing is said: {log}"));
        assert!(told.contains(why), "{sentence}: {told}");
        assert!(lines.next().is_none(), "{sentence}: it is said once");
        assert_eq!(child.get(&format!("/app{number}")).status, 404, "{sentence}");
    }
}

#[test]
fn a_running_application_that_becomes_writable_by_others_is_ended() {
    let apps = Apps::new(&[]);
    apps.deploy_python("a", "/a", "", ECHO);
    let child = apps.serve();
    get_until(&child, "/a", 200);
    chmod(&apps.path("a"), 0o777);
    get_until(&child, "/a", 404);
    logged(&child, "app a: not deployed: it is writable by others (mode 777)");
    chmod(&apps.path("a"), 0o755);
    get_until(&child, "/a", 200);
    // The directory of all applications.
    chmod(&apps.path(""), 0o777);
    get_until(&child, "/a", 404);
    logged(&child, "no application is deployed: ");
}

#[test]
fn a_path_belongs_to_the_first_application() {
    let apps = Apps::new(&[]);
    apps.deploy_python("b", "/b", "", ECHO);
    apps.deploy_python("root", "/", "", ECHO);
    let child = apps.serve();
    let first = get_until(&child, "/b", 200).text().to_owned();
    logged(&child, "app root: not deployed: ");
    logged(&child, "\"/\" is a mount of the configuration");
    apps.deploy_python("a", "/b", "", ECHO);
    logged(&child, "app a: not deployed: /b is already the path of b");
    assert_eq!(child.get("/b").text(), first);
    // Regression: after a reload it was that of the first name.
    child.signal(Signal::HUP);
    logged(&child, "reloaded");
    apps.deploy_python("c", "/c", "", ECHO);
    get_until(&child, "/c", 200);
    assert_eq!(child.get("/b").text(), first);
    apps.remove("b");
    get_until(&child, "/b", 200);
    logged(&child, "app a: deployed at /b");
}

#[test]
fn a_server_of_root_starts_applications_as_their_users() {
    if !geteuid().is_root() {
        println!("skipped: it takes root to start programs as other users");
        return;
    }
    const WHO: &str = "def tell(method, path, sent):\n    \
                       return f'{os.getuid()} {os.getgid()} {os.getgroups()}'\nserve()\n";
    let apps = Apps::new(&[]);
    apps.deploy_python("none", "/none", "", ECHO);
    apps.deploy_python("named", "/named", "user = \"daemon\"", WHO);
    let child = apps.serve_as_started();
    let daemon = nix::unistd::User::from_name("daemon").unwrap().unwrap();
    let told = get_until(&child, "/named", 200);
    assert_eq!(told.text(), format!("{} {} []", daemon.uid, daemon.gid));
    logged(&child, "app none: not deployed: no application is started as root: write user =");
    assert_eq!(child.get("/none").status, 404);
}
