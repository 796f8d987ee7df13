//! What a site asks of the channel by which a request comes: TLS, and the client authentication
//! that is the site's own.

use http::{StatusCode, header};

use crate::answer::Answer;
use crate::config::{self, Glob, HeaderRule, HostName};
use crate::semantics::host;
use crate::semantics::target::append_query;

/// What a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Whether nobody on the way could read it.
    pub secure: bool,
    /// Which way to authenticate clients its handshake kept to; 0: none.
    pub policy: u32,
}

/// What a site asks.
#[derive(Debug)]
pub(super) struct Demand {
    policy: u32,
    /// The site's names, the first of them for all others, and the port behind them: where requests
    /// in clear are sent.
    redirect: Option<(Vec<String>, String)>,
}

/// The port that `https:` means (RFC 9110 4.2.2).
const PORT: u16 = 443;

impl Demand {
    /// `port`: where TLS is spoken.
    pub(super) fn new(site: &config::Site, policy: u32, port: Option<u16>) -> Demand {
        let names = site.hosts.iter().filter_map(|host| match host {
            HostName::Exact(name) => Some(name.clone()),
            HostName::Wildcard(_) => None,
        });
        let names: Vec<String> = names.collect();
        let wanted = site.tls.as_ref().is_some_and(|tls| tls.redirect) && !names.is_empty();
        let port = match port {
            None | Some(PORT) => String::new(),
            Some(port) => format!(":{port}"),
        };
        Demand { policy, redirect: wanted.then_some((names, port)) }
    }

    /// Whether a request that came by this channel is answered.
    pub(super) fn is_met(&self, channel: Channel) -> bool {
        (channel.secure || self.redirect.is_none()) && channel.policy == self.policy
    }

    /// The answer where it is not: to HTTPS with it, or RFC 9110 15.5.20: this connection is none
    /// for that host.
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
        // What is written is the configuration's, never the client's.
        let own = names.iter().find(|own| own.as_bytes() == normal).or(names.first());
        let (path, query) = target.unwrap_or((b"/", None));
        let own = own.map_or("", String::as_str);
        let mut location = format!("https://{own}{port}{}", String::from_utf8_lossy(path));
        append_query(&mut location, query);
        Answer::redirect(StatusCode::PERMANENT_REDIRECT, &location)
    }
}

/// The rule that tells browsers to come by TLS only. In clear such a site only redirects, so it
/// never is where it must not be (RFC 6797 7.2).
pub(super) fn hsts_rule(tls: &config::Tls) -> Option<HeaderRule> {
    let set = vec![(header::STRICT_TRANSPORT_SECURITY, tls.hsts.clone()?)];
    Some(HeaderRule { pattern: Glob("**".to_owned()), set, remove: Vec::new() })
}
