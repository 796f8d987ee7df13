//! A request as applications know it: types of the `http` crate, from bytes that were checked.

use std::mem;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri, Version, header};

use super::Connection;
use super::asked::path_of;
use crate::body::RequestBody;
use crate::h1::fields;
use crate::h1::request::Request;
use crate::h1::response::Fields;
use crate::semantics::target::{Target, encode_path, spelt_in};
use crate::transport::Transport;

/// Fields for which a map's room is kept.
const FIELDS_KEPT_MAX: usize = 64;

/// The same of field lines, in bytes.
const LINES_BYTES_KEPT_MAX: usize = 4 << 10;

impl<T: Transport> Connection<T> {
    /// A request, and its URI as it was sent: its own begins at the mount, of whose path `rest` is
    /// what is beneath, decoded. `None`: it is none the application could use.
    pub(super) fn made(
        &self,
        request: &Request<'_>,
        body: RequestBody,
        rest: &[u8],
    ) -> Option<(http::Request<RequestBody>, Uri)> {
        let (whole, lines) = copied(request)?;
        let version = self.version(Some(request));
        let mut made = http::Request::new(body);
        let original = uri(whole.clone())?;
        *made.method_mut() = http::Method::from_bytes(request.method.as_bytes()).ok()?;
        *made.uri_mut() = beneath(&original, &whole, rest)?;
        *made.version_mut() = version;
        *made.headers_mut() = self.map_of(request, &lines)?;
        if version == Version::HTTP_2 {
            // Where its body ends, frames said; it stands in the head for the engine alone.
            made.headers_mut().remove(header::TRANSFER_ENCODING);
        }
        Some((made, original))
    }

    /// A request's fields, as an application has them.
    pub(super) fn field_map(&self, request: &Request<'_>) -> Option<HeaderMap> {
        self.map_of(request, &Bytes::copy_from_slice(request.field_lines))
    }

    fn map_of(&self, request: &Request<'_>, lines: &Bytes) -> Option<HeaderMap> {
        let mut map = self.worker.spare_fields.take();
        fields::read(lines, &mut map);
        if let Target::Absolute { authority, .. } = request.target {
            // RFC 9112 3.2.2: the authority replaces whatever Host says.
            map.insert(header::HOST, HeaderValue::from_bytes(authority).ok()?);
        }
        Some(map)
    }

    /// An answer's fields have been sent: the room they had is another request's.
    pub(super) fn spare(&self, fields: &mut Fields) {
        match fields {
            Fields::Map(map) if map.capacity() <= FIELDS_KEPT_MAX => {
                map.clear();
                self.worker.spare_fields.replace(mem::take(map));
            }
            Fields::Dated(lines) if lines.capacity() <= LINES_BYTES_KEPT_MAX => {
                lines.clear();
                self.worker.spare_lines.replace(mem::take(lines));
            }
            _ => {}
        }
    }
}

/// A request's path and query, and its field lines: in one copy, which all that is made of them
/// shares.
fn copied(request: &Request<'_>) -> Option<(Bytes, Bytes)> {
    let (path, query) = path_of(&request.target)?;
    let bytes_max = request.raw_target.len() + request.field_lines.len() + 1;
    let mut bytes = Vec::with_capacity(bytes_max);
    put_target(&mut bytes, path, query);
    let end = bytes.len();
    bytes.extend_from_slice(request.field_lines);
    let bytes = Bytes::from(bytes);
    Some((bytes.slice(..end), bytes.slice(end..)))
}

/// A URI, of which `whole` are the bytes, as it begins at the mount: encoded anew, so that the
/// application reads what its mount was found by.
fn beneath(original: &Uri, whole: &Bytes, rest: &[u8]) -> Option<Uri> {
    match spelt_in(original.path().as_bytes(), rest) {
        Some(0) => Some(original.clone()),
        Some(start) => uri(whole.slice(start..)),
        None => {
            let path = [b"/", rest].concat();
            let path = encode_path(&path);
            let mut bytes = Vec::new();
            put_target(&mut bytes, path.as_bytes(), original.query().map(str::as_bytes));
            uri(bytes.into())
        }
    }
}

fn put_target(bytes: &mut Vec<u8>, path: &[u8], query: Option<&[u8]>) {
    bytes.extend_from_slice(path);
    if let Some(query) = query {
        bytes.push(b'?');
        bytes.extend_from_slice(query);
    }
}

fn uri(bytes: Bytes) -> Option<Uri> {
    PathAndQuery::from_maybe_shared(bytes).ok().map(Uri::from)
}
