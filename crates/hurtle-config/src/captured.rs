//! Locations and queries with parts of a path: of the redirects and rewrites of a site's rules, and
//! of redirects where no file is.

use hurtle_http::semantics::target::{append_query, encode_path};

use super::matcher::Captures;
use super::request_place::{RequestPlace, own_site};

impl Captures<'_> {
    /// Makes a Location of a template. Without a query of its own it has `sent`, that of the
    /// request, before a fragment.
    pub fn location(&self, to: &str, sent: Option<&[u8]>, request: &RequestPlace<'_>) -> String {
        let (target, fragment) = to.split_at(to.find('#').unwrap_or(to.len()));
        let (place, own) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let expanded = self.expand(place, encode_capture, |name| request.part(name));
        let mut location = String::from_utf8_lossy(&expanded).into_owned();
        match own.map(|template| self.query(template, sent, |name| request.part(name))) {
            // That of the request is there already.
            None if place.ends_with("{uri}") => {}
            None => append_query(&mut location, sent),
            // One with `?` at its end has no query.
            Some(query) if query.is_empty() => {}
            Some(query) => append_query(&mut location, Some(&query)),
        }
        let fragment = self.expand(fragment, encode_capture, |name| request.part(name));
        location.push_str(&String::from_utf8_lossy(&fragment));
        own_site(location, to)
    }

    /// Makes a query of a template. `sent`: that of the request. `others`: values of other names.
    pub fn query(
        &self,
        template: &str,
        sent: Option<&[u8]>,
        others: impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Vec<u8> {
        self.expand_query(template, sent.unwrap_or_default(), encode_parameter, others)
    }
}

/// Encodes a part for a query, of which it is one value.
fn encode_parameter(part: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for byte in encode_capture(part) {
        match byte {
            b'&' | b'+' | b';' | b'=' => {
                encoded.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            byte => encoded.push(byte),
        }
    }
    encoded
}

/// Encodes a wildcard's match for a URL.
fn encode_capture(capture: &[u8]) -> Vec<u8> {
    let rooted = [b"/", capture].concat();
    let encoded = encode_path(&rooted);
    let slashed = capture.starts_with(b"/");
    encoded.as_bytes()[usize::from(!slashed)..].to_vec()
}
