//! Heads of answers that were read lately. Those of one file differ in their Date and nothing else,
//! so what one says is what the last one said, at another time: it need not be read again.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::io;

use hashbrown::DefaultHashBuilder;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::h1::restate::{self, Ends};

/// Places for them: the newest in each.
const PLACES: usize = 64;

/// Longer ones are read each time, in bytes.
const HEAD_BYTES_MAX: usize = 1 << 10;

/// Where a Date is that can be told from the rest: it is the first field, as this server writes it.
const DATE: &[u8] = b"Date: ";
const DATE_BYTES: usize = 29;

thread_local! {
    static LATELY: RefCell<Heads> = RefCell::default();
}

/// What a head says: status, fields, and where the body ends.
pub(super) type Said = (StatusCode, HeaderMap, Ends);

/// One worker's.
#[derive(Default)]
struct Heads {
    places: Vec<Place>,
    hasher: DefaultHashBuilder,
}

#[derive(Default)]
struct Place {
    /// Of who came last: only who comes twice in a row is worth being kept.
    hash: u64,
    known: Option<Known>,
}

/// One as it was sent last.
struct Known {
    head: Box<[u8]>,
    said: Said,
}

/// A whole head that may be known.
#[derive(Clone, Copy)]
struct Asked<'a> {
    head: &'a [u8],
    /// Where its Date is.
    at: usize,
    hash: u64,
}

/// Reads the head of an answer that this server writes, and where it ends. `None`: it is not whole.
///
/// # Errors
/// It is no such head.
pub(super) fn read(bytes: &[u8]) -> io::Result<Option<(Said, usize)>> {
    LATELY.with_borrow_mut(|lately| lately.read(bytes))
}

fn date_at(head: &[u8]) -> Option<usize> {
    let at = memchr::memchr(b'\n', head)? + 1;
    let rest = head[at..].strip_prefix(DATE)?.get(DATE_BYTES..)?;
    rest.starts_with(b"\r\n").then_some(at + DATE.len())
}

impl Heads {
    fn read(&mut self, bytes: &[u8]) -> io::Result<Option<(Said, usize)>> {
        // Usually nothing is behind it. Of one that is known the end is known, too.
        let asked = bytes.ends_with(b"\r\n\r\n").then(|| self.asked(bytes)).flatten();
        if let Some(said) = asked.and_then(|asked| self.known(asked)) {
            return Ok(Some((said, bytes.len())));
        }
        let Some(end) = restate::end_of_head(bytes) else { return Ok(None) };
        if end < bytes.len() {
            return self.read(&bytes[..end]);
        }
        let said = restate::answer(bytes).ok_or(io::ErrorKind::InvalidData)?;
        if let Some(asked) = asked {
            self.note(asked, &said);
        }
        Ok(Some((said, end)))
    }

    fn asked<'a>(&self, head: &'a [u8]) -> Option<Asked<'a>> {
        let at = date_at(head).filter(|_| head.len() <= HEAD_BYTES_MAX)?;
        let hash = self.hasher.hash_one((&head[..at], &head[at + DATE_BYTES..]));
        Some(Asked { head, at, hash })
    }

    fn known(&mut self, asked: Asked<'_>) -> Option<Said> {
        let place = self.places.get_mut(asked.hash as usize % PLACES)?;
        place.known.as_mut().filter(|_| place.hash == asked.hash)?.at_that_time(asked)
    }

    fn note(&mut self, asked: Asked<'_>, said: &Said) {
        if self.places.is_empty() {
            self.places.resize_with(PLACES, Place::default);
        }
        let place = &mut self.places[asked.hash as usize % PLACES];
        let is_second = place.hash == asked.hash;
        let known = is_second.then(|| Known { head: asked.head.into(), said: said.clone() });
        *place = Place { hash: asked.hash, known };
    }
}

impl Known {
    /// What it says, if it differs from that one in its Date only: it then has that.
    fn at_that_time(&mut self, Asked { head, at, .. }: Asked<'_>) -> Option<Said> {
        if *self.head != *head {
            let behind = at + DATE_BYTES;
            if self.head.len() != head.len()
                || self.head[..at] != head[..at]
                || self.head[behind..] != head[behind..]
            {
                return None;
            }
            *self.said.1.get_mut(header::DATE)? =
                HeaderValue::from_bytes(&head[at..behind]).ok()?;
            self.head[at..behind].copy_from_slice(&head[at..behind]);
        }
        Some(self.said.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_is_read_as_anew() {
        let head = |status: &str, second: u8, fields: &str| {
            let date = format!("Date: Sun, 06 Nov 1994 08:49:{second:02} GMT");
            format!("HTTP/1.1 {status}\r\n{date}\r\n{fields}\r\n").into_bytes()
        };
        let long = format!("Etag: \"{}\"\r\nContent-Length: 5\r\n", "x".repeat(HEAD_BYTES_MAX));
        let rows = [
            ("a file", "200 OK", "Content-Length: 5\r\nEtag: \"a\"\r\n"),
            ("another", "200 OK", "Content-Length: 5\r\nEtag: \"b\"\r\n"),
            ("another status", "206 Partial Content", "Content-Length: 5\r\nEtag: \"a\"\r\n"),
            ("of a connection", "200 OK", "Transfer-Encoding: chunked\r\nConnection: close\r\n"),
            ("two Dates", "200 OK", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            ("a long one", "200 OK", &long),
            ("one without fields", "204 No Content", ""),
        ];
        for second in [1, 1, 2, 3, 3] {
            for (why, status, fields) in rows {
                for _ in 0..3 {
                    let head = head(status, second, fields);
                    let expected = restate::answer(&head).map(|said| (said, head.len()));
                    assert_eq!(read(&head).unwrap(), expected, "{why}");
                    for behind in ["a body", "one that ends so\r\n\r\n"] {
                        let with_body = [&head, behind.as_bytes()].concat();
                        assert_eq!(read(&with_body).unwrap(), expected, "{why}, {behind}");
                    }
                    assert_eq!(read(&head[..head.len() - 1]).unwrap(), None, "a part of {why}");
                }
            }
        }
        for odd in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nDate: x\r\n\r\n"] {
            for _ in 0..3 {
                let expected = restate::answer(odd.as_bytes()).map(|said| (said, odd.len()));
                assert_eq!(read(odd.as_bytes()).unwrap(), expected, "{odd:?}");
            }
        }
        assert_eq!(read(b"HTTP").unwrap(), None);
        assert!(read(b"HTTP\r\n\r\n").is_err());
    }
}
