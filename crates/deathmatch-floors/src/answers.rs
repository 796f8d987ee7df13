//! Responses: files of a directory by their paths as written, in memory or open, and the sending of
//! one on a socket that does not block.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Larger files go by sendfile: from here on it is cheaper than sending from memory.
const MEMORY_BYTES_MAX: u64 = 32 * 1024;
/// Still larger files leave in turns, between which other connections are served.
const AT_ONCE_BYTES_MAX: u64 = 1024 * 1024;
/// Files of a directory kept open or in memory. If there are more, each is opened per request.
const KEPT_MAX: usize = 4096;
/// Bytes of a file or an upload in one turn.
pub const TURN_BYTES: usize = 64 * 1024;
/// Depth of nested folders.
const DEPTH_MAX: u32 = 16;
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// The response for a path.
#[derive(Debug)]
enum Answer {
    Kept(Response),
    /// Made from this file when requested.
    Found(PathBuf),
}

/// A whole response, or a head and the file behind it.
#[derive(Debug)]
struct Response {
    bytes: Vec<u8>,
    file: Option<(Arc<File>, u64)>,
}

/// The responses with the files of a directory.
#[derive(Debug)]
pub struct Answers {
    /// A line in all of them, or nothing.
    field: String,
    by_path: HashMap<Vec<u8>, Answer>,
}

/// A response being sent.
#[derive(Debug)]
pub struct Sending<'a> {
    bytes: Cow<'a, [u8]>,
    /// Number of bytes sent.
    sent: usize,
    file: Option<(Arc<File>, u64, u64)>, // the file, where in it, its end
}

impl Answers {
    /// Opens or reads the files beneath `root`. `field` is a field line of each response, or empty.
    ///
    /// # Errors
    /// A file or directory cannot be read.
    pub fn read(root: &Path, field: &str) -> io::Result<Answers> {
        let mut answers = Answers { field: field.to_owned(), by_path: HashMap::new() };
        answers.read_folder(root, "/", DEPTH_MAX)?;
        Ok(answers)
    }

    fn read_folder(&mut self, folder: &Path, path: &str, depth: u32) -> io::Result<()> {
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        for entry in &entries {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let meta = fs::metadata(entry.path())?;
            if meta.is_file() {
                let answer = match entries.len() {
                    ..=KEPT_MAX => Answer::Kept(self.make(&entry.path(), meta.len())?),
                    _ => Answer::Found(entry.path()),
                };
                self.by_path.insert(format!("{path}{name}").into_bytes(), answer);
            } else if meta.is_dir() && depth > 0 {
                self.read_folder(&entry.path(), &format!("{path}{name}/"), depth - 1)?;
            }
        }
        Ok(())
    }

    fn make(&self, path: &Path, length: u64) -> io::Result<Response> {
        let kind = match path.extension().and_then(|end| end.to_str()) {
            Some("html") => "text/html",
            Some("txt") => "text/plain",
            Some("css") => "text/css",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        };
        let field = &self.field;
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{field}Content-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        let file = if length > MEMORY_BYTES_MAX {
            Some((Arc::new(File::open(path)?), length))
        } else {
            bytes.extend(fs::read(path)?);
            None
        };
        Ok(Response { bytes, file })
    }

    /// The response to `GET PATH HTTP/1.1`; the path is used as written.
    pub fn find(&self, head: &[u8]) -> Sending<'_> {
        let path = head.split(|&b| b == b' ').nth(1).unwrap_or_default();
        let file = |file: &Option<(Arc<File>, u64)>| file.clone().map(|(file, end)| (file, 0, end));
        match self.by_path.get(path) {
            Some(Answer::Kept(kept)) => {
                Sending { bytes: (&kept.bytes).into(), sent: 0, file: file(&kept.file) }
            }
            Some(Answer::Found(path)) => {
                match fs::metadata(path).and_then(|meta| self.make(path, meta.len())) {
                    Ok(made) => {
                        Sending { bytes: made.bytes.into(), sent: 0, file: file(&made.file) }
                    }
                    Err(_) => Sending::from_memory(NOT_FOUND),
                }
            }
            None => Sending::from_memory(NOT_FOUND),
        }
    }
}

impl<'a> Sending<'a> {
    /// A response of these bytes.
    pub fn from_memory(bytes: &'a [u8]) -> Sending<'a> {
        Sending { bytes: bytes.into(), sent: 0, file: None }
    }

    /// The bytes that are left, if the whole response is in memory that lives for `'a`.
    pub fn rest(&self) -> Option<&'a [u8]> {
        match (&self.bytes, &self.file) {
            (Cow::Borrowed(bytes), None) => Some(&bytes[self.sent..]),
            _ => None,
        }
    }

    /// Counts bytes of `rest` that have been sent; `true` if some are left.
    pub fn count(&mut self, bytes: usize) -> bool {
        self.sent = self.bytes.len().min(self.sent + bytes);
        self.sent < self.bytes.len()
    }

    /// Sends what is left. A large file leaves in turns.
    ///
    /// # Errors
    /// `AGAIN` if the rest is to be sent once the socket is writable; others end the connection.
    pub fn send(&mut self, stream: impl AsFd) -> rustix::io::Result<()> {
        // With MSG_MORE the head waits for the file, so that both leave in one segment.
        let more = if self.file.is_some() { SendFlags::MORE } else { SendFlags::empty() };
        while self.sent < self.bytes.len() {
            self.sent += send(&stream, &self.bytes[self.sent..], SendFlags::NOSIGNAL | more)?;
        }
        let Some((file, at, end)) = &mut self.file else { return Ok(()) };
        let in_turns = *end > AT_ONCE_BYTES_MAX;
        while *at < *end {
            let rest = usize::try_from(*end - *at).unwrap_or(usize::MAX);
            let most = if in_turns { rest.min(TURN_BYTES) } else { rest };
            // The file has become shorter since it was opened.
            if sendfile(&stream, &*file, Some(at), most)? == 0 {
                return Err(Errno::IO);
            }
            if in_turns && *at < *end {
                return Err(Errno::AGAIN);
            }
        }
        Ok(())
    }
}
