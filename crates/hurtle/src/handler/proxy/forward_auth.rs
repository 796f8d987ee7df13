//! Forward authentication: asks an HTTP server about each request before it is handled, as nginx's
//! `auth_request` does. Only a 2xx of that server lets the request pass. 401, 403 and redirects are
//! relayed to the client; everything else is 502 or 504.

use std::rc::Rc;

use http::{HeaderName, StatusCode};
use hurtle_http::message::field_lines::field;
use hurtle_http::message::forward::{self, ForwardParams};
use hurtle_http::message::response_head::ResponseHead;
use hurtle_http::request::fields::is_same;
use hurtle_http::request::{BodyLength, Method, RequestFields, RequestHead};

use super::super::client::{Client, Continue, ExchangeError};
use super::super::request::RequestContext;
use super::super::wait::Waits;
use super::super::{Handled, HandlerError, Outcome};
use super::attempt_log::log_failure;
use super::forward::{INTERIM_MAX, failed, is_interim};
use super::{Key, ListenOutcome, Proxy, RawHead, UpstreamError, UpstreamRequest};
use crate::answer::Needs;
use crate::body::RequestBody;
use crate::clock;
use crate::config;
use crate::disk::{Disk, Lane};
use crate::tls::UpstreamConfigs;

/// Most attempts of one check. The server may close an idle connection while it is used.
const TRIES_MAX: usize = 2;

/// Fields that only this server sets on the subrequest.
const OWN_FIELDS: [&[u8]; 2] = [b"x-forwarded-method", b"x-forwarded-uri"];

/// The authentication server of a site or mount, for one worker.
#[derive(Debug)]
pub(crate) struct ForwardAuth {
    config: config::ForwardAuth,
    server: Rc<Proxy>,
}

impl ForwardAuth {
    /// Creates the connection to the server; its name is resolved on a disk thread.
    pub(crate) fn new(
        config: &config::ForwardAuth,
        disk: &Disk,
        lane: Lane,
        tls: &UpstreamConfigs,
    ) -> ForwardAuth {
        let tls = tls.of_server(config).cloned();
        // Its redirects and cookies are those of its own site, which clients visit to log in.
        let proxy = config::Proxy {
            rewrite_location: false,
            ..config::Proxy::new(vec![config.upstream.clone()])
        };
        let server = Rc::new(Proxy::new(proxy, disk, lane, tls, None));
        ForwardAuth { config: config.clone(), server }
    }

    /// Returns whether these have its configuration of TLS: it is another one after its files have
    /// changed.
    pub(crate) fn uses(&self, tls: &UpstreamConfigs) -> bool {
        self.server.uses(tls.of_server(&self.config))
    }

    /// Starts to resolve its name periodically, once.
    pub(crate) fn watch(&self) {
        self.server.watch();
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.config.url
    }

    /// Returns the request fields that the server's response sets.
    pub(crate) fn own_fields(&self) -> &[HeaderName] {
        &self.config.copy_headers
    }

    /// Asks the server about a request. If it may pass, it has the returned field lines in place of
    /// its own, each ended by CRLF.
    ///
    /// # Errors
    /// The client gets this outcome.
    pub(crate) async fn check<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
    ) -> Result<Vec<u8>, Box<Handled>> {
        let mut upstream = Box::new(self.subrequest(request));
        let wait_ms = u64::try_from(self.config.timeout.as_millis()).unwrap_or(u64::MAX);
        let due_ms = clock::now_ms().saturating_add(wait_ms);
        let asked = client.until(due_ms, ask(&mut upstream)).await;
        let fault = |upstream: &UpstreamRequest, error: &dyn std::fmt::Display, status| {
            log_failure(upstream, &request.describe(), error, status);
            Err(Box::new(Err(failed(status))))
        };
        let head = match asked {
            Ok(Ok(head)) => head,
            Ok(Err(error)) => return fault(&upstream, &error, StatusCode::BAD_GATEWAY),
            Err(ExchangeError::UpstreamTimeout) => {
                let fault = fault(&upstream, &upstream.phase(), StatusCode::GATEWAY_TIMEOUT);
                upstream.timed_out();
                return fault;
            }
            Err(error) => return Err(Box::new(Err(HandlerError::Exchange(error)))),
        };
        match &head.parse() {
            Ok(reply) if reply.status.is_success() => {
                let lines = self.edited_lines(request.head, reply);
                upstream.succeeded(reply.status);
                upstream.discard(reply);
                return Ok(lines);
            }
            Ok(reply) if !is_relayed(reply.status) => {
                let what = format!("its status {} is no decision", reply.status.as_u16());
                return fault(&upstream, &what, StatusCode::BAD_GATEWAY);
            }
            // The request's body is discarded after the response.
            Ok(_) => drop(client.body(Continue::ByHandler)),
            // Reported below.
            Err(_) => {}
        }
        let request = RequestContext { has_internal_files: false, ..*request };
        let mut handled = self.server.handle_head(&request, client, upstream, &head);
        if let Ok(Outcome::Stream(response)) = &mut handled {
            // The mount's policy is for its handler.
            response.needs = Needs::Edits;
        }
        Err(Box::new(handled))
    }

    /// Returns the subrequest: the request's fields without its body, its preconditions and its
    /// range.
    fn subrequest(&self, request: &RequestContext<'_>) -> UpstreamRequest {
        let head = request.head;
        let mut lines = Vec::new();
        let mut count = 0;
        for (name, value) in head.fields.iter() {
            if !OWN_FIELDS.iter().any(|own| is_same(name, own)) {
                line(&mut lines, name, value);
                count += 1;
            }
        }
        let subrequest = RequestHead {
            // The response to HEAD has no body, so that it can be relayed to a client's HEAD.
            method: if head.method == Method::Head { Method::Head } else { Method::Get },
            body: BodyLength::None,
            expect_continue: false,
            te_trailers: false,
            fields: RequestFields::Lines(&lines),
            field_count: count,
            section: None,
            ..head.clone()
        };
        let mut added = Vec::new();
        field(&mut added, "X-Forwarded-Method", head.method_text());
        let (path, query) = request.target;
        let uri = match query {
            Some(query) => [path, b"?", query].concat(),
            None => path.to_vec(),
        };
        field(&mut added, "X-Forwarded-Uri", &uri);
        let client = request.client;
        let params = ForwardParams {
            path: self.config.path.as_bytes(),
            query: None,
            authority: "",
            peer: client.peer,
            client: client.address,
            trusted: client.trusted,
            is_tls: client.is_tls,
            version: client.version,
            upgrade: None,
            websocket_key: None,
            // These lines replace preconditions and the range: the server decides about the
            // request, not about a representation.
            cache_conditions: Some(&added),
            forwarded: None,
            edits: None,
        };
        UpstreamRequest::new(&self.server, &subrequest, RequestBody::default(), params)
    }

    /// Returns the request's field lines with the copied fields of the server's response. A
    /// client's own fields of these names are removed in any case.
    fn edited_lines(&self, request: &RequestHead<'_>, reply: &ResponseHead<'_>) -> Vec<u8> {
        let is_copied = |name: &[u8]| {
            self.config.copy_headers.iter().any(|copied| is_same(name, copied.as_str().as_bytes()))
        };
        let mut lines = Vec::new();
        for (name, value) in request.fields.iter().filter(|(name, _)| !is_copied(name)) {
            line(&mut lines, name, value);
        }
        forward::each_for_client(reply, |name, value| {
            if is_copied(name) {
                line(&mut lines, name, value);
            }
        });
        lines
    }
}

/// Sends the subrequest and waits for the final head of its response.
async fn ask(upstream: &mut UpstreamRequest) -> Result<RawHead, UpstreamError> {
    let mut tries = 0;
    loop {
        tries += 1;
        if !upstream.choose(Key::Any, clock::now_ms()) {
            return Err(UpstreamError::Gone(None));
        }
        let error = match receive(upstream).await {
            Ok(head) => return Ok(head),
            Err(error) => error,
        };
        let is_retried = tries < TRIES_MAX && upstream.may_retry(&error);
        upstream.failed(&error);
        // Only an idle connection that was closed meanwhile leaves the server to be tried again.
        if !is_retried || upstream.has_tried_all() {
            return Err(error);
        }
    }
}

async fn receive(upstream: &mut UpstreamRequest) -> Result<RawHead, UpstreamError> {
    // The caller has one deadline for the whole check.
    let waits = Waits::default();
    upstream.connect(&waits).await?;
    for _ in 0..INTERIM_MAX {
        if let ListenOutcome::Head(head) = upstream.listen(&waits).await?
            && !is_interim(&head)?
        {
            return Ok(head);
        }
    }
    Err(UpstreamError::TooManyInterim)
}

/// Returns whether the client gets a response with this status.
fn is_relayed(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308 | 401 | 403)
}

fn line(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}
