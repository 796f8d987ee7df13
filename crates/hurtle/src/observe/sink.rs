//! The thread of a log. Writers hand over chunks of whole lines and never wait. A chunk that does
//! not fit into the queue is dropped and its lines are counted.
//!
//! `access_log` and `error_log` format the lines.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::target::Output;
use crate::config::{LogTarget, Rotation};

/// Maximum memory of queued chunks, in bytes. At the highest request rate this lasts for a quarter
/// of a second, so the disk may pause that long.
pub(super) const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Maximum number of queued chunks.
const QUEUED_CHUNKS_MAX: usize = 1024;

/// Minimum time between two reports of the same kind.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The thread of a log and its queue.
#[derive(Debug)]
pub(super) struct Sink {
    feed: Feed,
    /// Disconnects when the thread has ended; nothing is ever sent.
    ended: Mutex<Receiver<Infallible>>,
}

/// The sending end of a log's queue.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    queue: SyncSender<Chunk>,
    shared: Arc<SharedSink>,
}

/// Complete lines. An empty chunk only wakes the thread.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// The lines; each ends in a newline and holds no other.
    pub(super) lines: Vec<u8>,
    /// Receives the emptied buffer.
    pub(super) home: Option<SyncSender<Vec<u8>>>,
}

/// A problem of the log itself.
#[derive(Debug)]
pub(super) enum Report {
    /// Number of lines lost since the last report of this kind. Sent when writing works again,
    /// after a pause, and at the end.
    Dropped(u64),
    /// Lines could not be written and were dropped.
    WriteFailed(io::Error),
    /// The file could not be opened again; the old one stays open.
    ReopenFailed(io::Error),
    /// The file could not be rotated; it grows further.
    RotateFailed(io::Error),
}

/// State shared by both sides. It is accessed once per chunk, not once per line.
#[derive(Debug, Default)]
struct SharedSink {
    queued_bytes: AtomicUsize,
    dropped_lines: AtomicU64,
    reopen: AtomicBool,
    closing: AtomicBool,
}

impl Sink {
    /// Opens the target and starts its thread, named `name`. The thread calls `report`.
    ///
    /// # Errors
    /// The target cannot be opened, or the thread cannot be started.
    pub(super) fn start(
        name: &'static str,
        target: &LogTarget,
        rotation: &Rotation,
        report: impl FnMut(Report) + Send + 'static,
    ) -> io::Result<Sink> {
        let output = Output::open(target, rotation)?;
        let shared = Arc::new(SharedSink::default());
        let (queue, chunks) = sync_channel(QUEUED_CHUNKS_MAX);
        let (alive, ended) = sync_channel(0);
        let sink_thread = SinkThread {
            output,
            chunks,
            shared: Arc::clone(&shared),
            report,
            reported_lines: 0,
            drops: ReportLimiter::default(),
            failures: ReportLimiter::default(),
            rotations: None,
            _alive: alive,
        };
        thread::Builder::new().name(name.to_owned()).spawn(move || sink_thread.run())?;
        Ok(Sink { feed: Feed { queue, shared }, ended: Mutex::new(ended) })
    }

    /// Returns a sender for the queue.
    pub(super) fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Opens the file again by its name before the next write. Returns at once.
    pub(super) fn reopen(&self) {
        self.feed.shared.reopen.store(true, Ordering::SeqCst);
        self.feed.wake();
    }

    /// Number of lines lost so far, for any reason.
    pub(super) fn dropped(&self) -> u64 {
        self.feed.shared.dropped_lines.load(Ordering::Relaxed)
    }

    /// True after `close` has been called.
    pub(super) fn closing(&self) -> bool {
        self.feed.shared.closing.load(Ordering::SeqCst)
    }

    /// Writes the queued lines and ends the thread; later chunks are dropped. `false` means that
    /// the target was still blocked after `timeout`: queued lines may be lost.
    pub(super) fn close(&self, timeout: Duration) -> bool {
        self.feed.shared.closing.store(true, Ordering::SeqCst);
        self.feed.wake();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(ended.recv_timeout(timeout), Err(RecvTimeoutError::Disconnected))
    }
}

impl Feed {
    /// Queues a chunk. If there is no room, counts its lines as dropped and returns its buffer. It
    /// never blocks.
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

    /// Wakes the thread to check the flags. A full queue needs no wake-up: the thread checks the
    /// flags after each chunk.
    fn wake(&self) {
        let _ = self.queue.try_send(Chunk::default());
    }
}

impl SharedSink {
    fn count_dropped(&self, lines: &[u8]) {
        let count = lines.iter().filter(|&&byte| byte == b'\n').count();
        self.dropped_lines.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Report {
    /// Writes the report to the error log.
    pub(super) fn trace(&self, log: &str) {
        match self {
            Report::Dropped(lines) => tracing::warn!("{log}: {lines} lines were dropped"),
            Report::WriteFailed(error) => tracing::error!("{log}: cannot write: {error}"),
            Report::ReopenFailed(error) => {
                tracing::error!("{log}: cannot reopen, the old file stays in use: {error}");
            }
            Report::RotateFailed(error) => {
                tracing::error!("{log}: cannot rotate, the file grows further: {error}");
            }
        }
    }
}

/// State of the log's thread.
struct SinkThread<R> {
    output: Output,
    chunks: Receiver<Chunk>,
    shared: Arc<SharedSink>,
    report: R,
    /// Number of dropped lines that have been reported.
    reported_lines: u64,
    drops: ReportLimiter,
    failures: ReportLimiter,
    /// Time of the last rotation that failed.
    rotations: Option<Instant>,
    /// Dropped with the thread, which disconnects `Sink::ended`.
    _alive: SyncSender<Infallible>,
}

enum Next {
    Chunk(Chunk),
    /// Chunks have not arrived for `REPORT_EVERY`.
    Quiet,
    End,
}

impl<R: FnMut(Report)> SinkThread<R> {
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

    /// Waits for the next chunk. The wait has a timeout only if dropped lines are unreported.
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
        self.rotate(lines.len());
        match self.output.append(&lines) {
            Ok(()) => {
                if self.unreported_lines() > 0 && self.drops.is_due() {
                    self.report_dropped();
                }
            }
            Err(failure) => {
                self.shared.count_dropped(&lines[failure.written..]);
                if self.failures.is_due() {
                    (self.report)(Report::WriteFailed(failure.error));
                }
            }
        }
        self.shared.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        if let Some(home) = home {
            lines.clear();
            // The sender has enough spare buffers or is gone: the buffer is freed here.
            let _ = home.try_send(lines);
        }
    }

    /// Rotates the file if the next lines need it. After a failure it tries again later.
    fn rotate(&mut self, bytes: usize) {
        let has_failed = self.rotations.is_some_and(|failed| failed.elapsed() < REPORT_EVERY);
        if !has_failed && let Err(error) = self.output.rotate_if_due(bytes, SystemTime::now()) {
            self.rotations = Some(Instant::now());
            (self.report)(Report::RotateFailed(error));
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

/// Limits the rate of reports of one kind.
#[derive(Debug, Default)]
struct ReportLimiter(Option<Instant>);

impl ReportLimiter {
    /// True if a report may be sent now; if so, it counts as sent.
    fn is_due(&mut self) -> bool {
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

    /// Timeout of a failing test.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn start(path: &Path) -> (Sink, Receiver<Report>) {
        let (tell, reports) = channel();
        let report = move |report| tell.send(report).unwrap_or(());
        let sink = Sink::start(
            "test-log",
            &LogTarget::File(path.to_owned()),
            &Rotation::default(),
            report,
        );
        (sink.expect("it opens"), reports)
    }

    fn chunk(lines: &[u8]) -> Chunk {
        Chunk { lines: lines.to_vec(), home: None }
    }

    #[test]
    fn a_full_disk_is_reported_once_and_losses_once_writing_works_again() {
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
        // Space is available again: the name now leads to another file. Wait until the earlier
        // lines have failed, else some of them would be written there.
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
        assert!(reports.try_recv().is_err(), "reported more than once");
        assert_eq!(fs::read(&path).unwrap(), b"kept\n");
    }

    #[test]
    fn a_returning_reader_misses_only_the_lines_in_between() {
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
        sink.feed().offer(chunk(b"received\n")).expect("the queue has room");
        assert!(matches!(reports.recv_timeout(PATIENCE), Ok(Report::Dropped(1))));
        assert!(sink.close(PATIENCE));
        let mut received = String::new();
        reader.read_to_string(&mut received).unwrap();
        assert_eq!(received, "received\n");
    }

    #[test]
    fn a_blocked_pipe_queues_up_to_the_limit_and_continues_when_read() {
        let scratch = Scratch::new("stuck");
        let path = scratch.fifo("log");
        let (sink, reports) = start(&path);
        let feed = sink.feed();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        let mut offered = 0;
        // Fill the pipe, the chunk being written and the queue; then one more is refused.
        while feed.offer(chunk(&line)).is_ok() {
            offered += 1;
            assert!(offered <= 2 * QUEUED_BYTES_MAX / line.len(), "no bound");
        }
        assert!(feed.shared.queued_bytes.load(Ordering::Relaxed) <= QUEUED_BYTES_MAX);
        assert_eq!(sink.dropped(), 1);
        assert!(!sink.close(Duration::from_millis(10)), "closed although blocked");
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
    fn a_written_buffer_is_returned_empty() {
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
    fn chunks_after_close_are_dropped_and_counted() {
        let scratch = Scratch::new("closed");
        let (sink, _reports) = start(&scratch.path("log"));
        assert!(sink.close(PATIENCE));
        assert!(sink.close(PATIENCE), "closing twice is allowed");
        sink.feed().offer(chunk(b"late\n")).expect_err("the thread has ended");
        sink.reopen();
        assert_eq!(sink.dropped(), 1);
    }
}
