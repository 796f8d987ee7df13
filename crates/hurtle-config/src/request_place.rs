//! Parts of a request in the Location of a redirect: `{scheme}`, `{host}`, `{request.host}` and
//! `{uri}`.

use hurtle_http::request::RequestHead;
use hurtle_http::semantics::host;

/// A request as a Location may repeat it.
#[derive(Clone, Copy, Debug)]
pub struct RequestPlace<'a> {
    /// The head of the request, which has its scheme, host and target.
    pub head: &'a RequestHead<'a>,
    /// `true` if the connection is encrypted.
    pub is_tls: bool,
    /// The path and the query as sent.
    pub target: (&'a [u8], Option<&'a [u8]>),
}

impl RequestPlace<'_> {
    /// Returns the part with this name; `None`: there is no such part.
    pub(super) fn part(&self, name: &str) -> Option<Vec<u8>> {
        Some(match name {
            "scheme" => if self.is_tls { "https" } else { "http" }.into(),
            "host" => self.host(),
            "request.host" => {
                let port = self.head.host.and_then(|host| host.port);
                [self.host(), port.map(|port| format!(":{port}")).unwrap_or_default().into()]
                    .concat()
            }
            "uri" => match self.target {
                (path, Some(query)) => [path, b"?", query].concat(),
                (path, None) => path.to_vec(),
            },
            _ => return None,
        })
    }

    /// The requested host in lower case, without its port.
    fn host(&self) -> Vec<u8> {
        let mut name = Vec::new();
        if let Some(host) = self.head.host {
            host::normalize(host.name, &mut name);
        }
        name
    }

    /// Returns whether the request has all parts of a Location: one of HTTP/1.0 may have no host.
    pub fn has_parts_of(&self, to: &str) -> bool {
        !to.contains("host}") || self.head.host.is_some_and(|host| !host.name.is_empty())
    }

    /// Replaces the parts in a Location, and leaves other braces.
    pub fn fill(&self, to: &str) -> String {
        let filled = hurtle_http::semantics::glob::expand_with(to, |name| self.part(name));
        own_site(String::from_utf8_lossy(&filled).into_owned(), to)
    }
}

/// A part at the front must not name another host: `//evil.example/` is such a path.
pub(super) fn own_site(location: String, to: &str) -> String {
    match location.starts_with("//") && !to.starts_with("//") {
        true => format!("/{}", location.trim_start_matches('/')),
        false => location,
    }
}

/// Returns whether a Location may have a part of the request by this name, or its query.
pub(super) fn is_part(name: &str) -> bool {
    matches!(name, "scheme" | "host" | "request.host" | "uri" | "query")
}

/// Returns a Location with an example in place of each part, to check it.
pub(super) fn example(to: &str) -> String {
    let to = match to.strip_prefix("{scheme}://") {
        Some(rest) => format!("https://{rest}"),
        None => to.to_owned(),
    };
    let to = to.replace("{scheme}", "https").replace("{uri}", "/x");
    to.replace("{request.host}", "x").replace("{host}", "x")
}

#[cfg(test)]
mod tests {
    use hurtle_http::h1;
    use hurtle_http::request::{HeadLimits, Joined};

    use super::*;

    #[test]
    fn a_location_repeats_parts_of_the_request() {
        let head = b"GET //evil.example/a?b=c HTTP/1.1\r\nHost: EXAMPLE.org:8080\r\n\r\n";
        let joined = Joined::default();
        let limits = HeadLimits { head_bytes: 1 << 10, target_bytes: 1 << 10, fields: 9 };
        let head = h1::request::parse(head, &joined, &limits).unwrap();
        let target = (&b"//evil.example/a"[..], Some(&b"b=c"[..]));
        let place = RequestPlace { head: &head, is_tls: true, target };
        let rows = [
            ("the host", "https://www.{host}/x", "https://www.example.org/x"),
            ("with its port", "{scheme}://{request.host}/", "https://example.org:8080/"),
            ("the target", "https://{host}{uri}", "https://example.org//evil.example/a?b=c"),
            ("in a query", "/login?to={uri}", "/login?to=//evil.example/a?b=c"),
            ("a target alone names no other host", "{uri}", "/evil.example/a?b=c"),
            ("other braces", "/{1}", "/{1}"),
        ];
        for (sentence, to, expected) in rows {
            assert_eq!(place.fill(to), expected, "{sentence}");
        }
    }
}
