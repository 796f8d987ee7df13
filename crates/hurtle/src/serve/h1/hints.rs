//! What an answer will need, said before it is there (103 Early Hints, RFC 8297): the links that the
//! site's rules put on it anyway, and what its application says.

use std::io::IoSlice;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use memchr::memmem;

use super::duplex::{Broken, Duplex};
use super::exchange::Asked;
use super::{Connection, Next};
use crate::answer::Answer;
use crate::body::{self, Body};
use crate::config::EarlyHints;
use crate::h1::request::{Method, Request};
use crate::h1::response;
use crate::handler::Answering;
use crate::rt::{First, race};
use crate::site::Site;
use crate::transport::{Output, Transport};

impl<T: Transport> Connection<T> {
    /// Whether a client is told what answers of this site will need.
    pub(super) fn is_told_early(&self, request: &Request<'_>, site: &Site) -> bool {
        match site.early_hints() {
            EarlyHints::Http2 => T::IS_HTTP2,
            // RFC 9110 15.2: HTTP/1.0 knows no interim responses.
            EarlyHints::Always => !request.http10,
            EarlyHints::Off => false,
        }
    }

    /// Sends them to a client that is about to wait for an upstream.
    pub(super) async fn hint(
        &mut self,
        request: &Request<'_>,
        asked: &Asked<'_>,
    ) -> Result<(), Next> {
        let site = self.worker.sites.site(asked.site);
        if request.method != Method::Get || !self.is_told_early(request, site) {
            return Ok(());
        }
        let Some(link) = self.link(asked) else { return Ok(()) };
        let mut interim = Output::new();
        let fields = HeaderMap::from_iter([(header::LINK, link)]);
        response::encode_interim(StatusCode::EARLY_HINTS, &fields, interim.vec());
        self.send(interim, &Body::Empty).await
    }

    /// The links of an answer, if a client can do something about them.
    fn link(&self, asked: &Asked<'_>) -> Option<HeaderValue> {
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

/// Waits for an application's answer, and sends what it says before.
pub(super) async fn telling(
    duplex: &Duplex<'_, impl Transport>,
    hints: &body::EarlyHints,
    mut answering: Answering,
) -> Result<Answer, Broken> {
    loop {
        match race(answering.as_mut(), hints.told()).await {
            First::A(answer) => return Ok(answer),
            First::B(fields) => {
                let mut interim = Output::new();
                response::encode_interim(StatusCode::EARLY_HINTS, &fields, interim.vec());
                duplex.write(&mut [IoSlice::new(&interim)]).await?;
            }
        }
    }
}
