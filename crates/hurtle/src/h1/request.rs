//! A request head: one pass from bytes to the values the engine and the handlers ask for.
//! Field values stay where they lie in the input; only a field that came in several lines is copied.

use std::cell::OnceCell;
use std::rc::Rc;

use super::Sin;
use super::fields::pairs;
use super::framing::{BodyLength, Framing};
use super::head::HeadLimits;
use super::line;
use super::lines::{self, Field, is};
use super::section::{Known, Section, Sections};
use crate::semantics::fields;
use crate::semantics::host::{self, Host};
use crate::semantics::target::{self, Target};

pub use super::line::Method;

/// A field's value.
pub type Value<'a> = Option<&'a [u8]>;

/// Where the values of fields that came in several lines are joined, beside the head they are of.
#[derive(Debug, Default)]
pub struct Joined(OnceCell<Box<[Option<Vec<u8>>; LISTS.len()]>>);

/// A request head. Everything the protocol needs is taken; other fields are read from
/// `field_lines` by whoever wants them.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Request<'a> {
    pub method: Method<'a>,
    /// The target as it was sent, for logs.
    pub raw_target: &'a [u8],
    pub target: Target<'a>,
    pub http10: bool,
    /// From the absolute-form's authority, else the Host field (RFC 9112 3.2.2).
    pub host: Option<Host<'a>>,
    pub body: BodyLength,
    /// Whether the client wants to go on after this request (RFC 9112 9.3).
    pub keep_alive: bool,
    pub expect_continue: bool,
    /// Whether trailers may be sent (RFC 9110 10.1.4).
    pub te_trailers: bool,
    pub if_match: Value<'a>,
    pub if_none_match: Value<'a>,
    pub if_modified_since: Value<'a>,
    pub if_unmodified_since: Value<'a>,
    pub if_range: Value<'a>,
    pub range: Value<'a>,
    pub accept: Value<'a>,
    pub authorization: Value<'a>,
    pub accept_encoding: Value<'a>,
    pub referer: Value<'a>,
    pub user_agent: Value<'a>,
    /// Of this connection only, with the fields it names.
    pub connection: Value<'a>,
    pub upgrade: Value<'a>,
    /// Whether it says something to caches (Cache-Control, Pragma): what, is in `field_lines`.
    pub tells_caches: bool,
    /// The field lines, each ended by CRLF, with the empty line.
    pub field_lines: &'a [u8],
    /// How many those are, without the empty one.
    pub field_count: usize,
    /// What came behind the head.
    pub rest: &'a [u8],
    /// What is known of the field lines, if they came lately.
    pub section: Option<Rc<Section>>,
}

/// Reads the head at the front, which must be whole; `joined` is an empty place beside it.
///
/// # Errors
/// The first sin found; nothing is repaired.
pub fn parse<'a>(
    head: &'a [u8],
    joined: &'a Joined,
    limits: &HeadLimits,
) -> Result<Request<'a>, Sin> {
    let (mut request, lines) = begin(head, limits)?;
    let several = read_fields(&mut request, lines, head.len() - lines.len(), limits)?;
    if several {
        join(&mut request, joined);
    }
    Ok(request)
}

/// The same, of a worker that remembers.
///
/// # Errors
/// The same.
pub fn parse_lately<'a>(
    head: &'a [u8],
    joined: &'a Joined,
    limits: &HeadLimits,
    lately: &Sections,
) -> Result<Request<'a>, Sin> {
    let (mut request, lines) = begin(head, limits)?;
    // What others say depends on more than their fields.
    let usual = !request.http10 && !matches!(request.target, Target::Absolute { .. });
    let known = if usual { lately.find(lines) } else { Known::No };
    if let Known::Well(section) = known {
        if head.len() > limits.head_bytes {
            return Err(Sin::HeadTooLarge);
        }
        section.tell(&mut request, lines);
        return Ok(request);
    }
    let several = read_fields(&mut request, lines, head.len() - lines.len(), limits)?;
    if several {
        join(&mut request, joined);
    } else if let Known::Nearly(hash) = known
        && request.rest.is_empty()
    {
        lately.note(hash, &mut request);
    }
    Ok(request)
}

/// Reads the first line; what follows it is to be read.
fn begin<'a>(head: &'a [u8], limits: &HeadLimits) -> Result<(Request<'a>, &'a [u8]), Sin> {
    let (line, lines) = line::first(head, limits.target_bytes)?;
    let target = target::parse(line.method.as_bytes(), line.raw_target).map_err(|_| Sin::Target)?;
    let request = Request {
        method: line.method,
        raw_target: line.raw_target,
        target,
        http10: line.http10,
        host: None,
        body: BodyLength::None,
        keep_alive: !line.http10,
        expect_continue: false,
        te_trailers: false,
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        if_range: None,
        range: None,
        accept: None,
        authorization: None,
        accept_encoding: None,
        referer: None,
        user_agent: None,
        connection: None,
        upgrade: None,
        tells_caches: false,
        field_lines: b"",
        field_count: 0,
        rest: b"",
        section: None,
    };
    Ok((request, lines))
}

/// Reads the fields, which come after a first line of so many bytes; says whether a list came in
/// several lines.
fn read_fields<'a>(
    request: &mut Request<'a>,
    lines: &'a [u8],
    line_bytes: usize,
    limits: &HeadLimits,
) -> Result<bool, Sin> {
    let mut seen = Seen::default();
    let mut rest = lines;
    while let Some(Field { name, value, rest: behind }) = lines::next(rest)? {
        request.field_count += 1;
        if request.field_count > limits.fields {
            return Err(Sin::TooManyFields);
        }
        seen.field(request, name, value)?;
        rest = behind;
    }
    let end = lines.len() - rest.len() + EMPTY_LINE_BYTES;
    if line_bytes + end > limits.head_bytes {
        return Err(Sin::HeadTooLarge);
    }
    (request.field_lines, request.rest) = lines.split_at(end);
    seen.finish(request)
}

/// What ends the field lines: CRLF.
const EMPTY_LINE_BYTES: usize = 2;

/// What has been seen of the fields that decide about the whole message.
#[derive(Default)]
struct Seen<'a> {
    framing: Framing,
    host: Option<Host<'a>>,
    close: bool,
    keep_alive: bool,
    several: bool,
}

impl<'a> Seen<'a> {
    /// Most names are told apart by their length alone, so one comparison decides.
    #[inline]
    fn field(&mut self, r: &mut Request<'a>, name: &[u8], value: &'a [u8]) -> Result<(), Sin> {
        match name.len() {
            2 if is(name, b"te") => r.te_trailers |= fields::has_token(value, b"trailers"),
            4 if is(name, b"host") => {
                let host = host::parse(value).map_err(|_| Sin::HostSyntax)?;
                if self.host.replace(host).is_some() {
                    return Err(Sin::HostTwice);
                }
            }
            5 if is(name, b"range") => single(&mut r.range, value),
            6 if is(name, b"accept") => self.list(&mut r.accept, value),
            6 if is(name, b"pragma") => r.tells_caches = true,
            6 if is(name, b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Sin::ExpectationUnknown);
                }
                // RFC 9110 10.1.1: an HTTP/1.0 client's expectation is ignored.
                r.expect_continue = !r.http10;
            }
            7 if is(name, b"upgrade") => self.list(&mut r.upgrade, value),
            7 if is(name, b"referer") => single(&mut r.referer, value),
            8 if is(name, b"if-match") => self.list(&mut r.if_match, value),
            8 if is(name, b"if-range") => single(&mut r.if_range, value),
            10 if is(name, b"connection") => {
                for option in fields::list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
                self.list(&mut r.connection, value);
            }
            10 if is(name, b"user-agent") => single(&mut r.user_agent, value),
            13 if is(name, b"authorization") => single(&mut r.authorization, value),
            13 if is(name, b"cache-control") => r.tells_caches = true,
            13 if is(name, b"if-none-match") => self.list(&mut r.if_none_match, value),
            14 if is(name, b"content-length") => self.framing.content_length(value)?,
            15 if is(name, b"accept-encoding") => self.list(&mut r.accept_encoding, value),
            17 if is(name, b"transfer-encoding") => self.framing.transfer_encoding(value)?,
            17 if is(name, b"if-modified-since") => single(&mut r.if_modified_since, value),
            19 if is(name, b"if-unmodified-since") => single(&mut r.if_unmodified_since, value),
            _ => {}
        }
        Ok(())
    }

    /// A list: its lines are joined once all are there.
    fn list(&mut self, slot: &mut Value<'a>, value: &'a [u8]) {
        self.several |= slot.replace(value).is_some();
    }

    fn finish(self, request: &mut Request<'a>) -> Result<bool, Sin> {
        // RFC 9112 3.2: a 1.1 request without Host is refused whatever its target's form.
        if self.host.is_none() && !request.http10 {
            return Err(Sin::HostMissing);
        }
        request.host = match request.target {
            Target::Absolute { authority, .. } => {
                Some(host::parse(authority).map_err(|_| Sin::Target)?)
            }
            _ => self.host,
        };
        request.body = self.framing.finish(request.http10)?;
        // RFC 9112 9.3: close wins; HTTP/1.0 persists only if it asks to.
        request.keep_alive = !self.close && (!request.http10 || self.keep_alive);
        Ok(self.several)
    }
}

/// A field that is no list: a second line makes it meaningless, which an empty value is.
fn single<'a>(slot: &mut Value<'a>, value: &'a [u8]) {
    *slot = Some(if slot.is_some() { b"" } else { value });
}

/// The lists among the fields that are taken, and their places.
const LISTS: [(&[u8], Place); 6] = [
    (b"accept", |r| &mut r.accept),
    (b"accept-encoding", |r| &mut r.accept_encoding),
    (b"connection", |r| &mut r.connection),
    (b"if-match", |r| &mut r.if_match),
    (b"if-none-match", |r| &mut r.if_none_match),
    (b"upgrade", |r| &mut r.upgrade),
];

type Place = for<'r, 'a> fn(&'r mut Request<'a>) -> &'r mut Value<'a>;

/// Joins the lines of each list by commas (RFC 9110 5.3).
#[cold]
fn join<'a>(request: &mut Request<'a>, joined: &'a Joined) {
    let whole = joined.0.get_or_init(|| {
        Box::new(LISTS.map(|(known, _)| {
            let lines = pairs(request.field_lines);
            let lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case(known));
            let lines: Vec<&[u8]> = lines.map(|(_, value)| value).collect();
            (lines.len() > 1).then(|| lines.join(&b", "[..]))
        }))
    });
    for ((_, place), value) in LISTS.iter().zip(whole.iter()) {
        if let Some(value) = value {
            *place(request) = Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 1 << 10, target_bytes: 64, fields: 10 };

    #[test]
    fn fields_in_several_lines() {
        for (lines, accept, range, why) in [
            ("Accept: a/b\r\n", Some("a/b"), None, "a line is taken as it is"),
            ("Accept: a/b\r\nACCEPT:  c/d \r\n", Some("a/b, c/d"), None, "lists are joined"),
            ("Accept: a\r\nA: 1\r\naccept: b\r\nAccept: c\r\n", Some("a, b, c"), None, "in order"),
            (
                "Upgrade: a\r\nUpgrade: b\r\nAccept: c\r\n",
                Some("c"),
                None,
                "others are not touched",
            ),
            (
                "Range: bytes=1-\r\nRange: bytes=2-\r\n",
                None,
                Some(""),
                "what is no list means nothing",
            ),
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let joined = Joined::default();
            let request = parse(head.as_bytes(), &joined, &LIMITS).unwrap();
            assert_eq!(request.accept, accept.map(str::as_bytes), "{why}");
            assert_eq!(request.range, range.map(str::as_bytes), "{why}");
            assert_eq!(request.field_count, 1 + lines.matches('\n').count(), "{why}");
        }
    }
}
