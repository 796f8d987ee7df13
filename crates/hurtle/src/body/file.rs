//! A file's bytes frame by frame, for layers between an application and the transport that read
//! them (compression). Without such a layer the transport sends the `FileSlice` itself.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{BoxError, FileSlice, OpenFile, Part, WINDOW_BYTES, is_not_resident};
use crate::disk::{self, Disk, Failure};
#[cfg(test)]
use crate::rt;
use crate::rt::Instant;
use crate::sys;

/// Bytes of a frame: enough for a compressor to work well, few enough for many responses at once.
const FRAME_BYTES: u64 = 64 << 10;

/// Time for which a body that has begun waits for a slow disk.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The body of a file answer ([`file`](crate::file)): the file's bytes, or the ranges asked for. It
/// knows its length. Bytes that are not in memory are read on the disk threads.
///
/// It ends with an error if the file becomes shorter, or is edited, while it is read. One that
/// grows is read up to the length it had.
#[derive(Default)]
pub struct FileBody {
    parts: VecDeque<Part>,
    /// Bytes left to read.
    left: u64,
    /// `None`: no part is a file.
    disk: Option<Disk>,
    reading: Option<Reading>,
    /// A range that is brought into memory for [`FileBody::poll_part`].
    paging: Option<Paging>,
    /// A frame of a file was read: an edit from then on is an error.
    has_begun: bool,
}

/// A read in progress.
type Reading = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

/// A range that is being brought into memory.
type Paging = Pin<Box<dyn Future<Output = io::Result<FileSlice>> + Send>>;

impl FileBody {
    /// A body of `parts`; reads that miss the page cache run on `disk`.
    pub fn new(parts: Vec<Part>, disk: Disk) -> FileBody {
        let left = parts.iter().map(Part::len).sum();
        FileBody { parts: parts.into(), left, disk: Some(disk), ..FileBody::default() }
    }

    /// Begins to read the next frame of the first part; `None` if the first part is no file.
    fn begin(&mut self) -> Option<Reading> {
        let Some(Part::File(slice)) = self.parts.front_mut() else { return None };
        let (file, offset) = (Arc::clone(&slice.file), slice.offset);
        let len = slice.len.min(FRAME_BYTES) as usize;
        let checked = self.has_begun;
        self.has_begun = true;
        let disk = self.disk.clone()?;
        Some(match checked {
            true => Box::pin(read_next_piece(disk, file, offset, len, true)),
            false => Box::pin(read_piece(disk, file, offset, len, false)),
        })
    }

    /// Polls for the next part, for a channel to which the kernel sends ranges of files by itself.
    /// Those are in memory, and have at most `WINDOW_BYTES`.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Part>>> {
        loop {
            if let Some(paging) = &mut self.paging {
                let paged = ready!(paging.as_mut().poll(cx));
                self.paging = None;
                let slice = paged.inspect(|slice| self.took(slice.len));
                return Poll::Ready(Some(slice.map(Part::File)));
            }
            match self.parts.front() {
                None => return Poll::Ready(None),
                Some(part) if part.len() == 0 => drop(self.parts.pop_front()),
                Some(Part::Bytes(bytes)) => {
                    self.left = self.left.saturating_sub(bytes.len() as u64);
                    return Poll::Ready(self.parts.pop_front().map(Ok));
                }
                Some(Part::File(slice)) => {
                    let slice = FileSlice { len: slice.len.min(WINDOW_BYTES), ..slice.clone() };
                    let Some(disk) = self.disk.clone() else { return Poll::Ready(None) };
                    let wait = if self.has_begun { WAIT_MAX } else { Duration::ZERO };
                    self.has_begun = true;
                    self.paging = Some(Box::pin(page_in(disk, slice, wait)));
                }
            }
        }
    }

    /// Counts `len` bytes as read.
    fn took(&mut self, len: u64) {
        self.left = self.left.saturating_sub(len);
        if let Some(Part::File(slice)) = self.parts.front_mut() {
            slice.offset += len;
            slice.len -= len;
        }
    }
}

/// Brings a range into memory. A disk that is too slow is tried again for this time.
async fn page_in(disk: Disk, slice: FileSlice, wait: Duration) -> io::Result<FileSlice> {
    let begun = Instant::now();
    while !is_resident(&slice)? {
        let (file, range) = (Arc::clone(&slice.file), slice.offset..slice.offset + slice.len);
        let paged = disk.run(slice.file.lane, move || file.read_ahead(range.start, range.end));
        match paged.await {
            Ok(paged) => {
                paged?;
                break;
            }
            Err(Failure::Busy) if begun.elapsed() < wait => disk::pause().await,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
    Ok(slice)
}

fn is_resident(slice: &FileSlice) -> io::Result<bool> {
    #[cfg(test)]
    if rt::simulated::is_cold() {
        return Ok(false);
    }
    // Parts are read in order, and nothing marks them warm here: each would be probed at length.
    slice.file.is_resident(slice.offset..slice.offset + slice.len, true)
}

/// As `read_piece`, for a message that has begun: a disk that is too slow is tried again.
///
/// # Errors
/// Those of `read_piece`; `TimedOut` if the disk is too slow for `WAIT_MAX`.
pub(crate) async fn read_next_piece(
    disk: Disk,
    file: Arc<OpenFile>,
    offset: u64,
    len: usize,
    checked: bool,
) -> io::Result<Bytes> {
    let begun = Instant::now();
    loop {
        match read_piece(disk.clone(), Arc::clone(&file), offset, len, checked).await {
            Err(e) if e.kind() == io::ErrorKind::TimedOut && begun.elapsed() < WAIT_MAX => {
                disk::pause().await;
            }
            read => return read,
        }
    }
}

/// Reads up to `len` bytes at `offset`. With `checked`, an edit since the opening is an error.
///
/// # Errors
/// The system's, or the file ends before `offset`.
async fn read_piece(
    disk: Disk,
    file: Arc<OpenFile>,
    offset: u64,
    len: usize,
    checked: bool,
) -> io::Result<Bytes> {
    let mut piece = vec![0; len];
    let resident = sys::read_resident(file.as_fd(), &mut piece, offset);
    #[cfg(test)]
    let resident = match rt::simulated::is_cold() {
        true => Err(io::ErrorKind::WouldBlock.into()),
        false => resident,
    };
    let read = match resident {
        Err(e) if is_not_resident(&e) => {
            let reader = Arc::clone(&file);
            let job = move || {
                let read = rustix::io::retry_on_intr(|| {
                    rustix::io::pread(&reader, &mut piece[..], offset)
                });
                (read, piece)
            };
            let done = disk.run(file.lane, job).await;
            let (read, filled) = done.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            piece = filled;
            read?
        }
        read => read?,
    };
    if read == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
    }
    if checked && !file.is_intact() {
        let edited = |_| io::Error::new(io::ErrorKind::InvalidData, "the file was edited");
        file.check_intact().await.map_err(edited)?;
    }
    piece.truncate(read);
    Ok(piece.into())
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(reading.as_mut().poll(cx));
                self.reading = None;
                return Poll::Ready(Some(match read {
                    Ok(bytes) => {
                        self.took(bytes.len() as u64);
                        Ok(Frame::data(bytes))
                    }
                    Err(e) => {
                        self.parts.clear();
                        Err(e.into())
                    }
                }));
            }
            match self.parts.front_mut() {
                None => return Poll::Ready(None),
                Some(part) if part.len() == 0 => drop(self.parts.pop_front()),
                Some(Part::Bytes(bytes)) => {
                    let bytes = std::mem::take(bytes);
                    self.left = self.left.saturating_sub(bytes.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Part::File(_)) => match self.begin() {
                    Some(reading) => self.reading = Some(reading),
                    None => return Poll::Ready(None),
                },
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl fmt::Debug for FileBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBody").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::future::poll_fn;
    use std::num::NonZeroUsize;

    use tokio::task::LocalSet;

    use super::*;
    use crate::body::Stamp;
    use crate::rt::simulated::SlowDisks;

    /// Compressed downloads ended after ten seconds.
    #[test]
    fn a_body_that_has_begun_waits_for_a_slow_disk() {
        let path = std::env::temp_dir().join(format!("hurtle-slow-disk-{}", std::process::id()));
        let content: Vec<u8> = (0..3 * FRAME_BYTES + 77).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.unwrap();
        for (why, seconds, is_whole) in [
            ("each job takes a while", &[9, 9, 9, 9][..], true),
            ("two are too slow", &[0, 15, 25, 0, 11, 0], true),
            ("the first one is, before any byte", &[15, 0], false),
            ("the disk hangs", &[0, 1_000], false),
        ] {
            let file = File::open(&path).unwrap();
            let stamp = Stamp::of(&rustix::fs::fstat(&file).unwrap());
            let file = Arc::new(OpenFile::new(file.into(), stamp, disk.lane()));
            let len = stamp.len;
            let parts = vec![Part::File(FileSlice { file, offset: 0, len })];
            let mut body = FileBody::new(parts, disk.clone());
            let read = LocalSet::new().block_on(&runtime, async {
                rt::simulated::begin();
                rt::simulated::set_disks(SlowDisks::new(seconds));
                let mut read = Vec::new();
                while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                    let Ok(frame) = frame else { return Err(read.len()) };
                    read.extend_from_slice(&frame.into_data().unwrap());
                }
                Ok(read)
            });
            rt::simulated::end();
            assert_eq!(read.is_ok(), is_whole, "{why}");
            assert!(read.is_err() || read == Ok(content.clone()), "{why}");
        }
        fs::remove_file(&path).unwrap();
    }
}
