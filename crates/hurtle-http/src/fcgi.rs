//! FastCGI 1.0 as pure functions: encodes the records of a web server and decodes the records of an
//! application. Input may be split anywhere. The caller moves the bytes and interprets the
//! contents.

use std::fmt;
use std::io::Write as _;

/// Request id of every record: each connection carries one request at a time.
const ID: u16 = 1;

/// Size of a record header, in bytes.
const HEADER_BYTES: usize = 8;

/// Maximum content of one record, in bytes.
pub const CONTENT_BYTES_MAX: usize = 65_535;

const VERSION: u8 = 1;
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// The flag `FCGI_KEEP_CONN`.
const KEEP_CONNECTION: u8 = 1;

/// The role an application plays for a request (FastCGI section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Generates the response.
    Responder = 1,
    /// Decides whether the request may proceed.
    Authorizer = 2,
}

/// Appends the records that begin a request: its role and all its variables. `keep` asks the
/// application to leave the connection open after the request.
pub fn begin(out: &mut Vec<u8>, role: Role, keep: bool, variables: &[(Vec<u8>, Vec<u8>)]) {
    header(out, BEGIN_REQUEST, 8);
    out.extend_from_slice(&[0, role as u8, u8::from(keep) * KEEP_CONNECTION, 0, 0, 0, 0, 0]);
    let mut pairs = Vec::new();
    for (name, value) in variables {
        length(&mut pairs, name.len());
        length(&mut pairs, value.len());
        pairs.extend_from_slice(name);
        pairs.extend_from_slice(value);
    }
    for piece in pairs.chunks(CONTENT_BYTES_MAX) {
        header(out, PARAMS, piece.len());
        out.extend_from_slice(piece);
    }
    header(out, PARAMS, 0);
}

/// Appends the header of a STDIN record; `len` bytes of the request body follow it. `len` is at
/// most [`CONTENT_BYTES_MAX`]; 0 ends the body.
pub fn stdin(out: &mut Vec<u8>, len: usize) {
    header(out, STDIN, len);
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    let [len_high, len_low] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    let [id_high, id_low] = ID.to_be_bytes();
    // Writing to a Vec cannot fail.
    let _ = out.write_all(&[VERSION, kind, id_high, id_low, len_high, len_low, 0, 0]);
}

/// Encodes a length (FastCGI section 3.4): one byte up to 127, else four bytes with the highest bit
/// set.
fn length(out: &mut Vec<u8>, len: usize) {
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let long = u32::try_from(len).unwrap_or(u32::MAX) | 0x8000_0000;
            out.extend_from_slice(&long.to_be_bytes());
        }
    }
}

/// Decodes the records that an application sends.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    kind: u8,
    /// Bytes of the current record's content that have not been read.
    content: usize,
    /// Bytes of the current record's padding that have not been read.
    padding: usize,
}

/// A decoded piece of the record stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of the response, in CGI's format.
    Stdout(&'a [u8]),
    /// A piece of the application's error output.
    Stderr(&'a [u8]),
    /// The request has ended.
    End(EndStatus),
    /// Bytes without meaning for the caller: headers, padding, unknown records.
    Skipped,
}

/// The protocol status of an ended request (FastCGI section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStatus {
    /// The application has handled the request.
    Complete,
    /// The application accepts no further request, on this connection or at all.
    Overloaded,
    /// The application does not support the requested role.
    UnknownRole,
}

/// A malformed record stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The record's version, which is not 1.
    Version(u8),
    /// The record's request id, which belongs to no request.
    Request(u16),
    /// An END_REQUEST record of wrong length or unknown status.
    End,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Version(version) => write!(f, "a record of version {version}, not 1"),
            RecordError::Request(id) => write!(f, "a record of unknown request {id}"),
            RecordError::End => f.write_str("a malformed END_REQUEST record"),
        }
    }
}

impl Decoder {
    /// Decodes the front of `bytes`. Returns an event and the number of bytes it used. `None` means
    /// that more bytes are needed; at most 15 bytes remain unused then.
    ///
    /// # Errors
    /// [`RecordError`] names the defect. The decoder must not be used after an error.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Event<'a>, usize)>, RecordError> {
        if self.content == 0 && self.padding > 0 {
            let skipped = self.padding.min(bytes.len());
            self.padding -= skipped;
            return Ok((skipped > 0).then_some((Event::Skipped, skipped)));
        }
        if self.content == 0 {
            let Some((head, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            self.open(*head)?;
            return Ok(Some((Event::Skipped, HEADER_BYTES)));
        }
        if self.kind == END_REQUEST {
            let Some((end, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            self.content = 0;
            return Ok(Some((Event::End(ended(end[4])?), HEADER_BYTES)));
        }
        let (piece, _) = bytes.split_at(self.content.min(bytes.len()));
        if piece.is_empty() {
            return Ok(None);
        }
        self.content -= piece.len();
        let event = match self.kind {
            STDOUT => Event::Stdout(piece),
            STDERR => Event::Stderr(piece),
            // FastCGI section 3.3: unknown record types are ignored.
            _ => Event::Skipped,
        };
        Ok(Some((event, piece.len())))
    }

    /// Starts reading a record.
    fn open(&mut self, head: [u8; HEADER_BYTES]) -> Result<(), RecordError> {
        let [version, kind, id_high, id_low, len_high, len_low, padding, _] = head;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let id = u16::from_be_bytes([id_high, id_low]);
        // FastCGI section 3.3: records with request id 0 manage the connection and belong to no
        // request.
        if id != ID && id != 0 {
            return Err(RecordError::Request(id));
        }
        self.kind = if id == 0 { 0 } else { kind };
        self.content = usize::from(u16::from_be_bytes([len_high, len_low]));
        self.padding = usize::from(padding);
        if self.kind == END_REQUEST && self.content != HEADER_BYTES {
            return Err(RecordError::End);
        }
        Ok(())
    }
}

/// Decodes the protocol status (FastCGI section 5.5). The application's exit status is ignored.
fn ended(status: u8) -> Result<EndStatus, RecordError> {
    match status {
        0 => Ok(EndStatus::Complete),
        1 | 2 => Ok(EndStatus::Overloaded),
        3 => Ok(EndStatus::UnknownRole),
        _ => Err(RecordError::End),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `bytes` in pieces: joined output, joined errors, and the end status.
    fn read(pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>, Option<Result<EndStatus, RecordError>>) {
        let (mut output, mut complaints) = (Vec::new(), Vec::new());
        let mut decoder = Decoder::default();
        let mut held = Vec::new();
        for piece in pieces {
            held.extend_from_slice(piece);
            loop {
                let (event, len) = match decoder.next(&held) {
                    Err(flaw) => return (output, complaints, Some(Err(flaw))),
                    Ok(None) => break,
                    Ok(Some(next)) => next,
                };
                match event {
                    Event::Stdout(bytes) => output.extend_from_slice(bytes),
                    Event::Stderr(bytes) => complaints.extend_from_slice(bytes),
                    Event::End(end) => return (output, complaints, Some(Ok(end))),
                    Event::Skipped => {}
                }
                held.drain(..len);
            }
            assert!(held.len() < 16, "no more is kept than a header");
        }
        (output, complaints, None)
    }

    fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
        let [len_high, len_low] = (content.len() as u16).to_be_bytes();
        let [id_high, id_low] = id.to_be_bytes();
        let head = [VERSION, kind, id_high, id_low, len_high, len_low, padding, 0];
        [&head[..], content, &vec![7; usize::from(padding)]].concat()
    }

    #[test]
    fn records_are_decoded_or_refused() {
        let end = |status| record(END_REQUEST, 1, &[0, 0, 0, 9, status, 0, 0, 0], 3);
        let table: [(&str, Vec<u8>, Option<Result<EndStatus, RecordError>>); 9] = [
            ("an end", end(0), Some(Ok(EndStatus::Complete))),
            ("no room", end(2), Some(Ok(EndStatus::Overloaded))),
            ("another role", end(3), Some(Ok(EndStatus::UnknownRole))),
            ("an end of no kind", end(4), Some(Err(RecordError::End))),
            ("a short end", record(END_REQUEST, 1, &[0; 7], 0), Some(Err(RecordError::End))),
            ("another version", vec![2; 8], Some(Err(RecordError::Version(2)))),
            ("another request", record(STDOUT, 7, b"x", 0), Some(Err(RecordError::Request(7)))),
            ("about the connection", record(10, 0, b"x", 1), None),
            ("of no known type", record(77, 1, b"x", 1), None),
        ];
        for (sentence, bytes, expected) in table {
            assert_eq!(read(&[&bytes]).2, expected, "{sentence}");
        }
    }

    #[test]
    fn a_request_is_encoded_as_specified() {
        let mut out = Vec::new();
        let long = vec![b'v'; 200];
        begin(&mut out, Role::Responder, true, &[(b"A".to_vec(), b"b".to_vec())]);
        assert_eq!(out[..16], [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(out[16..28], [1, 4, 0, 1, 0, 4, 0, 0, 1, 1, b'A', b'b']);
        assert_eq!(out[28..], [1, 4, 0, 1, 0, 0, 0, 0]);
        out.clear();
        begin(&mut out, Role::Authorizer, false, &[(b"A".to_vec(), long)]);
        assert_eq!(out[8..16], [0, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(out[24..30], [1, 0x80, 0, 0, 200, b'A'], "a long length takes four bytes");
    }

    proptest! {
        #[test]
        fn any_split_reads_the_same(
            records in prop::collection::vec(
                (prop::sample::select(vec![STDOUT, STDERR, 10, 77]), prop::collection::vec(any::<u8>(), 0..40), 0u8..9),
                0..8),
            ended in any::<bool>(),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let mut bytes = Vec::new();
            let (mut output, mut complaints) = (Vec::new(), Vec::new());
            for (kind, content, padding) in &records {
                bytes.extend(record(*kind, 1, content, *padding));
                if *kind == STDOUT { output.extend_from_slice(content) }
                if *kind == STDERR { complaints.extend_from_slice(content) }
            }
            if ended { bytes.extend(record(END_REQUEST, 1, &[0; 8], 0)) }
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut from = 0;
            let pieces: Vec<_> = cuts.iter().map(|to| { let p = &bytes[from..*to]; from = *to; p }).collect();
            prop_assert_eq!(read(&pieces), (output, complaints, ended.then_some(Ok(EndStatus::Complete))));
        }

        #[test]
        fn any_bytes_are_decoded_the_same_in_two_pieces(
            bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..80,
        ) {
            let (one, two) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(read(&[one, two]), read(&[&bytes]));
        }
    }
}
