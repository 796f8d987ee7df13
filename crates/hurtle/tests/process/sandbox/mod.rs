//! The sandbox, seen from outside: the threads that are in it, what the server no longer reads, and
//! reloads that need more. `names`, `etc` and `mounts` replace files and links while the server
//! runs.

mod etc;
mod mounts;
mod names;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::process::Pid;

use crate::child::{Child, Killed, eventually, hurtle, write_config};
use crate::support::Dir;

/// A configuration outside of the served directories, because its own directory is readable.
struct Confined {
    dir: Dir,
    child: Child,
}

impl Confined {
    fn start(config: &str) -> Confined {
        Confined::with_temporary(config, &std::env::temp_dir())
    }

    /// Starts a server whose temporary files are in this directory.
    fn with_temporary(config: &str, temporary: &Path) -> Confined {
        let dir = Dir::new(&[("none", "")]);
        let file = write_config(&dir, &with_admin(config));
        let child = Child::start(hurtle().env("TMPDIR", temporary).arg("--config").arg(&file));
        Confined { dir, child }
    }

    /// `false`: this kernel has no sandbox, and the log says so.
    fn is_confined(&self) -> bool {
        eventually("the log tells of the sandbox", || self.child.stderr().contains("sandbox: "));
        !self.child.stderr().contains("the kernel does not offer")
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut client = self.child.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let answer = client.response();
        (answer.status, answer.text().to_owned())
    }

    fn reload(&self, config: &str) -> (Option<i32>, String) {
        write_config(&self.dir, &with_admin(config));
        self.command("reload")
    }

    /// Has the server execute a command.
    fn command(&self, name: &str) -> (Option<i32>, String) {
        command(name, &self.dir)
    }
}

/// Has the server whose admin socket is beside this directory execute a command.
fn command(name: &str, dir: &Dir) -> (Option<i32>, String) {
    let output = hurtle().arg(name).arg("--admin").arg(dir.path("../admin.sock")).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// The processes that have replaced the first one of a server; they are killed when dropped.
struct Later<'a>(&'a Child);

impl Later<'_> {
    fn ids(&self) -> Vec<u32> {
        let log = self.0.stderr();
        let ids =
            log.lines().filter_map(|line| line.split_once("sockets to process ")?.1.parse().ok());
        ids.collect()
    }
}

impl Drop for Later<'_> {
    fn drop(&mut self) {
        let ids = self.ids().into_iter().filter_map(|id| Pid::from_raw(id.cast_signed()));
        ids.for_each(|id| drop(Killed(id)));
    }
}

/// Has a link lead elsewhere, in one step.
fn switch(link: &Path, target: impl AsRef<Path>) {
    let new = link.with_extension("new");
    symlink(target, &new).unwrap();
    fs::rename(new, link).unwrap();
}

fn with_admin(config: &str) -> String {
    format!("admin = '{{root}}/../admin.sock'\n{config}")
}

fn serves(root: &Path) -> String {
    format!("error_log = {{ level = 'info' }}\nroot = '{}'\n", root.display())
}

/// Values of a field of /proc/PID/status, one for each thread.
fn of_threads(id: u32, field: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let of = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.trim().to_owned())
    };
    statuses.filter_map(of).collect()
}

#[test]
fn every_thread_is_in_the_sandbox() {
    let site = Dir::new(&[("x.txt", "x")]);
    let log = "access_log = { path = '{root}/../access.log' }\n";
    let server = Confined::start(&format!("{log}{}", serves(&site.root())));
    if !server.is_confined() {
        return;
    }
    assert_eq!(server.get("/x.txt"), (200, "x".to_owned()));
    let filters = of_threads(server.child.id(), "Seccomp:");
    assert!(filters.len() > 3, "workers, disks, logs: {filters:?}");
    assert!(filters.iter().all(|mode| mode == "2"), "{filters:?}");
    let gained = of_threads(server.child.id(), "NoNewPrivs:");
    assert!(gained.iter().all(|gains_none| gains_none == "1"), "{gained:?}");
}

#[test]
fn a_root_may_move_beside_itself_at_once_and_elsewhere_by_another_process() {
    let elsewhere = Dir::new(&[("x.txt", "elsewhere")]);
    let releases = Dir::new(&[("1/x.txt", "first"), ("2/x.txt", "second")]);
    for sandbox in ["auto", "off"] {
        // The link is in a directory of its own, as that of a deployment is.
        let links = Dir::new(&[]);
        let current = links.path("current");
        switch(&current, releases.path("1"));
        let config = format!("sandbox = '{sandbox}'\nrevalidate = '0s'\n{}", serves(&current));
        let server = Confined::start(&config);
        let later = Later(&server.child);
        let is_confined = sandbox == "auto" && server.is_confined();
        assert_eq!(server.get("/x.txt").1, "first");
        switch(&current, releases.path("2"));
        assert_eq!(server.get("/x.txt").1, "second", "{sandbox}");
        switch(&current, elsewhere.root());
        eventually("it is served", || server.get("/x.txt").1 == "elsewhere");
        let replaced = usize::from(is_confined);
        assert_eq!(later.ids().len(), replaced, "{sandbox}: {}", server.child.stderr());
    }
}

#[test]
fn a_reload_that_needs_more_replaces_the_process() {
    let (first, second) = (Dir::new(&[("x.txt", "first")]), Dir::new(&[("x.txt", "second")]));
    let mut server = Confined::start(&serves(&first.root()));
    if !server.is_confined() {
        return;
    }
    assert_eq!(server.get("/x.txt").1, "first");

    let broken = "listen_tls = '127.0.0.1:0'\n[[site]]\n[site.tls]\ncertificate = '/nowhere/c.pem'\n\
        key = '/nowhere/k.pem'\n[[site.mount]]\nfiles = '{root}'\n";
    let (code, said) = server.reload(broken);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("/nowhere/c.pem"), "the new process's problem: {said}");
    assert_eq!(server.get("/x.txt").1, "first", "the old process serves on");

    let (code, said) = server.reload(&serves(&second.root()));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("upgraded: process"), "{said}");
    assert_eq!(server.get("/x.txt").1, "second");
    let new: u32 = said.split_whitespace().nth(2).unwrap().parse().unwrap();
    let _new = Killed(Pid::from_raw(new.cast_signed()).unwrap());
    assert_eq!(of_threads(new, "Seccomp:").first().map(String::as_str), Some("2"));
    assert!(server.child.wait_for_process().success(), "the old process has drained");
    assert_eq!(server.get("/x.txt").1, "second", "the new one serves alone");

    let (code, said) = server.reload(&format!("drain = '1s'\n{}", serves(&second.root())));
    assert_eq!((code, said.contains("reloaded")), (Some(0), true), "needs nothing more: {said}");
}

/// The user of the server cannot look into the directory of the key, as that of certbot. So a
/// reload found that the sandbox did not permit it, and was an upgrade.
#[test]
fn a_reload_needs_no_other_process_for_a_file_that_only_root_sees() {
    let site = Dir::new(&[("x.txt", "x")]);
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let (chain, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
    let keys = Dir::new(&[("live/cert.pem", &chain), ("live/key.pem", &key)]);
    fs::set_permissions(keys.path("live"), Permissions::from_mode(0o700)).unwrap();
    let config = format!(
        "error_log = {{ level = 'info' }}\nlisten_tls = '127.0.0.1:0'\n[[site]]\n\
         [site.tls]\ncertificate = '{0}/cert.pem'\nkey = '{0}/key.pem'\n\
         [[site.mount]]\nfiles = '{1}'\n",
        keys.path("live").display(),
        site.root().display()
    );
    let server = Confined::start(&config);
    if !server.is_confined() {
        return;
    }
    let later = Later(&server.child);
    let (code, said) = server.command("reload");
    assert_eq!((code, said.contains("reloaded")), (Some(0), true), "{said}");
    assert_eq!(later.ids(), [0; 0], "{}", server.child.stderr());
}

#[test]
fn an_upload_and_the_own_figures_outlive_the_kernels_cache_of_names() {
    let up = Dir::new(&[("none", "")]);
    // The server gives up root.
    fs::set_permissions(up.root(), Permissions::from_mode(0o777)).unwrap();
    let config = format!(
        "error_log = {{ level = 'info' }}\n[[site]]\n[[site.mount]]\nfiles = '{}'\nauth = 'none'\n\
         [site.mount.uploads]\n",
        up.root().display()
    );
    let server = Confined::start(&config);
    // Only root can have the kernel forget unused names.
    let forget = || fs::write("/proc/sys/vm/drop_caches", "2");
    if !server.is_confined() || forget().is_err() {
        return;
    }
    // The first time marks names as unused, the second forgets them.
    forget().unwrap();
    forget().unwrap();
    let mut client = server.child.connect();
    client.send("PUT /new.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\ntext");
    assert_eq!(client.response().status, 201);
    assert_eq!(server.get("/new.txt"), (200, "text".to_owned()));
    let admin = server.dir.path("../admin.sock");
    let status = hurtle().args(["status", "--json", "--admin"]).arg(admin).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(status["process"]["resident_bytes"].is_u64(), "{status}");
}
