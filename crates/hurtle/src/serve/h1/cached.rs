//! Requests that a cache of upstreams' answers may answer: what is stored is sent, what is missing is
//! fetched once for all who ask. Fetching is `fill`'s.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::Connection;
use super::asked::path_of;
use super::duplex::Broken;
use super::exchange::Asked;
use super::fault::named;
use super::fill::{Fill, Led};
use super::outcome::{Outcome, Why};
use super::selection::{Source, selected};
use super::upload::Upload;
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::cache::{Cache, Flight, Found, Head, Join, News, Reader, Stored};
use crate::clock;
use crate::h1::fields::pairs;
use crate::h1::forward::{self, Onward};
use crate::h1::framing::BodyLength;
use crate::h1::request::{Method, Request};
use crate::h1::response::{Fields, field, number_field};
use crate::handler::proxy::{Errand, Proxy, Waits};
use crate::rt::{self, First};
use crate::semantics::caching::{self, Directives, Use};
use crate::semantics::target::encode_path;
use crate::transport::{Output, Taken, Transport};

/// How long a request waits for another's answer to begin before it asks by itself.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How often it begins anew where whoever fetched gave up.
const TRIES_MAX: usize = 3;

/// What a cache makes of a request.
pub(super) enum Cached {
    /// This is sent.
    Answer(Answer),
    /// An upstream's answer, for this request only.
    Pass(Box<(Errand, Taken)>),
    /// There is none.
    Failed(StatusCode),
    /// It goes to an upstream by itself.
    Alone,
    /// The client is gone.
    Broken(Broken),
}

/// What is asked for, wherever its path is kept.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) proxy: &'a Rc<Proxy>,
    pub(super) site: usize,
    /// Decoded, after the site's rules.
    pub(super) path: &'a [u8],
}

impl Asked<'_> {
    pub(super) fn sought(&self) -> Sought<'_> {
        Sought { proxy: &self.proxy, site: self.site, path: &self.path }
    }
}

/// A request and its key.
struct Wish<'a> {
    cache: &'a Arc<Cache>,
    key: &'a [u8],
    directives: Directives,
}

impl<T: Transport> Connection<T> {
    /// A request's way on, if the cache has it or can have it.
    pub(super) fn onward<'a>(
        &self,
        request: &Request<'a>,
        path: &'a [u8],
        upgrade: Option<&'a str>,
    ) -> Onward<'a> {
        Onward {
            path,
            query: path_of(&request.target).and_then(|(_, query)| query),
            authority: "",
            peer: self.peer,
            client: self.client,
            trusted: self.trusts_peer(),
            secure: self.io.is_secure(),
            http2: T::IS_HTTP2,
            upgrade,
            for_all: None,
            way: None,
        }
    }

    fn key(&self, request: &Request<'_>, path: &[u8]) -> Output {
        let mut key = Output::new();
        let path = encode_path(path);
        forward::identity(key.vec(), request, &self.onward(request, path.as_bytes(), None));
        key
    }

    /// What changes a target makes what is stored of it worthless (RFC 9111 4.4).
    pub(super) fn invalidate(&self, request: &Request<'_>, asked: &Asked<'_>, status: StatusCode) {
        if let Some(cache) = asked.proxy.cache()
            && caching::is_unsafe(request.method.as_bytes())
            && status.as_u16() < 400
        {
            cache.invalidate(&self.key(request, &asked.path));
        }
    }

    /// Asks the cache at once: what is stored and may be sent.
    pub(super) fn stored_answer(
        &mut self,
        request: &Request<'_>,
        sought: Sought<'_>,
    ) -> Option<Answer> {
        let cache = sought.proxy.cache()?;
        if !may_answer(request) {
            self.outcome = Some(Outcome::Passed(Why::Method));
            return None;
        }
        if is_for_the_origin(request) {
            self.outcome = Some(Outcome::Bypassed("precondition"));
            return None;
        }
        let (directives, now_ms) = (directives(request), clock::now_ms());
        let key = self.key(request, sought.path);
        let wish = Wish { cache, key: &key, directives };
        let found = cache.find(&key, request.field_lines, now_ms);
        let answer = self.usable_answer(request, sought, &wish, &found, now_ms)?;
        self.note_shortcut(request, sought, &key);
        Some(answer)
    }

    /// What was found, if it may be sent.
    fn usable_answer(
        &mut self,
        request: &Request<'_>,
        sought: Sought<'_>,
        wish: &Wish<'_>,
        found: &Found,
        now_ms: u64,
    ) -> Option<Answer> {
        let stored = found.stored.as_ref()?;
        let head = &stored.head;
        match caching::usable(&head.freshness, head.age(now_ms), &wish.directives) {
            Use::Ask => return None,
            Use::Fresh | Use::Stale => {}
            Use::Meanwhile => self.renew(request, sought, wish, found),
        }
        Some(self.hit(request, sought, stored, now_ms, Outcome::Hit))
    }

    /// Has a response asked about anew, while it is sent.
    fn renew(&self, request: &Request<'_>, sought: Sought<'_>, wish: &Wish<'_>, found: &Found) {
        let (lines, now_ms) = (request.field_lines, clock::now_ms());
        if request.method == Method::Get
            && let Join::Lead(flight) = wish.cache.join(wish.key, lines, now_ms, found)
        {
            let fill = self.fetch(request, sought, wish, flight, found.stored.clone());
            rt::spawn(fill.run());
        }
    }

    /// Asks the cache, and has fetched what is missing.
    pub(super) async fn cached(&mut self, request: &Request<'_>, asked: &Asked<'_>) -> Cached {
        let Some(cache) = asked.proxy.cache() else { return Cached::Alone };
        if matches!(self.outcome, Some(Outcome::Bypassed(_) | Outcome::Passed(Why::Method))) {
            return Cached::Alone;
        }
        let directives = directives(request);
        let sought = asked.sought();
        let key = self.key(request, sought.path);
        let wish = Wish { cache, key: &key, directives };
        for _ in 0..TRIES_MAX {
            let now_ms = clock::now_ms();
            let found = cache.find(wish.key, request.field_lines, now_ms);
            if let Some(answer) = self.usable_answer(request, sought, &wish, &found, now_ms) {
                return Cached::Answer(answer);
            }
            let why = why(&found, &wish.directives);
            if wish.directives.only_if_cached {
                // RFC 9111 5.2.1.7.
                return Cached::Answer(Answer::error(StatusCode::GATEWAY_TIMEOUT, None));
            }
            self.outcome = Some(Outcome::Passed(why));
            if found.uncacheable {
                self.outcome = Some(Outcome::Bypassed("uncacheable"));
                return Cached::Alone;
            }
            if request.range.is_some() {
                self.outcome = Some(Outcome::Passed(Why::Partial));
            }
            if request.range.is_some() || request.method == Method::Head {
                return Cached::Alone;
            }
            let joined = cache.join(wish.key, request.field_lines, now_ms, &found);
            let stale = found.stored;
            let (led, outcome) = match joined {
                Join::Anew => continue,
                Join::Alone => return Cached::Alone,
                Join::Coming(reader) => {
                    (Some(Led::News(News::Coming(reader))), Outcome::Collapsed(why))
                }
                Join::Lead(flight) => {
                    let (leader, told) = rt::once();
                    let mut fill = self.fetch(request, sought, &wish, flight, stale.clone());
                    fill.leader = Some(leader);
                    rt::spawn(fill.run());
                    match self.until_told(told.wait()).await {
                        Ok(led) => (led, Outcome::Stored(why)),
                        Err(broken) => return Cached::Broken(broken),
                    }
                }
                Join::Wait(told) => {
                    let told = rt::race(told.wait(), rt::sleep(WAIT_MAX));
                    match self.until_told(told).await {
                        Ok(First::A(news)) => (news.map(Led::News), Outcome::Collapsed(why)),
                        Ok(First::B(())) => {
                            self.outcome = Some(Outcome::Bypassed("waited-too-long"));
                            return Cached::Alone;
                        }
                        Err(broken) => return Cached::Broken(broken),
                    }
                }
            };
            let Some(led) = led else { continue };
            return self.told(request, sought, &wish, (led, outcome), stale);
        }
        Cached::Alone
    }

    /// Waits for what somebody has to say, and for the client's going away.
    async fn until_told<R>(&mut self, told: impl Future<Output = R>) -> Result<R, Broken> {
        self.beside(&mut Upload::none(), &Waits::default(), async |_| told.await).await
    }

    fn told(
        &mut self,
        request: &Request<'_>,
        sought: Sought<'_>,
        wish: &Wish<'_>,
        (led, outcome): (Led, Outcome),
        stale: Option<Arc<Stored>>,
    ) -> Cached {
        match led {
            Led::Pass(passed) => Cached::Pass(passed),
            Led::News(News::Released) => Cached::Alone,
            Led::News(News::Coming(reader)) => {
                if !reader.live().head.answers(request.field_lines) {
                    return Cached::Alone;
                }
                Cached::Answer(self.coming(request, sought, reader, outcome))
            }
            Led::News(News::Stored(stored)) => {
                if !stored.head.answers(request.field_lines) {
                    return Cached::Alone;
                }
                let same = |old: &Arc<Stored>| Arc::ptr_eq(&old.content, &stored.content);
                let refreshed = stale.is_some_and(|old| same(&old));
                let outcome = if refreshed { Outcome::Revalidated } else { outcome };
                let now_ms = clock::now_ms();
                Cached::Answer(self.hit(request, sought, &stored, now_ms, |_| outcome))
            }
            Led::News(News::Failed(status)) => {
                let now_ms = clock::now_ms();
                let usable = |stored: &Arc<Stored>| {
                    let (head, directives) = (&stored.head, &wish.directives);
                    caching::usable_on_error(&head.freshness, head.age(now_ms), directives)
                };
                match stale.filter(usable) {
                    Some(stored) => {
                        let hit = Outcome::HitOnError;
                        Cached::Answer(self.hit(request, sought, &stored, now_ms, hit))
                    }
                    None => Cached::Failed(status),
                }
            }
        }
    }

    fn fetch(
        &self,
        request: &Request<'_>,
        sought: Sought<'_>,
        wish: &Wish<'_>,
        flight: Flight,
        stale: Option<Arc<Stored>>,
    ) -> Fill {
        let mut conditions = Vec::new();
        if let Some(stale) = &stale {
            let said = caching::of_response(pairs(&stale.head.lines));
            // RFC 9111 4.3.1.
            said.etag.inspect(|etag| field(&mut conditions, "If-None-Match", etag));
            let modified = said.last_modified;
            modified.inspect(|date| field(&mut conditions, "If-Modified-Since", date));
        }
        let path = encode_path(sought.path);
        let onward = self.onward(request, path.as_bytes(), None);
        let onward = Onward { for_all: Some(&conditions), ..onward };
        Fill {
            proxy: Rc::clone(sought.proxy),
            errand: Errand::new(sought.proxy, request, RequestBody::default(), onward),
            flight,
            path: sought.path.to_vec(),
            client: self.client,
            what: named(request),
            lines: request.field_lines.to_vec(),
            directives: wish.directives,
            authorized: request.authorization.is_some(),
            stale,
            leader: None,
        }
    }

    /// The answer that is stored.
    pub(super) fn hit(
        &mut self,
        request: &Request<'_>,
        sought: Sought<'_>,
        stored: &Stored,
        now_ms: u64,
        outcome: impl FnOnce(i64) -> Outcome,
    ) -> Answer {
        let head = &stored.head;
        let age = head.age(now_ms);
        let outcome = outcome(head.freshness.lifetime as i64 - age as i64);
        self.dressed(request, sought, head, Source::Kept(&stored.content.kept), age, outcome)
    }

    fn coming(
        &mut self,
        request: &Request<'_>,
        sought: Sought<'_>,
        reader: Reader,
        outcome: Outcome,
    ) -> Answer {
        let live = Arc::clone(reader.live());
        let age = live.head.age(clock::now_ms());
        self.dressed(request, sought, &live.head, Source::Coming(reader), age, outcome)
    }

    /// A response as this client gets it: what it has already, or does not want, is left out.
    fn dressed(
        &mut self,
        request: &Request<'_>,
        sought: Sought<'_>,
        head: &Head,
        source: Source<'_>,
        age: u64,
        outcome: Outcome,
    ) -> Answer {
        self.outcome = Some(outcome);
        let spare = self.worker.spare_lines.take();
        let (status, mut lines, body) = selected(request, head, source, spare);
        let (removed, set) = self.rules(sought.site, sought.path, head.status);
        if !removed.is_empty() {
            lines = forward::redressed(&lines, b"", &removed, &set);
        }
        if age > 0 || matches!(outcome, Outcome::Hit(_) | Outcome::HitOnError(_)) {
            // RFC 9111 5.1.
            number_field(&mut lines, "Age", age);
        }
        outcome.line(&mut lines);
        Answer { status, fields: Fields::Dated(lines), body }
    }
}

/// Whether a cache may answer this at all.
pub(super) fn may_answer(request: &Request<'_>) -> bool {
    matches!(request.method, Method::Get | Method::Head)
        && request.body == BodyLength::None
        && forward::upgrades(request).is_none()
}

/// Whether it has preconditions that are the origin's to evaluate (RFC 9111 4.3.2).
pub(super) fn is_for_the_origin(request: &Request<'_>) -> bool {
    request.if_match.is_some() || request.if_unmodified_since.is_some()
}

/// What a request says to caches.
pub(super) fn directives(request: &Request<'_>) -> Directives {
    match request.tells_caches {
        true => caching::of_request(pairs(request.field_lines)),
        false => Directives::default(),
    }
}

fn why(found: &Found, directives: &Directives) -> Why {
    match &found.stored {
        Some(_) if directives.no_cache || directives.max_age.is_some() => Why::Request,
        Some(_) => Why::Stale,
        None if found.varies => Why::VaryMiss,
        None => Why::UriMiss,
    }
}
