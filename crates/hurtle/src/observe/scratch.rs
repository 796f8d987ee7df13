//! Test helpers: a temporary directory for each test, and targets that fail.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use rustix::fs::OFlags;

/// A device without space, on systems that have one.
pub(super) const FULL_DISK: &str = "/dev/full";

/// Opens a FIFO for reading without waiting for a writer.
pub(super) fn open_fifo_reader(path: &Path) -> File {
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
}

/// A temporary directory, removed on drop.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory; `name` must be unique among tests.
    pub(super) fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("hurtle-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    /// Returns a path in the directory.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a FIFO without a reader.
    pub(super) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
