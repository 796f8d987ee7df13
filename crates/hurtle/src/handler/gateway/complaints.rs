//! What an application writes to its standard error, on its way to the error log: by lines, none of
//! them long, and of one request not many.

/// A longer line is cut, in bytes.
const LINE_BYTES_MAX: usize = 1 << 10;

/// What is logged of one request, in bytes.
const LOGGED_BYTES_MAX: usize = 8 << 10;

/// The complaints of one request.
#[derive(Debug)]
pub(super) struct Complaints {
    whom: String,
    line: Vec<u8>,
    logged: usize,
}

impl Complaints {
    /// Of this application.
    pub(super) fn of(whom: &str) -> Complaints {
        Complaints { whom: whom.to_owned(), line: Vec::new(), logged: 0 }
    }

    /// Takes a piece; what is whole of it is logged.
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
        // What a client made it write must not look like a line of the server's.
        let plain: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        tracing::warn!("{}: {plain}", self.whom);
        if self.logged > LOGGED_BYTES_MAX {
            tracing::warn!("{}: it complains of more in this request", self.whom);
        }
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        self.flush();
    }
}
