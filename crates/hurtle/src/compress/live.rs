//! The encoding of a file while it is sent, for clients that come before the encoded file is made.
//! The encoder is fast and runs on threads of its own, a piece for each frame that the client
//! reads. These threads never read a file, so that a hung disk holds none of them. A bounded number
//! of responses is encoded in this way.

use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hurtle_http::semantics::accept::Coding;

use super::{Effort, Encoder};
use crate::body::{self, BoxError, OpenFile, Stream};
use crate::disk::{Disk, Lane};
use crate::rt::{Permit, Permits};

/// Responses for each thread. A slow client occupies none of them, but holds an encoder's memory.
const RESPONSES_PER_THREAD: usize = 8;

/// Bytes of the file that are read at once.
const READ_BYTES: usize = 64 << 10;

/// The threads that encode while files are sent.
#[derive(Clone, Debug)]
pub(super) struct LiveEncoders {
    threads: EncoderThreads,
    permits: Permits,
}

/// The threads that encode, and those that read the files.
#[derive(Clone, Debug)]
struct EncoderThreads {
    encoders: Disk,
    lane: Lane,
    disk: Disk,
}

impl LiveEncoders {
    /// Starts the threads. Files are read by those of `disk`.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start(threads_count: NonZeroUsize, disk: Disk) -> io::Result<LiveEncoders> {
        let encoders = Disk::start_wholly_shared(threads_count, "encode")?;
        let permits = Permits::new(threads_count.get() * RESPONSES_PER_THREAD);
        let threads = EncoderThreads { lane: encoders.lane(), encoders, disk };
        Ok(LiveEncoders { threads, permits })
    }

    /// Returns the encoded body of a file. `content`: its bytes, if they are in memory. `None`: as
    /// many responses as are allowed are being encoded.
    pub(super) fn body(
        &self,
        file: &Arc<OpenFile>,
        content: Option<&Bytes>,
        coding: Coding,
    ) -> Option<Stream> {
        let permit = self.permits.try_take()?;
        let source =
            content.map_or_else(|| Source::File(Arc::clone(file)), |c| Source::Bytes(c.clone()));
        let work = Work { source, left: file.stamp.len, offset: 0, coding, encoder: None };
        Some(Stream::new(LiveBody {
            threads: self.threads.clone(),
            state: LiveState::Ready(Box::new(work)),
            _permit: permit,
        }))
    }
}

/// A body that is encoded while it is polled. Dropped, it ends the encoding with the next piece.
struct LiveBody {
    threads: EncoderThreads,
    state: LiveState,
    _permit: Permit,
}

/// The result of a piece: encoded bytes, and the work that is left.
type Made = io::Result<(Bytes, Option<Box<Work>>)>;

enum LiveState {
    Ready(Box<Work>),
    Running(Pin<Box<dyn Future<Output = Made> + Send>>),
    Done,
}

impl Body for LiveBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                LiveState::Done => return Poll::Ready(None),
                LiveState::Running(running) => {
                    let made = ready!(running.as_mut().poll(cx));
                    this.state = LiveState::Done;
                    let (bytes, left) = made?;
                    if let Some(work) = left {
                        this.state = LiveState::Ready(work);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                LiveState::Ready(_) => {
                    let LiveState::Ready(work) =
                        std::mem::replace(&mut this.state, LiveState::Done)
                    else {
                        continue;
                    };
                    let step = step(work, this.threads.clone());
                    this.state = LiveState::Running(Box::pin(step));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, LiveState::Done)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}

#[derive(Clone)]
enum Source {
    Bytes(Bytes),
    File(Arc<OpenFile>),
}

/// The part of a file that is not encoded yet.
struct Work {
    source: Source,
    left: u64,
    offset: u64,
    coding: Coding,
    /// `None`: it has not begun.
    encoder: Option<Encoder<'static>>,
}

/// Reads and encodes until there are bytes to send.
async fn step(mut work: Box<Work>, threads: EncoderThreads) -> Made {
    loop {
        let source = work.source.clone();
        let piece = source.read(work.offset, work.left, &threads.disk).await?;
        let encoded = threads.encoders.run(threads.lane, move || work.encode(&piece)).await;
        let (bytes, left) = encoded.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        match left {
            Some(left) if bytes.is_empty() => work = left,
            left => return Ok((bytes, left)),
        }
    }
}

impl Source {
    /// Reads the piece at an offset, behind which `left` bytes follow. An edit is an error: the
    /// bytes would belong to two versions.
    async fn read(self, offset: u64, left: u64, disk: &Disk) -> io::Result<Bytes> {
        let len = READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES));
        match self {
            Source::Bytes(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                Ok(bytes.slice(from..bytes.len().min(from + len)))
            }
            Source::File(_) if len == 0 => Ok(Bytes::new()),
            Source::File(file) => {
                body::read_next_piece(disk.clone(), file, offset, len, true).await
            }
        }
    }
}

impl Work {
    /// Encodes a piece, and ends the encoding behind the last one.
    fn encode(mut self: Box<Self>, piece: &[u8]) -> Made {
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => Encoder::new(self.coding, Effort::Live)?,
        };
        let mut out = Vec::new();
        self.left -= piece.len() as u64;
        self.offset += piece.len() as u64;
        encoder.write(piece, &mut out)?;
        if self.left == 0 {
            encoder.finish(&mut out)?;
            return Ok((out.into(), None));
        }
        self.encoder = Some(encoder);
        Ok((out.into(), Some(self)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;

    use tokio::task::LocalSet;

    use super::*;
    use crate::body::Stamp;
    use crate::rt::simulated::{self, SlowDisks};

    const TEXT: &[u8] = &[b'x'; 300_000];

    /// An open file without a name.
    fn file() -> (std::fs::File, Arc<OpenFile>, LiveEncoders) {
        let path = std::env::temp_dir().join(format!("live-{}-{:p}", std::process::id(), &TEXT));
        let path = path.with_extension(format!("{:?}", std::thread::current().id()));
        let mut writer = std::fs::File::create(&path).unwrap();
        writer.write_all(TEXT).unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let stamp = Stamp::of(&rustix::fs::fstat(&reader).unwrap());
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let lane = disk.lane();
        let encoders = LiveEncoders::start(NonZeroUsize::MIN, disk).unwrap();
        let file = Arc::new(OpenFile::new(reader.into(), stamp, lane));
        (writer, file, encoders)
    }

    fn read(mut stream: Stream) -> Result<Vec<u8>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut all = Vec::new();
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut stream).poll_frame(cx)).await {
                let frame = frame.map_err(|error| error.to_string())?;
                all.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
            Ok(all)
        })
    }

    #[test]
    fn a_file_and_content_in_memory_are_encoded() {
        let (_writer, file, encoders) = file();
        let content = Bytes::from_static(TEXT);
        for content in [None, Some(&content)] {
            let coded = read(encoders.body(&file, content, Coding::Zstd).unwrap()).unwrap();
            assert!(coded.len() < 10_000 && zstd::stream::decode_all(&coded[..]).unwrap() == TEXT);
        }
    }

    #[test]
    fn an_edited_file_has_no_end() {
        let (writer, file, encoders) = file();
        let body = encoders.body(&file, None, Coding::Gzip).unwrap();
        writer.set_len(10).unwrap();
        assert_eq!(read(body), Err("the file was edited".to_owned()));
    }

    /// Regression: a body ended after ten seconds.
    #[test]
    fn a_body_waits_for_a_slow_disk() {
        let (_writer, file, encoders) = file();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let mut body = encoders.body(&file, None, Coding::Zstd).unwrap();
        let coded = LocalSet::new().block_on(&runtime.unwrap(), async {
            simulated::begin();
            // The first read and the one of the second piece take too long.
            simulated::set_disks(SlowDisks::new(&[15, 0, 0, 25, 0]));
            let mut coded = Vec::new();
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                coded.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
            }
            coded
        });
        simulated::end();
        assert!(zstd::stream::decode_all(&coded[..]).unwrap() == TEXT);
    }

    #[test]
    fn responses_are_bounded_and_end_with_their_clients() {
        let (_writer, file, encoders) = file();
        let body = || encoders.body(&file, None, Coding::Br);
        let mut bodies: Vec<_> = (0..RESPONSES_PER_THREAD).map(|_| body().unwrap()).collect();
        assert!(body().is_none());
        bodies.pop();
        assert!(body().is_some());
    }
}
