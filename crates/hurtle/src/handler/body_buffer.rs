//! Takes the body of a request before an upstream or application is asked, so that a slow client
//! holds neither: in memory while it is small, then in a file without a name. A body that exceeds
//! the limits, or that the disk does not take, is passed on as it arrives.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame};

use super::file_bytes::{MountBound, Reserved};
use crate::body::{BoxError, FileBody, FileSlice, OpenFile, Part, RequestBody, Unnamed};
use crate::clock;
use crate::config;
use crate::disk::{Disk, Lane};
use crate::metrics::buffered;
use crate::observe::BufferedBytes;
use crate::rt::{self, Instant};

/// Pieces of a request's body that are sent before other connections run. One that is kept never
/// has to be awaited.
pub(super) const PIECES_MAX: u64 = 4;

/// Bytes of a body that are kept in memory. A longer one is in a file.
const MEMORY_BYTES_MAX: usize = 64 << 10;

/// Bytes of one job that writes to the file of a body that arrives fast.
const FAST_PIECE_BYTES: usize = 256 << 10;

/// Frames up to this size are joined, in bytes: each may be in a buffer of 64 KiB.
const JOINED_BYTES_MAX: usize = 32 << 10;

/// Bytes of one write to the file of a body that arrives slowly, and of one read of a response for
/// a client that reads slowly: thousands of them would hold much memory.
pub(super) const SLOW_PIECE_BYTES: usize = 16 << 10;

/// Time after which `SLOW_PIECE_BYTES` are enough for a piece.
const GATHER_TIME: Duration = Duration::from_millis(100);

/// The part of a file system that is left to other programs: one of so many.
const UNUSED_PART: u64 = 50;

/// Least time between two warnings about bodies that are passed on, in milliseconds.
const WARNING_EVERY_MS: u64 = 1_000;

/// A request's body on its way to an upstream or application.
#[derive(Default)]
pub(super) struct OutgoingBody {
    /// The begin of the body, which is here.
    taken: Option<Box<TakenBody>>,
    /// Its rest, which arrives while it is read.
    rest: RequestBody,
}

/// The part of a body that has arrived.
struct TakenBody {
    parts: Vec<Part>,
    disk: Disk,
    reading: FileBody,
    trailers: Option<HeaderMap>,
    /// `true`: the whole body has arrived.
    is_whole: bool,
    /// `true` once the trailers were read.
    has_ended: bool,
    /// `true` once the file could not be read.
    is_lost: bool,
    _file: DropOnDiskThread<Arc<OpenFile>>,
    _reserved: Reserved,
}

/// The reason that a body was not taken whole.
#[derive(Debug)]
pub(super) enum BufferError {
    /// The body is longer than allowed.
    TooLarge,
    /// The body ended early; the connection's error handling responds.
    Broken,
    /// The disk queue is full, or the files of all bodies are too large together.
    Busy,
    /// An error of the disk or of the directory.
    Disk(io::Error, Arc<Path>),
}

impl BufferError {
    /// The status of a request that needs its whole body.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            BufferError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BufferError::Broken => StatusCode::BAD_REQUEST,
            BufferError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            BufferError::Disk(e, _) => match e.kind() {
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
            BufferError::TooLarge => f.write_str("it is too long"),
            BufferError::Broken => f.write_str("it ended early"),
            BufferError::Busy => f.write_str("the disk is too slow, or too much is buffered"),
            BufferError::Disk(e, directory) => {
                write!(f, "it cannot be buffered in {}: {e}", directory.display())
            }
        }
    }
}

/// Counts a body that is passed on as it arrives, and warns of it. A flood of them gives one line
/// each second.
pub(super) fn note_passed_on(error: &BufferError, describe: impl FnOnce() -> String) {
    static WARNED_MS: AtomicU64 = AtomicU64::new(0);
    buffered::count_passed_on();
    let (now_ms, warned_ms) = (clock::now_ms(), WARNED_MS.load(Relaxed));
    let is_due = warned_ms == 0 || now_ms >= warned_ms + WARNING_EVERY_MS;
    if is_due && WARNED_MS.compare_exchange(warned_ms, now_ms, Relaxed, Relaxed).is_ok() {
        tracing::warn!("{} is passed on as it arrives: {error} (`buffer`)", describe());
    }
}

/// The result of taking a body.
pub(super) struct Taken {
    /// The body, to be read from its begin.
    pub(super) body: OutgoingBody,
    /// Bytes that have arrived.
    pub(super) len: u64,
    /// The reason for which the body was not taken whole; `None`: it was.
    pub(super) stopped: Option<BufferError>,
}

/// Takes the bodies of requests whole, in memory and in files.
#[derive(Clone, Debug)]
pub(super) struct BodyBuffer {
    pub(super) disk: Disk,
    pub(super) lane: Lane,
    directory: Arc<Path>,
    /// Most bytes of one body in a file.
    pub(super) bytes_max: u64,
    /// The bound of all bodies of the mount.
    pub(super) mount: MountBound,
    /// The bytes in files of one request, for the log; `None`: no log has them.
    counted: Option<Arc<BufferedBytes>>,
}

impl BodyBuffer {
    /// Creates a buffer in the configured directory; disk jobs use the lane of that directory.
    pub(super) fn new(disk: &Disk, config: &config::Buffer) -> BodyBuffer {
        let directory = config.directory();
        let lane = disk.lane_of(format!("buffered bodies in {}", directory.display()));
        let bytes_max = config.bytes_max;
        let (disk, directory) = (disk.clone(), directory.into());
        BodyBuffer { disk, lane, directory, bytes_max, mount: MountBound::default(), counted: None }
    }

    /// The buffer of the mount that has this name in the whole process, with its configured bound.
    #[must_use]
    pub(super) fn of_mount(self, config: &config::Buffer, mount: &str) -> BodyBuffer {
        BodyBuffer { mount: MountBound::new(config, mount), ..self }
    }

    /// Returns the buffer for one request, whose bytes in files are counted there.
    #[must_use]
    pub(super) fn counting(&self, counted: Option<Arc<BufferedBytes>>) -> BodyBuffer {
        BodyBuffer { counted, ..self.clone() }
    }

    /// Counts bytes of a response that were written to a file.
    pub(super) fn count_response(&self, bytes: u64) {
        if let Some(counted) = &self.counted {
            counted.response.fetch_add(bytes, Relaxed);
        }
    }

    /// Returns the directory of the files.
    pub(super) fn directory(&self) -> Arc<Path> {
        Arc::clone(&self.directory)
    }

    /// Reads a body to its end, or until the disk takes no more of it, or it has more than
    /// `bytes_max` bytes (`None`: it may be passed on, so the limits of the configuration hold).
    /// Dropping the future removes the data.
    ///
    /// # Errors
    /// The body ended early, or the disk threads have lost a part of it.
    pub(super) async fn take(
        &self,
        mut body: RequestBody,
        bytes_max: Option<u64>,
    ) -> Result<Taken, BufferError> {
        let file_bytes_max = bytes_max.unwrap_or(self.bytes_max);
        // A body that may be passed on leaves room to other programs.
        let may_fill = bytes_max.is_some();
        let (mut file, mut reserved) = (self.drop_later(None), Reserved::new(&self.mount));
        let mut in_file = 0;
        loop {
            let piece_bytes = if in_file == 0 { MEMORY_BYTES_MAX } else { FAST_PIECE_BYTES };
            let Piece { frames, bytes, end } = read_piece(&mut body, piece_bytes).await?;
            let len = in_file + bytes as u64;
            let is_for_file = end.is_none() || file.value.is_some();
            let len_max = if is_for_file { Some(file_bytes_max) } else { bytes_max };
            let is_too_large = len_max.is_some_and(|most| len > most);
            let mut stopped = is_too_large.then_some(BufferError::TooLarge);
            if stopped.is_none() && is_for_file {
                if reserved.add(bytes as u64) {
                    let (begun, piece) = (file.value.take(), frames.clone());
                    let directory = self.directory();
                    let job = move || append(begun, &piece, &directory, may_fill);
                    let appended = self.disk.run(self.lane, job).await;
                    let (begun, written) = match appended {
                        Ok(appended) => appended,
                        // The job was dropped with the file.
                        Err(_) if in_file > 0 => return Err(BufferError::Busy),
                        Err(_) => (None, Err(io::ErrorKind::TimedOut.into())),
                    };
                    file.value = begun;
                    match written {
                        Ok(()) => {
                            in_file = len;
                            self.counted.iter().for_each(|of| of.request.store(len, Relaxed));
                        }
                        Err(e) => stopped = Some(BufferError::Disk(e, self.directory())),
                    }
                } else {
                    stopped = Some(BufferError::Busy);
                }
                if end.is_none() && stopped.is_none() {
                    continue;
                }
            }
            let mut parts = Vec::new();
            let open = file.value.take().map(|file| file.finish(self.lane).map(Arc::new));
            let open = open.transpose().map_err(|e| BufferError::Disk(e, self.directory()))?;
            if let Some(file) = &open {
                let file = Arc::clone(file);
                parts.push(Part::File(FileSlice { file, offset: 0, len: in_file }));
            }
            if in_file < len {
                parts.extend(frames.into_iter().map(Part::Bytes));
            }
            let is_ended = end.is_some();
            let taken = TakenBody {
                reading: FileBody::new(parts.clone(), self.disk.clone()),
                parts,
                disk: self.disk.clone(),
                is_whole: is_ended,
                trailers: end.flatten(),
                has_ended: false,
                is_lost: false,
                _file: self.drop_later(open),
                _reserved: reserved,
            };
            let rest = if is_ended { RequestBody::default() } else { body };
            let body = OutgoingBody { taken: Some(Box::new(taken)), rest };
            return Ok(Taken { body, len, stopped });
        }
    }

    pub(super) fn drop_later<T: Send + 'static>(&self, value: Option<T>) -> DropOnDiskThread<T> {
        DropOnDiskThread { value, disk: self.disk.clone(), lane: self.lane }
    }
}

impl OutgoingBody {
    /// A body that is passed on as it arrives.
    pub(super) fn live(rest: RequestBody) -> OutgoingBody {
        OutgoingBody { taken: None, rest }
    }

    /// The part that has not arrived.
    pub(super) fn into_rest(self) -> RequestBody {
        self.rest
    }

    /// `true` if no more bytes follow.
    pub(super) fn is_end_stream(&self) -> bool {
        let has_ended = |taken: &TakenBody| {
            taken.reading.is_end_stream() && (taken.has_ended || taken.trailers.is_none())
        };
        self.taken.as_deref().is_none_or(has_ended) && self.rest.is_end_stream()
    }

    /// Starts at the begin again; `false`: a part of it is lost.
    pub(super) fn rewind(&mut self) -> bool {
        let Some(taken) = self.taken.as_deref_mut().filter(|taken| taken.is_whole) else {
            return false;
        };
        taken.reading = FileBody::new(taken.parts.clone(), taken.disk.clone());
        taken.has_ended = false;
        true
    }

    /// `true` if the whole body is here, so that it can be read again.
    pub(super) fn is_whole(&self) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.is_whole)
    }

    /// `true` after an error of the file in which it is kept.
    pub(super) fn is_lost(&self) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.is_lost)
    }

    /// Polls for the next frame.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(taken) = &mut self.taken {
            if let Some(frame) = ready!(Pin::new(&mut taken.reading).poll_frame(cx)) {
                taken.is_lost |= frame.is_err();
                return Poll::Ready(Some(frame));
            }
            if let Some(trailers) = taken.trailers.clone().filter(|_| !taken.has_ended) {
                taken.has_ended = true;
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }

    /// As `poll_frame`, for a channel to which the kernel sends ranges of files by itself. `None`:
    /// the next frame is none of these; poll for it.
    pub(super) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Part, BoxError>>> {
        let Some(taken) = &mut self.taken else { return Poll::Ready(None) };
        let part = ready!(taken.reading.poll_part(cx));
        taken.is_lost |= part.as_ref().is_some_and(Result::is_err);
        Poll::Ready(part.map(|part| part.map_err(Into::into)))
    }

    /// Returns the next bytes; skips trailers.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            let frame = match poll_fn(|cx| self.poll_frame(cx)).await? {
                Ok(frame) => frame,
                Err(e) => return Some(Err(e)),
            };
            if let Ok(data) = frame.into_data() {
                return Some(Ok(data));
            }
        }
    }
}

impl fmt::Debug for OutgoingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self.taken.as_ref().map(|taken| &taken.reading);
        f.debug_struct("OutgoingBody").field("taken", &taken).field("rest", &self.rest).finish()
    }
}

/// Drops its value on a disk thread, because freeing the blocks of a large file takes time.
#[derive(Debug)]
pub(super) struct DropOnDiskThread<T: Send + 'static> {
    pub(super) value: Option<T>,
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

/// Appends to the file, which is created first if there is none. Runs on a disk thread. After an
/// error the file has the bytes of the calls before.
fn append(
    begun: Option<Unnamed>,
    piece: &[Bytes],
    directory: &Path,
    may_fill: bool,
) -> (Option<Unnamed>, io::Result<()>) {
    let mut file = match begun.map_or_else(|| Unnamed::create(directory), Ok) {
        Ok(file) => file,
        Err(e) => return (None, Err(e)),
    };
    let room = if may_fill { Ok(()) } else { leave_room(&file) };
    let written = room.and_then(|()| piece.iter().try_for_each(|frame| file.append(frame)));
    (Some(file), written)
}

/// Leaves a part of the file system of a file to other programs. Runs on a disk thread.
///
/// # Errors
/// `StorageFull`: no more may be written.
pub(super) fn leave_room(file: impl AsFd) -> io::Result<()> {
    let system = rustix::fs::fstatvfs(file)?;
    match system.f_bavail < system.f_blocks / UNUSED_PART {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    }
}

/// The next bytes of a body.
#[derive(Default)]
struct Piece {
    frames: Vec<Bytes>,
    /// Length of all frames together.
    bytes: usize,
    /// `Some`: the body ends behind them, with these trailers.
    end: Option<Option<HeaderMap>>,
}

impl Piece {
    /// Adds a frame. Small ones are copied to `joined`, unless nothing is next to them.
    fn add(&mut self, data: Bytes, joined: &mut BytesMut) {
        self.bytes += data.len();
        if data.len() > JOINED_BYTES_MAX {
            self.flush(joined);
            return self.frames.push(data);
        }
        if joined.is_empty() {
            let Some(last) = self.frames.pop_if(|last| last.len() <= JOINED_BYTES_MAX) else {
                return self.frames.push(data);
            };
            joined.reserve(SLOW_PIECE_BYTES.max(last.len() + data.len()));
            joined.extend_from_slice(&last);
        }
        joined.extend_from_slice(&data);
    }

    fn flush(&mut self, joined: &mut BytesMut) {
        if !joined.is_empty() {
            self.frames.push(joined.split().freeze());
        }
    }
}

/// Reads until the body ends or a piece has at least this many bytes; fewer, if the body arrives
/// slowly.
async fn read_piece(body: &mut RequestBody, bytes_max: usize) -> Result<Piece, BufferError> {
    let begun = Instant::now();
    let (mut piece, mut joined) = (Piece::default(), BytesMut::new());
    piece.end = loop {
        let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        let next = match piece.bytes {
            0..SLOW_PIECE_BYTES => next.await,
            _ => match rt::timeout(GATHER_TIME.saturating_sub(begun.elapsed()), next).await {
                Some(next) => next,
                // The client has stalled: it holds no more memory than a slow one.
                None => break None,
            },
        };
        let frame = match next {
            None => break Some(None),
            Some(frame) => frame.map_err(|_| BufferError::Broken)?,
        };
        match frame.into_data() {
            Ok(data) => piece.add(data, &mut joined),
            Err(frame) => break Some(frame.into_trailers().ok()),
        }
        if body.is_end_stream() {
            break Some(None);
        }
        if piece.bytes >= bytes_max {
            break None;
        }
    };
    piece.flush(&mut joined);
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;
    use crate::body::feed;
    use crate::rt::{First, race};

    fn run<T>(task: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(task)
    }

    /// Takes a body of these pieces, of at most `bytes_max` bytes, and reads it; returns the body,
    /// the bytes and whether all of it was taken.
    async fn taken(pieces: &[usize], bytes_max: u64) -> (OutgoingBody, Vec<u8>, bool) {
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let (feeder, body) = feed(None);
        let feeding = async {
            for (n, len) in pieces.iter().enumerate() {
                assert!(feeder.wanted().await, "there is a reader");
                feeder.put(Frame::data(vec![n as u8; *len].into()), n + 1 == pieces.len());
            }
            std::future::pending::<()>().await;
        };
        let reading = async {
            let Taken { mut body, stopped, .. } =
                BodyBuffer::new(&disk, &config::Buffer::default())
                    .take(body, Some(bytes_max))
                    .await
                    .unwrap();
            let bytes = read(&mut body).await;
            (body, bytes, stopped.is_none())
        };
        let First::A(done) = race(reading, feeding).await else { panic!("no end") };
        done
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_frames_are_read_back_in_order(
            frames in prop::collection::vec(
                prop_oneof![1_usize..100, 1_usize..70_000, 1_usize..300_000],
                1..12,
            ),
        ) {
            let expected: Vec<u8> =
                frames.iter().enumerate().flat_map(|(n, len)| vec![n as u8; *len]).collect();
            let (_, bytes, was_taken) = run(taken(&frames, 8 << 20));
            prop_assert!(was_taken && bytes == expected, "{} bytes", bytes.len());
        }
    }

    async fn read(body: &mut OutgoingBody) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(data) = body.next().await {
            bytes.extend_from_slice(&data.unwrap());
        }
        bytes
    }

    #[test]
    fn only_a_body_that_was_taken_whole_is_read_again() {
        let table: [(&str, &[usize], u64, bool); 6] = [
            ("nothing", &[0], 10, true),
            ("a small one", &[5], 10, true),
            ("one of several pieces", &[65_536, 1, 70_000], 1 << 30, true),
            ("a full piece", &[65_536], 1 << 30, true),
            ("one above the limit", &[65_536, 1_000], 65_535, false),
            ("one that exceeds it later", &[65_536, 262_144, 7], 70_000, false),
        ];
        for (sentence, pieces, bytes_max, is_whole) in table {
            run(async {
                let (mut body, bytes, was_taken) = taken(pieces, bytes_max).await;
                let expected: Vec<u8> =
                    pieces.iter().enumerate().flat_map(|(n, len)| vec![n as u8; *len]).collect();
                assert!(bytes == expected, "{sentence}: {} bytes", bytes.len());
                assert!(body.is_end_stream() && !body.is_lost(), "{sentence}");
                // Also when its rest has been read meanwhile.
                assert_eq!(
                    [was_taken, body.is_whole(), body.rewind()],
                    [is_whole; 3],
                    "{sentence}"
                );
                if is_whole {
                    assert!(read(&mut body).await == expected, "{sentence}, again");
                }
            });
        }
    }
}
