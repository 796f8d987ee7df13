//! What an application reads of a request: its body as it comes or, where the client has not said how
//! long it is, kept until its end, for FastCGI and CGI tell the length before the body (RFC 3875
//! 4.1.2). What is kept is in memory as far as it is small, then in a file without a name.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;

use crate::body::{BoxError, FileBody, FileSlice, OpenFile, Part, RequestBody, Unnamed};
use crate::disk::{Disk, Lane};

/// What is kept of one body in memory, in bytes; what is written together, too.
const MEMORY_BYTES_MAX: usize = 64 << 10;

/// A request's body on its way to an application.
#[derive(Debug)]
pub(super) enum Input {
    /// Its length was told.
    Live(RequestBody),
    /// It is all here.
    Kept(Kept),
}

/// A body that is all here.
#[derive(Debug)]
pub(super) struct Kept {
    body: FileBody,
    /// What it is in, held until it is read.
    _file: Aside<Arc<OpenFile>>,
}

impl Input {
    /// Whether there is nothing more.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Input::Live(body) => body.is_end_stream(),
            Input::Kept(kept) => kept.body.is_end_stream(),
        }
    }

    /// The next bytes; trailers are passed over.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        match self {
            Input::Live(body) => next(body).await,
            Input::Kept(kept) => next(&mut kept.body).await,
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

/// Why a body could not be kept.
#[derive(Debug)]
pub(super) enum Unkept {
    /// It is longer than it may be.
    TooLarge,
    /// It broke off: the engine answers for that.
    Broken,
    /// The disk is too slow.
    Busy,
    /// The disk, or the directory for it.
    Disk(io::Error),
}

impl Unkept {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Unkept::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Unkept::Broken => StatusCode::BAD_REQUEST,
            Unkept::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Unkept::Disk(e) => match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    StatusCode::INSUFFICIENT_STORAGE
                }
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unkept::TooLarge => f.write_str("it is longer than body_bytes"),
            Unkept::Broken => f.write_str("it broke off"),
            Unkept::Busy => f.write_str("the disk is too slow"),
            Unkept::Disk(e) => {
                write!(f, "it cannot be kept in {}: {e}", std::env::temp_dir().display())
            }
        }
    }
}

/// Where bodies are kept.
#[derive(Debug)]
pub(super) struct Keep {
    disk: Disk,
    lane: Lane,
}

impl Keep {
    /// In the directory for temporary files, written on the pool in a lane of its own.
    pub(super) fn new(disk: &Disk) -> Keep {
        Keep { disk: disk.clone(), lane: disk.lane() }
    }

    /// Reads a body to its end; it, and its length. Dropped before that, it leaves nothing.
    pub(super) async fn whole(
        &self,
        mut body: RequestBody,
        bytes_max: u64,
    ) -> Result<(Input, u64), Unkept> {
        let (mut file, mut len) = (self.aside(None), 0);
        loop {
            let piece = gather(&mut body, bytes_max - len).await?;
            len += piece.len() as u64;
            let ended = piece.len() < MEMORY_BYTES_MAX;
            if ended && file.value.is_none() {
                return Ok((self.input(Part::Bytes(piece.freeze()), None), len));
            }
            let begun = file.value.take();
            let written = self.disk.run(self.lane, move || append(begun, &piece)).await;
            let written = written.map_err(|_| Unkept::Busy)?.map_err(Unkept::Disk)?;
            if ended {
                let open = Arc::new(written.finish(self.lane).map_err(Unkept::Disk)?);
                let part = Part::File(FileSlice { file: Arc::clone(&open), offset: 0, len });
                return Ok((self.input(part, Some(open)), len));
            }
            file.value = Some(written);
        }
    }

    fn input(&self, part: Part, file: Option<Arc<OpenFile>>) -> Input {
        let body = FileBody::new(vec![part], self.disk.clone());
        Input::Kept(Kept { body, _file: self.aside(file) })
    }

    fn aside<T: Send + 'static>(&self, value: Option<T>) -> Aside<T> {
        Aside { value, disk: self.disk.clone(), lane: self.lane }
    }
}

/// What is dropped on the pool: the blocks of a large file take the disk a while to free.
#[derive(Debug)]
pub(super) struct Aside<T: Send + 'static> {
    value: Option<T>,
    disk: Disk,
    lane: Lane,
}

impl<T: Send + 'static> Drop for Aside<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.disk.discard(self.lane, value);
        }
    }
}

/// Runs on the pool.
fn append(begun: Option<Unnamed>, piece: &[u8]) -> io::Result<Unnamed> {
    let mut file = match begun {
        Some(file) => file,
        None => Unnamed::create(&std::env::temp_dir())?,
    };
    file.append(piece)?;
    Ok(file)
}

/// The next piece of a body, of which so many bytes may come at most; a short one is the last.
async fn gather(body: &mut RequestBody, bytes_max: u64) -> Result<BytesMut, Unkept> {
    let mut piece = BytesMut::new();
    while piece.len() < MEMORY_BYTES_MAX
        && let Some(data) = next(body).await
    {
        piece.extend_from_slice(&data.map_err(|_| Unkept::Broken)?);
        if piece.len() as u64 > bytes_max {
            return Err(Unkept::TooLarge);
        }
    }
    Ok(piece)
}
