//! Fetches a response for the cache in a separate task, so that neither a departed nor a slow
//! client affects it. If the response may not be stored, it goes to the leader: the client whose
//! request is forwarded.

use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use hurtle_http::message::keep;
use hurtle_http::message::response_head::{Length, ResponseHead};
use hurtle_http::request::RequestFields;
use hurtle_http::request::fields::pairs;
use hurtle_http::semantics::caching::{self, Described, Directives, Refused};

use super::super::super::wait::Waits;
use super::super::attempt_log::{log_attempt, log_failure, log_unavailable};
use super::super::forward::{INTERIM_MAX, is_interim};
use super::super::framing::is_reusable;
use super::super::{Key, ListenOutcome, Phase, Proxy, RawHead, UpstreamError, UpstreamRequest};
use super::fetched_body::{FetchedBody, take_received};
use super::interim::InterimQueue;
use super::partial::{PartOf, RangeFetch, exact_len, store_part};
use crate::answer::is_bodiless;
use crate::cache::{
    ArrivedPart, Cache, Charge, Content, FetchResult, Flight, Head, Kept, Live, Stored,
};
use crate::clock;
use crate::protocol::reading::Reading;
use crate::rt::{self, oneshot};

/// A fetch for the cache.
pub(super) struct Fetch {
    pub(super) proxy: Rc<Proxy>,
    pub(super) upstream: UpstreamRequest,
    pub(super) flight: Flight,
    /// The properties that choose an upstream.
    pub(super) key: Key,
    /// The path that `strip_prefix` took off.
    pub(super) base: Vec<u8>,
    /// The request's method and path, for the error log.
    pub(super) request: String,
    /// The request's field lines, which Vary may name.
    pub(super) lines: Vec<u8>,
    pub(super) directives: Directives,
    pub(super) authorized: bool,
    /// The stored response that is validated.
    pub(super) stale: Option<Arc<Stored>>,
    /// The range that is fetched; `None`: the whole.
    pub(super) range: Option<RangeFetch>,
    /// Receives the outcome; `None`: no client leads this fetch.
    pub(super) leader: Option<oneshot::Sender<LeaderResult>>,
    /// Receives interim responses; `None`: they are dropped.
    pub(super) interim: Option<Rc<InterimQueue>>,
}

/// The outcome of a fetch for the client that leads it.
pub(super) enum LeaderResult {
    /// The result for all requests that wait for this fetch.
    Shared(FetchResult),
    /// The response may not be stored, for this reason; the client continues the request.
    Forward(Box<UpstreamRequest>, RawHead, &'static str),
}

/// The decision about a response, made from its head.
enum Plan {
    /// The response is stored.
    Store { head: Box<Head>, room: Charge, body: Charge, len: Option<u64>, part: Option<PartOf> },
    /// The stored response is valid (304), with this head. `Err`: the updated response is not
    /// stored.
    Refresh(Box<Head>, Result<(), Refused>),
    /// The upstream failed, and the stale response is sent instead.
    Fail,
    /// The response is not stored.
    Forward(Refused),
}

impl Fetch {
    pub(super) async fn run(mut self) {
        let sent_ms = clock::now_ms();
        let waits = Waits::default();
        let mut taken = match self.receive_head(&waits).await {
            Ok(taken) => taken,
            Err(status) => return self.fail(Some(status)),
        };
        let translate = |reply| self.proxy.translated(&taken, &reply, || self.base.clone());
        let translated = taken.parse().ok().and_then(translate);
        taken = translated.unwrap_or(taken);
        let checked = taken.parse().map_err(UpstreamError::BadResponse);
        let checked = checked.and_then(|reply| match reply.status {
            StatusCode::SWITCHING_PROTOCOLS => Err(UpstreamError::UnexpectedUpgrade),
            _ => Ok(reply),
        });
        let reply = match checked {
            Ok(reply) => reply,
            Err(error) => {
                log_failure(&self.upstream, &self.request, &error, StatusCode::BAD_GATEWAY);
                self.upstream.failed(&error);
                return self.fail(Some(StatusCode::BAD_GATEWAY));
            }
        };
        let plan = self.plan(&reply, sent_ms);
        // A response that is passed on is counted with those of other requests.
        if !matches!(plan, Plan::Forward(_)) {
            self.upstream.succeeded(reply.status);
        }
        match plan {
            Plan::Store { head, room, body, len, part } => {
                let reading = match reply.length {
                    Length::Framed(length) if !is_bodiless(reply.status) => Reading::new(length),
                    Length::Frames if !is_bodiless(reply.status) => Reading::Frames,
                    _ => Reading::Done,
                };
                let keep_alive = is_reusable(&reply);
                drop(taken);
                let entry = NewEntry { head: *head, room, charge: body, len, part };
                self.read_body(&waits, reading, entry, keep_alive).await;
            }
            Plan::Refresh(head, stores) => {
                let keep_alive = is_reusable(&reply);
                drop(taken);
                self.refresh(*head, stores, keep_alive);
            }
            Plan::Fail => {
                log_failure(&self.upstream, &self.request, &"error response", reply.status);
                self.fail(None);
            }
            Plan::Forward(refused) => self.forward(refused, reply.status, taken),
        }
    }

    /// Tries upstreams until one responds. `Err`: the status for the client.
    async fn receive_head(&mut self, waits: &Waits) -> Result<RawHead, StatusCode> {
        let mut status = StatusCode::SERVICE_UNAVAILABLE;
        loop {
            let upstream = &mut self.upstream;
            let is_chosen = match upstream.is_limited() {
                false => upstream.choose(self.key, clock::now_ms()),
                // A refusal is counted.
                true => match Box::pin(upstream.choose_free(self.key)).await {
                    Ok(is_chosen) => is_chosen,
                    Err(_) => return Err(StatusCode::SERVICE_UNAVAILABLE),
                },
            };
            if !is_chosen {
                let Some(pause) = upstream.pause() else {
                    log_unavailable(upstream, &self.request, status);
                    return Err(status);
                };
                rt::sleep(pause).await;
                continue;
            }
            let interim = self.interim.as_deref();
            let (retry, is_held) = match waits.within(listen(upstream, waits, interim)).await {
                Some(Ok(taken)) if upstream.retries(&taken, || self.request.clone()) => continue,
                Some(Ok(taken)) => return Ok(taken),
                Some(Err(error)) => {
                    status = StatusCode::BAD_GATEWAY;
                    let retry = upstream.may_retry(&error);
                    let is_held =
                        !retry && upstream.is_unconnected(Some(&error)) && upstream.may_hold();
                    log_attempt(upstream, &self.request, &error, status, retry || is_held);
                    upstream.failed(&error);
                    (retry, is_held)
                }
                None => {
                    status = StatusCode::GATEWAY_TIMEOUT;
                    let retry = upstream.may_retry_late();
                    let is_held = !retry && upstream.is_unconnected(None) && upstream.may_hold();
                    let phase = upstream.phase();
                    log_attempt(upstream, &self.request, &phase, status, retry || is_held);
                    upstream.timed_out();
                    (retry, is_held)
                }
            };
            if !retry {
                let pause = if is_held { upstream.pause() } else { None };
                rt::sleep(pause.ok_or(status)?).await;
            }
        }
    }

    fn plan(&self, reply: &ResponseHead<'_>, sent_ms: u64) -> Plan {
        let now_ms = clock::now_ms();
        let (came_secs, date) = (clock::unix_secs(), clock::date(now_ms));
        let described = caching::of_response(pairs(reply.field_lines));
        let delay_ms = now_ms.saturating_sub(sent_ms);
        let age_ms = caching::age_on_arrival(&described, delay_ms, came_secs);
        if let (Some(stale), StatusCode::NOT_MODIFIED) = (&self.stale, reply.status) {
            if is_of_another_version(&described, &stale.head.lines) {
                let head = Box::new(stale.head.clone());
                return Plan::Refresh(head, Err(Refused::Response("another-version")));
            }
            let lines = keep::refreshed(&stale.head.lines, reply, &date);
            let freshness = self.may_store(stale.head.status, &lines, came_secs);
            let vary = caching::of_response(pairs(&lines)).vary;
            let stores = match freshness {
                Ok(_) if vary.iter().any(|name| keep::is_rewritten(name)) => {
                    Err(Refused::Response("vary"))
                }
                freshness => freshness.map(|_| ()),
            };
            let freshness = freshness.unwrap_or(stale.head.freshness);
            // A 304 may have another Vary than the stored response.
            let selected = Head::selected(&vary, RequestFields::Lines(&self.lines));
            let (status, lines, received_ms) = (stale.head.status, lines.into(), now_ms);
            let head = Head { status, lines, freshness, age_ms, received_ms, selected };
            return Plan::Refresh(Box::new(head), stores);
        }
        if let Some(stale) = self.stale.as_ref().filter(|_| reply.status.is_server_error()) {
            let age = stale.head.age(now_ms);
            if caching::usable_on_error(&stale.head.freshness, age, &self.directives) {
                return Plan::Fail;
            }
        }
        let lines = keep::lines(reply, &date);
        let freshness = match self.may_store(reply.status, &lines, came_secs) {
            Ok(freshness) => freshness,
            Err(refused) => return Plan::Forward(refused),
        };
        if let Some(why) = self.unsuitable(reply, &described) {
            return Plan::Forward(Refused::Response(why));
        }
        let part = match self.part(reply, &described) {
            Ok(part) => part,
            Err(refused) => return Plan::Forward(refused),
        };
        let selected = Head::selected(&described.vary, RequestFields::Lines(&self.lines));
        let (status, lines, received_ms) = (reply.status, lines.into(), now_ms);
        let head = Head { status, lines, freshness, age_ms, received_ms, selected };
        let len = if is_bodiless(status) { Some(0) } else { exact_len(reply) };
        match self.rooms(&head, len) {
            Some((room, body)) => Plan::Store { head: Box::new(head), room, body, len, part },
            None => Plan::Forward(Refused::Request("memory")),
        }
    }

    fn may_store(
        &self,
        status: StatusCode,
        lines: &[u8],
        came_secs: u64,
    ) -> Result<caching::Freshness, Refused> {
        let described = caching::of_response(pairs(lines));
        let heuristics = self.cache().heuristics();
        let (directives, authorized) = (&self.directives, self.authorized);
        // RFC 9111 section 3.3: a part is stored as the whole would be.
        let status = if self.is_part(status) { StatusCode::OK } else { status };
        caching::may_store(status, &described, directives, authorized, came_secs, heuristics)
    }

    /// Returns why a response cannot serve other requests: its end is unknown, its size does not
    /// fit, or Vary names a field that this server rewrites.
    fn unsuitable(&self, reply: &ResponseHead<'_>, d: &Described<'_>) -> Option<&'static str> {
        if reply.file.is_some() && self.proxy.config().internal.is_some() {
            return Some("names-file");
        }
        // A body that ends with the connection may be truncated.
        if !is_bodiless(reply.status) && reply.length == Length::UntilClose {
            return Some("no-length");
        }
        if exact_len(reply).is_some_and(|len| len > self.cache().object_bytes_max()) {
            return Some("size");
        }
        d.vary.iter().any(|name| keep::is_rewritten(name)).then_some("vary")
    }

    /// Reserves memory for a head, and for a body of known length.
    fn rooms(&self, head: &Head, len: Option<u64>) -> Option<(Charge, Charge)> {
        let cache = self.cache();
        cache.reserve(head.cost()).zip(cache.reserve(len.unwrap_or(0)))
    }

    pub(super) fn cache(&self) -> &Arc<Cache> {
        self.flight.cache()
    }

    /// Reads a body and stores the response. Waiting clients receive it as it arrives.
    async fn read_body(self, waits: &Waits, reading: Reading, entry: NewEntry, keep_alive: bool) {
        let Fetch { proxy, mut upstream, flight, request, leader, range, .. } = self;
        let cache = Arc::clone(flight.cache());
        let NewEntry { head, room, charge, len, part } = entry;
        // A part is not what is stored, so it is sent as it arrives.
        if part.is_none()
            && let Some(body) = take_received(&mut upstream, len)
        {
            let content = Content::new(Kept::Bytes(charge.of(body)), None);
            let stored = Arc::new(Stored::new(head, content, room));
            flight.store(&stored);
            if let Some(leader) = leader {
                leader.send(LeaderResult::Shared(FetchResult::Stored(stored)));
            }
            if keep_alive {
                upstream.finish();
            }
            return;
        }
        let live = Live::new(head, len, charge);
        if let Some((leader, reader)) = leader.zip(live.reader()) {
            leader.send(LeaderResult::Shared(FetchResult::Arriving(reader)));
        }
        flight.begin(&live);
        let within_ms = proxy.config().timeouts.read.as_millis() as u64;
        let mut flight = Some(flight);
        let reads = upstream.beside(waits, async |mut source, input| {
            let coming =
                FetchedBody { live: &live, reading, flight: &mut flight, waits, within_ms };
            coming.run(&mut source, input, &cache).await
        });
        let done = match waits.within(reads).await {
            Some(Some(done)) => done,
            Some(None) => Err("no connection".to_owned()),
            None => Err(Phase::Reading.to_string()),
        };
        if let Err(why) = done {
            live.fail();
            return log_failure(&upstream, &request, &why, StatusCode::BAD_GATEWAY);
        }
        if keep_alive {
            upstream.finish();
        }
        drop(upstream);
        let Some((body, flight)) = live.finish().zip(flight) else { return };
        if let Some(part) = part {
            let part = ArrivedPart::new(part.start, part.len, body);
            let needs_stored = range.is_some_and(|range| range.is_conditional);
            store_part(flight, &live.head, &part, needs_stored).await;
        } else {
            let content = cache.keep(body).await;
            flight.store(&Arc::new(Stored::new(live.head.clone(), content, room)));
        }
    }

    fn refresh(self, head: Head, stores: Result<(), Refused>, keep_alive: bool) {
        let Fetch { mut upstream, flight, stale, leader, .. } = self;
        let room = flight.cache().reserve(head.cost());
        let Some((stale, room)) = stale.zip(room) else { return };
        let stored = Arc::new(Stored::new(head, Arc::clone(&stale.content), room));
        match stores {
            Ok(()) => flight.store(&stored),
            Err(Refused::Response(_)) => flight.refuse(clock::now_ms(), Some(&stale)),
            Err(Refused::Request(_)) => flight.release(),
        }
        if let Some(leader) = leader {
            leader.send(LeaderResult::Shared(FetchResult::Stored(stored)));
        }
        if keep_alive {
            upstream.finish();
        }
    }

    /// `status`: as in `FetchResult::Failed`.
    fn fail(self, status: Option<StatusCode>) {
        let Fetch { flight, leader, .. } = self;
        flight.fail(status);
        if let Some(leader) = leader {
            leader.send(LeaderResult::Shared(FetchResult::Failed(status)));
        }
    }

    fn forward(self, refused: Refused, status: StatusCode, taken: RawHead) {
        let Fetch { upstream, flight, stale, leader, request, .. } = self;
        let (Refused::Response(why) | Refused::Request(why)) = refused;
        tracing::debug!("cache: the response to {request} is not stored: {why}");
        match refused {
            Refused::Response(_) if predicts(status) => {
                flight.refuse(clock::now_ms(), stale.as_ref());
            }
            _ => flight.release(),
        }
        let result = LeaderResult::Forward(Box::new(upstream), taken, why);
        let unsent = match leader {
            Some(leader) => leader.try_send(result).err(),
            None => Some(result),
        };
        if let Some(LeaderResult::Forward(upstream, ..)) = unsent {
            upstream.succeeded(status);
        }
    }
}

/// Returns whether a 304 validates another version than the stored one: its entity-tag is strong
/// and not that of the stored response (RFC 9111 section 4.3.4). Servers that compress may weaken
/// the tag of the whole response, or add the coding to it, but not that of the 304.
fn is_of_another_version(described: &Described<'_>, stored: &[u8]) -> bool {
    let stored = caching::of_response(pairs(stored)).etag;
    let stored = stored.map(|tag| tag.strip_prefix(b"W/").unwrap_or(tag));
    let (Some(new), Some(stored)) = (described.etag, stored) else { return false };
    let begin = new.strip_suffix(b"\"").unwrap_or(new);
    !new.starts_with(b"W/") && new != stored && !stored.starts_with(&[begin, b"-"].concat())
}

/// Returns whether later responses are probably alike. Most errors may come from the credentials,
/// the rate or the fields of this request; these are of its target.
fn predicts(status: StatusCode) -> bool {
    match status.as_u16() {
        ..400 => !caching::is_never_stored(status),
        status => matches!(status, 404 | 405 | 410 | 414 | 451),
    }
}

/// A response to be stored, without its body.
struct NewEntry {
    head: Head,
    room: Charge,
    charge: Charge,
    len: Option<u64>,
    part: Option<PartOf>,
}

/// Connects, sends the request, and reads responses up to the final head. Interim responses are
/// queued.
async fn listen(
    upstream: &mut UpstreamRequest,
    waits: &Waits,
    interim: Option<&InterimQueue>,
) -> Result<RawHead, UpstreamError> {
    upstream.connect(waits).await?;
    for _ in 0..INTERIM_MAX {
        match upstream.listen(waits).await? {
            ListenOutcome::Head(head) if !is_interim(&head)? => return Ok(head),
            ListenOutcome::Head(head) => interim.map_or(Ok(()), |queue| queue.push(head))?,
            ListenOutcome::ExpectTimeout => upstream.release(),
            ListenOutcome::BodyBegun => {}
        }
    }
    Err(UpstreamError::TooManyInterim)
}
