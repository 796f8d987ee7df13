//! A cache of recently parsed header sections (RFC 9110 section 6.3). A client's target changes
//! with each request, its header section rarely does, so it need not be parsed again.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::recent::RecentTable;
use crate::request::fields;
use crate::request::framing::BodyLength;
use crate::request::{RequestFields, RequestHead, Value};
use crate::semantics::host::Host;

/// Number of slots of the table.
const SLOTS: usize = 64;

/// Maximum size of a cached section, in bytes; offsets fit a `u16`.
const BYTES_MAX: usize = 2 << 10;

/// The range of a value within a section.
#[derive(Clone, Copy)]
struct Span {
    start: u16,
    end: u16,
}

impl Span {
    /// Range of `value` in `lines`; `None` if it lies elsewhere.
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

/// The cache of one worker.
#[derive(Debug)]
pub struct SectionCache(RecentTable<Section>);

impl Default for SectionCache {
    fn default() -> SectionCache {
        SectionCache(RecentTable::new(SLOTS))
    }
}

/// Result of a look-up.
pub(crate) enum Lookup {
    /// The section must be parsed.
    Miss,
    /// The section must be parsed and may then be inserted under this hash.
    Repeated(u64),
    Hit(Rc<Section>),
}

impl SectionCache {
    /// Looks up a section, which must extend to the end of the input.
    pub(crate) fn find(&self, lines: &[u8]) -> Lookup {
        if lines.len() > BYTES_MAX {
            return Lookup::Miss;
        }
        let hash = self.0.hash(lines);
        match self.0.find(hash, |section| section.bytes == lines) {
            Some(section) => Lookup::Hit(section),
            None if self.0.repeats(hash) => Lookup::Repeated(hash),
            None => Lookup::Miss,
        }
    }

    /// Inserts the parsed section of an HTTP/1.1 request whose target has no host.
    pub(crate) fn insert(&self, hash: u64, lines: &[u8], request: &mut RequestHead<'_>) {
        if let Some(section) = Section::of(lines, request) {
            self.0.insert(hash, section);
        }
    }
}

/// A parsed header section.
pub struct Section {
    /// The section as received.
    bytes: Bytes,
    host: Option<(Span, Option<u16>)>,
    body: BodyLength,
    keep_alive: bool,
    expect_continue: bool,
    te_trailers: bool,
    has_cache_control: bool,
    field_count: usize,
    /// The ranges of the values that [`RequestHead`] stores.
    values: [Option<Span>; VALUES],
    /// All fields, made on first use.
    fields: OnceCell<Vec<(HeaderName, HeaderValue)>>,
    /// The forwarded lines, made on first use.
    forwarded: OnceCell<Vec<u8>>,
}

/// Number of borrowed values in [`RequestHead`].
const VALUES: usize = 13;

/// The borrowed values of a request.
fn values<'r, 'a>(request: &'r mut RequestHead<'a>) -> [&'r mut Value<'a>; VALUES] {
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
    /// `None` if a value lies outside the section.
    fn of(lines: &[u8], request: &mut RequestHead<'_>) -> Option<Section> {
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
            has_cache_control: request.has_cache_control,
            field_count: request.field_count,
            values: spans,
            fields: OnceCell::new(),
            forwarded: OnceCell::new(),
        })
    }

    /// Fills in a request from `lines`, which equal this section.
    pub(crate) fn fill<'a>(self: Rc<Self>, request: &mut RequestHead<'a>, lines: &'a [u8]) {
        request.host =
            self.host.as_ref().map(|(span, port)| Host { name: span.within(lines), port: *port });
        request.body = self.body;
        request.keep_alive = self.keep_alive;
        request.expect_continue = self.expect_continue;
        request.te_trailers = self.te_trailers;
        request.has_cache_control = self.has_cache_control;
        request.field_count = self.field_count;
        for (value, span) in values(request).into_iter().zip(&self.values) {
            if let Some(span) = span {
                *value = Some(span.within(lines));
            }
        }
        request.fields = RequestFields::Lines(lines);
        request.section = Some(self);
    }

    /// Adds the fields to an empty map.
    pub fn fields(&self, map: &mut HeaderMap) {
        let fields =
            self.fields.get_or_init(|| fields::shared(&self.bytes, self.field_count).collect());
        map.reserve(fields.len());
        for (name, value) in fields {
            map.append(name.clone(), value.clone());
        }
    }

    /// The forwarded lines of the section; `write` makes them on first use.
    pub(crate) fn forwarded_lines(&self, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.forwarded.get_or_init(|| {
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
    use crate::h1::forward;
    use crate::h1::request::{parse, parse_cached};
    use crate::message::forward::ForwardParams;
    use crate::request::{HeadLimits, Joined, ParseError};

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 300, target_bytes: 64, fields: 5 };

    /// Everything parsed from a head, and the forwarded lines, without the cache state.
    fn summary(request: Result<RequestHead<'_>, ParseError>) -> (String, Vec<u8>) {
        let mut forwarded = Vec::new();
        if let Ok(request) = &request {
            let params = ForwardParams {
                path: b"/",
                query: None,
                authority: "up",
                peer: None,
                client: None,
                trusted: None,
                is_tls: false,
                version: http::Version::HTTP_11,
                upgrade: None,
                websocket_key: None,
                cache_conditions: None,
                forwarded: None,
                edits: None,
            };
            forward::request(&mut forwarded, request, &params);
        }
        (
            format!("{:?}", request.map(|request| RequestHead { section: None, ..request })),
            forwarded,
        )
    }

    fn field_line() -> impl Strategy<Value = &'static str> {
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
        /// Parsing with the cache gives the same result as without, whatever was parsed before.
        #[test]
        fn the_cache_changes_no_result(
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
            sections in prop::collection::vec(prop::collection::vec(field_line(), 0..7), 1..3),
        ) {
            let cache = SectionCache::default();
            for (n, (first, end)) in heads.iter().enumerate() {
                let lines = sections[n % sections.len()].concat();
                let head = format!("{first}{lines}{end}").into_bytes();
                let joined = [Joined::default(), Joined::default()];
                let read = parse(&head, &joined[0], &LIMITS);
                let known = parse_cached(&head, &joined[1], &LIMITS, &cache);
                let known = known.map(|(request, _)| request);
                if let Ok(RequestHead { section: Some(section), fields, field_count, .. }) = &known {
                    let (mut map, mut again) = (HeaderMap::new(), HeaderMap::new());
                    section.fields(&mut map);
                    fields.read(&Bytes::copy_from_slice(fields.bytes()), *field_count, &mut again);
                    prop_assert_eq!(map, again);
                }
                prop_assert_eq!(summary(read), summary(known));
            }
        }
    }

    #[test]
    fn a_repeated_section_is_cached() {
        let cache = SectionCache::default();
        for (n, target) in ["/a", "/b", "/c"].iter().enumerate() {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept: b/c\r\n\r\n");
            let joined = Joined::default();
            let (request, _) = parse_cached(head.as_bytes(), &joined, &LIMITS, &cache).unwrap();
            assert_eq!(request.section.is_some(), n == 2, "cached from the third request on");
            assert_eq!(request.accept, Some(&b"b/c"[..]));
        }
    }
}
