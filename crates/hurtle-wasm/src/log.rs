//! Standard output and standard error of a component, line by line in the error log.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError};

/// Longest line; the rest of a longer one is cut.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Output of one request; the rest is dropped.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Bytes of one write.
const WRITE_BYTES_MAX: usize = 16 << 10;

/// The output of one request. Its copies write to the same lines.
#[derive(Clone, Debug)]
pub(crate) struct Output(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    /// The name of the application.
    name: Arc<str>,
    /// The begin of a line.
    line: Vec<u8>,
    is_cut: bool,
    /// Bytes that are still accepted.
    room: usize,
}

impl Output {
    pub(crate) fn new(name: &Arc<str>) -> Output {
        let name = Arc::clone(name);
        let lines = Lines { name, line: Vec::new(), is_cut: false, room: OUTPUT_BYTES_MAX };
        Output(Arc::new(Mutex::new(lines)))
    }
}

impl Lines {
    fn write(&mut self, bytes: &[u8]) {
        if self.room == 0 {
            return;
        }
        let accepted = &bytes[..bytes.len().min(self.room)];
        self.room -= accepted.len();
        for piece in accepted.split_inclusive(|&b| b == b'\n') {
            let (text, is_end) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let free = LINE_BYTES_MAX - self.line.len();
            self.is_cut |= text.len() > free;
            self.line.extend_from_slice(&text[..text.len().min(free)]);
            if is_end {
                self.end_line();
            }
        }
        if self.room == 0 {
            self.end_line();
            let name = &self.name;
            tracing::warn!("wasm {name}: more than {OUTPUT_BYTES_MAX} bytes of output are dropped");
        }
    }

    fn end_line(&mut self) {
        let line = mem::take(&mut self.line);
        let cut = if mem::take(&mut self.is_cut) { " [cut]" } else { "" };
        let text = String::from_utf8_lossy(&line);
        let (name, text) = (&self.name, text.trim_end());
        if !text.is_empty() {
            tracing::info!("wasm {name}: {text}{cut}");
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.end_line();
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    /// Only WASI 0.3 uses it, which is not linked.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> Result<(), StreamError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(())
    }

    fn check_write(&mut self) -> Result<usize, StreamError> {
        Ok(WRITE_BYTES_MAX)
    }
}

/// A write never waits.
impl Pollable for Output {
    fn ready<'a, 'f>(&'a mut self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_output_has_a_limit() {
        let output = Output::new(&Arc::from("a"));
        let mut lines = output.0.lock().expect("one thread");
        lines.write(b"a\nb");
        assert_eq!((lines.line.as_slice(), lines.is_cut), (&b"b"[..], false));
        lines.write(&vec![b'x'; LINE_BYTES_MAX]);
        assert_eq!((lines.line.len(), lines.is_cut), (LINE_BYTES_MAX, true));
        lines.write(b"\n");
        assert_eq!((lines.line.len(), lines.is_cut), (0, false));
        lines.write(&vec![b'y'; 2 * OUTPUT_BYTES_MAX]);
        assert_eq!((lines.line.len(), lines.room), (0, 0), "the limit ends the last line");
        lines.write(b"z");
        assert!(lines.line.is_empty(), "the rest is dropped");
    }
}
