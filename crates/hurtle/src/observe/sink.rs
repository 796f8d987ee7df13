//! The thread behind a log. Who logs hands over chunks of whole lines and goes on at once: what
//! does not fit into the queue is dropped and counted, and how long the target takes is the
//! thread's affair alone.
//!
//! What a line says is left to `access_log` and `error_log`.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::target::Output;
use crate::config::LogTarget;

/// Memory that may wait for the thread, in bytes: a quarter of a second of access lines when a
/// worker answers as fast as it can, so that a disk may pause that long.
pub(super) const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Chunks that may wait for the thread.
const QUEUED_CHUNKS_MAX: usize = 1024;

/// How often a log may speak of its own troubles, for each kind of trouble.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// A log's thread, and the way to it.
#[derive(Debug)]
pub(super) struct Sink {
    feed: Feed,
    /// Never sent on; hung up when the thread has ended.
    ended: Mutex<Receiver<Infallible>>,
}

/// The way to a log's thread for those who write lines.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    queue: SyncSender<Chunk>,
    shared: Arc<Shared>,
}

/// Some whole lines. One without lines only wakes the thread.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// The lines, each ended by the only newline it holds.
    pub(super) lines: Vec<u8>,
    /// Where the buffer is sent back to, emptied.
    pub(super) home: Option<SyncSender<Vec<u8>>>,
}

/// What goes wrong in a log, for whoever is to hear of it.
#[derive(Debug)]
pub(super) enum Report {
    /// So many lines were lost since the last report of this kind. Made when lines are written
    /// again, after a quiet while, and at the end.
    Dropped(u64),
    /// Lines could not be written and were dropped.
    WriteFailed(io::Error),
    /// The file could not be opened again; the old one stays open.
    ReopenFailed(io::Error),
}

/// What both sides touch: once a chunk, never once a line.
#[derive(Debug, Default)]
struct Shared {
    queued_bytes: AtomicUsize,
    dropped_lines: AtomicU64,
    reopen: AtomicBool,
    closing: AtomicBool,
}

impl Sink {
    /// Opens the target and starts its thread, named `name`. `report` is called on that thread.
    ///
    /// # Errors
    /// The target cannot be opened, or no thread be started.
    pub(super) fn start(
        name: &'static str,
        target: &LogTarget,
        report: impl FnMut(Report) + Send + 'static,
    ) -> io::Result<Sink> {
        let output = Output::open(target)?;
        let shared = Arc::new(Shared::default());
        let (queue, chunks) = sync_channel(QUEUED_CHUNKS_MAX);
        let (alive, ended) = sync_channel(0);
        let scribe = Scribe {
            output,
            chunks,
            shared: Arc::clone(&shared),
            report,
            reported_lines: 0,
            drops: Pace::default(),
            failures: Pace::default(),
            _alive: alive,
        };
        thread::Builder::new().name(name.to_owned()).spawn(move || scribe.run())?;
        Ok(Sink { feed: Feed { queue, shared }, ended: Mutex::new(ended) })
    }

    /// A way to the thread.
    pub(super) fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Looks the file's name up again before anything more is written. Returns at once.
    pub(super) fn reopen(&self) {
        self.feed.shared.reopen.store(true, Ordering::SeqCst);
        self.feed.wake();
    }

    /// Lines lost so far, whatever the reason.
    pub(super) fn dropped(&self) -> u64 {
        self.feed.shared.dropped_lines.load(Ordering::Relaxed)
    }

    /// Whether `close` has been called.
    pub(super) fn closing(&self) -> bool {
        self.feed.shared.closing.load(Ordering::SeqCst)
    }

    /// Writes what is queued and ends the thread; what is handed over later is dropped. False: the
    /// target was still stuck after `timeout`, and what is queued may be lost.
    pub(super) fn close(&self, timeout: Duration) -> bool {
        self.feed.shared.closing.store(true, Ordering::SeqCst);
        self.feed.wake();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(ended.recv_timeout(timeout), Err(RecvTimeoutError::Disconnected))
    }
}

impl Feed {
    /// Hands over a chunk if there is room; else counts its lines as dropped and gives its buffer
    /// back. Never waits.
    pub(super) fn offer(&self, chunk: Chunk) -> Result<(), Vec<u8>> {
        let size = chunk.lines.capacity();
        let waiting = self.shared.queued_bytes.fetch_add(size, Ordering::Relaxed);
        let refused = if waiting.saturating_add(size) > QUEUED_BYTES_MAX {
            chunk
        } else {
            match self.queue.try_send(chunk) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) => chunk,
            }
        };
        self.shared.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        self.shared.count_dropped(&refused.lines);
        Err(refused.lines)
    }

    /// Makes the thread look at the flags. When the queue is full it will anyway: a flag is set
    /// before this, and read after each chunk is taken from the queue.
    fn wake(&self) {
        let _ = self.queue.try_send(Chunk::default());
    }
}

impl Shared {
    fn count_dropped(&self, lines: &[u8]) {
        let count = lines.iter().filter(|&&byte| byte == b'\n').count();
        self.dropped_lines.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Report {
    /// Tells it to the error log.
    pub(super) fn trace(&self, log: &str) {
        match self {
            Report::Dropped(lines) => tracing::warn!("{log}: {lines} lines were dropped"),
            Report::WriteFailed(error) => tracing::error!("{log}: cannot write: {error}"),
            Report::ReopenFailed(error) => {
                tracing::error!("{log}: not reopened, the old file stays in use: {error}");
            }
        }
    }
}

/// The thread's state.
struct Scribe<R> {
    output: Output,
    chunks: Receiver<Chunk>,
    shared: Arc<Shared>,
    report: R,
    /// How many of the dropped lines have been reported.
    reported_lines: u64,
    drops: Pace,
    failures: Pace,
    /// Dropped last, with the thread.
    _alive: SyncSender<Infallible>,
}

enum Next {
    Chunk(Chunk),
    /// Nothing came for a while.
    Quiet,
    End,
}

impl<R: FnMut(Report)> Scribe<R> {
    fn run(mut self) {
        loop {
            let chunk = match self.next() {
                Next::Chunk(chunk) => chunk,
                Next::Quiet => {
                    self.report_dropped();
                    continue;
                }
                Next::End => break,
            };
            if self.shared.reopen.swap(false, Ordering::SeqCst)
                && let Err(error) = self.output.reopen()
            {
                (self.report)(Report::ReopenFailed(error));
            }
            self.write(chunk);
        }
        self.report_dropped();
    }

    /// What to do next: without end, but for dropped lines of which nobody has been told.
    fn next(&self) -> Next {
        if self.shared.closing.load(Ordering::SeqCst) {
            return self.chunks.try_recv().map_or(Next::End, Next::Chunk);
        }
        if self.unreported_lines() == 0 {
            return self.chunks.recv().map_or(Next::End, Next::Chunk);
        }
        match self.chunks.recv_timeout(REPORT_EVERY) {
            Ok(chunk) => Next::Chunk(chunk),
            Err(RecvTimeoutError::Timeout) => Next::Quiet,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    fn write(&mut self, chunk: Chunk) {
        let Chunk { mut lines, home } = chunk;
        let size = lines.capacity();
        match self.output.append(&lines) {
            Ok(()) => {
                if self.unreported_lines() > 0 && self.drops.due() {
                    self.report_dropped();
                }
            }
            Err(failure) => {
                self.shared.count_dropped(&lines[failure.written..]);
                if self.failures.due() {
                    (self.report)(Report::WriteFailed(failure.error));
                }
            }
        }
        self.shared.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        if let Some(home) = home {
            lines.clear();
            // Who sent it has enough of them, or is gone: then it is freed here.
            let _ = home.try_send(lines);
        }
    }

    fn unreported_lines(&self) -> u64 {
        self.shared.dropped_lines.load(Ordering::Relaxed) - self.reported_lines
    }

    fn report_dropped(&mut self) {
        let lines = self.unreported_lines();
        if lines > 0 {
            self.reported_lines += lines;
            (self.report)(Report::Dropped(lines));
        }
    }
}

/// Holds reports of one kind apart.
#[derive(Debug, Default)]
struct Pace(Option<Instant>);

impl Pace {
    /// Whether one may be made now; if so, it counts as made.
    fn due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.0.is_none_or(|last| now - last >= REPORT_EVERY);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{ErrorKind, Read};
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::channel;

    use super::*;
    use crate::observe::scratch::{FULL_DISK, Scratch, open_fifo_reader};

    /// Long enough for any machine; only a failing test waits for it.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn start(path: &Path) -> (Sink, Receiver<Report>) {
        let (tell, reports) = channel();
        let report = move |report| tell.send(report).unwrap_or(());
        let sink = Sink::start("test-log", &LogTarget::File(path.to_owned()), report);
        (sink.expect("it opens"), reports)
    }

    fn chunk(lines: &[u8]) -> Chunk {
        Chunk { lines: lines.to_vec(), home: None }
    }

    #[test]
    fn a_full_disk_is_told_once_and_its_losses_when_there_is_room_again() {
        if !Path::new(FULL_DISK).exists() {
            return;
        }
        let scratch = Scratch::new("full");
        let path = scratch.path("log");
        symlink(FULL_DISK, &path).unwrap();
        let (sink, reports) = start(&path);
        for _ in 0..5 {
            sink.feed().offer(chunk(b"lost\nlost\n")).expect("the queue has room");
        }
        match reports.recv_timeout(PATIENCE) {
            Ok(Report::WriteFailed(error)) => assert_eq!(error.kind(), ErrorKind::StorageFull),
            other => panic!("{other:?}"),
        }
        // Room again: the name leads elsewhere. Waits until the lines before have failed, else
        // some of them would find the room.
        let deadline = Instant::now() + PATIENCE;
        while sink.dropped() < 10 {
            assert!(Instant::now() < deadline, "not all failed: {}", sink.dropped());
            thread::yield_now();
        }
        fs::remove_file(&path).unwrap();
        sink.reopen();
        sink.feed().offer(chunk(b"kept\n")).expect("the queue has room");
        assert!(matches!(reports.recv_timeout(PATIENCE), Ok(Report::Dropped(10))));
        assert!(sink.close(PATIENCE));
        assert!(reports.try_recv().is_err(), "told more than once");
        assert_eq!(fs::read(&path).unwrap(), b"kept\n");
    }

    #[test]
    fn a_reader_that_leaves_and_comes_back_misses_only_what_was_said_meanwhile() {
        let scratch = Scratch::new("broken");
        let path = scratch.fifo("log");
        let reader = open_fifo_reader(&path);
        let (sink, reports) = start(&path);
        drop(reader);
        sink.feed().offer(chunk(b"unheard\n")).expect("the queue has room");
        match reports.recv_timeout(PATIENCE) {
            Ok(Report::WriteFailed(error)) => assert_eq!(error.kind(), ErrorKind::BrokenPipe),
            other => panic!("{other:?}"),
        }
        let mut reader = open_fifo_reader(&path);
        sink.feed().offer(chunk(b"heard\n")).expect("the queue has room");
        assert!(matches!(reports.recv_timeout(PATIENCE), Ok(Report::Dropped(1))));
        assert!(sink.close(PATIENCE));
        let mut heard = String::new();
        reader.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "heard\n");
    }

    #[test]
    fn a_stuck_pipe_holds_no_more_than_the_bound_and_goes_on_when_it_is_read() {
        let scratch = Scratch::new("stuck");
        let path = scratch.fifo("log");
        let (sink, reports) = start(&path);
        let feed = sink.feed();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        let mut offered = 0;
        // The pipe, the thread's hands and the queue fill; one more is refused.
        while feed.offer(chunk(&line)).is_ok() {
            offered += 1;
            assert!(offered <= 2 * QUEUED_BYTES_MAX / line.len(), "no bound");
        }
        assert!(feed.shared.queued_bytes.load(Ordering::Relaxed) <= QUEUED_BYTES_MAX);
        assert_eq!(sink.dropped(), 1);
        assert!(!sink.close(Duration::from_millis(10)), "closed though stuck");
        let mut read = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read.len(), offered * line.len(), "what was taken is written");
        assert!(sink.close(PATIENCE));
        assert!(matches!(reports.recv_timeout(PATIENCE), Ok(Report::Dropped(1))));
        assert_eq!(feed.shared.queued_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_file_that_cannot_be_reopened_stays_in_use() {
        let scratch = Scratch::new("reopen-fails");
        let dir = scratch.path("logs");
        fs::create_dir(&dir).unwrap();
        let (sink, reports) = start(&dir.join("log"));
        let moved: PathBuf = scratch.path("moved");
        fs::rename(&dir, &moved).unwrap();
        sink.reopen();
        match reports.recv_timeout(PATIENCE) {
            Ok(Report::ReopenFailed(error)) => assert_eq!(error.kind(), ErrorKind::NotFound),
            other => panic!("{other:?}"),
        }
        sink.feed().offer(chunk(b"still here\n")).expect("the queue has room");
        assert!(sink.close(PATIENCE));
        assert_eq!(fs::read(moved.join("log")).unwrap(), b"still here\n");
    }

    #[test]
    fn a_written_buffer_comes_home_empty() {
        let scratch = Scratch::new("home");
        let (sink, _reports) = start(&scratch.path("log"));
        let (home, spares) = sync_channel(1);
        let lines = b"a line\n".to_vec();
        let capacity = lines.capacity();
        sink.feed().offer(Chunk { lines, home: Some(home) }).expect("the queue has room");
        let spare = spares.recv_timeout(PATIENCE).expect("it comes back");
        assert!(spare.is_empty());
        assert_eq!(spare.capacity(), capacity);
    }

    #[test]
    fn what_comes_after_the_end_is_dropped_and_counted() {
        let scratch = Scratch::new("closed");
        let (sink, _reports) = start(&scratch.path("log"));
        assert!(sink.close(PATIENCE));
        assert!(sink.close(PATIENCE), "closing twice is closing");
        sink.feed().offer(chunk(b"late\n")).expect_err("nobody is there");
        sink.reopen();
        assert_eq!(sink.dropped(), 1);
    }
}
