//! A file without a name, so that it is gone when the server ends, however it ends. Every function
//! here blocks on the disk.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::{OpenFile, Stamp};
use crate::disk::Lane;
use crate::sys;

/// Access for the server's user only.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Unnamed {
    fd: OwnedFd,
    len: u64,
}

impl Unnamed {
    /// Creates an empty file in `directory`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn create(directory: &Path) -> io::Result<Unnamed> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, directory, flags, Mode::empty())?;
        let fd = match sys::create_unnamed(directory.as_fd(), MODE) {
            Err(Errno::OPNOTSUPP) => create_and_remove(&directory)?,
            created => created?,
        };
        Ok(Unnamed { fd, len: 0 })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// The system's; some of the bytes may have been written.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_at(&self.fd, bytes, self.len)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Ends writing and returns the file for reading; reads that miss the page cache queue in
    /// `lane`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn finish(self, lane: Lane) -> io::Result<OpenFile> {
        let stamp = Stamp::of(&rustix::fs::fstat(&self.fd)?);
        Ok(OpenFile::new(self.fd, stamp, lane))
    }
}

impl AsFd for Unnamed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Writes `bytes` at `offset`.
///
/// # Errors
/// The system's; some of the bytes may have been written.
pub(crate) fn write_at(file: impl AsFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    #[cfg(test)]
    if crate::rt::simulated::is_full() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    while !bytes.is_empty() {
        let put = || rustix::io::pwrite(&file, bytes, offset);
        let n = rustix::io::retry_on_intr(put)?;
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += n as u64;
        bytes = &bytes[n..];
    }
    Ok(())
}

/// For file systems without unnamed files: creates a file and removes its name at once.
fn create_and_remove(directory: &OwnedFd) -> io::Result<OwnedFd> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    // Other users who may write there cannot guess the name.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let name = format!(".hurtle-{:x}-{now:x}-{number:x}", std::process::id());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory, &name, flags, MODE)?;
    rustix::fs::unlinkat(directory, &name, AtFlags::empty())?;
    Ok(fd)
}
