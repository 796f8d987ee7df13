//! Copies an application's standard error to the error log, with limits on the line length and on
//! the amount per request.

/// Longest line, in bytes; a longer one is cut.
const LINE_BYTES_MAX: usize = 1 << 10;

/// Most bytes logged for one request.
const LOGGED_BYTES_MAX: usize = 8 << 10;

/// The standard error of one request.
#[derive(Debug)]
pub(super) struct StderrLog {
    name: String,
    line: Vec<u8>,
    logged: usize,
}

impl StderrLog {
    /// Lines are logged with this name.
    pub(super) fn new(name: &str) -> StderrLog {
        StderrLog { name: name.to_owned(), line: Vec::new(), logged: 0 }
    }

    /// Takes a piece and logs its complete lines.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            let room = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(line.trim_ascii());
        if text.is_empty() || self.logged > LOGGED_BYTES_MAX {
            return;
        }
        self.logged += text.len();
        // Control characters could fake a line of the server's own.
        let plain: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        tracing::warn!("{}: {plain}", self.name);
        if self.logged > LOGGED_BYTES_MAX {
            tracing::warn!("{}: more output of this request is not logged", self.name);
        }
    }
}

impl Drop for StderrLog {
    fn drop(&mut self) {
        self.flush();
    }
}
