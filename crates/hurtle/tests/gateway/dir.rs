//! A directory of scripts, and waits for events of other processes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::PATIENCE;

/// A directory that is removed when dropped.
pub(crate) struct Dir(PathBuf);

impl Dir {
    /// Creates it with these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Dir {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hurtle-gw-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let dir = Dir(path);
        files.iter().for_each(|(name, text)| dir.write(name, text));
        dir
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates an executable file. Another process writes it: a descriptor open for writing in this
    /// process may be inherited by a child of another test, and then the file cannot be executed
    /// (ETXTBSY).
    pub(crate) fn program(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let copy = ["-c", "cat > \"$0\" && chmod 755 \"$0\""];
        let command = &mut Command::new("sh");
        let mut writer = command.args(copy).arg(&path).stdin(Stdio::piped()).spawn().unwrap();
        writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success(), "{}", path.display());
    }

    /// Creates a symbolic link to `to`.
    pub(crate) fn link(&self, name: &str, to: impl AsRef<Path>) {
        std::os::unix::fs::symlink(to, self.path(name)).unwrap();
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // A failed test may leave its directory behind.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until `done` is true, with a time limit.
#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "still not: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
