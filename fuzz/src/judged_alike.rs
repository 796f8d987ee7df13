//! `judged_alike`: one request, in HTTP/1.1, HTTP/2 and HTTP/3. HTTP/2 and HTTP/3 give the same
//! field section, or both reset the stream.
//!
//! Permitted differences:
//! - Fields of a connection, other values of TE than `trailers`, and targets in other forms than
//!   those of `:path` are refused by HTTP/2 and HTTP/3 alone (RFC 9113 sections 8.2.2 and 8.3.1).
//! - A malformed section is a stream error in HTTP/2 (section 8.1.1); HTTP/1.1 may find something
//!   else wrong with it first, so any status will do.
//! - HTTP/2 and HTTP/3 refuse an empty host (RFC 9114 section 4.3.1), which HTTP/1.1 may send (RFC
//!   9112 section 3.2).
//! - In HTTP/2 `:authority` stands for the Host field, which may repeat it (section 8.3.1); cookies
//!   are joined (section 8.2.3); names are in lower case.

use hurtle_http::h1::request;
use hurtle_http::h2::hpack::Encoder;
use hurtle_http::h2::{Connection, Event, FieldSection, Limits};
use hurtle_http::h3::{self, qpack};
use hurtle_http::request::{HeadLimits, Joined, ParseError, RequestHead, from_section};
use hurtle_http::semantics::target::Target;

const LIMITS: HeadLimits = HeadLimits { head_bytes: 64 << 10, target_bytes: 64, fields: 10_000 };

/// Longer inputs are skipped, so that the field block fits one frame.
const INPUT_BYTES_MAX: usize = 4 << 10;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The first byte selects how the authority is sent. Lines follow: method and target, the
/// authority, and one for each field. Both protocols accept the request with the same meaning, or
/// both refuse it with the same status.
pub fn judged_alike(data: &[u8]) {
    let Some(input) = Input::of(data) else { return };
    let head = input.head();
    let text_joined = Joined::default();
    let text = request::parse(&head, &text_joined, &LIMITS);
    let section = input.section();
    let of_http3 = input.section_of_http3();
    assert_eq!(section, of_http3, "HTTP/2 and HTTP/3 differ: {input:?}");
    let Some((section, has_body)) = section else {
        assert!(text.is_err() || input.is_foreign(), "only HTTP/2 refuses {input:?}");
        return;
    };
    assert!(!input.is_foreign(), "HTTP/2 accepts {input:?}");
    let joined = Joined::default();
    let framed = from_section(&section, has_body, &joined, &LIMITS);
    match (&text, &framed) {
        (Ok(text), Err(ParseError::HostMissing))
            if text.host.is_some_and(|host| host.name.is_empty()) => {}
        (Ok(text), Ok(framed)) => same(text, framed, &input),
        (Err(text), Err(framed)) => {
            assert_eq!(text.status(), framed.status(), "{text:?}, {framed:?}: {input:?}");
        }
        _ => panic!("{:?}, {:?}: {input:?}", refusal(&text), refusal(&framed)),
    }
}

fn refusal(read: &Result<RequestHead<'_>, ParseError>) -> Option<ParseError> {
    read.as_ref().err().copied()
}

/// A request before it is written.
#[derive(Debug)]
struct Input<'a> {
    method: &'a [u8],
    target: &'a [u8],
    /// `:authority`.
    authority: Option<&'a [u8]>,
    /// HTTP/1.1 has the target in absolute-form.
    is_absolute: bool,
    fields: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Input<'a> {
    fn of(data: &'a [u8]) -> Option<Input<'a>> {
        let (&mode, text) = data.split_first()?;
        if data.len() > INPUT_BYTES_MAX {
            return None;
        }
        let mut lines = text.split(|&byte| byte == b'\n');
        let mut words = lines.next()?.split(|&byte| byte == b' ');
        let (method, target) = (words.next()?, trim(words.next()?));
        let mut authority = lines.next().unwrap_or_default();
        let is_connect = method == b"CONNECT";
        if is_connect {
            authority = target;
        }
        let authority = trim(authority);
        let mut fields: Vec<_> = lines.filter(|line| !line.is_empty()).map(split).collect();
        if matches!(mode % 4, 1 | 2) {
            fields.insert(0, (b"Host", authority));
        }
        // RFC 9113 section 8.5: CONNECT has no other target.
        let authority = (is_connect || matches!(mode % 4, 0 | 2)).then_some(authority);
        let is_absolute = mode & 4 != 0
            && target.starts_with(b"/")
            && !is_connect
            && authority.is_some_and(|authority| {
                let is_one = !authority.iter().any(|byte| b"/?#".contains(byte));
                let len = b"http://".len() + authority.len() + target.len();
                !authority.is_empty() && is_one && len <= LIMITS.target_bytes
            });
        Some(Input { method, target, authority, is_absolute, fields })
    }

    /// The fields without the Host that repeats the authority.
    fn own_fields(&self) -> Vec<(&'a [u8], &'a [u8])> {
        let mut fields = self.fields.clone();
        let repeats = |(name, value): &(&[u8], &[u8])| {
            let is_same = |authority: &[u8]| authority.eq_ignore_ascii_case(value);
            name.eq_ignore_ascii_case(b"host") && self.authority.is_some_and(is_same)
        };
        if let Some(at) = fields.iter().position(repeats) {
            fields.remove(at);
        }
        fields
    }

    fn head(&self) -> Vec<u8> {
        let (scheme, authority) = match self.authority {
            Some(authority) if self.is_absolute => (&b"http://"[..], authority),
            _ => (&b""[..], &b""[..]),
        };
        let mut head = [self.method, b" ", scheme, authority, self.target].concat();
        head.extend_from_slice(b" HTTP/1.1\r\n");
        let host = self.authority.map(|authority| (&b"Host"[..], authority));
        for (name, value) in host.into_iter().chain(self.own_fields()) {
            head.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// Pseudo-fields and fields.
    fn all_fields(&self) -> Vec<(&'a [u8], &'a [u8])> {
        let mut all = vec![(&b":method"[..], self.method)];
        if self.method != b"CONNECT" {
            all.extend([(&b":scheme"[..], &b"http"[..]), (b":path", self.target)]);
        }
        all.extend(self.authority.map(|authority| (&b":authority"[..], authority)));
        all.extend(&self.fields);
        all
    }

    fn has_body(&self) -> bool {
        self.fields.iter().any(|(name, value)| {
            let is_zero = value.iter().all(|&byte| byte == b'0');
            name.eq_ignore_ascii_case(b"content-length") && !is_zero
        })
    }

    /// The section of an HTTP/3 request like `section`.
    fn section_of_http3(&self) -> Option<(FieldSection, bool)> {
        let mut block = Vec::new();
        qpack::encode::prefix(&mut block);
        for (name, value) in self.all_fields() {
            qpack::encode::field(name, value, &mut block);
        }
        // A HEADERS frame whose length has four bytes (RFC 9000 section 16).
        let mut frame = vec![1];
        frame.extend((block.len() as u32 | 0x8000_0000).to_be_bytes());
        frame.extend(block);
        let limits = h3::Limits { header_list_bytes_max: 1 << 20, ..h3::Limits::default() };
        let mut connection = h3::Connection::new(&limits, 0);
        connection.open(0, 0);
        connection.receive(0, frame.into(), !self.has_body(), 0);
        match connection.next_event() {
            Some(h3::Event::Request { head, end_stream, .. }) => Some((head, !end_stream)),
            Some(h3::Event::Reset(0, h3::Code::MESSAGE_ERROR)) => None,
            event => panic!("{event:?} for {self:?}"),
        }
    }

    /// The section of a HEADERS frame, and `true` if a body follows; `None`: the stream was reset.
    fn section(&self) -> Option<(FieldSection, bool)> {
        let mut encoder = Encoder::default();
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in self.all_fields() {
            encoder.field(name, value, &mut block);
        }
        let has_body = self.has_body();
        let flags = END_HEADERS | if has_body { 0 } else { END_STREAM };
        let [_, _, high, low] = (block.len() as u32).to_be_bytes();
        let frames = [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..],
            &[0, high, low, 1, flags, 0, 0, 0, 1],
            &block,
        ];
        let limits = Limits { header_list_bytes_max: 1 << 20, ..Limits::default() };
        let mut connection = Connection::new(&limits, 0);
        connection.receive(&frames.concat(), 0);
        match connection.next_event() {
            Some(Event::Request { head, end_stream, .. }) => Some((head, !end_stream)),
            None => None,
            Some(event) => panic!("{event:?} for {self:?}"),
        }
    }

    /// `true` if the request cannot be expressed in HTTP/2.
    fn is_foreign(&self) -> bool {
        const CONNECTION: [&[u8]; 5] =
            [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
        let is_path = self.target.starts_with(b"/") || self.target == b"*";
        (self.method != b"CONNECT" && !is_path)
            || self.fields.iter().any(|(name, value)| {
                let is_te = name.eq_ignore_ascii_case(b"te");
                (is_te && !value.eq_ignore_ascii_case(b"trailers"))
                    || CONNECTION.iter().any(|known| name.eq_ignore_ascii_case(known))
            })
    }
}

/// Both heads were accepted.
fn same(text: &RequestHead<'_>, framed: &RequestHead<'_>, input: &Input<'_>) {
    assert_eq!(text.method, framed.method, "method: {input:?}");
    assert_eq!(path_of(&text.target), path_of(&framed.target), "target: {input:?}");
    if !input.is_absolute {
        assert_eq!(text.raw_target, framed.raw_target, "raw target: {input:?}");
    }
    assert_eq!(text.host, framed.host, "host: {input:?}");
    assert_eq!(text.body, framed.body, "body: {input:?}");
    assert_eq!(flags(text), flags(framed), "flags: {input:?}");
    assert_eq!(values(text), values(framed), "values: {input:?}");
    let own = input.own_fields();
    let own = own.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    assert_eq!(fields(text, input), joined_cookies(own), "fields: {input:?}");
    assert_eq!(fields(text, input), fields(framed, input), "fields: {input:?}");
}

/// A path and a query, whatever the target's form.
fn path_of<'a>(target: &Target<'a>) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
    match *target {
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
            (Some(path), query)
        }
        Target::Authority(authority) => (None, Some(authority)),
        Target::Asterisk => (None, None),
    }
}

fn flags(head: &RequestHead<'_>) -> [bool; 5] {
    [head.http10, head.keep_alive, head.expect_continue, head.te_trailers, head.has_cache_control]
}

fn values<'a>(head: &RequestHead<'a>) -> [Option<&'a [u8]>; 13] {
    [
        head.if_match,
        head.if_none_match,
        head.if_modified_since,
        head.if_unmodified_since,
        head.if_range,
        head.range,
        head.accept,
        head.authorization,
        head.accept_encoding,
        head.referer,
        head.user_agent,
        head.connection,
        head.upgrade,
    ]
}

type Field = (Vec<u8>, Vec<u8>);

/// The fields but for the Host that repeats the authority.
fn fields(head: &RequestHead<'_>, input: &Input<'_>) -> Vec<Field> {
    let mut authority = input.authority;
    let rest = head.fields.iter().filter(|(name, value)| {
        let is_host = name.eq_ignore_ascii_case(b"host");
        let repeats = is_host && authority.is_some_and(|host| host.eq_ignore_ascii_case(value));
        if repeats {
            authority = None;
        }
        !repeats
    });
    joined_cookies(rest.map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())))
}

fn joined_cookies(fields: impl Iterator<Item = Field>) -> Vec<Field> {
    let mut joined: Vec<Field> = Vec::new();
    for (name, value) in fields {
        let first = joined.iter_mut().find(|(other, _)| name == b"cookie" && *other == name);
        match first {
            Some((_, cookies)) => cookies.extend([b"; ", &value[..]].concat()),
            None => joined.push((name, value)),
        }
    }
    joined
}

/// Name and value of `name:value`.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
    (&line[..colon], trim(line.get(colon + 1..).unwrap_or_default()))
}

/// Without the white space that HTTP/1.1 allows around a value.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
