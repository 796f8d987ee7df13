//! Access log entries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{StatusCode, Version};
use hurtle_http::request::{ParseError, RequestHead};

use super::Connection;
use super::identify::Identity;
use crate::answer::Answer;
use crate::body::Body;
use crate::cache::CacheStatus;
use crate::clock;
use crate::handler::client::ExchangeError;
use crate::handler::{Handled, Handler, Outcome};
use crate::metrics::{self, LimitKind, RouteMetrics};
use crate::observe::{
    Completion, Details, Exchange as LogRecord, UpstreamLog, UpstreamTimes, WorkerLog,
};
use crate::protocol::Protocol;

/// Largest body of a known file that is not always timed, in bytes. It leaves in one write.
const UNTIMED_BYTES_MAX: u64 = 64 << 10;

/// Statuses of heads that exceed a limit (RFC 9110 section 15.5.15, RFC 6585 section 5).
const HEAD_LIMITS: [StatusCode; 2] =
    [StatusCode::URI_TOO_LONG, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE];

impl<T: Protocol> Connection<T> {
    /// Returns the protocol version of a request.
    pub(super) fn version(&self, request: Option<&RequestHead<'_>>) -> Version {
        match request {
            Some(request) if request.http10 => Version::HTTP_10,
            None if self.io.version() == Version::HTTP_11 => Version::HTTP_10,
            _ => self.io.version(),
        }
    }

    /// Counts the current request under a mount.
    #[inline]
    pub(super) fn count_for(&mut self, route: &Arc<RouteMetrics>) {
        // Requests of a connection are usually for the same mount.
        if !Arc::ptr_eq(&self.route, route) {
            self.change_route(route);
        }
    }

    #[cold]
    fn change_route(&mut self, route: &Arc<RouteMetrics>) {
        self.route = Arc::clone(route);
    }

    /// Decides whether the response of a known file or a stored response is timed. Reading the clock
    /// twice would cost such a request some percent, so small ones are timed now and then.
    #[inline]
    pub(super) fn time_known(&mut self, request: &RequestHead<'_>, answer: &Answer) {
        let is_small = match &answer.body {
            Body::Bytes(bytes) => bytes.len() as u64 <= UNTIMED_BYTES_MAX,
            body => body.exact_len().is_some_and(|len| len <= UNTIMED_BYTES_MAX),
        };
        if !is_small {
            self.record_in_flight(request);
        }
        if !is_small || self.route.is_due() {
            self.begin_time();
        }
    }

    /// Records the request among those in flight, until it is observed.
    pub(super) fn record_in_flight(&self, request: &RequestHead<'_>) {
        let path = request.target.path_and_query().map_or(&b"*"[..], |(path, _)| path);
        let method = request.method.as_bytes();
        self.exchange.in_flight.set(Some(self.worker.activity.begin(&self.route, method, path)));
    }

    /// Records that the response begins.
    #[inline]
    pub(super) fn begin_response(&self) {
        let in_flight = self.exchange.in_flight.take();
        if let Some(in_flight) = &in_flight {
            in_flight.begin_response();
        }
        self.exchange.in_flight.set(in_flight);
    }

    /// Notes the stream of events of the status page, whose duration is not a response time.
    #[inline]
    pub(super) fn note_own_stream(&mut self, handler: &Handler, handled: &Handled) {
        if matches!(handler, Handler::Status(_))
            && let Ok(Outcome::Answer(Answer { body: Body::Stream(_), .. })) = handled
        {
            self.exchange.details.get_or_insert_default().is_untimed = true;
        }
    }

    /// Begins to measure the time of the request, unless that has begun.
    #[cold]
    pub(super) fn begin_time(&mut self) {
        self.exchange.begun.get_or_insert_with(Instant::now);
    }

    /// Counts and logs a limit that refuses a request, or ends its response. `None`: the request is not
    /// known.
    pub(super) fn hit(&self, limit: LimitKind, request: Option<&RequestHead<'_>>) {
        self.metrics.hit(limit);
        self.worker.limit_log.log(limit, || {
            let client =
                self.exchange.client.map_or_else(|| "a client".to_owned(), |ip| ip.to_string());
            match request.map(|request| (request.method.as_bytes(), request.raw_target)) {
                Some((method, target)) => {
                    let [method, target] = [method, target].map(|part| part.escape_ascii());
                    format!("{client}: {method} {target}")
                }
                None => format!("{client}: a request"),
            }
        });
    }

    /// Counts the limit that a refused request has hit.
    pub(super) fn count_refusal(&self, error: ParseError, request: Option<&RequestHead<'_>>) {
        let limit = match error {
            ParseError::HeadTooSlow => LimitKind::HeadTime,
            ParseError::BodyTooSlow => LimitKind::BodyTime,
            ParseError::BodyTooLarge => LimitKind::Body,
            error if HEAD_LIMITS.contains(&error.status()) => LimitKind::Head,
            _ => return,
        };
        self.hit(limit, request);
    }

    /// Counts the limit that an answer of this server or of an application in it tells of.
    pub(super) fn count_limit(&self, answer: &Answer) {
        if answer.status == StatusCode::PAYLOAD_TOO_LARGE {
            self.metrics.hit(LimitKind::Body);
        }
    }

    /// Counts a response and writes the access log line. `None`: no request could be parsed.
    #[inline]
    pub(super) fn observe(
        &self,
        request: Option<&RequestHead<'_>>,
        status: StatusCode,
        head_bytes: u64,
        completed: Result<(), ExchangeError>,
    ) {
        let protocol = match self.io.version() {
            Version::HTTP_2 => metrics::Protocol::Http2,
            Version::HTTP_3 => metrics::Protocol::Http3,
            _ => metrics::Protocol::Http1,
        };
        let moved = self.sent.moved.get();
        self.route.count(protocol, status.as_u16(), moved.saturating_sub(head_bytes));
        // A known file that is not timed, without an access log.
        if self.exchange.begun.is_none()
            && self.exchange.cache_status.is_none()
            && self.worker.log.is_none()
        {
            return self.route.count_untimed();
        }
        self.observe_more(request, (status, head_bytes), completed);
    }

    /// Counts the time of a response and the result of the response cache, and writes the access log
    /// line. It is a function of its own because it needs many registers and a large stack frame.
    #[inline(never)]
    fn observe_more(
        &self,
        request: Option<&RequestHead<'_>>,
        (status, head_bytes): (StatusCode, u64),
        completed: Result<(), ExchangeError>,
    ) {
        drop(self.exchange.in_flight.take());
        if completed == Err(ExchangeError::Stalled) {
            self.hit(LimitKind::SendTime, request);
        }
        let is_untimed = self.exchange.details.as_ref().is_some_and(|details| details.is_untimed);
        match self.exchange.begun {
            _ if is_untimed => {}
            Some(begun) => {
                let responses = self.route.time(begun.elapsed());
                let path = request.and_then(|request| request.target.path_and_query());
                let path = path.map_or(&b"*"[..], |(path, _)| path);
                self.worker.activity.count(&self.route, path, responses);
            }
            None => self.route.count_untimed(),
        }
        if let Some(result) = self.exchange.cache_status {
            self.route.count_cached(result.name());
        }
        if let Some(log) = &self.worker.log
            && self.worker.log_filter.admits(
                &self.route,
                request,
                (self.exchange.client, self.peer),
                self.io.is_secure(),
            )
        {
            self.log(log, request, (status, head_bytes), completed);
        }
    }

    /// Writes the access log line.
    fn log(
        &self,
        log: &WorkerLog,
        request: Option<&RequestHead<'_>>,
        (status, head_bytes): (StatusCode, u64),
        completed: Result<(), ExchangeError>,
    ) {
        let duration = self.exchange.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let (identity, name);
        let details = match log.has_details() {
            false => Details::NONE,
            true => {
                identity = self.identity(request);
                name = self.io.server_name();
                Details {
                    request_id: identity.request_id.as_deref(),
                    trace_id: identity.trace_id.as_deref(),
                    site: self.route.site(),
                    mount: self.route.mount(),
                    head_bytes,
                    request_bytes: request.map_or(0, |_| self.exchange.request_bytes.get()),
                    tls: self.io.cipher(),
                    server_name: name.as_deref(),
                    upstream: self
                        .exchange
                        .details
                        .as_ref()
                        .and_then(|of| of.upstream.as_ref())
                        .map(times),
                }
            }
        };
        let refused = self.exchange.details.as_ref().and_then(|details| details.refused.as_ref());
        log.record(&LogRecord {
            client: self.exchange.client,
            method: request
                .map_or(refused.map_or(b"", |line| &line.method), |r| r.method.as_bytes()),
            target: request.map_or(refused.map_or(b"", |line| &line.target), |r| r.raw_target),
            version: match refused {
                Some(line) if line.is_http11 => Version::HTTP_11,
                _ => self.version(request),
            },
            status: status.as_u16(),
            body_bytes: self.sent.moved.get().saturating_sub(head_bytes),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            host: request.and_then(|r| r.host).map_or(b"", |host| host.name),
            referer: request.and_then(|r| r.referer),
            user_agent: request.and_then(|r| r.user_agent),
            completion: completion(completed),
            cache: self.exchange.cache_status.map(CacheStatus::name),
            unix_secs: clock::coarse_unix_secs(clock::now_ms()),
            details,
        });
    }

    /// Keeps the upstream of the response for the log.
    pub(super) fn note_upstream(&mut self, upstream: impl FnOnce() -> UpstreamLog) {
        if self.worker.log.as_ref().is_some_and(|log| log.has_details()) {
            self.exchange.details.get_or_insert_default().upstream = Some(upstream());
        }
    }

    /// Returns the request's IDs for the log. A known file has none yet.
    fn identity(&self, request: Option<&RequestHead<'_>>) -> Identity {
        let given = self.exchange.details.as_ref().and_then(|details| details.identity.clone());
        let made = |request| Identity::of(request, self.worker.tracing, self.trusted().is_some());
        given.or_else(|| request.map(made)).unwrap_or_default()
    }
}

fn times(of: &UpstreamLog) -> UpstreamTimes<'_> {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    UpstreamTimes {
        name: &of.name,
        connect_us: of.connected.map(us),
        head_us: us(of.answered),
        whole_us: of.chosen.map_or(0, |chosen| us(chosen.elapsed())),
    }
}

fn completion(completed: Result<(), ExchangeError>) -> Completion {
    match completed {
        Ok(()) => Completion::Complete,
        Err(ExchangeError::Gone | ExchangeError::ParseError(_)) => Completion::ClientGone,
        Err(ExchangeError::ResponseBody) => Completion::SourceFailed,
        Err(ExchangeError::Stalled | ExchangeError::UpstreamTimeout) => Completion::TimedOut,
    }
}
