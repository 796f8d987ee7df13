//! What an application that is asked by FastCGI or CGI learns of a request, and an authorizer before
//! it. The exchange itself is `app`'s, as with any application.

use std::rc::Rc;

use http::{StatusCode, Version};

use super::Connection;
use super::asked::path_of;
use super::upload::Upload;
use crate::answer::Answer;
use crate::cgi::Asked;
use crate::h1::framing::BodyLength;
use crate::h1::request::Request;
use crate::handler::gateway::{Gateway, Granted};
use crate::handler::{Answering, Place};
use crate::site::Site;
use crate::transport::Transport;

/// A request as `cgi::Asked` borrows it.
struct Facts {
    method: String,
    target: Vec<u8>,
    host: String,
    user: Option<String>,
    gated: bool,
    length: Option<u64>,
}

impl<T: Transport> Connection<T> {
    /// Asks whoever must be asked before a request is answered; `Err`: what it is answered if not.
    pub(super) async fn ask_authorizer(
        &self,
        request: &Request<'_>,
        site: &Site,
    ) -> Result<Granted, Answer> {
        let (path, query) = path_of(&request.target).unwrap_or_default();
        let Some(authorizer) = site.authorizer(path, query, self.client) else {
            return Ok(Granted::new());
        };
        let bad = || Answer::error(StatusCode::BAD_REQUEST, None);
        let fields = self.field_map(request).ok_or_else(bad)?;
        let facts = self.facts(request, site);
        authorizer.ask(&self.asked(&facts, request, query), &fields).await
    }

    /// Has an application answer; `None`: the files beside it do. `Err`: what is answered in its
    /// place.
    pub(super) async fn gateway_call(
        &self,
        request: &Request<'_>,
        gateway: &Rc<Gateway>,
        (site, place): (&Site, &Place<'_>),
        granted: &Granted,
    ) -> Option<Result<(Answering, Upload), Answer>> {
        // As the files beside would: relative links lead astray without the slash.
        if gateway.has_files_beside() && place.rest.is_empty() && !place.path.ends_with(b"/") {
            return None;
        }
        let named = match gateway.find(place.rest).await {
            Ok(named) => named?,
            Err(answer) => return Some(Err(answer)),
        };
        // RFC 9110 9.3.8: it would show what is added here.
        if request.method.as_bytes() == b"TRACE" {
            return Some(Err(Answer::method_refused(true)));
        }
        let (upload, body) = Upload::new(request);
        let Some(made) = self.made(request, body, place.rest, |_, _| {}) else {
            return Some(Err(Answer::error(StatusCode::BAD_REQUEST, None)));
        };
        let base = &place.path[..place.path.len() - place.rest.len()];
        let base = base.strip_suffix(b"/").unwrap_or(base);
        let facts = self.facts(request, site);
        let query = path_of(&request.target).and_then(|(_, query)| query);
        let asked = self.asked(&facts, request, query);
        let rules = place.rules().cloned().collect();
        let bytes_max = self.worker.limits.body_bytes;
        let answering = gateway.call(made, (&asked, base, &named), granted, rules, bytes_max);
        Some(Ok((answering, upload)))
    }

    fn facts(&self, request: &Request<'_>, site: &Site) -> Facts {
        let (path, query) = path_of(&request.target).unwrap_or_default();
        let gate = site.gate(path, query, self.client);
        let mut target = path.to_vec();
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        let host = request.host.filter(|host| !host.name.is_empty());
        let host = host.map_or_else(
            || "localhost".to_owned(),
            |host| {
                let name = String::from_utf8_lossy(host.name);
                host.port.map_or_else(|| name.clone().into_owned(), |port| format!("{name}:{port}"))
            },
        );
        let length = match request.body {
            BodyLength::Exactly(length) => Some(length),
            BodyLength::None | BodyLength::Chunked => None,
        };
        Facts {
            method: String::from_utf8_lossy(request.method.as_bytes()).into_owned(),
            target,
            host,
            user: gate.and_then(|gate| gate.user(request.authorization)),
            gated: gate.is_some(),
            length,
        }
    }

    fn asked<'a>(
        &self,
        facts: &'a Facts,
        request: &Request<'a>,
        query: Option<&'a [u8]>,
    ) -> Asked<'a> {
        Asked {
            method: &facts.method,
            protocol: match self.version(Some(request)) {
                Version::HTTP_10 => "HTTP/1.0",
                Version::HTTP_2 => "HTTP/2.0",
                _ => "HTTP/1.1",
            },
            target: &facts.target,
            query: query.unwrap_or_default(),
            host: &facts.host,
            client: self.client,
            user: facts.user.as_deref(),
            gated: facts.gated,
            secure: self.io.is_secure(),
            trusted: self.trusts_peer(),
            length: facts.length,
        }
    }
}
