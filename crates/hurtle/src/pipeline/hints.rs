//! 103 Early Hints (RFC 8297): links from the site's header rules and from applications, sent
//! before the final response.

use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use hurtle_http::request::{Method, RequestHead};
use memchr::memmem;

use super::duplex::{Duplex, ExchangeError};
use super::upstream_exchange::UpstreamRoute;
use super::{Exchange, Next};
use crate::answer::Answer;
use crate::body;
use crate::config::EarlyHints;
use crate::handler::Answering;
use crate::protocol::{InterimFields, Protocol};
use crate::rt::{First, race};
use crate::site::Site;

impl<T: Protocol> Exchange<T> {
    /// Returns whether the client gets early hints from this site.
    pub(super) fn is_told_early(&self, request: &RequestHead<'_>, site: &Site) -> bool {
        match site.early_hints() {
            EarlyHints::Http2 => self.io.version() >= Version::HTTP_2,
            // RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
            EarlyHints::Always => !request.http10,
            EarlyHints::Off => false,
        }
    }

    /// Sends the early hints before the exchange waits for an upstream.
    pub(super) async fn hint(
        &mut self,
        request: &RequestHead<'_>,
        asked: &UpstreamRoute<'_>,
    ) -> Result<(), Next> {
        let site = self.worker.sites.site(asked.site);
        if request.method != Method::Get || !self.is_told_early(request, site) {
            return Ok(());
        }
        let Some(link) = self.link(asked) else { return Ok(()) };
        let fields = HeaderMap::from_iter([(header::LINK, link)]);
        self.send_interim(StatusCode::EARLY_HINTS, InterimFields::Made(&fields)).await
    }

    /// Returns the Link value of the path's header rules, if it has a preload or preconnect.
    fn link(&self, asked: &UpstreamRoute<'_>) -> Option<HeaderValue> {
        let mut link = None;
        for rule in self.worker.sites.site(asked.site).header_rules(&asked.path) {
            let set = rule.set.iter().find(|(name, _)| *name == header::LINK);
            if set.is_some() || rule.remove.contains(&header::LINK) {
                link = set.map(|(_, value)| value);
            }
        }
        let is_useful =
            |rel: &[u8]| link.is_some_and(|l| memmem::find(l.as_bytes(), rel).is_some());
        link.filter(|_| is_useful(b"preload") || is_useful(b"preconnect")).cloned()
    }
}

/// Waits for an application's response and sends its early hints meanwhile.
pub(super) async fn telling(
    duplex: &Duplex<'_, impl Protocol>,
    hints: &body::EarlyHints,
    mut answering: Answering,
) -> Result<Answer, ExchangeError> {
    loop {
        match race(answering.as_mut(), hints.told()).await {
            First::A(answer) => return Ok(answer),
            First::B(fields) => {
                duplex.interim(StatusCode::EARLY_HINTS, InterimFields::Made(&fields)).await?;
            }
        }
    }
}
