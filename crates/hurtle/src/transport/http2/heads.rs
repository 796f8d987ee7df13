//! Heads of answers that were read lately. Those of one file differ in their Date and nothing else,
//! so what one says is what the last one said, at another time: it need not be read again.

use std::cell::RefCell;
use std::hash::BuildHasher;

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
    /// The Date that was read last.
    date: Option<HeaderValue>,
}

#[derive(Default)]
struct Place {
    /// Of who came last: only who comes twice in a row is worth being kept.
    hash: u64,
    known: Option<Known>,
}

struct Known {
    head: Box<[u8]>,
    said: Said,
}

/// Reads the whole head of an answer that this server has written; `None`: it has not.
pub(super) fn read(head: &[u8]) -> Option<Said> {
    match date_at(head).filter(|_| head.len() <= HEAD_BYTES_MAX) {
        Some(at) => LATELY.with_borrow_mut(|lately| lately.read(head, at)),
        None => restate::answer(head),
    }
}

fn date_at(head: &[u8]) -> Option<usize> {
    let at = memchr::memchr(b'\n', head)? + 1;
    let rest = head[at..].strip_prefix(DATE)?.get(DATE_BYTES..)?;
    rest.starts_with(b"\r\n").then_some(at + DATE.len())
}

impl Heads {
    fn read(&mut self, head: &[u8], at: usize) -> Option<Said> {
        let (before, date, behind) =
            (&head[..at], &head[at..at + DATE_BYTES], &head[at + DATE_BYTES..]);
        let hash = self.hasher.hash_one((before, behind));
        if self.places.is_empty() {
            self.places.resize_with(PLACES, Place::default);
        }
        let place = &mut self.places[hash as usize % PLACES];
        if place.hash != hash {
            *place = Place { hash, known: None };
            return restate::answer(head);
        }
        if let Some(Known { head: known, said: (status, fields, ends) }) = &place.known
            && known.len() == head.len()
            && known.starts_with(before)
            && known.ends_with(behind)
        {
            if self.date.as_ref().is_none_or(|last| last.as_bytes() != date) {
                self.date = Some(HeaderValue::from_bytes(date).ok()?);
            }
            let mut fields = fields.clone();
            if let (Some(then), Some(now)) = (fields.get_mut(header::DATE), &self.date) {
                then.clone_from(now);
            }
            return Some((*status, fields, *ends));
        }
        let said = restate::answer(head)?;
        place.known = Some(Known { head: head.into(), said: said.clone() });
        Some(said)
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
                    assert_eq!(read(&head), restate::answer(&head), "{why}");
                }
            }
        }
        for odd in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nDate: x\r\n\r\n", "HTTP", ""] {
            for _ in 0..3 {
                assert_eq!(read(odd.as_bytes()), restate::answer(odd.as_bytes()), "{odd:?}");
            }
        }
    }
}
