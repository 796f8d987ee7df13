//! Calls FastCGI and CGI applications, and authorizers. `app` runs the exchange.

use std::rc::Rc;

use http::{StatusCode, Version};
use hurtle_http::cgi::RequestInfo;
use hurtle_http::request::RequestHead;
use hurtle_http::request::framing::BodyLength;

use super::Exchange;
use super::upload::Upload;
use crate::answer::Answer;
use crate::handler::gateway::{AuthorizerVariables, Gateway};
use crate::handler::{Answering, MatchedPath};
use crate::protocol::Protocol;
use crate::site::Resolved;

/// The request data that `cgi::RequestInfo` borrows.
struct Facts {
    method: String,
    target: Vec<u8>,
    host: String,
    user: Option<String>,
    gated: bool,
    length: Option<u64>,
}

impl Facts {
    fn of(request: &RequestHead<'_>, resolved: &Resolved<'_>) -> Facts {
        let (path, query) = resolved.target.unwrap_or_default();
        let gate = resolved.gate();
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
}

impl<T: Protocol> Exchange<T> {
    /// Calls the authorizer of the route. `Err`: the response that refuses the request.
    pub(super) async fn ask_authorizer(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<AuthorizerVariables, Answer> {
        let Some(authorizer) = resolved.authorizer() else {
            return Ok(AuthorizerVariables::new());
        };
        let bad = || Answer::error(StatusCode::BAD_REQUEST, None);
        let fields = self.field_map(request).ok_or_else(bad)?;
        let facts = Facts::of(request, resolved);
        let query = resolved.target.and_then(|(_, query)| query);
        authorizer.authorize(&self.asked(&facts, request, query), &fields).await
    }

    /// Calls a FastCGI or CGI application. `None`: the files beside it answer. `Err`: the response
    /// that replaces the application's.
    pub(super) async fn gateway_call(
        &self,
        request: &RequestHead<'_>,
        gateway: &Rc<Gateway>,
        (resolved, place): (&Resolved<'_>, &MatchedPath<'_>),
        granted: &AuthorizerVariables,
    ) -> Option<Result<(Answering, Upload), Answer>> {
        // The file handler redirects to the path with a slash, which relative links need.
        if gateway.has_files_beside() && place.rest.is_empty() && !place.path.ends_with(b"/") {
            return None;
        }
        let named = match gateway.find(place.rest).await {
            Ok(named) => named?,
            Err(answer) => return Some(Err(answer)),
        };
        if request.method.as_bytes() == b"TRACE" {
            return Some(Err(Answer::trace_refused()));
        }
        let (upload, body) = Upload::new(&self.io, request);
        let Some(made) = self.made(request, body, place.rest, |_, _| {}) else {
            return Some(Err(Answer::error(StatusCode::BAD_REQUEST, None)));
        };
        let base = &place.path[..place.path.len() - place.rest.len()];
        let base = base.strip_suffix(b"/").unwrap_or(base);
        let facts = Facts::of(request, resolved);
        let query = resolved.target.and_then(|(_, query)| query);
        let asked = self.asked(&facts, request, query);
        let rules = place.rules().cloned().collect();
        let bytes_max = self.worker.limits.body_bytes;
        let answering = gateway.call(made, (&asked, base, &named), granted, rules, bytes_max);
        Some(Ok((answering, upload)))
    }

    fn asked<'a>(
        &self,
        facts: &'a Facts,
        request: &RequestHead<'a>,
        query: Option<&'a [u8]>,
    ) -> RequestInfo<'a> {
        RequestInfo {
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
            has_server_auth: facts.gated,
            is_tls: self.io.is_secure(),
            is_trusted: self.trusts_peer(),
            length: facts.length,
        }
    }
}
