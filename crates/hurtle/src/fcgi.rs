//! FastCGI 1.0 as pure functions: the records a web server writes, and those it reads from an
//! application, in whatever pieces they come. Sockets, and what the contents mean, are others'.

use std::fmt;
use std::io::Write as _;

/// The one request of a connection: none is ever multiplexed.
const ID: u16 = 1;

/// A record's header.
const HEADER_BYTES: usize = 8;

/// The longest content of one record.
pub const CONTENT_BYTES_MAX: usize = 65_535;

const VERSION: u8 = 1;
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// FCGI_KEEP_CONN.
const KEEP_CONNECTION: u8 = 1;

/// What an application is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It answers.
    Responder = 1,
    /// It says whether a request may be answered by others.
    Authorizer = 2,
}

/// Appends the beginning of a request: its role, and all its variables. `keep`: the application
/// leaves the connection open afterwards.
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

/// Appends the header of a piece of the request's body, of at most `CONTENT_BYTES_MAX` bytes, which
/// follow it; of none: its end.
pub fn stdin(out: &mut Vec<u8>, len: usize) {
    header(out, STDIN, len);
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    let [len_high, len_low] = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    let [id_high, id_low] = ID.to_be_bytes();
    // Writing into a Vec cannot fail.
    let _ = out.write_all(&[VERSION, kind, id_high, id_low, len_high, len_low, 0, 0]);
}

/// FastCGI 3.4: one byte up to 127, four with the highest bit set beyond.
fn length(out: &mut Vec<u8>, len: usize) {
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let long = u32::try_from(len).unwrap_or(u32::MAX) | 0x8000_0000;
            out.extend_from_slice(&long.to_be_bytes());
        }
    }
}

/// Reads what an application sends.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    kind: u8,
    /// Bytes of the record's content that are still to come.
    content: usize,
    /// The same of what is behind it.
    padding: usize,
}

/// What an application has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A piece of its answer, as CGI has it.
    Output(&'a [u8]),
    /// A piece of its complaints.
    Complaint(&'a [u8]),
    /// The request is over.
    End(Ended),
    /// Nothing of interest.
    Nothing,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The application has answered.
    Complete,
    /// It has no room: it takes no second request on a connection, or has too many.
    Overloaded,
    /// It is not what it was asked to be.
    UnknownRole,
}

/// What makes bytes no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Another version than 1.
    Version(u8),
    /// It speaks of a request that there is not.
    Request(u16),
    /// An end of another length, or of no known kind.
    End,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Version(version) => write!(f, "a record of version {version}, not 1"),
            Flaw::Request(id) => write!(f, "a record of request {id}, which there is not"),
            Flaw::End => f.write_str("a malformed end of the request"),
        }
    }
}

impl Decoder {
    /// Reads on at the front of `bytes`; with what was said comes how many bytes it took. `None`:
    /// more must come first, of which at most 16 bytes have to be kept.
    ///
    /// # Errors
    /// See `Flaw`; nothing may be read after one.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Said<'a>, usize)>, Flaw> {
        if self.content == 0 && self.padding > 0 {
            let skipped = self.padding.min(bytes.len());
            self.padding -= skipped;
            return Ok((skipped > 0).then_some((Said::Nothing, skipped)));
        }
        if self.content == 0 {
            let Some((head, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            self.open(*head)?;
            return Ok(Some((Said::Nothing, HEADER_BYTES)));
        }
        if self.kind == END_REQUEST {
            let Some((end, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
                return Ok(None);
            };
            self.content = 0;
            return Ok(Some((Said::End(ended(end[4])?), HEADER_BYTES)));
        }
        let (piece, _) = bytes.split_at(self.content.min(bytes.len()));
        if piece.is_empty() {
            return Ok(None);
        }
        self.content -= piece.len();
        let said = match self.kind {
            STDOUT => Said::Output(piece),
            STDERR => Said::Complaint(piece),
            // FastCGI 3.3: what is not known is passed over.
            _ => Said::Nothing,
        };
        Ok(Some((said, piece.len())))
    }

    /// Begins a record.
    fn open(&mut self, head: [u8; HEADER_BYTES]) -> Result<(), Flaw> {
        let [version, kind, id_high, id_low, len_high, len_low, padding, _] = head;
        if version != VERSION {
            return Err(Flaw::Version(version));
        }
        let id = u16::from_be_bytes([id_high, id_low]);
        // FastCGI 3.3: what is said under 0 is about no request.
        if id != ID && id != 0 {
            return Err(Flaw::Request(id));
        }
        self.kind = if id == 0 { 0 } else { kind };
        self.content = usize::from(u16::from_be_bytes([len_high, len_low]));
        self.padding = usize::from(padding);
        if self.kind == END_REQUEST && self.content != HEADER_BYTES {
            return Err(Flaw::End);
        }
        Ok(())
    }
}

/// FastCGI 5.5: what the protocol says of the end; what the program says is its own business.
fn ended(status: u8) -> Result<Ended, Flaw> {
    match status {
        0 => Ok(Ended::Complete),
        1 | 2 => Ok(Ended::Overloaded),
        3 => Ok(Ended::UnknownRole),
        _ => Err(Flaw::End),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that was said, pieces of one kind joined, and what came of it.
    fn read(pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>, Option<Result<Ended, Flaw>>) {
        let (mut output, mut complaints) = (Vec::new(), Vec::new());
        let mut decoder = Decoder::default();
        let mut held = Vec::new();
        for piece in pieces {
            held.extend_from_slice(piece);
            loop {
                let (said, len) = match decoder.next(&held) {
                    Err(flaw) => return (output, complaints, Some(Err(flaw))),
                    Ok(None) => break,
                    Ok(Some(next)) => next,
                };
                match said {
                    Said::Output(bytes) => output.extend_from_slice(bytes),
                    Said::Complaint(bytes) => complaints.extend_from_slice(bytes),
                    Said::End(end) => return (output, complaints, Some(Ok(end))),
                    Said::Nothing => {}
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
    fn an_answer_is_read_and_what_is_none_is_told() {
        let end = |status| record(END_REQUEST, 1, &[0, 0, 0, 9, status, 0, 0, 0], 3);
        let table: [(&str, Vec<u8>, Option<Result<Ended, Flaw>>); 9] = [
            ("an end", end(0), Some(Ok(Ended::Complete))),
            ("no room", end(2), Some(Ok(Ended::Overloaded))),
            ("another role", end(3), Some(Ok(Ended::UnknownRole))),
            ("an end of no kind", end(4), Some(Err(Flaw::End))),
            ("a short end", record(END_REQUEST, 1, &[0; 7], 0), Some(Err(Flaw::End))),
            ("another version", vec![2; 8], Some(Err(Flaw::Version(2)))),
            ("another request", record(STDOUT, 7, b"x", 0), Some(Err(Flaw::Request(7)))),
            ("about the connection", record(10, 0, b"x", 1), None),
            ("of no known type", record(77, 1, b"x", 1), None),
        ];
        for (sentence, bytes, expected) in table {
            assert_eq!(read(&[&bytes]).2, expected, "{sentence}");
        }
    }

    #[test]
    fn a_request_begins_as_the_specification_has_it() {
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
            prop_assert_eq!(read(&pieces), (output, complaints, ended.then_some(Ok(Ended::Complete))));
        }

        #[test]
        fn whatever_comes_is_read_the_same_in_two_pieces(
            bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..80,
        ) {
            let (one, two) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(read(&[one, two]), read(&[&bytes]));
        }
    }
}
