//! The third step: calls the handler of the route. Files and stored responses that are known need
//! neither a route nor a handler.

use http::{StatusCode, header};
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::target::Target;

use super::client::{ExchangeClient, Incoming};
use super::finish::finish_stored;
use super::worker::Worker;
use super::{Connection, Last};
use crate::answer::{Answer, Needs};
use crate::compress::forbids;
use crate::files::{self, FileQuery, Key};
use crate::handler::client::{Client, ClientInfo, ExchangeError};
use crate::handler::proxy::cache::ShortcutKey;
use crate::handler::request::{HandlerRequest, MatchedPath, RequestContext, SiteInfo, file_query};
use crate::handler::{Handled, InternalRedirect, Outcome, own_response, refusal};
use crate::protocol::Protocol;
use crate::site::{MountRef, Resolved};

impl<T: Protocol> Connection<T> {
    /// Returns the response that the file cache or a response cache has for a repeated request.
    pub(super) fn known_answer(
        &mut self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
        now_ms: u64,
    ) -> Option<Answer> {
        if request.body != BodyLength::None {
            return None;
        }
        let site = resolved.site;
        if site.has_files()
            && let Some(answer) = self.known_file(request, resolved, now_ms)
        {
            return Some(answer);
        }
        if !site.stores_for_all()
            || self.trusted().is_some()
            || !site.allows_stored(&self.visitor(request, now_ms))
        {
            return None;
        }
        let key = ShortcutKey::new(request, site.key(), self.io.is_secure())?;
        let Worker { shortcuts, buffers, .. } = &*self.worker;
        let known = shortcuts.answer(request, &key, (buffers, now_ms), |answer, path| {
            finish_stored(answer, site, path, self.io.is_secure());
        });
        let (answer, status) = known?;
        self.exchange.cache_status = Some(status);
        self.count_for(resolved.metrics());
        Some(answer)
    }

    /// Returns the response for a file that is in the file cache.
    fn known_file(
        &mut self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
        now_ms: u64,
    ) -> Option<Answer> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return None;
        }
        let site = resolved.site;
        if site.edits().withholds_hsts(self.io.is_secure()) {
            return None;
        }
        let entry = self.worker.store.fresh(resolved.file_key()?, now_ms)?;
        if !site.allows_known_file(&entry, &self.visitor(request, now_ms)) {
            return None;
        }
        let mut answer =
            files::answer(&entry, StatusCode::OK, &file_query(request, self.is_private));
        // The gates are none of CORS.
        answer.needs = Needs::Nothing;
        // A file that was edited or has grown has a stale head, and must be opened again.
        if !answer.body.is_unchanged_lately(now_ms) {
            return None;
        }
        self.count_for(entry.route.as_ref().unwrap_or(site.own_metrics()));
        self.time_by(site.timeouts_of(&entry));
        self.metrics.file_hits.add(1);
        Some(answer)
    }

    /// Handles a request for a host without a site, or for an https URL in clear.
    pub(super) async fn refuse_host(
        &mut self,
        request: &RequestHead<'_>,
    ) -> (Result<Answer, ExchangeError>, Incoming) {
        if let Some(answer) = self.challenge(request) {
            return (Ok(answer), Incoming::of(request));
        }
        let needs_tls = self.needs_tls(request);
        let mut client = ExchangeClient::new(self, request, None);
        let is_for_server = request.target == Target::Asterisk;
        let answer = match refusal(request) {
            _ if needs_tls => Answer::error(
                StatusCode::MISDIRECTED_REQUEST,
                Some("an https URL needs a connection with TLS"),
            ),
            Some(refused) if request.method != Method::Options || is_for_server => refused,
            _ => Answer::error(StatusCode::MISDIRECTED_REQUEST, Some(&client.unknown_host())),
        };
        let discarded = client.discard_body(true).await;
        (discarded.map(|()| answer), client.incoming)
    }

    /// Returns the file of an internal redirect.
    pub(super) async fn internal_file(
        &self,
        request: &RequestHead<'_>,
        (worker, resolved): (&Worker, &Resolved<'_>),
        redirect: &InternalRedirect,
    ) -> Answer {
        let mount = resolved.mount().map(|(mount, _)| mount);
        let Some(internal) = mount.and_then(|mount| mount.internal()) else {
            return Answer::error(StatusCode::NOT_FOUND, None);
        };
        let key = Key { site: resolved.site.key(), path: b"" };
        let mut query = HandlerRequest::new(request, key, None, self.is_private);
        // RFC 9110 sections 13.2.1 and 14.2: preconditions and ranges apply to GET and HEAD only.
        if !matches!(request.method, Method::Get | Method::Head) {
            query.file = FileQuery::default();
        }
        let control = resolved.edits().value(&header::CACHE_CONTROL, &resolved.path());
        if control.is_some_and(|control| forbids(control.as_bytes())) {
            query.file.accept_encoding = None;
        }
        internal.answer(&worker.store, redirect, &query).await
    }

    /// Responds to a request without a handler.
    pub(super) async fn answer_for_site(
        &mut self,
        request: &RequestHead<'_>,
        worker: &Worker,
        mut resolved: Resolved<'_>,
    ) -> Last {
        let mut client = ExchangeClient::new(self, request, None);
        let handled = own_answer(request, &mut resolved, &mut client).await;
        let incoming = client.incoming;
        self.write(request, (worker, &resolved), handled, incoming).await
    }

    /// Returns the request as handlers get it.
    #[inline(always)] // A move costs as much as making it.
    pub(super) fn context<'a>(
        &self,
        request: &'a RequestHead<'a>,
        (worker, resolved): (&'a Worker, &'a Resolved<'_>),
        (mount, matched): (&'a MountRef<'a>, MatchedPath<'a>),
        granted: &'a [(Vec<u8>, Vec<u8>)],
        now_ms: u64,
    ) -> RequestContext<'a> {
        let has_internal_files = mount.internal().is_some();
        let context = self.context_without_mount(request, (worker, resolved), matched, now_ms);
        RequestContext { granted, has_internal_files, ..context }
    }

    /// Returns the request as gates get it that also decide about paths without a mount.
    #[inline(always)] // A move costs as much as making it.
    pub(super) fn context_without_mount<'a>(
        &self,
        request: &'a RequestHead<'a>,
        (worker, resolved): (&'a Worker, &'a Resolved<'_>),
        matched: MatchedPath<'a>,
        now_ms: u64,
    ) -> RequestContext<'a> {
        let site = resolved.site;
        RequestContext {
            head: request,
            target: resolved.target().unwrap_or_default(),
            matched,
            site: SiteInfo {
                key: resolved.file_key().map_or(site.key(), |key| key.site),
                early_hints: site.early_hints(),
                stores_for_all: site.stores_for_all(),
            },
            client: ClientInfo {
                peer: self.peer,
                address: self.exchange.client,
                trusted: self.trusted(),
                is_tls: self.io.is_secure(),
                version: self.io.version(),
                port: self.slot.port(),
            },
            passwords: resolved.passwords(),
            granted: &[],
            place: None,
            has_internal_files: false,
            store: &worker.store,
            buffers: &worker.buffers,
            shortcuts: &worker.shortcuts,
            body_bytes_max: resolved.body_bytes().unwrap_or(worker.limits.body_bytes),
            now_ms,
        }
    }
}

/// Responds to a request whose route is a response of the site, or whose target has no path.
async fn own_answer(
    request: &RequestHead<'_>,
    resolved: &mut Resolved<'_>,
    client: &mut impl Client,
) -> Handled {
    let has_readers = resolved.site.has_readers();
    let refused = match resolved.take_answer() {
        // A redirect of a rule is for every method, like that of a mount.
        Some(answer) if answer.status.is_redirection() => {
            client.discard_body(!matches!(request.method, Method::Get | Method::Head)).await?;
            return match request.method {
                Method::Other(b"TRACE") => Ok(Outcome::Answer(Answer::trace_refused())),
                _ => own_response(answer),
            };
        }
        // The handlers of such a site take all methods, so the site's response is for all.
        Some(answer) if has_readers && matches!(request.method, Method::Other(_)) => {
            return own_response(answer);
        }
        Some(answer) => refusal(request).ok_or(own_response(answer)),
        None => {
            let not_found = Ok(Outcome::Answer(Answer::error(StatusCode::NOT_FOUND, None)));
            refusal(request).ok_or(not_found)
        }
    };
    client.discard_body(refused.is_ok()).await?;
    refused.map_or_else(|handled| handled, |refused| Ok(Outcome::Answer(refused)))
}
