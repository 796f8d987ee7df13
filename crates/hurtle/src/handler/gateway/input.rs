//! Passes a request's body to an application. FastCGI and CGI need its length first (RFC 3875
//! section 4.1.2), so a body of unknown length is buffered: in memory while it is small, then in a
//! file without a name.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;

use crate::body::{BoxError, FileBody, FileSlice, OpenFile, Part, RequestBody, Unnamed};
use crate::disk::{Disk, Lane};

/// Maximum size of a body buffered in memory and of one write to a file, in bytes.
const MEMORY_BYTES_MAX: usize = 64 << 10;

/// A request's body for an application.
#[derive(Debug)]
pub(super) enum Input {
    /// A body of known length, passed on as it arrives.
    Live(RequestBody),
    /// A body that is completely buffered.
    Buffered(Buffered),
}

/// A body that is completely buffered.
#[derive(Debug)]
pub(super) struct Buffered {
    body: FileBody,
    /// The file of the body, open until the body is read.
    _file: DropOnDiskThread<Arc<OpenFile>>,
}

impl Input {
    /// `true` if no more bytes follow.
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Input::Live(body) => body.is_end_stream(),
            Input::Buffered(kept) => kept.body.is_end_stream(),
        }
    }

    /// Returns the next bytes; skips trailers.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        match self {
            Input::Live(body) => next(body).await,
            Input::Buffered(kept) => next(&mut kept.body).await,
        }
    }
}

async fn next<B>(body: &mut B) -> Option<Result<Bytes, BoxError>>
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    loop {
        let frame = match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            Ok(frame) => frame,
            Err(e) => return Some(Err(e)),
        };
        if let Ok(data) = frame.into_data() {
            return Some(Ok(data));
        }
    }
}

/// The reason that a body could not be buffered.
#[derive(Debug)]
pub(super) enum BufferError {
    /// The body is longer than allowed.
    TooLarge,
    /// The body ended early; the connection's error handling responds.
    Broken,
    /// The disk queue is full.
    Busy,
    /// An error of the disk or of the directory.
    Disk(io::Error),
}

impl BufferError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            BufferError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BufferError::Broken => StatusCode::BAD_REQUEST,
            BufferError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            BufferError::Disk(e) => match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    StatusCode::INSUFFICIENT_STORAGE
                }
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferError::TooLarge => f.write_str("it is longer than `body_bytes` in [limits]"),
            BufferError::Broken => f.write_str("it ended early"),
            BufferError::Busy => f.write_str("the disk is too slow"),
            BufferError::Disk(e) => {
                write!(f, "it cannot be buffered in {}: {e}", std::env::temp_dir().display())
            }
        }
    }
}

/// Buffers bodies.
#[derive(Debug)]
pub(super) struct BodyBuffer {
    disk: Disk,
    lane: Lane,
}

impl BodyBuffer {
    /// Creates a buffer in the directory for temporary files; disk jobs use the lane of that directory.
    pub(super) fn new(disk: &Disk) -> BodyBuffer {
        BodyBuffer { disk: disk.clone(), lane: disk.lane_of("request bodies".to_owned()) }
    }

    /// Reads a body to its end; returns it with its length. Dropping the future removes the buffered
    /// data.
    pub(super) async fn buffer(
        &self,
        mut body: RequestBody,
        bytes_max: u64,
    ) -> Result<(Input, u64), BufferError> {
        let (mut file, mut len) = (self.drop_later(None), 0);
        loop {
            let piece = read_piece(&mut body, bytes_max - len).await?;
            len += piece.len() as u64;
            let ended = piece.len() < MEMORY_BYTES_MAX;
            if ended && file.value.is_none() {
                return Ok((self.input(Part::Bytes(piece.freeze()), None), len));
            }
            let begun = file.value.take();
            let written = self.disk.run(self.lane, move || append(begun, &piece)).await;
            let written = written.map_err(|_| BufferError::Busy)?.map_err(BufferError::Disk)?;
            if ended {
                let open = Arc::new(written.finish(self.lane).map_err(BufferError::Disk)?);
                let part = Part::File(FileSlice { file: Arc::clone(&open), offset: 0, len });
                return Ok((self.input(part, Some(open)), len));
            }
            file.value = Some(written);
        }
    }

    fn input(&self, part: Part, file: Option<Arc<OpenFile>>) -> Input {
        let body = FileBody::new(vec![part], self.disk.clone());
        Input::Buffered(Buffered { body, _file: self.drop_later(file) })
    }

    fn drop_later<T: Send + 'static>(&self, value: Option<T>) -> DropOnDiskThread<T> {
        DropOnDiskThread { value, disk: self.disk.clone(), lane: self.lane }
    }
}

/// Drops its value on a disk thread, because freeing the blocks of a large file takes time.
#[derive(Debug)]
pub(super) struct DropOnDiskThread<T: Send + 'static> {
    value: Option<T>,
    disk: Disk,
    lane: Lane,
}

impl<T: Send + 'static> Drop for DropOnDiskThread<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.disk.discard(self.lane, value);
        }
    }
}

/// Appends to the file on a disk thread; creates it first if needed.
fn append(begun: Option<Unnamed>, piece: &[u8]) -> io::Result<Unnamed> {
    let mut file = match begun {
        Some(file) => file,
        None => Unnamed::create(&std::env::temp_dir())?,
    };
    file.append(piece)?;
    Ok(file)
}

/// Reads the next piece of a body of at most `bytes_max` bytes; a short piece is the last.
async fn read_piece(body: &mut RequestBody, bytes_max: u64) -> Result<BytesMut, BufferError> {
    let mut piece = BytesMut::new();
    while piece.len() < MEMORY_BYTES_MAX
        && let Some(data) = next(body).await
    {
        piece.extend_from_slice(&data.map_err(|_| BufferError::Broken)?);
        if piece.len() as u64 > bytes_max {
            return Err(BufferError::TooLarge);
        }
    }
    Ok(piece)
}
