//! Builds `http` crate requests for applications from parsed heads.

use std::borrow::Cow;
use std::cell::RefCell;
use std::mem;

use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderValue, Version, header};
use hurtle_http::message::response::Fields;
use hurtle_http::request::RequestFields;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::target::{Target, encode_path, find_encoded};

use super::request::RequestContext;
use crate::body::RequestBody;

/// Fields of a map that is kept for reuse, at most.
const FIELDS_KEPT_MAX: usize = 64;

/// Bytes of a field line buffer that is kept for reuse, at most.
const LINES_BYTES_KEPT_MAX: usize = 4 << 10;

/// Bytes of a head copy that is kept for reuse, at most.
const COPY_KEPT_MAX: usize = 16 << 10;

/// Empty buffers of one worker with the memory of earlier requests.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// A map with the memory of an earlier request's or response's fields.
    fields: RefCell<HeaderMap>,
    /// A buffer with the memory of earlier field lines.
    lines: RefCell<Vec<u8>>,
    /// A buffer for head copies that applications reference.
    copy: RefCell<BytesMut>,
}

/// Builds a request whose URI is relative to the mount. `set` gets the original target and the
/// extensions. `None`: the target is not a valid URI.
pub(crate) fn build(
    request: &RequestContext<'_>,
    body: RequestBody,
    set: impl FnOnce(PathAndQuery, &mut Extensions),
) -> Option<http::Request<RequestBody>> {
    let RequestContext { head, target: (path, query), matched, buffers, .. } = request;
    let known = head.section.as_deref();
    let lines = if known.is_some() { b"" } else { head.fields.bytes() };
    let (whole, lines) = buffers.copied(path, *query, lines);
    let is_as_sent = matched.query == *query;
    let (own, original) = match find_encoded(path, matched.rest).filter(|_| is_as_sent) {
        Some(0) => {
            let original = target(whole)?;
            (original.clone(), original)
        }
        Some(start) => (target(whole.slice(start..))?, target(whole)?),
        None => (encoded(matched.rest, matched.query)?, target(whole)?),
    };
    let mut built = http::Request::new(body);
    set(original, built.extensions_mut());
    let is_websocket = head.protocol.is_some();
    *built.method_mut() = if is_websocket { http::Method::GET } else { method(&head.method)? };
    *built.uri_mut() = own.into();
    *built.version_mut() = if is_websocket { Version::HTTP_11 } else { request.version() };
    // Swaps the new request's empty map with the reusable one, to save its allocation.
    mem::swap(built.headers_mut(), &mut buffers.fields.borrow_mut());
    match known {
        Some(section) => section.fields(built.headers_mut()),
        None => read_fields(head, &lines, built.headers_mut())?,
    }
    if let Some(key) = request.websocket_key() {
        // The fields by which a WebSocket of HTTP/1.1 begins.
        let fields = built.headers_mut();
        fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        fields.insert(header::SEC_WEBSOCKET_KEY, HeaderValue::try_from(key).ok()?);
    }
    Some(built)
}

/// Reads the fields into an empty map.
fn read_fields(request: &RequestHead<'_>, lines: &Bytes, map: &mut HeaderMap) -> Option<()> {
    request.fields.read(lines, request.field_count, map);
    let authority = match (request.target, request.fields) {
        // RFC 9112 section 3.2.2: the authority replaces Host.
        (Target::Absolute { authority, .. }, _) => Some(Cow::Borrowed(authority)),
        (_, RequestFields::Section(section)) => section.authority().map(Cow::Borrowed),
        // Lines that this server has written for a request of HTTP/2 or HTTP/3.
        _ => {
            let host = request.host.filter(|host| !host.name.is_empty());
            let host = host.filter(|_| !map.contains_key(header::HOST));
            host.map(|host| Cow::Owned(host.authority()))
        }
    };
    if let Some(authority) = authority {
        map.insert(header::HOST, HeaderValue::from_bytes(&authority).ok()?);
    }
    Some(())
}

impl Buffers {
    /// Copies the target and the field lines into one shared buffer. The buffer is reused once all
    /// references to it are dropped.
    fn copied(&self, path: &[u8], query: Option<&[u8]>, field_lines: &[u8]) -> (Bytes, Bytes) {
        let mut copy = self.copy.take();
        copy.reserve(path.len() + 1 + query.map_or(0, <[u8]>::len) + field_lines.len());
        put_target(&mut copy, path, query);
        let end = copy.len();
        copy.extend_from_slice(field_lines);
        let mut whole = copy.split().freeze();
        if whole.len() <= COPY_KEPT_MAX {
            self.copy.replace(copy);
        }
        let lines = whole.split_off(end);
        (whole, lines)
    }

    /// Returns a request's fields as a map for applications.
    pub(crate) fn field_map(&self, request: &RequestHead<'_>) -> Option<HeaderMap> {
        let mut map = self.fields.take();
        if let Some(section) = &request.section {
            section.fields(&mut map);
            return Some(map);
        }
        let lines = Bytes::copy_from_slice(request.fields.bytes());
        read_fields(request, &lines, &mut map)?;
        Some(map)
    }

    /// Takes the buffer for field lines.
    pub(crate) fn take_lines(&self) -> Vec<u8> {
        self.lines.take()
    }

    /// Keeps the memory of a response's sent fields for reuse.
    pub(crate) fn recycle(&self, fields: &mut Fields) {
        match fields {
            Fields::Map(map) if map.capacity() <= FIELDS_KEPT_MAX => {
                map.clear();
                mem::swap(map, &mut self.fields.borrow_mut());
            }
            Fields::Dated(lines) if lines.capacity() <= LINES_BYTES_KEPT_MAX => {
                lines.clear();
                mem::swap(lines, &mut self.lines.borrow_mut());
            }
            _ => {}
        }
    }
}

/// Encodes the decoded target beneath the mount, so that the application sees the path that was
/// routed.
fn encoded(rest: &[u8], query: Option<&[u8]>) -> Option<PathAndQuery> {
    let path = [b"/", rest].concat();
    let mut bytes = BytesMut::new();
    put_target(&mut bytes, encode_path(&path).as_bytes(), query);
    target(bytes.freeze())
}

fn put_target(bytes: &mut BytesMut, path: &[u8], query: Option<&[u8]>) {
    bytes.extend_from_slice(path);
    if let Some(query) = query {
        bytes.extend_from_slice(b"?");
        bytes.extend_from_slice(query);
    }
}

/// Returns the method of a request; `None`: it is no token.
pub(super) fn method(method: &Method<'_>) -> Option<http::Method> {
    Some(match method {
        Method::Get => http::Method::GET,
        Method::Head => http::Method::HEAD,
        Method::Options => http::Method::OPTIONS,
        Method::Other(token) => http::Method::from_bytes(token).ok()?,
    })
}

fn target(bytes: Bytes) -> Option<PathAndQuery> {
    PathAndQuery::from_maybe_shared(bytes).ok()
}
