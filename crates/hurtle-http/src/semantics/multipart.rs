//! multipart/form-data (RFC 7578, RFC 2046 section 5.1) as forms send it: a parser that is given
//! the body in pieces of any size, and holds at most one piece and a delimiter.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem::{self, Finder};

/// Longest boundary, in bytes (RFC 2046 section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// Maximum size of a part's head, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Maximum number of spaces after a delimiter (transport padding).
const PADDING_BYTES_MAX: usize = 64;

/// The beginning of a delimiter, before the boundary.
const DASHES: &[u8] = b"\r\n--";

/// A parser of one body.
#[derive(Debug)]
pub struct Multipart {
    delimiter: Finder<'static>,
    state: MultipartState,
    unread: BytesMut,
}

/// Next element of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The head of a part.
    Part(PartHead),
    /// Bytes of the part; not empty.
    Data(Bytes),
    /// The end of the part.
    PartEnd,
}

/// The head of a part: the parameters of its Content-Disposition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// Name of the form's control.
    pub name: Vec<u8>,
    /// Name of the file as the client sent it, perhaps with directories; `None` if the part is no
    /// file.
    pub file_name: Option<Vec<u8>>,
}

/// A body that is no multipart (RFC 2046 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipartError {
    /// A delimiter is followed by other bytes.
    Delimiter,
    /// The head of a part is longer than 8 KiB.
    LongHead,
    /// The head of a part has no Content-Disposition of form-data.
    Disposition,
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MultipartError::Delimiter => "a delimiter is not followed by a line break",
            MultipartError::LongHead => "the head of a part is too long",
            MultipartError::Disposition => "a part has no Content-Disposition of form-data",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MultipartState {
    /// Before the first delimiter.
    Preamble,
    Delimited,
    /// At the line break before a part's head.
    Head,
    /// In the data of a part.
    Data,
    /// After the last delimiter.
    Complete,
}

/// Returns the boundary of a Content-Type; `None` if that is not multipart/form-data with a
/// boundary.
pub fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let (media_type, params) = split_once(content_type, b';')?;
    if !media_type.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data") {
        return None;
    }
    let boundary = parameter(params, b"boundary")?;
    let is_valid = (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
        && boundary.iter().all(|byte| matches!(byte, b' '..=b'~'));
    is_valid.then_some(boundary)
}

impl Multipart {
    /// A parser for a body with this boundary.
    pub fn new(boundary: &[u8]) -> Multipart {
        let delimiter = Finder::new(&[DASHES, boundary].concat()).into_owned();
        // The first delimiter may be at the start of the body, without a line break.
        Multipart {
            delimiter,
            state: MultipartState::Preamble,
            unread: BytesMut::from(&b"\r\n"[..]),
        }
    }

    /// Adds the next bytes of the body. Call `next_event` until it returns `None` before the next
    /// ones.
    pub fn push(&mut self, data: &[u8]) {
        if self.state != MultipartState::Complete {
            self.unread.extend_from_slice(data);
        }
    }

    /// True after the last delimiter. A body that ends earlier is incomplete.
    pub fn is_complete(&self) -> bool {
        self.state == MultipartState::Complete
    }

    /// Returns the next element; `None` if it needs more bytes, or the body is complete.
    ///
    /// # Errors
    /// The body is malformed.
    pub fn next_event(&mut self) -> Result<Option<Event>, MultipartError> {
        loop {
            match self.state {
                MultipartState::Preamble => {
                    if !self.skip_preamble() {
                        return Ok(None);
                    }
                    self.state = MultipartState::Delimited;
                }
                MultipartState::Delimited => match self.after_delimiter()? {
                    None => return Ok(None),
                    Some(state) => self.state = state,
                },
                MultipartState::Head => {
                    let head = self.head()?;
                    if head.is_some() {
                        self.state = MultipartState::Data;
                    }
                    return Ok(head.map(Event::Part));
                }
                MultipartState::Data => {
                    let event = self.data();
                    if event == Some(Event::PartEnd) {
                        self.state = MultipartState::Delimited;
                    }
                    return Ok(event);
                }
                MultipartState::Complete => {
                    self.unread.clear();
                    return Ok(None);
                }
            }
        }
    }

    fn skip_preamble(&mut self) -> bool {
        let found = self.delimiter.find(&self.unread);
        let end = match found {
            Some(at) => at + self.delimiter.needle().len(),
            None => self.unread.len().saturating_sub(self.delimiter.needle().len() - 1),
        };
        self.unread.advance(end);
        found.is_some()
    }

    fn after_delimiter(&mut self) -> Result<Option<MultipartState>, MultipartError> {
        if self.unread.starts_with(b"--") {
            return Ok(Some(MultipartState::Complete));
        }
        let padding = self.unread.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        match &self.unread[padding..] {
            _ if padding > PADDING_BYTES_MAX => Err(MultipartError::Delimiter),
            [b'\r', b'\n', ..] => {
                self.unread.advance(padding);
                Ok(Some(MultipartState::Head))
            }
            [] | [b'\r'] => Ok(None),
            [b'-'] if padding == 0 => Ok(None),
            _ => Err(MultipartError::Delimiter),
        }
    }

    fn head(&mut self) -> Result<Option<PartHead>, MultipartError> {
        const END: &[u8] = b"\r\n\r\n";
        let window = self.unread.len().min(HEAD_BYTES_MAX);
        match memmem::find(&self.unread[..window], END) {
            None if self.unread.len() >= HEAD_BYTES_MAX => Err(MultipartError::LongHead),
            None => Ok(None),
            Some(at) => {
                let head = PartHead::parse(&self.unread[..at]);
                self.unread.advance(at + END.len());
                head.map(Some).ok_or(MultipartError::Disposition)
            }
        }
    }

    fn data(&mut self) -> Option<Event> {
        let end = match self.delimiter.find(&self.unread) {
            Some(0) => {
                self.unread.advance(self.delimiter.needle().len());
                return Some(Event::PartEnd);
            }
            Some(at) => at,
            // A delimiter may have begun.
            None => self.unread.len().saturating_sub(self.delimiter.needle().len() - 1),
        };
        (end > 0).then(|| Event::Data(self.unread.split_to(end).freeze()))
    }
}

impl PartHead {
    fn parse(head: &[u8]) -> Option<PartHead> {
        head.split(|byte| *byte == b'\n').find_map(|line| {
            let (name, value) = split_once(line, b':')?;
            if !name.trim_ascii().eq_ignore_ascii_case(b"content-disposition") {
                return None;
            }
            let (kind, params) = split_once(value, b';')?;
            if !kind.trim_ascii().eq_ignore_ascii_case(b"form-data") {
                return None;
            }
            let name = unescaped(parameter(params, b"name")?);
            let file_name = parameter(params, b"filename").map(unescaped);
            // RFC 7578 section 4.2 forbids it; without it the file would be a control.
            if file_name.is_none() && parameter(params, b"filename*").is_some() {
                return None;
            }
            Some(PartHead { name, file_name })
        })
    }
}

/// Returns the value of a parameter, without its quotes. Browsers escape no backslash, so it is
/// literal.
fn parameter<'a>(mut params: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    loop {
        let (name, rest) = split_once(params, b'=')?;
        let rest = rest.trim_ascii_start();
        let (value, after) = match rest.strip_prefix(b"\"") {
            Some(quoted) => split_once(quoted, b'"')?,
            None => {
                let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
                (rest[..end].trim_ascii(), &rest[end..])
            }
        };
        let name = name.trim_ascii_start();
        let name = name.strip_prefix(b";").unwrap_or(name);
        if name.trim_ascii().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        params = after;
    }
}

/// Decodes the three escapes that browsers write in names (WHATWG HTML, multipart/form-data
/// encoding algorithm).
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        let (byte, after) = match tail {
            [b'2', b'2', after @ ..] if *first == b'%' => (b'"', after),
            [b'0', b'D' | b'd', after @ ..] if *first == b'%' => (b'\r', after),
            [b'0', b'A' | b'a', after @ ..] if *first == b'%' => (b'\n', after),
            after => (*first, after),
        };
        plain.push(byte);
        rest = after;
    }
    plain
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(at, bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A part: its control, its file name and its content.
    type Part = (Vec<u8>, Option<Vec<u8>>, Vec<u8>);

    /// Parses a body in pieces of these sizes, then the rest in one.
    fn parse(body: &[u8], sizes: &[usize]) -> Result<Option<Vec<Part>>, MultipartError> {
        let mut parser = Multipart::new(b"AaB03x");
        let (mut parts, mut rest) = (Vec::<Part>::new(), body);
        for size in sizes.iter().copied().chain([usize::MAX]) {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            parser.push(piece);
            while let Some(event) = parser.next_event()? {
                match event {
                    Event::Part(head) => parts.push((head.name, head.file_name, vec![])),
                    Event::Data(data) => {
                        assert!(!data.is_empty());
                        parts.last_mut().unwrap().2.extend_from_slice(&data);
                    }
                    Event::PartEnd => {}
                }
            }
        }
        Ok(parser.is_complete().then_some(parts))
    }

    const FORM: &[u8] = b"preamble\r\n--AaB03x \r\ncontent-disposition: form-data; name=\"replace\"\r\n\
        \r\n1\r\n--AaB03x\r\nContent-Type: text/plain\r\nContent-Disposition: Form-Data; \
        name=file; filename=\"a;b=%22c%22\\.txt\"\r\n\r\none\r\n--AaB03\r\n\r\n--AaB03x\r\n\
        Content-Disposition: form-data; filename=\"\"; name=\"file\"\r\n\r\n\r\n--AaB03x--\r\nepilogue";

    #[test]
    fn a_form_has_parts() {
        let parts = parse(FORM, &[]).unwrap().unwrap();
        let expected: [Part; 3] = [
            (b"replace".into(), None, b"1".into()),
            (b"file".into(), Some(b"a;b=\"c\"\\.txt".into()), b"one\r\n--AaB03\r\n".into()),
            (b"file".into(), Some(b"".into()), b"".into()),
        ];
        assert_eq!(parts, expected);
        assert_eq!(parse(b"--AaB03x--", &[]), Ok(Some(vec![])), "a form without controls");
        assert_eq!(parse(&FORM[..FORM.len() - 12], &[]), Ok(None), "it has no last delimiter");
    }

    #[test]
    fn malformed_bodies() {
        let long = [&b"--AaB03x\r\nX: "[..], &[b'x'; HEAD_BYTES_MAX]].concat();
        let rows: [(&[u8], MultipartError); 6] = [
            (b"--AaB03xy\r\n", MultipartError::Delimiter),
            (b"--AaB03x\r\n\r\nno head", MultipartError::Disposition),
            (b"--AaB03x\r\nX: y\r\n\r\n", MultipartError::Disposition),
            (
                b"--AaB03x\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n",
                MultipartError::Disposition,
            ),
            // Regression: the file was a control, and lost.
            (
                b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"; filename*=utf-8''b\r\n\r\n",
                MultipartError::Disposition,
            ),
            (&long, MultipartError::LongHead),
        ];
        for (body, expected) in rows {
            assert_eq!(
                parse(body, &[]),
                Err(expected),
                "{}",
                body[..20.min(body.len())].escape_ascii()
            );
        }
    }

    #[test]
    fn boundaries() {
        let rows: [(&str, Option<&str>); 7] = [
            ("multipart/form-data; boundary=AaB03x", Some("AaB03x")),
            ("Multipart/Form-Data;charset=utf-8; Boundary=\"a b\"", Some("a b")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/mixed; boundary=a", None),
            ("multipart/form-data; boundary=\"unclosed", None),
            ("multipart/form-data; x=\"boundary=no\"; boundary=yes", Some("yes")),
        ];
        for (field, expected) in rows {
            assert_eq!(boundary(field.as_bytes()), expected.map(str::as_bytes), "{field}");
        }
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        assert_eq!(boundary(long.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(sizes in prop::collection::vec(0_usize..40, 0..60)) {
            prop_assert_eq!(parse(FORM, &sizes), parse(FORM, &[]));
        }

        #[test]
        fn any_content_arrives(
            content: Vec<u8>,
            sizes in prop::collection::vec(0_usize..40, 0..20),
        ) {
            prop_assume!(memmem::find(&content, b"--AaB03x").is_none());
            let head = &b"--AaB03x\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n"[..];
            let body = [head, &content, b"\r\n--AaB03x--\r\n"].concat();
            let parts = parse(&body, &sizes).unwrap().unwrap();
            prop_assert_eq!(parts, vec![(b"f".to_vec(), None, content)]);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(
            body: Vec<u8>,
            sizes in prop::collection::vec(0_usize..40, 0..20),
        ) {
            let body = [b"--AaB03x\r\n", &body[..]].concat();
            prop_assert_eq!(parse(&body, &sizes).is_ok(), parse(&body, &[]).is_ok());
        }
    }
}
