//! Header sections (RFC 9110 6.3) that were read lately. What a client asks for is another thing each
//! time, what it says of itself and its wishes seldom is: such a section need not be read again.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::hash::BuildHasher;
use std::rc::Rc;

use bytes::Bytes;
use hashbrown::DefaultHashBuilder;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::fields;
use super::framing::BodyLength;
use super::request::{Request, Value};
use crate::semantics::host::Host;

/// Places for them: the newest in each.
const PLACES: usize = 64;

/// Longer ones are read each time, in bytes; where something is in one fits a `u16`.
const BYTES_MAX: usize = 2 << 10;

/// Where a value is in a section.
#[derive(Clone, Copy)]
struct Span {
    start: u16,
    end: u16,
}

impl Span {
    /// `None`: the value is not in these lines.
    fn of(value: &[u8], lines: &[u8]) -> Option<Span> {
        let start = value.as_ptr().addr().checked_sub(lines.as_ptr().addr())?;
        let end = start + value.len();
        lines.get(start..end)?;
        Some(Span { start: u16::try_from(start).ok()?, end: u16::try_from(end).ok()? })
    }

    fn within(self, lines: &[u8]) -> &[u8] {
        &lines[usize::from(self.start)..usize::from(self.end)]
    }
}

/// One worker's.
#[derive(Default)]
pub struct Sections {
    places: RefCell<Vec<Place>>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Default)]
struct Place {
    /// Of who came last: only who comes twice in a row is worth being kept.
    hash: u64,
    section: Option<Rc<Section>>,
}

/// How well one is known.
pub(super) enum Known {
    /// It is to be read.
    No,
    /// So, too, but whoever has read it may say so under this hash.
    Nearly(u64),
    Well(Rc<Section>),
}

impl Sections {
    /// Whether a section is known; behind it, nothing has come.
    pub(super) fn find(&self, lines: &[u8]) -> Known {
        if lines.len() > BYTES_MAX {
            return Known::No;
        }
        let hash = self.hasher.hash_one(lines);
        let mut places = self.places.borrow_mut();
        if places.is_empty() {
            places.resize(PLACES, Place::default());
        }
        let place = &mut places[hash as usize % PLACES];
        if place.hash != hash {
            *place = Place { hash, section: None };
            return Known::No;
        }
        match &place.section {
            Some(section) if section.bytes == lines => Known::Well(Rc::clone(section)),
            _ => Known::Nearly(hash),
        }
    }

    /// Remembers what was read of one, as it came in HTTP/1.1 and beside a target without a host.
    pub(super) fn note(&self, hash: u64, request: &mut Request<'_>) {
        if let Some(section) = Section::of(request) {
            self.places.borrow_mut()[hash as usize % PLACES].section = Some(Rc::new(section));
        }
    }
}

impl fmt::Debug for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sections").finish_non_exhaustive()
    }
}

/// What was read of one.
pub struct Section {
    /// As it came.
    bytes: Bytes,
    host: Option<(Span, Option<u16>)>,
    body: BodyLength,
    keep_alive: bool,
    expect_continue: bool,
    te_trailers: bool,
    tells_caches: bool,
    field_count: usize,
    /// Where the values are that the engine takes.
    values: [Option<Span>; VALUES],
    /// For those who want all of them.
    fields: OnceCell<Vec<(HeaderName, HeaderValue)>>,
    /// For an upstream that is told nothing else.
    passing: OnceCell<Vec<u8>>,
}

/// How many values the engine takes that stay where they lie.
const VALUES: usize = 13;

/// Those.
fn values<'r, 'a>(request: &'r mut Request<'a>) -> [&'r mut Value<'a>; VALUES] {
    [
        &mut request.if_match,
        &mut request.if_none_match,
        &mut request.if_modified_since,
        &mut request.if_unmodified_since,
        &mut request.if_range,
        &mut request.range,
        &mut request.accept,
        &mut request.authorization,
        &mut request.accept_encoding,
        &mut request.referer,
        &mut request.user_agent,
        &mut request.connection,
        &mut request.upgrade,
    ]
}

impl Section {
    /// `None`: a value of it lies elsewhere.
    fn of(request: &mut Request<'_>) -> Option<Section> {
        let lines = request.field_lines;
        let host = match request.host {
            Some(Host { name, port }) => Some((Span::of(name, lines)?, port)),
            None => None,
        };
        let mut spans = [None; VALUES];
        for (value, kept) in values(request).into_iter().zip(&mut spans) {
            if let Some(value) = value {
                *kept = Some(Span::of(value, lines)?);
            }
        }
        Some(Section {
            bytes: Bytes::copy_from_slice(lines),
            host,
            body: request.body,
            keep_alive: request.keep_alive,
            expect_continue: request.expect_continue,
            te_trailers: request.te_trailers,
            tells_caches: request.tells_caches,
            field_count: request.field_count,
            values: spans,
            fields: OnceCell::new(),
            passing: OnceCell::new(),
        })
    }

    /// Tells a request what these lines, which are this section, say.
    pub(super) fn tell<'a>(self: Rc<Self>, request: &mut Request<'a>, lines: &'a [u8]) {
        request.host =
            self.host.as_ref().map(|(span, port)| Host { name: span.within(lines), port: *port });
        request.body = self.body;
        request.keep_alive = self.keep_alive;
        request.expect_continue = self.expect_continue;
        request.te_trailers = self.te_trailers;
        request.tells_caches = self.tells_caches;
        request.field_count = self.field_count;
        for (value, span) in values(request).into_iter().zip(&self.values) {
            if let Some(span) = span {
                *value = Some(span.within(lines));
            }
        }
        request.field_lines = lines;
        request.section = Some(self);
    }

    /// Puts its fields into a map that is empty, but may have room.
    pub fn fields(&self, map: &mut HeaderMap) {
        let fields =
            self.fields.get_or_init(|| fields::shared(&self.bytes, self.field_count).collect());
        map.reserve(fields.len());
        for (name, value) in fields {
            map.append(name.clone(), value.clone());
        }
    }

    /// The lines of it that are passed on, as `write` makes them the first time.
    pub(super) fn passing(&self, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.passing.get_or_init(|| {
            let mut lines = Vec::new();
            write(&mut lines);
            lines
        })
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::h1::Sin;
    use crate::h1::forward::{self, Onward};
    use crate::h1::head::HeadLimits;
    use crate::h1::request::{Joined, parse, parse_lately};

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 300, target_bytes: 64, fields: 5 };

    /// What a head says, but for whether it was known, and what an upstream is told of it.
    fn said(request: Result<Request<'_>, Sin>) -> (String, Vec<u8>) {
        let mut told = Vec::new();
        if let Ok(request) = &request {
            let onward = Onward {
                path: b"/",
                query: None,
                authority: "up",
                peer: None,
                client: None,
                trusted: false,
                secure: false,
                http2: false,
                upgrade: None,
                for_all: None,
                way: None,
            };
            forward::request(&mut told, request, &onward);
        }
        (format!("{:?}", request.map(|request| Request { section: None, ..request })), told)
    }

    fn line() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "Host: a.example:81\r\n",
            "Host: b\r\n",
            "Range: bytes=1-\r\n",
            "If-Match: \"a\"\r\n",
            "Accept: a/b\r\n",
            "Accept:\r\n",
            "TE: trailers\r\n",
            "Expect: 100-continue\r\n",
            "Connection: close, upgrade, x-mine\r\n",
            "X-Mine: 1\r\n",
            "X_Forwarded-For: 1.1.1.1\r\n",
            "Content-Length: 3\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Cache-Control: no-cache\r\n",
            "User-Agent:  x \r\n",
            "X: y\n",
        ])
    }

    proptest! {
        /// Known or not, and whatever was read before, a head says the same.
        #[test]
        fn what_is_known_is_what_is_read(
            heads in prop::collection::vec(
                (
                    prop::sample::select(vec![
                        "GET / HTTP/1.1\r\n",
                        "POST /b HTTP/1.1\r\n",
                        "GET /c HTTP/1.0\r\n",
                        "GET http://d:82/ HTTP/1.1\r\n",
                        "GET /this/is/such/a/long/target/that/only/some/sections/fit HTTP/1.1\r\n",
                    ]),
                    prop::sample::select(vec!["\r\n", "\r\nGET /", "\r\n\r\n"]),
                ),
                1..12,
            ),
            sections in prop::collection::vec(prop::collection::vec(line(), 0..7), 1..3),
        ) {
            let lately = Sections::default();
            for (n, (first, end)) in heads.iter().enumerate() {
                let lines = sections[n % sections.len()].concat();
                let head = format!("{first}{lines}{end}").into_bytes();
                let joined = [Joined::default(), Joined::default()];
                let read = parse(&head, &joined[0], &LIMITS);
                let known = parse_lately(&head, &joined[1], &LIMITS, &lately);
                if let Ok(Request { section: Some(section), field_lines, field_count, .. }) = &known {
                    let (mut map, mut again) = (HeaderMap::new(), HeaderMap::new());
                    section.fields(&mut map);
                    fields::read(&Bytes::copy_from_slice(field_lines), *field_count, &mut again);
                    prop_assert_eq!(map, again);
                }
                prop_assert_eq!(said(read), said(known));
            }
        }
    }

    #[test]
    fn one_that_comes_again_is_known() {
        let lately = Sections::default();
        for (n, target) in ["/a", "/b", "/c"].iter().enumerate() {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept: b/c\r\n\r\n");
            let joined = Joined::default();
            let request = parse_lately(head.as_bytes(), &joined, &LIMITS, &lately).unwrap();
            assert_eq!(request.section.is_some(), n == 2, "from the third on");
            assert_eq!(request.accept, Some(&b"b/c"[..]));
        }
    }
}
