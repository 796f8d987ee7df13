//! Collects the server's log. All tests of this process share one log, so each looks for its own
//! lines.

use std::io;
use std::sync::{Mutex, Once};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl io::Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(event);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Collects the log of this process from now on; a second call does nothing.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        tracing_subscriber::fmt().compact().with_ansi(false).with_writer(|| Lines).init();
    });
}

/// The lines that contain `text`.
pub(crate) fn lines_with(text: &str) -> Vec<String> {
    let lines = String::from_utf8(LINES.lock().unwrap().clone()).unwrap();
    lines.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}
