//! Requests to a mount with a response cache. A stored response is sent; a missing one is fetched
//! once for all requests that wait for it. `fill` runs the fetch.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, Version};
use hurtle_http::h1::forward::{self, ForwardParams};
use hurtle_http::h1::response::{Fields, field, number_field};
use hurtle_http::request::fields::pairs;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::caching::{self, Directives, Use};
use hurtle_http::semantics::target::encode_path;

use super::Exchange;
use super::duplex::ExchangeError;
use super::fault::named;
use super::fill::{Fill, FillOutcome};
use super::interim::InterimQueue;
use super::outcome::{MissReason, Outcome};
use super::request_info::path_of;
use super::selection::{Source, selected};
use super::upload::Upload;
use super::upstream_exchange::UpstreamRoute;
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::cache::{Cache, FetchResult, Flight, Found, Head, Join, Reader, Stored};
use crate::clock;
use crate::config::EarlyHints;
use crate::handler::proxy::{Proxy, UpstreamRequest, Waits};
use crate::protocol::Protocol;
use crate::rt::{self, First};
use crate::transport::{Output, Taken};

/// Time that a request waits for the head of another request's fetch before it is forwarded.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Attempts of a request to use a fetch after fetches were given up.
const TRIES_MAX: usize = 3;

/// The result of a cache lookup.
pub(super) enum Cached {
    /// The client gets this response.
    Answer(Answer),
    /// An upstream's response for this request only, and its head.
    Pass(Box<(UpstreamRequest, Taken)>),
    /// The fetch failed; the client gets this status.
    Failed(StatusCode),
    /// The request is forwarded without the cache.
    Alone,
    /// The client is gone.
    Error(ExchangeError),
}

/// The proxy, site and path of a request.
#[derive(Clone, Copy)]
pub(super) struct CacheRoute<'a> {
    pub(super) proxy: &'a Rc<Proxy>,
    pub(super) site: usize,
    /// Decoded, after the site's rules.
    pub(super) path: &'a [u8],
}

impl UpstreamRoute<'_> {
    pub(super) fn route(&self) -> CacheRoute<'_> {
        CacheRoute { proxy: &self.proxy, site: self.site, path: &self.path }
    }
}

/// The parts of a request that the cache uses.
struct CacheRequest<'a> {
    cache: &'a Arc<Cache>,
    key: &'a [u8],
    directives: Directives,
}

impl<T: Protocol> Exchange<T> {
    /// Returns the parameters for forwarding a request.
    pub(super) fn onward<'a>(
        &self,
        request: &RequestHead<'a>,
        path: &'a [u8],
        upgrade: Option<&'a str>,
    ) -> ForwardParams<'a> {
        ForwardParams {
            path,
            query: path_of(&request.target).and_then(|(_, query)| query),
            authority: "",
            peer: self.peer,
            client: self.client,
            is_trusted: self.trusts_peer(),
            is_tls: self.io.is_secure(),
            is_http2: self.io.version() == Version::HTTP_2,
            upgrade,
            cache_conditions: None,
            forwarded: None,
        }
    }

    fn key(&self, request: &RequestHead<'_>, path: &[u8]) -> Output {
        let mut key = Output::new();
        let path = encode_path(path);
        forward::identity(key.vec(), request, &self.onward(request, path.as_bytes(), None));
        key
    }

    /// Removes the stored responses of a target that a request has changed (RFC 9111 section 4.4).
    pub(super) fn invalidate(
        &self,
        request: &RequestHead<'_>,
        asked: &UpstreamRoute<'_>,
        status: StatusCode,
    ) {
        if let Some(cache) = asked.proxy.cache()
            && caching::is_unsafe(request.method.as_bytes())
            && status.as_u16() < 400
        {
            cache.invalidate(&self.key(request, &asked.path));
        }
    }

    /// Returns the stored response if it may be sent. Never waits.
    pub(super) fn stored_answer(
        &mut self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
    ) -> Option<Answer> {
        let cache = route.proxy.cache()?;
        if !may_answer(request) {
            self.outcome = Some(Outcome::Passed(MissReason::Method));
            return None;
        }
        if is_for_the_origin(request) {
            self.outcome = Some(Outcome::Bypassed("precondition"));
            return None;
        }
        let (directives, now_ms) = (directives(request), clock::now_ms());
        let key = self.key(request, route.path);
        let wanted = CacheRequest { cache, key: &key, directives };
        let found = cache.find(&key, request.fields, now_ms);
        let answer = self.usable_answer(request, route, &wanted, &found, now_ms)?;
        self.note_shortcut(request, route, &key);
        Some(answer)
    }

    /// Returns the response that was found if it may be sent.
    fn usable_answer(
        &mut self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        wanted: &CacheRequest<'_>,
        found: &Found,
        now_ms: u64,
    ) -> Option<Answer> {
        let stored = found.stored.as_ref()?;
        let head = &stored.head;
        match caching::usable(&head.freshness, head.age(now_ms), &wanted.directives) {
            Use::Ask => return None,
            Use::Fresh | Use::Stale => {}
            Use::Meanwhile => self.renew(request, route, wanted, found),
        }
        Some(self.hit(request, route, stored, now_ms, Outcome::Hit))
    }

    /// Starts to validate a stale response that is sent at the same time.
    fn renew(
        &self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        wanted: &CacheRequest<'_>,
        found: &Found,
    ) {
        let (lines, now_ms) = (request.fields, clock::now_ms());
        if request.method == Method::Get
            && let Join::Lead(flight) = wanted.cache.join(wanted.key, lines, now_ms, found)
        {
            let fill = self.fetch(request, route, wanted, flight, found.stored.clone());
            rt::spawn(fill.run());
        }
    }

    /// Looks up the cache, which fetches a missing response.
    pub(super) async fn cached(
        &mut self,
        request: &RequestHead<'_>,
        asked: &UpstreamRoute<'_>,
    ) -> Cached {
        let Some(cache) = asked.proxy.cache() else { return Cached::Alone };
        if matches!(self.outcome, Some(Outcome::Bypassed(_) | Outcome::Passed(MissReason::Method)))
        {
            return Cached::Alone;
        }
        let directives = directives(request);
        let route = asked.route();
        let key = self.key(request, route.path);
        let wanted = CacheRequest { cache, key: &key, directives };
        for _ in 0..TRIES_MAX {
            let now_ms = clock::now_ms();
            let found = cache.find(wanted.key, request.fields, now_ms);
            if let Some(answer) = self.usable_answer(request, route, &wanted, &found, now_ms) {
                return Cached::Answer(answer);
            }
            let why = miss_reason(&found, &wanted.directives);
            if wanted.directives.only_if_cached {
                // RFC 9111 section 5.2.1.7: `only-if-cached` without a stored response is 504.
                return Cached::Answer(Answer::error(StatusCode::GATEWAY_TIMEOUT, None));
            }
            self.outcome = Some(Outcome::Passed(why));
            if found.uncacheable {
                self.outcome = Some(Outcome::Bypassed("uncacheable"));
                return Cached::Alone;
            }
            if request.range.is_some() {
                self.outcome = Some(Outcome::Passed(MissReason::Partial));
            }
            if request.range.is_some() || request.method == Method::Head {
                return Cached::Alone;
            }
            let joined = cache.join(wanted.key, request.fields, now_ms, &found);
            let stale = found.stored;
            let (fetched, outcome) = match joined {
                Join::Anew => continue,
                Join::Alone => return Cached::Alone,
                Join::Coming(reader) => (
                    Some(FillOutcome::Shared(FetchResult::Coming(reader))),
                    Outcome::Collapsed(why),
                ),
                Join::Lead(flight) => {
                    let fill = self.fetch(request, route, &wanted, flight, stale.clone());
                    match self.lead(request, route, fill).await {
                        Ok(fetched) => (fetched, Outcome::Stored(why)),
                        Err(broken) => return Cached::Error(broken),
                    }
                }
                Join::Wait(told) => {
                    let told = rt::race(told.wait(), rt::sleep(WAIT_MAX));
                    match self.until_told(told).await {
                        Ok(First::A(result)) => {
                            (result.map(FillOutcome::Shared), Outcome::Collapsed(why))
                        }
                        Ok(First::B(())) => {
                            self.outcome = Some(Outcome::Bypassed("waited-too-long"));
                            return Cached::Alone;
                        }
                        Err(broken) => return Cached::Error(broken),
                    }
                }
            };
            let Some(fetched) = fetched else { continue };
            return self.after_fetch(request, route, &wanted, (fetched, outcome), stale);
        }
        Cached::Alone
    }

    /// Starts a fetch, relays interim responses, and returns the outcome. `None`: the fetch was
    /// given up.
    async fn lead(
        &mut self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        mut fill: Fill,
    ) -> Result<Option<FillOutcome>, ExchangeError> {
        let (leader, told) = rt::once();
        let site = self.worker.sites.site(route.site);
        let interim = InterimQueue::new(site.early_hints() == EarlyHints::Off);
        fill.leader = Some(leader);
        // RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
        fill.interim = (!request.http10).then(|| Rc::clone(&interim));
        rt::spawn(fill.run());
        self.until_fetched(told, &interim).await
    }

    /// Waits for a result, or until the client leaves.
    async fn until_told<R>(&mut self, told: impl Future<Output = R>) -> Result<R, ExchangeError> {
        self.beside(&mut Upload::none(), &Waits::default(), async |_| told.await).await
    }

    fn after_fetch(
        &mut self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        wanted: &CacheRequest<'_>,
        (fetched, outcome): (FillOutcome, Outcome),
        stale: Option<Arc<Stored>>,
    ) -> Cached {
        match fetched {
            FillOutcome::Pass(passed) => Cached::Pass(passed),
            FillOutcome::Shared(FetchResult::Released) => Cached::Alone,
            FillOutcome::Shared(FetchResult::Coming(reader)) => {
                if !reader.live().head.answers(request.fields) {
                    return Cached::Alone;
                }
                Cached::Answer(self.coming(request, route, reader, outcome))
            }
            FillOutcome::Shared(FetchResult::Stored(stored)) => {
                if !stored.head.answers(request.fields) {
                    return Cached::Alone;
                }
                let same = |old: &Arc<Stored>| Arc::ptr_eq(&old.content, &stored.content);
                let refreshed = stale.is_some_and(|old| same(&old));
                let outcome = if refreshed { Outcome::Revalidated } else { outcome };
                let now_ms = clock::now_ms();
                Cached::Answer(self.hit(request, route, &stored, now_ms, |_| outcome))
            }
            FillOutcome::Shared(FetchResult::Failed(status)) => {
                let now_ms = clock::now_ms();
                let usable = |stored: &Arc<Stored>| {
                    let (head, directives) = (&stored.head, &wanted.directives);
                    caching::usable_on_error(&head.freshness, head.age(now_ms), directives)
                };
                match stale.filter(usable) {
                    Some(stored) => {
                        let hit = Outcome::HitOnError;
                        Cached::Answer(self.hit(request, route, &stored, now_ms, hit))
                    }
                    None => Cached::Failed(status),
                }
            }
        }
    }

    fn fetch(
        &self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        wanted: &CacheRequest<'_>,
        flight: Flight,
        stale: Option<Arc<Stored>>,
    ) -> Fill {
        let mut conditions = Vec::new();
        if let Some(stale) = &stale {
            let said = caching::of_response(pairs(&stale.head.lines));
            // RFC 9111 section 4.3.1.
            said.etag.inspect(|etag| field(&mut conditions, "If-None-Match", etag));
            let modified = said.last_modified;
            modified.inspect(|date| field(&mut conditions, "If-Modified-Since", date));
        }
        let path = encode_path(route.path);
        let onward = self.onward(request, path.as_bytes(), None);
        let onward = ForwardParams { cache_conditions: Some(&conditions), ..onward };
        Fill {
            proxy: Rc::clone(route.proxy),
            upstream: UpstreamRequest::new(route.proxy, request, RequestBody::default(), onward),
            flight,
            path: route.path.to_vec(),
            client: self.client,
            what: named(request),
            lines: request.fields.to_lines(),
            directives: wanted.directives,
            authorized: request.authorization.is_some(),
            stale,
            leader: None,
            interim: None,
        }
    }

    /// Builds the response from a stored one.
    pub(super) fn hit(
        &mut self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        stored: &Stored,
        now_ms: u64,
        outcome: impl FnOnce(i64) -> Outcome,
    ) -> Answer {
        let head = &stored.head;
        let age = head.age(now_ms);
        let outcome = outcome(head.freshness.lifetime as i64 - age as i64);
        self.adapted(request, route, head, Source::Kept(&stored.content.kept), age, outcome)
    }

    fn coming(
        &mut self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        reader: Reader,
        outcome: Outcome,
    ) -> Answer {
        let live = Arc::clone(reader.live());
        let age = live.head.age(clock::now_ms());
        self.adapted(request, route, &live.head, Source::Coming(reader), age, outcome)
    }

    /// Adapts a response to this client: the whole, a range, or 304, with the site's header rules.
    fn adapted(
        &mut self,
        request: &RequestHead<'_>,
        route: CacheRoute<'_>,
        head: &Head,
        source: Source<'_>,
        age: u64,
        outcome: Outcome,
    ) -> Answer {
        self.outcome = Some(outcome);
        let spare = self.worker.spare_lines.take();
        let (status, mut lines, body) = selected(request, head, source, spare);
        let (removed, set) = self.rules(route.site, route.path, head.status);
        if !removed.is_empty() {
            lines = forward::edit_lines(&lines, b"", &removed, &set);
        }
        if age > 0 || matches!(outcome, Outcome::Hit(_) | Outcome::HitOnError(_)) {
            // RFC 9111 section 5.1.
            number_field(&mut lines, "Age", age);
        }
        outcome.line(&mut lines);
        Answer { status, fields: Fields::Dated(lines), body }
    }
}

/// Returns whether a cache may answer a request.
pub(super) fn may_answer(request: &RequestHead<'_>) -> bool {
    matches!(request.method, Method::Get | Method::Head)
        && request.body == BodyLength::None
        && forward::upgrades(request).is_none()
}

/// Returns whether a request has preconditions that only the origin evaluates (RFC 9111 section
/// 4.3.2).
pub(super) fn is_for_the_origin(request: &RequestHead<'_>) -> bool {
    request.if_match.is_some() || request.if_unmodified_since.is_some()
}

/// Returns the cache directives of a request.
pub(super) fn directives(request: &RequestHead<'_>) -> Directives {
    match request.has_cache_control {
        true => Directives::of_request(request.fields.iter()),
        false => Directives::default(),
    }
}

fn miss_reason(found: &Found, directives: &Directives) -> MissReason {
    match &found.stored {
        Some(_) if directives.no_cache || directives.max_age.is_some() => MissReason::Request,
        Some(_) => MissReason::Stale,
        None if found.varies => MissReason::VaryMiss,
        None => MissReason::UriMiss,
    }
}
