//! Bodies as data: the bytes of a response, not how they are sent. `stream` holds bodies that come
//! frame by frame, `request` those that an application reads, `file` those it reads from a file,
//! `unnamed` files that keep bytes on disk, `hints` the 103 responses of an application.

mod file;
mod hints;
mod request;
mod stream;
mod unnamed;

use std::any::Any;
use std::cmp::Ordering;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::disk::Lane;
use crate::{rt, sys};

pub use file::FileBody;
pub(crate) use file::read_next_piece;
pub use hints::EarlyHints;
pub use request::RequestBody;
pub(crate) use request::{Feeder, Interim, feed};
pub use stream::BoxError;
pub(crate) use stream::{Next, Stream, TruncatedError};
pub(crate) use unnamed::{Unnamed, write_at};

/// Returns whether a read of the page cache failed because the bytes may not be there.
pub(crate) fn is_not_resident(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Unsupported)
}

/// The body of a response. The transport chooses how to send it.
#[derive(Debug, Default)]
pub(crate) enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    /// A range of a file's bytes.
    File(FileSlice),
    /// Pieces sent one after the other (multipart/byteranges).
    Parts(Vec<Part>),
    /// Frames, sent as their source makes them.
    Stream(Stream),
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub enum Part {
    Bytes(Bytes),
    /// A range of a file's bytes.
    File(FileSlice),
}

/// A range of a file's bytes, within the length the file had when it was opened.
#[derive(Clone, Debug)]
pub struct FileSlice {
    /// The open file, which other bodies may share.
    pub file: Arc<OpenFile>,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes from the offset.
    pub len: u64,
}

/// The state of a file. The stamp of a descriptor changes when the file is edited in place; the
/// stamp of a name also changes when the name is given to another file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Stamp {
    pub device: u64,
    pub inode: u64,
    pub len: u64,
    pub modified_ns: i128,
    pub changed_ns: i128,
}

impl Stamp {
    /// Reads the stamp from the result of `fstat(2)`.
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

    /// Returns true if both stamps are of one file that is longer in `now`.
    pub fn has_grown_to(&self, now: &Stamp) -> bool {
        (self.device, self.inode) == (now.device, now.inode) && now.len > self.len
    }

    /// Returns true if the last change is old enough (2 s) that a later one changes the stamp.
    pub fn has_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as i128 - self.changed_ns >= SETTLED_NS
    }

    /// The modification time in whole seconds since 1970; 0 for earlier times.
    pub fn modified_secs(&self) -> u64 {
        u64::try_from(self.modified_ns.div_euclid(1_000_000_000)).unwrap_or(0)
    }
}

/// A change within this time (2 s) may be followed by one with the same time.
const SETTLED_NS: i128 = 2_000_000_000;

/// Size of a window: the unit in which residency in the page cache is checked and remembered.
pub(crate) const WINDOW_BYTES: u64 = 256 << 10;

/// Distance of the bytes by which a range is found to be in the page cache: the kernel reads ahead
/// and evicts in larger ranges.
const SAMPLE_BYTES: u64 = 32 << 10;

/// Bytes that the first probe of a file reads.
const PROBE_BYTES: usize = 64 << 10;

/// Maximum size of a file that is read whole in one request, in bytes. With usual settings every
/// disk takes requests of this size.
const WHOLE_BYTES_MAX: u64 = 128 << 10;

/// Windows remembered per file, from its beginning; later windows are checked each time.
const WINDOWS_REMEMBERED: usize = 256;

/// Time, in milliseconds, for which a window counts as resident after a check. A window in use
/// stays in the page cache.
const WARM_MS: u64 = 1_000;

/// Time, in milliseconds, for which a file counts as unchanged after a check. It saves an
/// `fstat(2)` for every response of a popular file, and an edit in place is noticed within this
/// time.
const UNCHANGED_MS: u64 = 10;

/// The longest pause, in milliseconds, before a file whose time changed but not its length is
/// checked again. All pauses together are a third longer.
const APPEND_MS_MAX: u64 = 256;

/// An open regular file.
#[derive(Debug)]
pub struct OpenFile {
    fd: OwnedFd,
    /// The file's state when it was opened.
    pub stamp: Stamp,
    /// The disk lane for reads that miss the page cache.
    pub lane: Lane,
    /// Rate limit of one response, in bytes a second; 0: none.
    pub rate: u64,
    /// Time at which the first window was last found resident, in milliseconds; 0: never.
    warm: AtomicU64,
    /// Times of the next windows, likewise.
    warm_next: Box<[AtomicU64]>,
    /// Time at which the file was last found unchanged, in milliseconds.
    seen_ms: AtomicU64,
    /// Its bytes never change, although its times do: a part of an object that has arrived.
    is_constant: bool,
    /// Its stamp has the change time of the file.
    has_change_time: bool,
    /// Dropped when the file is closed.
    _held: Option<Box<dyn Any + Send + Sync>>,
}

impl OpenFile {
    /// Takes a descriptor and the stamp that `fstat(2)` gave for it.
    pub fn new(fd: OwnedFd, stamp: Stamp, lane: Lane) -> OpenFile {
        let windows = usize::try_from(stamp.len.div_ceil(WINDOW_BYTES)).unwrap_or(usize::MAX);
        OpenFile {
            fd,
            stamp,
            lane,
            rate: 0,
            warm: AtomicU64::new(0),
            warm_next: (1..windows.min(WINDOWS_REMEMBERED)).map(|_| AtomicU64::new(0)).collect(),
            seen_ms: AtomicU64::new(0),
            is_constant: false,
            has_change_time: true,
            _held: None,
        }
    }

    /// Holds a value until the file is closed.
    #[must_use]
    pub fn holding(self, value: impl Any + Send + Sync) -> OpenFile {
        OpenFile { _held: Some(Box::new(value)), ..self }
    }

    /// Sets the rate limit of one response, in bytes a second; 0: none.
    #[must_use]
    pub fn with_rate(self, rate: u64) -> OpenFile {
        OpenFile { rate, ..self }
    }

    /// Has changes of the file's times ignored.
    #[must_use]
    pub fn constant(self) -> OpenFile {
        OpenFile { is_constant: true, ..self }
    }

    /// Has the change time of the stamp ignored: it is not that of the file.
    #[must_use]
    pub fn without_change_time(self) -> OpenFile {
        OpenFile { has_change_time: false, ..self }
    }

    /// Returns true if the window of `offset` was resident within the last `WARM_MS`.
    pub fn is_warm(&self, offset: u64, now_ms: u64) -> bool {
        let seen = self.window(offset).map_or(0, |w| w.load(Relaxed));
        seen != 0 && now_ms.saturating_sub(seen) <= WARM_MS
    }

    /// Returns true if the window of `offset` was never found resident.
    pub fn is_unseen(&self, offset: u64) -> bool {
        self.window(offset).is_some_and(|w| w.load(Relaxed) == 0)
    }

    /// Has the kernel read `offset..end` into the page cache. Blocks on the disk.
    ///
    /// # Errors
    /// Those of the read.
    pub fn read_ahead(&self, mut offset: u64, end: u64) -> io::Result<()> {
        if offset == 0 && end == self.stamp.len && self.read_whole()? {
            return Ok(());
        }
        while offset < end {
            let len = usize::try_from(end - offset).unwrap_or(usize::MAX);
            match sys::page_in(self.as_fd(), offset, len)? {
                0 => break,
                n => offset += n as u64,
            }
        }
        Ok(())
    }

    /// Has the kernel read all of a small file, and waits for some of its bytes, which takes less
    /// than to visit all of its pages. `false`: nothing was done.
    fn read_whole(&self) -> io::Result<bool> {
        let Some(len) = NonZeroU64::new(self.stamp.len) else { return Ok(true) };
        if len.get() > WHOLE_BYTES_MAX || !sys::begin_reading(self.as_fd(), len) {
            return Ok(false);
        }
        let last = len.get() - 1;
        for at in (0..last).step_by(PROBE_BYTES).chain([last]) {
            rustix::io::retry_on_intr(|| rustix::io::pread(self, &mut [0; 1], at))?;
        }
        Ok(true)
    }

    /// Returns whether a range is in the page cache. `follows`: so are the bytes before it.
    ///
    /// # Errors
    /// Those of the read.
    pub fn is_resident(&self, range: Range<u64>, follows: bool) -> io::Result<bool> {
        let Range { start: mut at, end } = range;
        // A probe starts the kernel's read-ahead. One of a byte would read a cold file in small
        // parts, unless the kernel sees that bytes are read in order.
        let is_long = self.is_unseen(at) && !follows;
        let mut probe = vec![0; if is_long { PROBE_BYTES.min((end - at) as usize) } else { 1 }];
        loop {
            match sys::read_resident(self.as_fd(), &mut probe, at) {
                Ok(read) if read < probe.len() => return Ok(false),
                Ok(_) => {}
                Err(e) if is_not_resident(&e) => return Ok(false),
                Err(e) => return Err(e),
            }
            if at + probe.len() as u64 >= end {
                return Ok(true);
            }
            at = (at + SAMPLE_BYTES.max(probe.len() as u64)).min(end - 1);
            probe.truncate(1);
        }
    }

    /// Remembers that the window of `offset` is resident.
    pub fn set_warm(&self, offset: u64, now_ms: u64) {
        if let Some(window) = self.window(offset) {
            window.store(now_ms, Relaxed);
        }
    }

    fn window(&self, offset: u64) -> Option<&AtomicU64> {
        match usize::try_from(offset / WINDOW_BYTES).ok()? {
            0 => Some(&self.warm),
            window => self.warm_next.get(window - 1),
        }
    }

    /// As `is_unchanged`, with the result kept for `UNCHANGED_MS`. Called before each response, so
    /// that a prepared head is not sent with other bytes or another number of them.
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

    /// Returns true if length and times are those of the opening. A program that writes a file and
    /// then sets its modification time moves the change time only.
    pub fn is_unchanged(&self) -> bool {
        if self.is_constant {
            return true;
        }
        let Ok(now) = rustix::fs::fstat(&self.fd).map(|stat| Stamp::of(&stat)) else {
            return false;
        };
        let has_same_change = !self.has_change_time || now.changed_ns == self.stamp.changed_ns;
        has_same_change && now.len == self.stamp.len && now.modified_ns == self.stamp.modified_ns
    }

    /// Returns true if the file is unchanged or has grown, as a log does. It then still holds the
    /// bytes that a response has announced. An edit that also makes the file longer counts as an
    /// append.
    pub fn is_intact(&self) -> bool {
        matches!(self.change(), Change::None | Change::Grown)
    }

    /// Waits until an append that has begun shows in the file's length; returns if the file
    /// `is_intact` by then.
    ///
    /// # Errors
    /// `InvalidData`: it became shorter or was edited in place. The sent bytes and the remaining
    /// ones would belong to two versions.
    pub async fn check_intact(&self) -> io::Result<()> {
        let mut pause_ms = 1;
        loop {
            match self.change() {
                Change::None | Change::Grown => return Ok(()),
                Change::Edited if pause_ms <= APPEND_MS_MAX => {}
                Change::Edited | Change::Shrunk => return Err(io::ErrorKind::InvalidData.into()),
            }
            rt::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms *= 4;
        }
    }

    /// Returns true if no name leads to the file: it was removed or replaced.
    pub fn is_nameless(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    fn change(&self) -> Change {
        if self.is_constant {
            return Change::None;
        }
        let Ok(now) = rustix::fs::fstat(&self.fd) else { return Change::Edited };
        let now = Stamp::of(&now);
        match now.len.cmp(&self.stamp.len) {
            Ordering::Less => Change::Shrunk,
            Ordering::Greater => Change::Grown,
            // A rename, link or chmod moves the change time only: the bytes are the same.
            Ordering::Equal if now.modified_ns == self.stamp.modified_ns => Change::None,
            Ordering::Equal => Change::Edited,
        }
    }
}

/// Difference between a file's present state and its state when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Grown,
    /// Modified, but of the same length. It may be an append in progress: Linux sets the time first
    /// and the length after the bytes are written.
    Edited,
    Shrunk,
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Body {
    /// Length of the body in bytes; `None` if it is known only at the end.
    pub(crate) fn exact_len(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File(slice) => Some(slice.len),
            Body::Parts(parts) => Some(parts.iter().map(Part::len).sum()),
            Body::Stream(stream) => stream.exact_len(),
        }
    }

    /// Returns true if its files were unchanged within the last `UNCHANGED_MS`, so that a prepared
    /// head describes them.
    pub(crate) fn is_unchanged_lately(&self, now_ms: u64) -> bool {
        match self {
            Body::File(slice) => slice.file.is_unchanged_lately(now_ms),
            Body::Parts(parts) => parts.iter().all(|part| match part {
                Part::File(slice) => slice.file.is_unchanged_lately(now_ms),
                Part::Bytes(_) => true,
            }),
            Body::Empty | Body::Bytes(_) | Body::Stream(_) => true,
        }
    }
}

impl Part {
    /// Length of the part in bytes.
    #[allow(clippy::len_without_is_empty)] // no part is empty
    pub fn len(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(slice) => slice.len,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::num::NonZeroUsize;

    use super::*;
    use crate::disk::Disk;

    #[test]
    fn bytes_that_were_read_ahead_are_sent_without_waiting() {
        let lane = Disk::start(NonZeroUsize::MIN).unwrap().lane();
        let path = std::env::temp_dir().join(format!("hurtle-ahead-{}", std::process::id()));
        for len in [0, 1, 5_000, 65_537, WHOLE_BYTES_MAX, WHOLE_BYTES_MAX + 1, 300_000] {
            fs::write(&path, vec![7; len as usize]).unwrap();
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            let stamp = Stamp::of(&rustix::fs::fstat(&file).unwrap());
            let file = OpenFile::new(file.into(), stamp, lane);
            // The kernel drops the file from the page cache, if it follows the advice.
            #[cfg(target_os = "linux")]
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            file.read_ahead(0, len).unwrap();
            let mut read = vec![0; len as usize];
            match sys::read_resident(file.as_fd(), &mut read, 0) {
                Ok(count) => assert_eq!(count as u64, len, "bytes in memory"),
                // The system cannot tell.
                Err(e) => assert_eq!(
                    (cfg!(target_os = "linux"), e.kind()),
                    (false, io::ErrorKind::Unsupported)
                ),
            }
        }
        fs::remove_file(&path).unwrap();
    }
}
