//! Bodies as data: what of an answer is to be sent, never how. `stream` holds bodies that come
//! frame by frame, `request` those that an application reads, `file` those it reads from a file,
//! `unnamed` is where bytes wait on a disk, `hints` what an application says before its answer.

mod file;
mod hints;
mod request;
mod stream;
mod unnamed;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use crate::disk::Lane;
use crate::sys;

pub use file::FileBody;
pub use hints::EarlyHints;
pub use request::{Feeder, Interim, RequestBody, feed};
pub use stream::{BoxError, Next, Stream};
pub use unnamed::Unnamed;

/// What follows an answer's head. The engine looks at it and chooses how it leaves.
#[derive(Debug, Default)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// A run of a file's bytes.
    File(FileSlice),
    /// Pieces sent one after the other (multipart/byteranges).
    Parts(Vec<Part>),
    /// Frames from whoever makes them, as they come.
    Stream(Stream),
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Part {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A run of a file's bytes.
    File(FileSlice),
}

/// A run of a file's bytes: within the file as it was when it was opened.
#[derive(Clone, Debug)]
pub struct FileSlice {
    /// The file.
    pub file: Arc<OpenFile>,
    /// First byte.
    pub offset: u64,
    /// Bytes from there.
    pub len: u64,
}

/// What tells one state of a file from another. A descriptor's own stamp changes when the file is
/// edited in place; a name's changes when the name is given to another file, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stamp {
    pub device: u64,
    pub inode: u64,
    pub len: u64,
    pub modified_ns: i128,
    pub changed_ns: i128,
}

impl Stamp {
    /// Of what `fstat(2)` said.
    pub fn of(stat: &rustix::fs::Stat) -> Stamp {
        let ns = |secs: i64, nanos: i64| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        // The types of these fields differ between systems; none holds a negative length.
        #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
        Stamp {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            len: stat.st_size as u64,
            modified_ns: ns(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed_ns: ns(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Whole seconds of the modification time since 1970; 0 before.
    pub fn modified_secs(&self) -> u64 {
        u64::try_from(self.modified_ns.div_euclid(1_000_000_000)).unwrap_or(0)
    }
}

/// Bytes of a file whose residency is asked, and remembered, together.
pub const WINDOW_BYTES: u64 = 256 << 10;

/// Windows remembered of one file, from its beginning; later ones are asked about each time.
const WINDOWS_REMEMBERED: usize = 256;

/// How long a window that was in memory is believed to be: it is in use, so the kernel keeps it.
const WARM_MS: u64 = 1_000;

/// How long a file that was unchanged is believed to be: an edit in place is noticed this soon,
/// without a system call for every answer of a file in demand.
const UNCHANGED_MS: u64 = 10;

/// An open regular file.
#[derive(Debug)]
pub struct OpenFile {
    fd: OwnedFd,
    /// Its state when it was opened.
    pub stamp: Stamp,
    /// Where its slow reads queue.
    pub lane: Lane,
    /// How fast one answer may send it, in bytes a second; 0: as fast as it is taken.
    pub rate: u64,
    /// When each of the first windows was last seen in memory; 0: never.
    warm: Box<[AtomicU64]>,
    /// When it was last seen unchanged.
    seen_ms: AtomicU64,
}

impl OpenFile {
    /// Takes a descriptor whose `fstat` gave `stamp`.
    pub fn new(fd: OwnedFd, stamp: Stamp, lane: Lane) -> OpenFile {
        let windows = usize::try_from(stamp.len.div_ceil(WINDOW_BYTES)).unwrap_or(usize::MAX);
        let warm = (0..windows.min(WINDOWS_REMEMBERED)).map(|_| AtomicU64::new(0)).collect();
        OpenFile { fd, stamp, lane, rate: 0, warm, seen_ms: AtomicU64::new(0) }
    }

    /// One that no answer may send faster, in bytes a second; 0: as fast as it is taken.
    #[must_use]
    pub fn with_rate(self, rate: u64) -> OpenFile {
        OpenFile { rate, ..self }
    }

    /// Whether the window that holds `offset` was seen in memory a moment ago.
    pub fn is_warm(&self, offset: u64, now_ms: u64) -> bool {
        let seen = self.window(offset).map_or(0, |w| w.load(Relaxed));
        seen != 0 && now_ms.saturating_sub(seen) <= WARM_MS
    }

    /// Whether the window that holds `offset` was never seen in memory.
    pub fn is_unseen(&self, offset: u64) -> bool {
        self.window(offset).is_some_and(|w| w.load(Relaxed) == 0)
    }

    /// Has the kernel read `offset..end` into its memory: that waits for the disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_ahead(&self, mut offset: u64, end: u64) -> io::Result<()> {
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(usize::MAX);
            match sys::page_in(self.as_fd(), offset, len)? {
                0 => break,
                n => offset += n as u64,
            }
        }
        Ok(())
    }

    /// Remembers that the window that holds `offset` is in memory.
    pub fn set_warm(&self, offset: u64, now_ms: u64) {
        if let Some(window) = self.window(offset) {
            window.store(now_ms, Relaxed);
        }
    }

    fn window(&self, offset: u64) -> Option<&AtomicU64> {
        self.warm.get(usize::try_from(offset / WINDOW_BYTES).ok()?)
    }

    /// The same, believed for `UNCHANGED_MS`: asked before each answer, so that one made in advance
    /// is not put before other bytes.
    pub fn is_unchanged_lately(&self, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.seen_ms.load(Relaxed)) < UNCHANGED_MS {
            return true;
        }
        let unchanged = self.is_unchanged();
        if unchanged {
            self.seen_ms.store(now_ms, Relaxed);
        }
        unchanged
    }

    /// Whether the file is still what it was when it was opened.
    pub fn is_unchanged(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|now| {
            let now = Stamp::of(&now);
            // A rename, link or chmod moves the change time only: the bytes are the same.
            now.len == self.stamp.len && now.modified_ns == self.stamp.modified_ns
        })
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Body {
    /// Bytes it will send; `None` if only its end will tell.
    pub fn exact_len(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File(slice) => Some(slice.len),
            Body::Parts(parts) => Some(parts.iter().map(Part::len).sum()),
            Body::Stream(stream) => stream.exact_len(),
        }
    }
}

impl Part {
    /// Bytes it will send.
    #[allow(clippy::len_without_is_empty)] // nobody makes an empty one
    pub fn len(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(slice) => slice.len,
        }
    }
}
