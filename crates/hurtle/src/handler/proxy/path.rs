//! The path of a request for an upstream.

use std::borrow::Cow;

use hurtle_http::semantics::target::{encode_path, is_spelling_of};

use super::super::request::RequestContext;
use super::Proxy;

impl Proxy {
    /// Returns the path for the upstream: [`spelling`], without that of the mount if `strip_prefix`
    /// is set, and with that of the upstream's URL in its place if it has one.
    pub(super) fn forwarded_path<'a>(&self, request: &RequestContext<'a>) -> Cow<'a, [u8]> {
        let whole = spelling(request);
        if !self.replaces_prefix() {
            return whole;
        }
        let rest = without_prefix(&whole, request.matched.base());
        let base = self.config().base();
        Cow::Owned(match rest.is_empty() && !base.is_empty() {
            true => base.as_bytes().to_vec(),
            // Two slashes would name a host.
            false => {
                let base = base.strip_suffix('/').unwrap_or(base);
                [base.as_bytes(), b"/", &rest[slashes(rest)..]].concat()
            }
        })
    }

    /// `true`: the upstream gets paths without that of the mount.
    pub(super) fn replaces_prefix(&self) -> bool {
        self.config().strip_prefix || !self.config().base().is_empty()
    }
}

/// Returns the path as the client sent it if it has no dot segment and no rule has changed it,
/// otherwise the routed path, encoded. One slash is in front: two would name a host.
pub(super) fn spelling<'a>(request: &RequestContext<'a>) -> Cow<'a, [u8]> {
    let (sent, path) = (request.target.0, request.matched.path);
    match is_spelling_of(sent, path) {
        true => Cow::Borrowed(&sent[slashes(sent).saturating_sub(1)..]),
        false => canonical(path),
    }
}

/// Returns a decoded path in the spelling that all others have in common.
pub(super) fn canonical(path: &[u8]) -> Cow<'_, [u8]> {
    match encode_path(path) {
        Cow::Borrowed(path) => Cow::Borrowed(path.as_bytes()),
        Cow::Owned(path) => Cow::Owned(path.into_bytes()),
    }
}

/// The number of slashes in front.
fn slashes(path: &[u8]) -> usize {
    path.iter().take_while(|byte| **byte == b'/').count()
}

/// Returns the rest of an encoded path behind its beginning, whose decoded form is `base`.
fn without_prefix<'a>(path: &'a [u8], base: &[u8]) -> &'a [u8] {
    let mut rest = path;
    for byte in base.strip_suffix(b"/").unwrap_or(base) {
        let length = match (byte, rest.first()) {
            (b'/', _) => slashes(rest),
            (_, Some(b'%')) => 3,
            _ => 1,
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    rest
}
