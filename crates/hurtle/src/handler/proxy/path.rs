//! The path of a request for an upstream.

use std::borrow::Cow;

use hurtle_http::semantics::target::{encode_path, is_encoding_of};

use super::super::request::RequestContext;
use super::Proxy;

impl Proxy {
    /// Returns the path for the upstream: as the client sent it if it decodes to the routed path,
    /// otherwise encoded again. A cache uses one spelling only, so its fetches do too. With
    /// `strip_prefix` that of the mount is taken off.
    pub(super) fn forwarded_path<'a>(&self, request: &RequestContext<'a>) -> Cow<'a, [u8]> {
        let (sent, path) = (request.target.0, request.matched.path);
        let whole = match self.cache().is_none() && is_encoding_of(sent, path) {
            true => Cow::Borrowed(sent),
            false => match encode_path(path) {
                Cow::Borrowed(path) => Cow::Borrowed(path.as_bytes()),
                Cow::Owned(path) => Cow::Owned(path.into_bytes()),
            },
        };
        match self.config().strip_prefix {
            true => Cow::Owned(without_prefix(&whole, request.matched.base())),
            false => whole,
        }
    }
}

/// Returns an encoded path without its beginning, whose decoded form is `base`, and with one slash in
/// front: two would name a host.
fn without_prefix(path: &[u8], base: &[u8]) -> Vec<u8> {
    let mut rest = path;
    for _ in base.strip_suffix(b"/").unwrap_or(base) {
        let length = if rest.first() == Some(&b'%') { 3 } else { 1 };
        rest = rest.get(length..).unwrap_or_default();
    }
    let slashes = rest.iter().take_while(|b| **b == b'/').count();
    [b"/", &rest[slashes..]].concat()
}
