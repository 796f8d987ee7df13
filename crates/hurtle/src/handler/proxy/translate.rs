//! Translates what an upstream says of itself into the client's terms: URLs with the upstream's own
//! authority in Location, Content-Location and Refresh, and the Domain and Path of cookies.

use std::borrow::Cow;

use http::StatusCode;
use hurtle_http::message::response_head::ResponseHead;
use hurtle_http::semantics::target::encode_path;

use super::super::request::RequestContext;
use super::{Proxy, RawHead};
use crate::config::{self, Piece, Upstream};
use crate::protocol::h2::ResponseFields;

/// An authority of an upstream.
#[derive(Debug)]
pub(super) struct Name {
    /// `None`: either scheme. The operator has set Host, and may have TLS before the application.
    scheme: Option<&'static str>,
    /// The host and the port; the port of the scheme is left out.
    authority: String,
}

/// Returns the authorities of a proxy's upstreams.
pub(super) fn names(config: &config::Proxy) -> Vec<Name> {
    let own = config.upstreams.iter().filter_map(|server| {
        let scheme = if server.tls { "https" } else { "http" };
        let authority = match &server.upstream {
            Upstream::Address(address) => address.to_string(),
            Upstream::Name(name, port) => format!("{name}:{port}"),
            Upstream::Unix(_) => return None,
        };
        let authority = without_default_port(&authority, scheme).to_owned();
        Some(Name { scheme: Some(scheme), authority })
    });
    let fields = config.request_fields.iter().flat_map(|fields| &fields.set);
    let set =
        fields.filter(|(name, _)| *name == http::header::HOST).filter_map(|(_, value)| match value
            .pieces()
        {
            [Piece::Text(host)] => Some(Name { scheme: None, authority: host.clone() }),
            _ => None,
        });
    own.chain(set).collect()
}

fn without_default_port<'a>(authority: &'a str, scheme: &str) -> &'a str {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(port).unwrap_or(authority)
}

impl Proxy {
    /// Returns the mount's path, encoded, without a slash at its end.
    pub(super) fn encoded_base(&self, request: &RequestContext<'_>) -> Vec<u8> {
        let base = request.matched.base();
        match (self.replaces_prefix(), base.strip_suffix(b"/").unwrap_or(base)) {
            (false, _) | (true, b"") => Vec::new(),
            (true, base) => encode_path(base).as_bytes().to_vec(),
        }
    }

    /// Returns a response's head with the client's terms in place of the upstream's: cookies and
    /// Refresh of all responses, and URLs of redirects, or of all if the upstream has other paths.
    /// `base` is the mount's, if the upstream did not get it. `None`: the head names no upstream,
    /// or the operator wants it as it is.
    pub(super) fn translated(
        &self,
        head: &RawHead,
        reply: &ResponseHead<'_>,
        base: impl FnOnce() -> Vec<u8>,
    ) -> Option<RawHead> {
        if !reply.may_name_upstream || !self.config().rewrite_location {
            return None;
        }
        let lines = match head {
            RawHead::Text(text) => &text[..],
            RawHead::Edited(_) => return None,
            RawHead::Fields(fields) => &fields.lines[..],
        };
        let has_urls = reply.status.is_redirection()
            || reply.status == StatusCode::CREATED
            || self.replaces_prefix();
        let base = base();
        let mut out = Vec::with_capacity(lines.len() + base.len());
        let mut is_changed = false;
        for line in lines.split_inclusive(|b| *b == b'\n') {
            match self.translated_line(line, &base, has_urls) {
                None => out.extend_from_slice(line),
                Some(line) => {
                    out.extend_from_slice(&line);
                    is_changed = true;
                }
            }
        }
        is_changed.then(|| match head {
            RawHead::Fields(ResponseFields { status, is_end, .. }) => {
                RawHead::Fields(ResponseFields { status: *status, lines: out, is_end: *is_end })
            }
            _ => RawHead::Edited(out),
        })
    }

    /// Returns a field line in the client's terms; `None`: it stays as it is. `has_urls`: Location
    /// and Content-Location are translated, too.
    fn translated_line(&self, line: &[u8], base: &[u8], has_urls: bool) -> Option<Vec<u8>> {
        let colon = line.iter().position(|b| *b == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let value = match name.to_ascii_lowercase().as_slice() {
            b"location" | b"content-location" if has_urls => self.translated_url(value, base)?,
            b"refresh" => {
                let at = value.windows(4).position(|four| four.eq_ignore_ascii_case(b"url="))? + 4;
                let (before, url) = value.split_at(at);
                [before, &self.translated_url(url, base)?].concat()
            }
            b"set-cookie" => self.translated_cookie(value, base)?,
            _ => return None,
        };
        Some([name, b": ", &value, b"\r\n"].concat())
    }

    /// Returns a URL of an upstream as a path of this server.
    fn translated_url(&self, url: &[u8], base: &[u8]) -> Option<Vec<u8>> {
        let url = std::str::from_utf8(url).ok()?;
        let (scheme, rest) = url.split_once("//")?;
        let scheme = scheme.strip_suffix(':').unwrap_or(scheme);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let authority = without_default_port(authority, scheme);
        let is_named = self.names.iter().any(|name| {
            let scheme_is = |own: &str| scheme.is_empty() || scheme.eq_ignore_ascii_case(own);
            name.authority.eq_ignore_ascii_case(authority)
                && match name.scheme {
                    Some(own) => scheme_is(own),
                    None => scheme_is("http") || scheme_is("https"),
                }
        });
        let rest = self.below_base(rest).filter(|_| is_named)?;
        // Two slashes would name a host.
        Some([base, b"/", rest.trim_start_matches('/').as_bytes()].concat())
    }

    /// Returns the rest of an upstream's path behind that of its URL; `None`: it is elsewhere.
    fn below_base<'a>(&self, path: &'a str) -> Option<&'a str> {
        let base = self.config().base();
        let rest = path.strip_prefix(base.strip_suffix('/').unwrap_or(base))?;
        Some(rest)
            .filter(|rest| base.is_empty() || rest.is_empty() || rest.starts_with(['/', '?', '#']))
    }

    /// Returns a cookie without an upstream's Domain, and with the client's Path.
    fn translated_cookie(&self, cookie: &[u8], base: &[u8]) -> Option<Vec<u8>> {
        let mut all = std::str::from_utf8(cookie).ok()?.split(';');
        let pair = all.next()?;
        // Browsers ignore one with this prefix and another Path than `/`.
        let is_host_only =
            pair.trim_start().get(..7).is_some_and(|begin| begin.eq_ignore_ascii_case("__Host-"));
        let mut is_changed = false;
        let mut parts: Vec<Cow<'_, str>> = vec![pair.into()];
        for part in all {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "domain" if self.is_host(value.trim().trim_start_matches('.')) => is_changed = true,
                "path"
                    if self.replaces_prefix() && !is_host_only && value.trim().starts_with('/') =>
                {
                    let Some(path) = self.below_base(value.trim()) else {
                        parts.push(part.into());
                        continue;
                    };
                    is_changed = true;
                    let path = path.strip_suffix('/').unwrap_or(path);
                    let path = match format!("{}{path}", String::from_utf8_lossy(base)) {
                        path if path.is_empty() => "/".to_owned(),
                        path => path,
                    };
                    parts.push(format!("{name}={path}").into());
                }
                _ => parts.push(part.into()),
            }
        }
        is_changed.then(|| parts.join(";").into_bytes())
    }

    /// Returns whether an upstream has this host.
    fn is_host(&self, host: &str) -> bool {
        self.names.iter().any(|name| {
            let own = name.authority.rsplit_once(':').map_or(&*name.authority, |(own, _)| own);
            own.eq_ignore_ascii_case(host)
        })
    }
}
