//! A request head and the validation of its fields for all protocol versions (RFC 9110, RFC 9112
//! sections 3.2 and 6.3). [`h1`](crate::h1::request) parses it from text, [`from_section`] from a
//! field section of HTTP/2 or HTTP/3. Field values borrow from the input; only lists in several
//! lines are copied.

mod error;
pub(crate) mod field_class;
pub mod fields;
pub mod framing;
pub mod grpc_web;
pub mod method;
mod partial_line;
pub mod section;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;

use http::HeaderName;

pub use self::error::ParseError;
pub use self::fields::RequestFields;
pub use self::framing::BodyLength;
pub use self::method::Method;
pub use self::partial_line::PartialLine;

use self::framing::Framing;
use self::method::METHOD_BYTES_MAX;
use crate::request::section::Section;
use crate::semantics::fields as lists;
use crate::semantics::grpc;
use crate::semantics::host::{self, Host};
use crate::semantics::set::is_name;
use crate::semantics::target::{self, Target, TargetError};
use crate::stream::FieldSection;

/// Limits of a request head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Size of the whole head, in bytes.
    pub head_bytes: usize,
    /// Size of the request target, in bytes.
    pub target_bytes: usize,
    /// Number of field lines.
    pub fields: usize,
}

/// A field value; `None` if the field is absent.
pub type Value<'a> = Option<&'a [u8]>;

/// Storage for values that are not in the input as they are used: joined lists in several lines,
/// and an encoded target. It must outlive the request.
#[derive(Debug, Default)]
pub struct Joined {
    lists: OnceCell<Box<[Option<Vec<u8>>; LISTS.len()]>>,
    target: OnceCell<Box<EncodedTarget>>,
}

/// Boxed by its user, because a connection holds room for one and few requests need it.
#[derive(Debug)]
struct EncodedTarget(Vec<u8>);

impl Joined {
    /// Returns a target with its bytes beyond ASCII encoded; the target of one request only.
    #[cold]
    fn encoded(&self, raw: &[u8]) -> &[u8] {
        &self.target.get_or_init(|| Box::new(EncodedTarget(target::encode_beyond_ascii(raw)))).0
    }
}

/// A request head. The fields that a server needs are parsed; all fields are in `fields`.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// The method (RFC 9110 section 9).
    pub method: Method<'a>,
    /// The target as sent, for logs; bytes beyond ASCII are encoded.
    pub raw_target: &'a [u8],
    /// The parsed target (RFC 9112 section 3.2).
    pub target: Target<'a>,
    /// True for HTTP/1.0, false for every later version.
    pub http10: bool,
    /// `:protocol` of an extended CONNECT (RFC 8441 section 4, RFC 9220). Its target has a path.
    pub protocol: Value<'a>,
    /// The host, from the absolute-form's authority or `:authority`, else from the Host field (RFC
    /// 9112 section 3.2.2).
    pub host: Option<Host<'a>>,
    /// The delimitation of the body.
    pub body: BodyLength,
    /// True if the connection persists after this request (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// True if the client waits for 100 before it sends the body (RFC 9110 section 10.1.1).
    pub expect_continue: bool,
    /// True if the client accepts trailers (RFC 9110 section 10.1.4).
    pub te_trailers: bool,
    /// If-Match, its lines joined (RFC 9110 section 13.1.1).
    pub if_match: Value<'a>,
    /// If-None-Match, its lines joined (RFC 9110 section 13.1.2).
    pub if_none_match: Value<'a>,
    /// If-Modified-Since, not parsed (RFC 9110 section 13.1.3).
    pub if_modified_since: Value<'a>,
    /// If-Unmodified-Since, not parsed (RFC 9110 section 13.1.4).
    pub if_unmodified_since: Value<'a>,
    /// If-Range, not parsed (RFC 9110 section 13.1.5).
    pub if_range: Value<'a>,
    /// Range, not parsed (RFC 9110 section 14.2).
    pub range: Value<'a>,
    /// Accept, its lines joined (RFC 9110 section 12.5.1).
    pub accept: Value<'a>,
    /// Authorization, not parsed (RFC 9110 section 11.6.2).
    pub authorization: Value<'a>,
    /// Accept-Encoding, its lines joined (RFC 9110 section 12.5.3).
    pub accept_encoding: Value<'a>,
    /// Referer, not parsed (RFC 9110 section 10.1.3).
    pub referer: Value<'a>,
    /// User-Agent, not parsed (RFC 9110 section 10.1.5).
    pub user_agent: Value<'a>,
    /// Connection, which lists the hop-by-hop fields.
    pub connection: Value<'a>,
    /// Upgrade, its lines joined (RFC 9110 section 7.8).
    pub upgrade: Value<'a>,
    /// True if Cache-Control or Pragma is present. Their values are in `fields`.
    pub has_cache_control: bool,
    /// All fields, in order.
    pub fields: RequestFields<'a>,
    /// Number of field lines, for logs and limits.
    pub field_count: usize,
    /// The cached header section, if the same section was parsed recently.
    pub section: Option<Rc<Section>>,
    /// Names of the fields that this server has set, in any spelling. A client must neither send
    /// them in trailers nor have them removed by Connection.
    pub own_fields: &'a [HeaderName],
    /// True if a gate has found out who sends the request: no cache may store a response to it, or
    /// send a stored one.
    pub is_identified: bool,
}

impl<'a> RequestHead<'a> {
    /// Parses the target; the head has no fields yet. It is made where it stays: a move costs as
    /// much as a line of the head.
    ///
    /// # Errors
    /// [`ParseError::Target`].
    #[inline(always)]
    pub(crate) fn new(
        method: Method<'a>,
        raw_target: &'a [u8],
        http10: bool,
        protocol: Value<'a>,
        joined: &'a Joined,
    ) -> Result<RequestHead<'a>, ParseError> {
        // RFC 8441 section 4: the target of an extended CONNECT has a path.
        let as_method = if protocol.is_some() { b"GET" } else { method.as_bytes() };
        let (raw_target, target) = match target::parse(as_method, raw_target) {
            Ok(target) => (raw_target, target),
            Err(TargetError::Byte(0x80..)) => {
                let encoded = joined.encoded(raw_target);
                (encoded, target::parse(as_method, encoded).map_err(|_| ParseError::Target)?)
            }
            Err(_) => return Err(ParseError::Target),
        };
        Ok(RequestHead {
            method,
            raw_target,
            target,
            http10,
            protocol,
            host: None,
            body: BodyLength::None,
            keep_alive: !http10,
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
            has_cache_control: false,
            fields: RequestFields::NONE,
            field_count: 0,
            section: None,
            own_fields: &[],
            is_identified: false,
        })
    }
}

impl<'a> RequestHead<'a> {
    /// Returns the value of Content-Type.
    pub fn content_type(&self) -> Value<'a> {
        let is_type = |name: &[u8]| name.len() == 12 && is_name(name, b"content-type");
        self.fields.iter().find(|(name, _)| is_type(name)).map(|(_, value)| value)
    }

    /// Returns the values of a field, in order, alike in every version: that of Host is the
    /// request's host (RFC 9112 section 3.2.2, RFC 9113 section 8.3.1), and an extended CONNECT has
    /// Upgrade and Connection (RFC 8441 section 5).
    pub fn values<'s>(&'s self, name: &'s [u8]) -> impl Iterator<Item = Cow<'s, [u8]>> {
        let host = self.host.filter(|host| !host.name.is_empty() && is_name(name, b"host"));
        let host = host.map(|host| Cow::Owned(host.authority()));
        let upgrade = self.protocol.and_then(|protocol| match () {
            () if is_name(name, b"upgrade") => Some(Cow::Borrowed(protocol)),
            () if is_name(name, b"connection") => Some(Cow::Borrowed(&b"upgrade"[..])),
            () => None,
        });
        let known = host.or(upgrade);
        let is_of_lines = known.is_none();
        let lines = self.fields.iter();
        let lines = lines.filter(move |(line, _)| is_of_lines && line.eq_ignore_ascii_case(name));
        known.into_iter().chain(lines.map(|(_, value)| Cow::Borrowed(value)))
    }

    /// Returns the method as HTTP/1.1 has it: GET for an extended CONNECT (RFC 8441 section 5).
    pub fn method_text(&self) -> &'a [u8] {
        if self.protocol.is_some() { b"GET" } else { self.method.as_bytes() }
    }

    /// Returns the media type of a call of gRPC or gRPC-Web; `None`: it is another request.
    pub fn call_type(&self) -> Value<'a> {
        let is_call = |media_type: &&[u8]| {
            grpc::is_grpc(media_type) || grpc_web::WebFormat::of(media_type).is_some()
        };
        let is_post = self.method.as_bytes() == b"POST";
        is_post.then(|| self.content_type()).flatten().filter(is_call)
    }

    /// True for a call of gRPC. Those of gRPC-Web have other media types.
    pub fn is_grpc(&self) -> bool {
        self.method.as_bytes() == b"POST" && self.content_type().is_some_and(grpc::is_grpc)
    }
}

/// Parses the head of an HTTP/2 or HTTP/3 request from a field section that satisfies RFC 9113
/// section 8.3 (RFC 9114 section 4.3).
/// `has_body` means that DATA or trailers may follow. `joined` must be empty.
///
/// # Errors
/// The first violation found; nothing is repaired.
pub fn from_section<'a>(
    section: &'a FieldSection,
    has_body: bool,
    joined: &'a Joined,
    limits: &HeadLimits,
) -> Result<RequestHead<'a>, ParseError> {
    let method = section.method();
    let protocol = section.protocol();
    // RFC 9113 section 8.5: CONNECT has an authority instead of a path.
    let is_connect = method == b"CONNECT" && protocol.is_none();
    let target = match section.authority().filter(|_| is_connect) {
        Some(authority) => authority,
        None => section.path(),
    };
    if method.len() > METHOD_BYTES_MAX {
        return Err(ParseError::MethodTooLong);
    }
    if target.len() > limits.target_bytes {
        return Err(ParseError::TargetTooLong);
    }
    let mut request =
        RequestHead::new(Method::from_token(method), target, false, protocol, joined)?;
    request.fields = RequestFields::Section(section);
    let mut seen = Validator::default();
    // RFC 9113 section 8.3.1: one Host that says the same as the authority is superfluous.
    let mut repeatable = section.authority();
    if let Some(authority) = repeatable {
        seen.field(&mut request, b"host", authority)?;
    }
    for (name, value) in section.iter() {
        request.field_count += 1;
        if request.field_count > limits.fields {
            return Err(ParseError::TooManyFields);
        }
        // RFC 9113 section 8.3.1: a Host equal to the authority is redundant.
        let repeats = |said: &mut &[u8]| name == b"host" && said.eq_ignore_ascii_case(value);
        if repeatable.take_if(repeats).is_none() {
            seen.field(&mut request, name, value)?;
        }
    }
    let has_lists = seen.finish(&mut request)?;
    // RFC 9110 section 4.2.1 and RFC 9114 section 4.3.1: an http URI has a host.
    if !is_connect && request.host.is_some_and(|host| host.name.is_empty()) {
        return Err(ParseError::HostMissing);
    }
    if request.protocol.is_some() {
        // The data of the stream belongs to the other protocol (RFC 8441 section 5).
        request.body = BodyLength::None;
    } else if has_body && request.body == BodyLength::None {
        request.body = BodyLength::Chunked;
    }
    if has_lists {
        join(&mut request, joined);
    }
    Ok(request)
}

/// Validates the fields of one request, for all protocol versions, and stores their values in its
/// head.
#[derive(Default)]
pub(crate) struct Validator<'a> {
    framing: Framing,
    host: Option<Host<'a>>,
    close: bool,
    keep_alive: bool,
    several: bool,
}

impl<'a> Validator<'a> {
    /// Adds a field. The length of a name selects at most a few candidates, so one or two
    /// comparisons decide.
    ///
    /// # Errors
    /// The field violates RFC 9110 or RFC 9112; nothing is repaired.
    #[inline]
    pub(crate) fn field(
        &mut self,
        r: &mut RequestHead<'a>,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<(), ParseError> {
        match name.len() {
            2 if is_name(name, b"te") => r.te_trailers |= lists::has_token(value, b"trailers"),
            4 if is_name(name, b"host") => {
                let host = host::parse(value).map_err(|_| ParseError::HostSyntax)?;
                if self.host.replace(host).is_some() {
                    return Err(ParseError::HostTwice);
                }
            }
            5 if is_name(name, b"range") => single(&mut r.range, value),
            6 if is_name(name, b"accept") => self.list(&mut r.accept, value),
            6 if is_name(name, b"pragma") => r.has_cache_control = true,
            6 if is_name(name, b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(ParseError::ExpectationUnknown);
                }
                // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored.
                r.expect_continue = !r.http10;
            }
            7 if is_name(name, b"upgrade") => self.list(&mut r.upgrade, value),
            7 if is_name(name, b"referer") => single(&mut r.referer, value),
            8 if is_name(name, b"if-match") => self.list(&mut r.if_match, value),
            8 if is_name(name, b"if-range") => single(&mut r.if_range, value),
            10 if is_name(name, b"connection") => {
                for option in lists::list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
                self.list(&mut r.connection, value);
            }
            10 if is_name(name, b"user-agent") => single(&mut r.user_agent, value),
            13 if is_name(name, b"authorization") => single(&mut r.authorization, value),
            13 if is_name(name, b"cache-control") => r.has_cache_control = true,
            13 if is_name(name, b"if-none-match") => self.list(&mut r.if_none_match, value),
            14 if is_name(name, b"content-length") => self.framing.content_length(value)?,
            15 if is_name(name, b"accept-encoding") => self.list(&mut r.accept_encoding, value),
            17 if is_name(name, b"transfer-encoding") => self.framing.transfer_encoding(value)?,
            17 if is_name(name, b"if-modified-since") => single(&mut r.if_modified_since, value),
            19 if is_name(name, b"if-unmodified-since") => {
                single(&mut r.if_unmodified_since, value);
            }
            _ => {}
        }
        Ok(())
    }

    /// Stores a list. Several lines are joined after the last field.
    fn list(&mut self, slot: &mut Value<'a>, value: &'a [u8]) {
        self.several |= slot.replace(value).is_some();
    }

    /// Validates the whole message after the last field. `true` means that a list has several
    /// lines.
    ///
    /// # Errors
    /// The Host, the target or the framing is invalid.
    pub(crate) fn finish(self, request: &mut RequestHead<'a>) -> Result<bool, ParseError> {
        // RFC 9112 section 3.2: an HTTP/1.1 request without Host is refused, whatever the form of
        // its target.
        if self.host.is_none() && !request.http10 {
            return Err(ParseError::HostMissing);
        }
        request.host = match request.target {
            Target::Absolute { authority, .. } => {
                Some(host::parse(authority).map_err(|_| ParseError::Target)?)
            }
            _ => self.host,
        };
        request.body = self.framing.finish(request.http10)?;
        // RFC 9112 section 9.3: `close` takes precedence; HTTP/1.0 persists only with `keep-alive`.
        request.keep_alive = !self.close && (!request.http10 || self.keep_alive);
        Ok(self.several)
    }
}

/// Stores a field that is not a list. A second line makes it malformed, like an empty value.
fn single<'a>(slot: &mut Value<'a>, value: &'a [u8]) {
    *slot = Some(if slot.is_some() { b"" } else { value });
}

/// The lists among the stored fields, with accessors.
const LISTS: [(&[u8], Accessor); 6] = [
    (b"accept", |r| &mut r.accept),
    (b"accept-encoding", |r| &mut r.accept_encoding),
    (b"connection", |r| &mut r.connection),
    (b"if-match", |r| &mut r.if_match),
    (b"if-none-match", |r| &mut r.if_none_match),
    (b"upgrade", |r| &mut r.upgrade),
];

type Accessor = for<'r, 'a> fn(&'r mut RequestHead<'a>) -> &'r mut Value<'a>;

/// Joins the lines of each list with commas (RFC 9110 section 5.3).
#[cold]
pub(crate) fn join<'a>(request: &mut RequestHead<'a>, joined: &'a Joined) {
    let whole = joined.lists.get_or_init(|| {
        Box::new(LISTS.map(|(known, _)| {
            let lines = request.fields.iter();
            let lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case(known));
            let lines: Vec<&[u8]> = lines.map(|(_, value)| value).collect();
            (lines.len() > 1).then(|| lines.join(&b", "[..]))
        }))
    });
    for ((_, field), value) in LISTS.iter().zip(whole.iter()) {
        if let Some(value) = value {
            *field(request) = Some(value);
        }
    }
}
