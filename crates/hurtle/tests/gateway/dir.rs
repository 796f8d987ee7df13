//! A directory of scripts, and waiting for what happens elsewhere.

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
    /// With these files.
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

    /// A file that may be run. Another process writes it: what this one has open for writing, a child
    /// that another test is just starting may have open as well, and then it cannot be run
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

    /// A symbolic link; `to` is taken as it is.
    pub(crate) fn link(&self, name: &str, to: impl AsRef<Path>) {
        std::os::unix::fs::symlink(to, self.path(name)).unwrap();
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // What a failed test leaves in the temporary directory is the system's to clear.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits for `done`, not for ever.
#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "still not: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
