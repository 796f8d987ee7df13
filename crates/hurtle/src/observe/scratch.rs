//! What the tests of the logs share: a directory of a test's own, removed when the test ends, and
//! targets that fail.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use rustix::fs::OFlags;

/// A device without room, on systems that have one.
pub(super) const FULL_DISK: &str = "/dev/full";

/// Opens a FIFO for reading without waiting for a writer.
pub(super) fn open_fifo_reader(path: &Path) -> File {
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
}

/// The directory.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty directory; `name` is the test's own.
    pub(super) fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("hurtle-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    /// A path in it.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// A new FIFO in it, that nobody reads yet.
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
