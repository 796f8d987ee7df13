//! A site's requirements on the channel of a request: TLS, and its client authentication policy.

use http::StatusCode;
use hurtle_http::semantics::host;
use hurtle_http::semantics::target::append_query;

use crate::answer::Answer;
use crate::config::{self, HostName};

/// The security properties of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    /// `true` if the connection is encrypted.
    pub secure: bool,
    /// The number of the client authentication policy that the handshake met; 0: none.
    pub policy: u32,
    /// `true` if the client has presented a certificate, which the handshake has verified.
    pub has_certificate: bool,
}

/// The requirements of a site.
#[derive(Debug, PartialEq)]
pub(super) struct Demand {
    policy: u32,
    /// The site's names and the port of HTTPS redirects, behind a colon; empty: the default port.
    redirect: Option<(Vec<HostName>, String)>,
}

/// The default port of `https:` (RFC 9110 section 4.2.2).
const PORT: u16 = 443;

impl Demand {
    /// Creates the requirements; `port` is the TLS port.
    pub(super) fn new(site: &config::Site, policy: u32, port: Option<u16>) -> Demand {
        let port = match port {
            None | Some(PORT) => String::new(),
            Some(port) => format!(":{port}"),
        };
        let wanted = site.tls.as_ref().is_some_and(|tls| tls.redirect);
        Demand { policy, redirect: wanted.then(|| (site.hosts.clone(), port)) }
    }

    /// Returns whether the channel meets the requirements.
    pub(super) fn is_met(&self, channel: Channel) -> bool {
        (channel.secure || self.redirect.is_none()) && channel.policy == self.policy
    }

    /// Returns whether the channel lacks a client certificate and no redirect or 421 leads the
    /// client to another one.
    pub(super) fn lacks_certificate(&self, channel: Channel) -> bool {
        match channel.secure {
            true => channel.policy == self.policy && !channel.has_certificate,
            false => self.redirect.is_none(),
        }
    }

    /// Returns a redirect to HTTPS, or 421 if the connection does not fit the host (RFC 9110
    /// section 15.5.20).
    pub(super) fn answer(
        &self,
        channel: Channel,
        name: Option<&[u8]>,
        target: Option<(&[u8], Option<&[u8]>)>,
    ) -> Answer {
        let (Some((names, port)), false) = (&self.redirect, channel.secure) else {
            return Answer::error(StatusCode::MISDIRECTED_REQUEST, None);
        };
        let mut normal = Vec::new();
        host::normalize(name.unwrap_or_default(), &mut normal);
        let first = names.iter().find_map(|own| match own {
            HostName::Exact(name) => Some(name.as_bytes()),
            HostName::Wildcard(_) | HostName::AnyDomain(_) => None,
        });
        // Another name than the site's own is that of a default site.
        let own = match (names.iter().any(|own| own.matches(&normal)), first) {
            (false, Some(first)) => first,
            _ => &normal,
        };
        if own.is_empty() {
            return Answer::error(StatusCode::MISDIRECTED_REQUEST, None);
        }
        let (path, query) = target.unwrap_or((b"/", None));
        let own = String::from_utf8_lossy(own);
        let mut location = format!("https://{own}{port}{}", String::from_utf8_lossy(path));
        append_query(&mut location, query);
        Answer::redirect(StatusCode::PERMANENT_REDIRECT, &location)
    }
}
