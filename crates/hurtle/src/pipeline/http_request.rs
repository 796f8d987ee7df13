//! Builds `http` crate requests for applications from parsed heads.

use std::mem;

use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderValue, header};
use hurtle_http::h1::response::Fields;
use hurtle_http::request::RequestFields;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::target::{Target, encode_path, find_encoded};

use super::Exchange;
use super::request_info::path_of;
use crate::body::RequestBody;
use crate::protocol::Protocol;

/// Fields of a map that is kept for reuse, at most.
const FIELDS_KEPT_MAX: usize = 64;

/// Bytes of a field line buffer that is kept for reuse, at most.
const LINES_BYTES_KEPT_MAX: usize = 4 << 10;

/// Bytes of a head copy that is kept for reuse, at most.
const COPY_KEPT_MAX: usize = 16 << 10;

impl<T: Protocol> Exchange<T> {
    /// Builds a request whose URI is relative to the mount; `rest` is the decoded path beneath it.
    /// `tell` gets the original target and the extensions. `None`: the target is not a valid URI.
    pub(super) fn made(
        &self,
        request: &RequestHead<'_>,
        body: RequestBody,
        rest: &[u8],
        tell: impl FnOnce(PathAndQuery, &mut Extensions),
    ) -> Option<http::Request<RequestBody>> {
        let (path, query) = path_of(&request.target)?;
        let known = request.section.as_deref();
        let lines = if known.is_some() { b"" } else { request.fields.bytes() };
        let (whole, lines) = self.copied((path, query), lines);
        let (own, original) = match find_encoded(path, rest) {
            Some(0) => {
                let original = target(whole)?;
                (original.clone(), original)
            }
            Some(start) => (target(whole.slice(start..))?, target(whole)?),
            None => (encoded(rest, query)?, target(whole)?),
        };
        let version = self.version(Some(request));
        let mut made = http::Request::new(body);
        tell(original, made.extensions_mut());
        *made.method_mut() = method(&request.method)?;
        *made.uri_mut() = own.into();
        *made.version_mut() = version;
        // Swaps the new request's empty map with the reusable one, to save its allocation.
        mem::swap(made.headers_mut(), &mut self.worker.spare_fields.borrow_mut());
        match known {
            Some(section) => section.fields(made.headers_mut()),
            None => self.read_fields(request, &lines, made.headers_mut())?,
        }
        Some(made)
    }

    /// Copies the target and the field lines into one shared buffer. The buffer is reused once all
    /// references to it are dropped.
    fn copied(&self, (path, query): (&[u8], Option<&[u8]>), field_lines: &[u8]) -> (Bytes, Bytes) {
        let mut copy = self.worker.spare_copy.take();
        copy.reserve(path.len() + 1 + query.map_or(0, <[u8]>::len) + field_lines.len());
        put_target(&mut copy, path, query);
        let end = copy.len();
        copy.extend_from_slice(field_lines);
        let mut whole = copy.split().freeze();
        if whole.len() <= COPY_KEPT_MAX {
            self.worker.spare_copy.replace(copy);
        }
        let lines = whole.split_off(end);
        (whole, lines)
    }

    /// Returns a request's fields as a map for applications.
    pub(super) fn field_map(&self, request: &RequestHead<'_>) -> Option<HeaderMap> {
        let mut map = self.worker.spare_fields.take();
        if let Some(section) = &request.section {
            section.fields(&mut map);
            return Some(map);
        }
        let lines = Bytes::copy_from_slice(request.fields.bytes());
        self.read_fields(request, &lines, &mut map)?;
        Some(map)
    }

    /// Reads the fields into an empty map.
    fn read_fields(
        &self,
        request: &RequestHead<'_>,
        lines: &Bytes,
        map: &mut HeaderMap,
    ) -> Option<()> {
        request.fields.read(lines, request.field_count, map);
        let authority = match (request.target, request.fields) {
            // RFC 9112 section 3.2.2: the authority replaces Host.
            (Target::Absolute { authority, .. }, _) => Some(authority),
            (_, RequestFields::Section(section)) => section.authority(),
            _ => None,
        };
        if let Some(authority) = authority {
            map.insert(header::HOST, HeaderValue::from_bytes(authority).ok()?);
        }
        Some(())
    }

    /// Keeps the memory of a response's sent fields for reuse.
    pub(super) fn spare(&self, fields: &mut Fields) {
        match fields {
            Fields::Map(map) if map.capacity() <= FIELDS_KEPT_MAX => {
                map.clear();
                mem::swap(map, &mut self.worker.spare_fields.borrow_mut());
            }
            Fields::Dated(lines) if lines.capacity() <= LINES_BYTES_KEPT_MAX => {
                lines.clear();
                mem::swap(lines, &mut self.worker.spare_lines.borrow_mut());
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

fn method(method: &Method<'_>) -> Option<http::Method> {
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
