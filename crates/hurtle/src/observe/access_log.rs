//! The access log: one line per request. Each worker formats lines into its own buffer and hands
//! over full buffers. A line costs no allocation, lock or atomic operation.
//!
//! [`format`] formats lines and `sink` writes them. The worker decides when to flush a partly
//! filled buffer.

use std::cell::RefCell;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::sink::{Chunk, Feed, Report, Sink};
use super::stamp::Stamp;
use super::{LogRecord, format};
use crate::config::{AccessLog, LogFormat};

/// Size of a worker's buffer, in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// A buffer with this many bytes is handed over. The rest leaves room for one ordinary line.
const HAND_OVER_BYTES: usize = BUFFER_BYTES - (1 << 10);

/// Maximum number of written buffers that a worker keeps for reuse.
const SPARE_BUFFERS: usize = 16;

/// The access log of the process: one target and one thread. Call [`close`](Self::close) before the
/// process ends; queued lines are lost otherwise.
#[derive(Debug)]
pub struct Writer {
    sink: Sink,
    format: Arc<LogFormat>,
    colour: bool,
}

/// The access log of one worker. It belongs to one thread at a time.
#[derive(Debug)]
pub struct WorkerLog {
    format: Arc<LogFormat>,
    colour: bool,
    /// `true` if the lines have details.
    has_details: bool,
    feed: Feed,
    home: SyncSender<Vec<u8>>,
    spares: Receiver<Vec<u8>>,
    pending: RefCell<Pending>,
}

#[derive(Debug)]
struct Pending {
    lines: Vec<u8>,
    stamp: Stamp,
}

impl Writer {
    /// Opens the target and starts the thread. `colour` enables colours in brief lines; see
    /// [`colour`](super::colour).
    ///
    /// # Errors
    /// The target cannot be opened, or the thread cannot be started.
    pub fn start(log: &AccessLog, colour: bool) -> io::Result<Writer> {
        let report = |report: Report| report.trace("access log");
        let sink = Sink::start("access-log", &log.to, &log.rotation, report)?;
        Ok(Writer { sink, format: Arc::new(log.format.clone()), colour })
    }

    /// Creates the log of one worker, to be moved to the worker's thread.
    pub fn worker(&self) -> WorkerLog {
        let (home, spares) = sync_channel(SPARE_BUFFERS);
        let stamp = Stamp::new(&self.format);
        WorkerLog {
            format: Arc::clone(&self.format),
            colour: self.colour,
            has_details: matches!(
                &*self.format,
                LogFormat::Json(fields) if fields.iter().any(|field| field.is_detail())
            ),
            feed: self.sink.feed(),
            home,
            spares,
            pending: RefCell::new(Pending { lines: Vec::new(), stamp }),
        }
    }

    /// Opens the log file again by its name (SIGUSR1), before the next write. Returns at once. If
    /// it fails, the error log says so and the old file stays in use.
    pub fn reopen(&self) {
        self.sink.reopen();
    }

    /// Number of lines lost since the start, because the queue was full or a write failed.
    pub fn dropped(&self) -> u64 {
        self.sink.dropped()
    }

    /// Writes the flushed lines and ends the thread; later lines are dropped. Returns within
    /// `timeout`. `false` means that the target was still blocked.
    pub fn close(&self, timeout: Duration) -> bool {
        self.sink.close(timeout)
    }
}

impl WorkerLog {
    /// Returns whether the lines have details ([`LogRecord::details`]).
    pub fn has_details(&self) -> bool {
        self.has_details
    }

    /// Logs a finished request. It never blocks.
    pub fn record(&self, record: &LogRecord<'_>) {
        let pending = &mut *self.pending.borrow_mut();
        let time = pending.stamp.at(record.unix_secs);
        format::line(&self.format, self.colour, record, time, &mut pending.lines);
        if pending.lines.len() >= HAND_OVER_BYTES {
            self.hand_over(&mut pending.lines);
        }
    }

    /// Hands over a partly filled buffer. Call it once a second while requests arrive, and before
    /// the worker ends. It never blocks.
    pub fn flush(&self) {
        let lines = &mut self.pending.borrow_mut().lines;
        if !lines.is_empty() {
            self.hand_over(lines);
        }
    }

    fn hand_over(&self, lines: &mut Vec<u8>) {
        let chunk = Chunk { lines: mem::take(lines), home: Some(self.home.clone()) };
        *lines = match self.feed.offer(chunk) {
            Ok(()) => self.spares.try_recv().unwrap_or_default(),
            Err(refused) => refused,
        };
        lines.clear();
        // A very long line grows the buffer: shrink it again, and allocate a new one at once.
        lines.shrink_to(BUFFER_BYTES);
        lines.reserve_exact(BUFFER_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::thread;
    use std::time::Instant;

    use http::Version;

    use super::super::{Completion, Details};

    use super::*;
    use crate::config::{LogField, LogTarget};
    use crate::observe::scratch::{FULL_DISK, Scratch};

    /// Timeout of a failing test.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn start(format: LogFormat, path: PathBuf) -> Writer {
        let to = LogTarget::File(path);
        Writer::start(&AccessLog { format, to, ..AccessLog::default() }, false).expect("it opens")
    }

    /// A format with only the body's size, which numbers the lines of a test.
    fn numbers() -> LogFormat {
        LogFormat::Json(vec![LogField::BodyBytes])
    }

    fn record(log: &WorkerLog, number: u64) {
        log.record(&LogRecord {
            client: None,
            method: b"GET",
            target: b"/a",
            version: Version::HTTP_11,
            status: 200,
            body_bytes: number,
            duration_us: 312,
            host: b"example.org",
            referer: None,
            user_agent: None,
            user: None,
            cache: None,
            completion: Completion::Complete,
            unix_secs: 971_186_136,
            details: Details::NONE,
        });
    }

    fn read_numbers(file: impl AsRef<Path>) -> Vec<u64> {
        let lines = BufReader::new(File::open(file).unwrap()).lines();
        let number = |line: String| {
            let digits = line.strip_prefix("{\"body_bytes\":")?.strip_suffix('}')?;
            digits.parse().ok()
        };
        lines.map(|line| number(line.unwrap()).expect("a whole line")).collect()
    }

    #[test]
    fn a_line_is_written_as_configured() {
        let line = r#"- - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 7 "-" "-""#;
        let fields = vec![LogField::Status, LogField::Time];
        let brief = "GET  /a                                       200        7 B     0.3 ms";
        let rows = [
            ("combined", LogFormat::Combined, line),
            ("json", LogFormat::Json(fields), r#"{"status":200,"time":"2000-10-10T13:55:36Z"}"#),
            ("brief", LogFormat::Brief, brief),
        ];
        for (name, format, expected) in rows {
            let scratch = Scratch::new(name);
            let path = scratch.path("log");
            let writer = start(format, path.clone());
            let log = writer.worker();
            record(&log, 7);
            log.flush();
            assert!(writer.close(PATIENCE), "{name}");
            assert_eq!(fs::read_to_string(path).unwrap(), format!("{expected}\n"), "{name}");
        }
    }

    #[test]
    fn lines_of_a_worker_keep_their_order() {
        const EACH: u64 = 20_000;
        let scratch = Scratch::new("order");
        let path = scratch.path("log");
        let writer = start(numbers(), path.clone());
        let workers = [0, EACH].map(|first| {
            let log = writer.worker();
            thread::spawn(move || {
                (first..first + EACH).for_each(|number| record(&log, number));
                log.flush();
            })
        });
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(writer.close(PATIENCE));
        assert_eq!(writer.dropped(), 0);
        let numbers = read_numbers(path).into_iter();
        let (one, other): (Vec<u64>, Vec<u64>) = numbers.partition(|&number| number < EACH);
        assert!(one.into_iter().eq(0..EACH));
        assert!(other.into_iter().eq(EACH..2 * EACH));
    }

    #[test]
    fn nothing_is_lost_when_the_file_is_renamed_and_reopened() {
        const HALF: u64 = 10_000;
        let scratch = Scratch::new("rotate");
        let (path, old) = (scratch.path("log"), scratch.path("log.1"));
        let writer = start(numbers(), path.clone());
        let log = writer.worker();
        (0..HALF).for_each(|number| record(&log, number));
        fs::rename(&path, &old).unwrap();
        writer.reopen();
        (HALF..2 * HALF).for_each(|number| record(&log, number));
        log.flush();
        assert!(writer.close(PATIENCE));
        let (before, after) = (read_numbers(old), read_numbers(path));
        assert_eq!(after.last(), Some(&(2 * HALF - 1)), "the new file is written to");
        assert!(before.into_iter().chain(after).eq(0..2 * HALF));
    }

    #[test]
    fn an_unread_pipe_loses_lines_and_blocks_nothing() {
        const LINES: u64 = 1_000_000;
        let scratch = Scratch::new("unread");
        let path = scratch.fifo("log");
        let writer = start(numbers(), path.clone());
        let log = writer.worker();
        (0..LINES).for_each(|number| record(&log, number));
        log.flush();
        assert!(writer.dropped() > LINES / 2, "lines without room are dropped");
        let begun = Instant::now();
        assert!(!writer.close(Duration::from_millis(50)), "closed although blocked");
        assert!(begun.elapsed() < PATIENCE);

        // The first reader gets the accepted lines in order, and all lines are accounted for.
        let read = read_numbers(path);
        assert!(writer.close(PATIENCE));
        assert!(read.is_sorted());
        assert_eq!(read.len() as u64 + writer.dropped(), LINES);
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_each() {
        if !Path::new(FULL_DISK).exists() {
            return;
        }
        let writer = start(LogFormat::Combined, FULL_DISK.into());
        let log = writer.worker();
        (0..10_000).for_each(|number| record(&log, number));
        log.flush();
        assert!(writer.close(PATIENCE));
        assert_eq!(writer.dropped(), 10_000);
    }

    #[test]
    fn an_idle_worker_hands_over_nothing() {
        let scratch = Scratch::new("idle");
        let path = scratch.path("log");
        let writer = start(LogFormat::Combined, path.clone());
        writer.worker().flush();
        assert!(writer.close(PATIENCE));
        assert_eq!(fs::read(path).unwrap(), b"");
    }

    #[test]
    fn a_huge_line_does_not_grow_the_buffer_permanently() {
        let scratch = Scratch::new("huge");
        let writer = start(LogFormat::Combined, scratch.path("log"));
        let log = writer.worker();
        let huge = vec![0xff; format::FIELD_BYTES_MAX];
        for _ in 0..2 * SPARE_BUFFERS {
            log.record(&LogRecord {
                client: None,
                method: &huge,
                target: &huge,
                version: Version::HTTP_11,
                status: 400,
                body_bytes: 0,
                duration_us: 1,
                host: b"",
                referer: Some(&huge),
                user_agent: Some(&huge),
                user: Some(&huge),
                cache: None,
                completion: Completion::Complete,
                unix_secs: 0,
                details: Details::NONE,
            });
            assert!(log.pending.borrow().lines.capacity() <= BUFFER_BYTES);
        }
        assert!(writer.close(PATIENCE));
    }

    #[test]
    fn the_writer_is_sync_and_a_worker_log_is_send() {
        fn shared<T: Send + Sync>() {}
        fn sent<T: Send>() {}
        shared::<Writer>();
        sent::<WorkerLog>();
    }
}
