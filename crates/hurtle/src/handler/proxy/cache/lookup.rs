//! Finds the response to a request: a stored one is sent; a missing one is fetched once for all
//! requests that wait for it.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hurtle_http::message::field_lines::{field, number_field};
use hurtle_http::message::forward::{self, ForwardParams};
use hurtle_http::message::response::Fields;
use hurtle_http::request::fields::pairs;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::caching::{self, Directives, Use};

use super::super::super::client::{Client, ExchangeError, InterimSender};
use super::super::super::request::RequestContext;
use super::super::super::wait::Waits;
use super::super::super::{Handled, Outcome};
use super::super::forward::{failed, forward_params};
use super::super::path::{canonical, spelling};
use super::super::{Proxy, UpstreamRequest};
use super::fetch::{Fetch, LeaderResult};
use super::interim::{InterimQueue, relay_until_fetched};
use super::partial::{RangeFetch, covers};
use super::selection::{Source, selected};
use crate::answer::{Answer, Needs};
use crate::body::RequestBody;
use crate::cache::{
    Cache, CacheStatus, FetchResult, Flight, Found, Head, Join, MissReason, Stored,
    range_fetch_name,
};
use crate::clock;
use crate::config::{EarlyHints, RequestFields};
use crate::rt::{self, First, oneshot};
use crate::transport::Output;

/// Time that a request waits for the head of another request's fetch before it is forwarded.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum number of fetches that a request waits for if each is abandoned.
const TRIES_MAX: usize = 3;

/// A look-up: the cache, the request's key in it, and its directives.
struct Lookup<'a> {
    proxy: &'a Rc<Proxy>,
    request: &'a RequestContext<'a>,
    cache: &'a Arc<Cache>,
    key: &'a [u8],
    directives: Directives,
}

/// The result of one attempt to use a fetch.
enum Attempt {
    /// The request is handled.
    Handled(Handled),
    /// The request is forwarded without the cache.
    Bypass,
    /// The look-up is repeated.
    Retry,
}

impl Proxy {
    /// Removes the stored responses of a target that a request has changed (RFC 9111 section 4.4).
    pub(in super::super) fn invalidate(&self, request: &RequestContext<'_>, status: StatusCode) {
        if let Some(cache) = self.cache()
            && caching::is_unsafe(request.head.method.as_bytes())
            && status.as_u16() < 400
        {
            // Other spellings stay until they expire.
            let (sent, canonical) = (spelling(request), canonical(request.matched.path));
            cache.invalidate(&self.cache_key_of(request, &sent, request.target.0));
            if sent != canonical || *canonical != *request.target.0 {
                cache.invalidate(&self.cache_key_of(request, &canonical, &canonical));
            }
        }
    }

    /// Returns the stored response if it may be sent. Never waits.
    pub(in super::super) fn stored_answer(
        self: &Rc<Proxy>,
        request: &RequestContext<'_>,
        status: &mut Option<CacheStatus>,
    ) -> Option<Answer> {
        let cache = self.cache()?;
        if !may_answer(request.head) {
            *status = Some(CacheStatus::Passed(MissReason::Method));
            return None;
        }
        if is_for_the_origin(request.head) {
            *status = Some(CacheStatus::Bypassed("precondition"));
            return None;
        }
        if request.head.is_identified {
            *status = Some(CacheStatus::Bypassed("authentication"));
            return None;
        }
        let key = self.cache_key(request);
        let directives = directives(request.head);
        let lookup = Lookup { proxy: self, request, cache, key: &key, directives };
        let found = cache.find(&key, request.head.fields, request.now_ms);
        let answer = lookup.usable_answer(&found, request.now_ms, status)?;
        request.shortcuts.add(request, self, &key);
        Some(answer)
    }

    /// Looks up the cache, and fetches a missing response. `None`: the request is forwarded without
    /// the cache.
    pub(in super::super) async fn fetch_answer<C: Client>(
        self: &Rc<Proxy>,
        request: &RequestContext<'_>,
        client: &mut C,
    ) -> Option<Handled> {
        let cache = self.cache()?;
        let is_bypassed = |status| {
            matches!(status, CacheStatus::Bypassed(_) | CacheStatus::Passed(MissReason::Method))
        };
        if client.cache_status().is_some_and(is_bypassed) {
            return None;
        }
        let key = self.cache_key(request);
        let directives = directives(request.head);
        let lookup = Lookup { proxy: self, request, cache, key: &key, directives };
        for _ in 0..TRIES_MAX {
            match lookup.attempt(client).await {
                Attempt::Handled(handled) => return Some(handled),
                Attempt::Bypass => return None,
                Attempt::Retry => {}
            }
        }
        None
    }

    fn cache_key(&self, request: &RequestContext<'_>) -> Output {
        self.cache_key_of(request, &spelling(request), request.target.0)
    }

    /// Returns the key of a request with its path in this spelling. `sent`: the client's own path.
    fn cache_key_of(&self, request: &RequestContext<'_>, path: &[u8], sent: &[u8]) -> Output {
        let mut key = Output::new();
        forward::identity(key.vec(), request.head, &forward_params(request, path, None));
        // Rules may forward different targets to one.
        if self.config().request_fields.as_ref().is_some_and(RequestFields::has_sent_target) {
            key.vec().push(b'\n');
            key.vec().extend_from_slice(sent);
            request.target.1.into_iter().for_each(|query| key.vec().extend([b"?", query].concat()));
        }
        key
    }
}

impl Lookup<'_> {
    /// Looks up the cache once, and uses or runs a fetch.
    async fn attempt<C: Client>(&self, client: &mut C) -> Attempt {
        let (request, now_ms) = (self.request.head, clock::now_ms());
        let found = self.cache.find(self.key, request.fields, now_ms);
        if let Some(answer) = self.usable_answer(&found, now_ms, client.cache_status()) {
            return Attempt::Handled(Ok(Outcome::Answer(answer)));
        }
        let reason = self.miss_reason(&found);
        if self.directives.only_if_cached {
            // RFC 9111 section 5.2.1.7: `only-if-cached` without a stored response is 504.
            let answer = Answer::error(StatusCode::GATEWAY_TIMEOUT, None);
            return Attempt::Handled(Ok(Outcome::Answer(answer)));
        }
        let status = client.cache_status();
        *status = Some(CacheStatus::Passed(reason));
        if found.uncacheable && found.stored.is_none() {
            *status = Some(CacheStatus::Bypassed("uncacheable"));
            return Attempt::Bypass;
        }
        if request.method == Method::Head {
            return Attempt::Bypass;
        }
        let range = RangeFetch::of(request, found.stored.as_deref());
        if request.range.is_some() && range.is_none() {
            *status = Some(CacheStatus::Passed(MissReason::Partial));
            return Attempt::Bypass;
        }
        let joined = self.cache.join(&self.fetch_name(range), request.fields, now_ms, &found);
        let stale = found.stored.filter(|stored| covers(stored, request));
        let (fetched, status) = match joined {
            Join::Retry => return Attempt::Retry,
            Join::Bypass => return Attempt::Bypass,
            // It is stale already, or the request does not accept it.
            Join::Arriving(reader) if !self.accepts(&reader.live().head, now_ms) => {
                return Attempt::Bypass;
            }
            Join::Arriving(reader) => (
                Some(LeaderResult::Shared(FetchResult::Arriving(reader))),
                CacheStatus::Collapsed(reason),
            ),
            Join::Lead(flight) => match self.lead(client, flight, stale.clone(), range).await {
                Ok(fetched) => (fetched, CacheStatus::Stored(reason)),
                Err(error) => return Attempt::Handled(Err(error.into())),
            },
            Join::Wait(result) => {
                let waiting = async |_: &dyn InterimSender| {
                    rt::race(result.recv(), rt::sleep(WAIT_MAX)).await
                };
                match client.beside(&Waits::default(), waiting).await {
                    Ok(First::A(result)) => {
                        (result.map(LeaderResult::Shared), CacheStatus::Collapsed(reason))
                    }
                    Ok(First::B(())) => {
                        let status = client.cache_status();
                        if let Some(answer) = self.answer_on_error(stale, status) {
                            return Attempt::Handled(Ok(Outcome::Answer(answer)));
                        }
                        *status = Some(CacheStatus::Bypassed("waited-too-long"));
                        return Attempt::Bypass;
                    }
                    Err(error) => return Attempt::Handled(Err(error.into())),
                }
            }
        };
        match fetched {
            None => Attempt::Retry,
            Some(fetched) => self.use_fetched(client, fetched, status, stale),
        }
    }

    /// Returns the response that was found if it may be sent.
    fn usable_answer(
        &self,
        found: &Found,
        now_ms: u64,
        status: &mut Option<CacheStatus>,
    ) -> Option<Answer> {
        let stored = found.stored.as_ref().filter(|stored| covers(stored, self.request.head))?;
        let head = &stored.head;
        match caching::usable(&head.freshness, head.age(now_ms), &self.directives) {
            Use::Validate => return None,
            Use::Fresh | Use::Stale => {}
            Use::Meanwhile => self.renew(found),
        }
        Some(self.hit(stored, now_ms, CacheStatus::Hit, status))
    }

    fn accepts(&self, head: &Head, now_ms: u64) -> bool {
        caching::usable(&head.freshness, head.age(now_ms), &self.directives) != Use::Validate
    }

    /// Starts to validate a stale response that is sent at the same time.
    fn renew(&self, found: &Found) {
        let (request, now_ms) = (self.request.head, clock::now_ms());
        if request.method != Method::Get {
            return;
        }
        let stored = found.stored.as_deref();
        // A complete response is validated as a whole, so that a new one is complete too.
        let range = stored.filter(|stored| !stored.is_complete());
        let range = range.and_then(|stored| RangeFetch::of(request, Some(stored)));
        let name = self.fetch_name(range);
        if let Join::Lead(flight) = self.cache.join(&name, request.fields, now_ms, found) {
            rt::spawn(self.fetch(flight, found.stored.clone(), range).run());
        }
    }

    /// Returns the name of the fetch that serves the request.
    fn fetch_name(&self, range: Option<RangeFetch>) -> Cow<'_, [u8]> {
        let request = self.request.head;
        match request.range.filter(|_| range.is_some()) {
            Some(range) => Cow::Owned(range_fetch_name(self.key, range, request.if_range)),
            None => Cow::Borrowed(self.key),
        }
    }

    fn miss_reason(&self, found: &Found) -> MissReason {
        let directives = &self.directives;
        match &found.stored {
            Some(stored) if !covers(stored, self.request.head) => MissReason::Partial,
            Some(_) if directives.no_cache || directives.max_age.is_some() => MissReason::Request,
            Some(_) => MissReason::Stale,
            None if found.varies => MissReason::VaryMiss,
            None => MissReason::UriMiss,
        }
    }

    /// Starts a fetch, relays interim responses, and returns the result. `None`: the fetch was
    /// abandoned.
    async fn lead<C: Client>(
        &self,
        client: &mut C,
        flight: Flight,
        stale: Option<Arc<Stored>>,
        range: Option<RangeFetch>,
    ) -> Result<Option<LeaderResult>, ExchangeError> {
        let mut fetch = self.fetch(flight, stale, range);
        let (leader, result) = oneshot::channel();
        let interim = InterimQueue::new(self.request.site.early_hints == EarlyHints::Off);
        fetch.leader = Some(leader);
        // RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
        fetch.interim = (!self.request.head.http10).then(|| Rc::clone(&interim));
        rt::spawn(fetch.run());
        relay_until_fetched(client, result, &interim).await
    }

    /// Handles the request with the result of a fetch.
    fn use_fetched<C: Client>(
        &self,
        client: &mut C,
        fetched: LeaderResult,
        status: CacheStatus,
        stale: Option<Arc<Stored>>,
    ) -> Attempt {
        let (request, now_ms) = (self.request, clock::now_ms());
        let fields = request.head.fields;
        let answer = match fetched {
            LeaderResult::Forward(upstream, head, why) => {
                if let Some(CacheStatus::Passed(reason)) = *client.cache_status() {
                    *client.cache_status() = Some(CacheStatus::NotStored(reason, why));
                }
                return Attempt::Handled(
                    self.proxy.handle_translated(request, client, upstream, &head),
                );
            }
            LeaderResult::Shared(FetchResult::Released) => return Attempt::Bypass,
            LeaderResult::Shared(FetchResult::Arriving(reader)) => {
                let live = Arc::clone(reader.live());
                if !live.head.answers(fields) {
                    return Attempt::Bypass;
                }
                *client.cache_status() = Some(status);
                let age = live.head.age(now_ms);
                self.adapt(&live.head, Source::Arriving(reader), age, status)
            }
            LeaderResult::Shared(FetchResult::Stored(stored)) => {
                if !stored.head.answers(fields) || !covers(&stored, request.head) {
                    return Attempt::Bypass;
                }
                let same = |old: &Arc<Stored>| Arc::ptr_eq(&old.content, &stored.content);
                let is_refreshed = stale.is_some_and(|old| same(&old));
                let status = if is_refreshed { CacheStatus::Revalidated } else { status };
                self.hit(&stored, now_ms, |_| status, client.cache_status())
            }
            LeaderResult::Shared(FetchResult::Failed(status)) => {
                match (self.answer_on_error(stale, client.cache_status()), status) {
                    (Some(answer), _) => answer,
                    (None, Some(status)) => return Attempt::Handled(Err(failed(status))),
                    (None, None) => return Attempt::Bypass,
                }
            }
        };
        Attempt::Handled(Ok(Outcome::Answer(answer)))
    }

    /// Returns the stale response if it may be sent in place of one that the upstream does not give
    /// (`stale-if-error`, RFC 5861 section 4).
    fn answer_on_error(
        &self,
        stale: Option<Arc<Stored>>,
        status: &mut Option<CacheStatus>,
    ) -> Option<Answer> {
        let (stored, now_ms) = (stale?, clock::now_ms());
        let (head, directives) = (&stored.head, &self.directives);
        caching::usable_on_error(&head.freshness, head.age(now_ms), directives)
            .then(|| self.hit(&stored, now_ms, CacheStatus::HitOnError, status))
    }

    fn fetch(
        &self,
        flight: Flight,
        stale: Option<Arc<Stored>>,
        range: Option<RangeFetch>,
    ) -> Fetch {
        let mut conditions = Vec::new();
        if range.is_some() {
            RangeFetch::write(self.request.head, &mut conditions);
        }
        if let Some(stale) = &stale {
            let described = caching::of_response(pairs(&stale.head.lines));
            // RFC 9111 section 4.3.1.
            described.etag.inspect(|etag| field(&mut conditions, "If-None-Match", etag));
            let modified = described.last_modified;
            modified.inspect(|date| field(&mut conditions, "If-Modified-Since", date));
        }
        let (proxy, request) = (self.proxy, self.request);
        let path = proxy.forwarded_path(request);
        let params = forward_params(request, &path, None);
        // The values are of the target alone, which has no line ends.
        let edits = proxy.edits(request, &path, None).unwrap_or_default();
        let params =
            ForwardParams { cache_conditions: Some(&conditions), edits: edits.as_ref(), ..params };
        Fetch {
            proxy: Rc::clone(proxy),
            upstream: UpstreamRequest::new(proxy, request.head, RequestBody::default(), params),
            flight,
            base: proxy.encoded_base(request),
            key: proxy.key(request),
            request: request.describe(),
            lines: request.head.fields.to_lines(),
            directives: self.directives,
            authorized: request.head.authorization.is_some(),
            stale,
            range,
            leader: None,
            interim: None,
        }
    }

    /// Builds the response from a stored one, and sets the cache status. `status_of` gets the
    /// seconds of freshness left.
    fn hit(
        &self,
        stored: &Stored,
        now_ms: u64,
        status_of: impl FnOnce(i64) -> CacheStatus,
        status: &mut Option<CacheStatus>,
    ) -> Answer {
        let head = &stored.head;
        let age = head.age(now_ms);
        let new = status_of(head.freshness.lifetime as i64 - age as i64);
        *status = Some(new);
        self.adapt(head, Source::Kept(&stored.content.kept), age, new)
    }

    fn adapt(&self, head: &Head, source: Source<'_>, age: u64, status: CacheStatus) -> Answer {
        let RequestContext { head: request, buffers, .. } = self.request;
        adapt(request, head, source, age, status, buffers.take_lines())
    }
}

/// Adapts a response to a request: the whole, a range, or 304. `lines` is an empty buffer for the
/// fields.
pub(super) fn adapt(
    request: &RequestHead<'_>,
    head: &Head,
    source: Source<'_>,
    age: u64,
    status: CacheStatus,
    lines: Vec<u8>,
) -> Answer {
    let (code, mut lines, body) = selected(request, head, source, lines);
    if age > 0 || matches!(status, CacheStatus::Hit(_) | CacheStatus::HitOnError(_)) {
        // RFC 9111 section 5.1.
        number_field(&mut lines, "Age", age);
    }
    status.encode(&mut lines);
    Answer { needs: Needs::Edits, ..Answer::new(code, Fields::Dated(lines), body) }
}

/// Returns whether a cache may answer a request.
pub(super) fn may_answer(request: &RequestHead<'_>) -> bool {
    matches!(request.method, Method::Get | Method::Head)
        && request.body == BodyLength::None
        && forward::upgrades(request).is_none()
        // A selecting field that an upstream does not get would select a response made without it.
        && !forward::is_any_nominated(request)
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
