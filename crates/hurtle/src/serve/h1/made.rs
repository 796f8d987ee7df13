//! A request as applications know it: types of the `http` crate, from bytes that were checked.

use std::mem;

use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderValue, Version, header};

use super::Connection;
use super::asked::path_of;
use crate::body::RequestBody;
use crate::h1::fields;
use crate::h1::request::{Method, Request};
use crate::h1::response::Fields;
use crate::semantics::target::{Target, encode_path, spelt_in};
use crate::transport::Transport;

/// Fields for which a map's room is kept.
const FIELDS_KEPT_MAX: usize = 64;

/// The same of field lines, in bytes.
const LINES_BYTES_KEPT_MAX: usize = 4 << 10;

/// Bytes of a copied head for which room is kept.
const COPY_KEPT_MAX: usize = 16 << 10;

impl<T: Transport> Connection<T> {
    /// A request, whose URI begins at the mount, of whose path `rest` is what is beneath, decoded;
    /// `tell` has the target as it was sent, and the extensions. `None`: it is none the application
    /// could use.
    pub(super) fn made(
        &self,
        request: &Request<'_>,
        body: RequestBody,
        rest: &[u8],
        tell: impl FnOnce(PathAndQuery, &mut Extensions),
    ) -> Option<http::Request<RequestBody>> {
        let (path, query) = path_of(&request.target)?;
        let known = request.section.as_deref();
        let lines = if known.is_some() { b"" } else { request.field_lines };
        let (whole, lines) = self.copied((path, query), lines);
        let (own, original) = match spelt_in(path, rest) {
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
        // Its own is empty, and the room of the one that is kept is another request's.
        mem::swap(made.headers_mut(), &mut self.worker.spare_fields.borrow_mut());
        match known {
            Some(section) => section.fields(made.headers_mut()),
            None => self.read_fields(request, &lines, made.headers_mut())?,
        }
        if version == Version::HTTP_2 {
            // Where its body ends, frames said; it stands in the head for the engine alone.
            made.headers_mut().remove(header::TRANSFER_ENCODING);
        }
        Some(made)
    }

    /// A target and field lines in one copy, which all that is made of them shares. Its room is used
    /// again once all of that is gone.
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

    /// A request's fields, as an application has them.
    pub(super) fn field_map(&self, request: &Request<'_>) -> Option<HeaderMap> {
        let mut map = self.worker.spare_fields.take();
        if let Some(section) = &request.section {
            section.fields(&mut map);
            return Some(map);
        }
        let lines = Bytes::copy_from_slice(request.field_lines);
        self.read_fields(request, &lines, &mut map)?;
        Some(map)
    }

    /// Reads them into an empty map.
    fn read_fields(&self, request: &Request<'_>, lines: &Bytes, map: &mut HeaderMap) -> Option<()> {
        fields::read(lines, request.field_count, map);
        if let Target::Absolute { authority, .. } = request.target {
            // RFC 9112 3.2.2: the authority replaces whatever Host says.
            map.insert(header::HOST, HeaderValue::from_bytes(authority).ok()?);
        }
        Some(())
    }

    /// An answer's fields have been sent: the room they had is another request's.
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

/// A target beneath the mount, encoded anew, so that the application reads what its mount was found by.
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
