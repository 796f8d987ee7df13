//! A PHP-FPM for one test, on a unix socket in the test's directory.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};

use crate::dir::{Dir, eventually};

/// Files of the application, beneath `root/` of the test's directory.
pub(crate) const APP: &[(&str, &str)] = &[
    ("root/index.php", include_str!("php/index.php")),
    ("root/info.php", include_str!("php/info.php")),
    ("root/style.css", "body { color: green }\n"),
    ("root/a.jpg", "<?php echo 'run'; ?>"),
    ("root/admin/index.php", "<?php header('Content-Type: text/plain'); echo 'admin';"),
];

/// A running PHP-FPM, stopped when dropped.
pub(crate) struct PhpFpm {
    child: Child,
    pub(crate) dir: Dir,
}

impl PhpFpm {
    /// Starts it with the application and this number of children.
    #[track_caller]
    pub(crate) fn start(children: usize) -> PhpFpm {
        let dir = Dir::new(APP);
        let base = dir.path("").display().to_string();
        // As root it requires a user for its children.
        let owner = match geteuid().is_root() {
            true => format!("user = {}\ngroup = {}\n", geteuid().as_raw(), getegid().as_raw()),
            false => String::new(),
        };
        let config = format!(
            "[global]\nerror_log = {base}fpm.log\ndaemonize = no\n[www]\n{owner}\
             listen = {base}fpm.sock\npm = static\npm.max_children = {children}\n\
             catch_workers_output = no\nphp_admin_value[output_buffering] = 0\n\
             php_admin_value[upload_tmp_dir] = {base}\nphp_admin_value[memory_limit] = 16M\n\
             php_admin_value[upload_max_filesize] = 64M\nphp_admin_value[post_max_size] = 64M\n\
             php_admin_flag[log_errors] = on\n"
        );
        dir.write("fpm.conf", &config);
        let mut command = Command::new(program());
        command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"]);
        command.arg(dir.path("fpm.conf")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("php-fpm (Debian: php-fpm) starts");
        let socket = dir.path("fpm.sock");
        eventually("PHP-FPM listens", || {
            let ended = child.try_wait().unwrap();
            let log = || fs::read_to_string(dir.path("fpm.log"));
            assert!(ended.is_none(), "it ended, {ended:?}: {:?}", log());
            UnixStream::connect(&socket).is_ok()
        });
        PhpFpm { child, dir }
    }

    /// The keys of its mount.
    pub(crate) fn mount(&self) -> String {
        let (socket, root) = (self.dir.path("fpm.sock"), self.dir.path("root"));
        format!("fastcgi = \"unix:{}\"\nroot = {root:?}\n", socket.display())
    }
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // QUIT would wait for its children; TERM ends them too.
        let _ = id.map(|id| kill_process(id, Signal::TERM));
        let _ = self.child.wait();
    }
}

/// Debian adds the version to the program's name.
fn program() -> PathBuf {
    let names = |dir: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let is_fpm = |path: &Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
        };
        entries.map(|entry| entry.path()).filter(|path| is_fpm(path)).collect()
    };
    let mut found: Vec<_> = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"].map(names).concat();
    found.sort();
    found.pop().expect("php-fpm is installed (Debian: apt-get install php-fpm)")
}
