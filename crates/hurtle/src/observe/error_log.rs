//! The error log: `tracing` events, one line each. Like the access log it writes through `sink`, so
//! that a blocked terminal never blocks a worker.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;

use super::sink::{Chunk, Feed, Report, Sink};
use super::target;
use crate::config::{ErrorLog, LogLevel};

/// Maximum time that dropping an unclosed handle waits for its lines to be written.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// The error log of the process. Dropping it writes the last lines, so keep it until the process
/// ends.
#[derive(Debug)]
pub struct ErrorLogHandle {
    sink: Sink,
}

/// Changes the level of a log.
type SetLevel = Box<dyn Fn(LogLevel) + Send + Sync>;

/// The level setter of the process's log.
static SET_LEVEL: OnceLock<SetLevel> = OnceLock::new();

/// Changes the level of the process's error log. Without a log it does nothing.
pub fn set_level(level: LogLevel) {
    if let Some(set_level) = SET_LEVEL.get() {
        set_level(level);
    }
}

/// Sends the events of the process to `log`, in colour if the target supports it. Call it once per
/// process.
///
/// # Errors
/// The target cannot be opened, the thread cannot be started, or a subscriber is already set.
pub fn init(log: &ErrorLog) -> io::Result<ErrorLogHandle> {
    let (subscriber, handle, set_level) = subscriber(log, target::colour(&log.to))?;
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)?;
    // A second log is refused above.
    let _ = SET_LEVEL.set(set_level);
    Ok(handle)
}

impl ErrorLogHandle {
    /// Opens the log file again by its name (SIGUSR1), before the next write. Returns at once. If
    /// it fails, the old file stays in use and gets the error.
    pub fn reopen(&self) {
        self.sink.reopen();
    }

    /// Number of lines lost since the start.
    pub fn dropped(&self) -> u64 {
        self.sink.dropped()
    }

    /// Writes the queued lines and ends the thread; later events are lost. Returns within
    /// `timeout`. `false` means that the target was still blocked.
    pub fn close(&self, timeout: Duration) -> bool {
        self.sink.close(timeout)
    }
}

impl Drop for ErrorLogHandle {
    fn drop(&mut self) {
        if !self.sink.closing() {
            self.close(DROP_TIMEOUT);
        }
    }
}

fn subscriber(
    log: &ErrorLog,
    colour: bool,
) -> io::Result<(impl Subscriber + Send + Sync + 'static, ErrorLogHandle, SetLevel)> {
    let (filter, handle) = reload::Layer::new(filter(log.level));
    // An error means that the subscriber is gone, at the end of the process.
    let set_level = move |level| drop(handle.reload(self::filter(level)));
    let report = |report: Report| report.trace("error log");
    let sink = Sink::start("error-log", &log.to, &log.rotation, report)?;
    let subscriber = tracing_subscriber::fmt()
        .compact()
        .with_target(false)
        .with_ansi(colour)
        .with_max_level(LevelFilter::TRACE)
        .with_writer(EventWriter { feed: sink.feed(), colour })
        .finish()
        .with(filter);
    Ok((subscriber, ErrorLogHandle { sink }, Box::new(set_level)))
}

/// Selects the events of a level. Events of the h2 library are off: a peer can cause any number of
/// them.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_default(level).with_target("h2", LevelFilter::OFF)
}

/// Converts each event to a chunk.
struct EventWriter {
    feed: Feed,
    colour: bool,
}

impl<'a> MakeWriter<'a> for EventWriter {
    type Writer = &'a EventWriter;

    fn make_writer(&'a self) -> &'a EventWriter {
        self
    }
}

impl io::Write for &EventWriter {
    /// `tracing-subscriber` writes each event with one call.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let chunk = Chunk { lines: one_line(event, self.colour), home: None };
        // A refused chunk has been counted as dropped.
        let _ = self.feed.offer(chunk);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Converts an event to one line. Control characters, which may come from a peer, become `\xHH`, so
/// that an event cannot forge another line. ESC is kept with colours: the subscriber has already
/// escaped all others.
fn one_line(event: &[u8], colour: bool) -> Vec<u8> {
    let event = event.strip_suffix(b"\n").unwrap_or(event);
    let mut line = Vec::with_capacity(event.len() + 1);
    for &byte in event {
        if byte.is_ascii_control() && !(byte == b'\x1b' && colour) {
            line.extend_from_slice(format!("\\x{byte:02X}").as_bytes());
        } else {
            line.push(byte);
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;
    use std::path::PathBuf;

    use tracing::subscriber::with_default;

    use super::*;
    use crate::config::LogTarget;
    use crate::observe::scratch::Scratch;

    /// Timeout of a failing test.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn log(level: LogLevel, path: PathBuf) -> ErrorLog {
        ErrorLog { level, to: LogTarget::File(path), ..ErrorLog::default() }
    }

    #[test]
    fn events_are_written_from_their_level_up() {
        let rows = [
            (LogLevel::Error, &["ERROR e"][..]),
            (LogLevel::Warn, &["ERROR e", "WARN w"]),
            (LogLevel::Info, &["ERROR e", "WARN w", "INFO i"]),
            (LogLevel::Debug, &["ERROR e", "WARN w", "INFO i", "DEBUG d"]),
            (LogLevel::Trace, &["ERROR e", "WARN w", "INFO i", "DEBUG d", "TRACE t"]),
        ];
        for (level, expected) in rows {
            let scratch = Scratch::new("level");
            let path = scratch.path("log");
            let (subscriber, handle, _) = subscriber(&log(level, path.clone()), false).unwrap();
            with_default(subscriber, || {
                tracing::error!("e");
                tracing::warn!("w");
                tracing::info!("i");
                tracing::debug!("d");
                tracing::trace!("t");
            });
            drop(handle);
            let text = fs::read_to_string(path).unwrap();
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), expected.len(), "{level:?}: {text}");
            for (line, end) in lines.into_iter().zip(expected) {
                assert!(line.ends_with(end), "{level:?}: {line}");
                assert!(line.starts_with("20") && line.contains("Z "), "its time: {line}");
            }
        }
    }

    #[test]
    fn an_event_is_one_line_for_any_values() {
        #[rustfmt::skip]
        let rows = [
            (&b"a plain event\n"[..], false, &b"a plain event\n"[..], "as it is"),
            (b"no newline", false, b"no newline\n", "ended"),
            (b"a\nERROR forged\r\tb\n", false, b"a\\x0AERROR forged\\x0D\\x09b\n", "no second line"),
            (b"\x1b[31mred\x1b[0m\n", true, b"\x1b[31mred\x1b[0m\n", "the subscriber's colours"),
            (b"\x1b[31mred\x7f\n", false, b"\\x1B[31mred\\x7F\n", "no colours into a file"),
            ("caf\u{e9}\n".as_bytes(), false, "caf\u{e9}\n".as_bytes(), "text stays readable"),
        ];
        for (event, colour, expected, why) in rows {
            assert_eq!(one_line(event, colour), expected, "{why}");
        }
    }

    #[test]
    fn values_cannot_colour_a_terminal() {
        let scratch = Scratch::new("coloured");
        let path = scratch.path("log");
        let (subscriber, handle, _) =
            subscriber(&log(LogLevel::Info, path.clone()), true).expect("it opens");
        with_default(subscriber, || tracing::warn!("from {}", "\x1b[2Jpeer\nforged"));
        assert!(handle.close(PATIENCE));
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains("\x1b[33m"), "a warning is yellow: {text:?}");
        assert!(!text.contains("\x1b[2J"), "{text:?}");
        assert_eq!(text.lines().count(), 1, "{text:?}");
    }

    #[test]
    fn a_renamed_file_is_reopened() {
        let scratch = Scratch::new("error-rotate");
        let (path, old) = (scratch.path("log"), scratch.path("log.1"));
        let (subscriber, handle, _) =
            subscriber(&log(LogLevel::Info, path.clone()), false).expect("it opens");
        with_default(subscriber, || {
            fs::rename(&path, &old).unwrap();
            handle.reopen();
            tracing::info!("after");
        });
        assert!(handle.close(PATIENCE));
        assert!(fs::read_to_string(path).unwrap().ends_with("after\n"));
        assert_eq!(fs::read_to_string(old).unwrap(), "");
    }

    #[test]
    fn an_unread_pipe_blocks_no_thread() {
        const EVENTS: usize = 20_000;
        let scratch = Scratch::new("error-unread");
        let path = scratch.fifo("log");
        let (subscriber, handle, _) =
            subscriber(&log(LogLevel::Info, path.clone()), false).expect("it opens");
        with_default(subscriber, || (0..EVENTS).for_each(|number| tracing::info!(number)));
        assert!(handle.dropped() > 0);
        assert!(!handle.close(Duration::from_millis(50)), "closed although blocked");
        let mut text = String::new();
        File::open(path).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count() as u64 + handle.dropped(), EVENTS as u64);
    }

    #[test]
    fn a_target_that_cannot_be_opened_is_an_error() {
        let scratch = Scratch::new("error-missing");
        let path = scratch.path("missing/error.log");
        let error = subscriber(&log(LogLevel::Info, path), false).err().expect("no directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
