//! A file's bytes frame by frame, for layers between an application and the transport that read
//! them (compression). Without such a layer the transport sends the `FileSlice` itself.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{BoxError, FileSlice, OpenFile, Part, WINDOW_BYTES, is_not_resident};
use crate::disk::Disk;
#[cfg(test)]
use crate::rt;
use crate::sys;

/// Bytes of a frame: enough for a compressor to work well, few enough for many responses at once.
const FRAME_BYTES: u64 = 64 << 10;

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
        Some(Box::pin(read_piece(self.disk.clone()?, file, offset, len, checked)))
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
                    self.paging = Some(Box::pin(page_in(disk, slice)));
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

/// Brings a range into memory.
async fn page_in(disk: Disk, slice: FileSlice) -> io::Result<FileSlice> {
    if !is_resident(&slice)? {
        let (file, range) = (Arc::clone(&slice.file), slice.offset..slice.offset + slice.len);
        let paged = disk.run(slice.file.lane, move || file.read_ahead(range.start, range.end));
        paged.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
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

/// Reads up to `len` bytes at `offset`. With `checked`, an edit since the opening is an error.
///
/// # Errors
/// The system's, or the file ends before `offset`.
pub(crate) async fn read_piece(
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
