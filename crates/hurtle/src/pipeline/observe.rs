//! The step `observe`: counts a response and writes its access log entry. Limits that refuse a
//! request are counted here, too.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{StatusCode, Version};
use hurtle_http::request::{ParseError, RequestHead};

use super::connection::Connection;
use super::exchange::Exchange;
use super::identify::Identity;
use crate::answer::Answer;
use crate::auth;
use crate::body::Body;
use crate::cache::CacheStatus;
use crate::clock;
use crate::handler::client::ExchangeError;
use crate::metrics::{self, LimitKind};
use crate::observe::{Completion, Details, LogRecord, UpstreamLog, UpstreamTimes, WorkerLog};
use crate::protocol::Protocol;

/// Largest body of a known file that is not always timed, in bytes. It leaves in one write.
const UNTIMED_BYTES_MAX: u64 = 64 << 10;

/// Statuses of heads that exceed a limit (RFC 9110 section 15.5.15, RFC 6585 section 5).
const HEAD_LIMITS: [StatusCode; 2] =
    [StatusCode::URI_TOO_LONG, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE];

/// Status of a request without a response in logs and metrics, as nginx has it.
const NO_RESPONSE: StatusCode = match StatusCode::from_u16(444) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// Status of a request whose client has left before the response, as nginx has it.
const CLIENT_GONE: StatusCode = match StatusCode::from_u16(499) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// A response that was sent, or as much of it as could be.
#[derive(Clone, Copy)]
struct Sent {
    status: StatusCode,
    head_bytes: u64,
    completed: Result<(), ExchangeError>,
}

/// Decides whether the response of a known file or a stored response is timed. Reading the clock
/// twice would cost such a request some percent, so small ones are timed now and then.
#[inline]
pub(super) fn time_known<T: Protocol>(
    connection: &Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    answer: &Answer,
) {
    let is_small = match &answer.body {
        Body::Bytes(bytes) => bytes.len() as u64 <= UNTIMED_BYTES_MAX,
        body => body.exact_len().is_some_and(|len| len <= UNTIMED_BYTES_MAX),
    };
    if !is_small {
        record_in_flight(connection, exchange, request);
    }
    if !is_small || connection.route.is_due() {
        exchange.begin_time();
    }
}

/// Records the request among those in flight, until it is observed.
pub(super) fn record_in_flight<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    request: &RequestHead<'_>,
) {
    let path = request.target.path_and_query().map_or(&b"*"[..], |(path, _)| path);
    let method = request.method.as_bytes();
    let in_flight = connection.worker.activity.begin(&connection.route, method, path);
    exchange.in_flight.set(Some(in_flight));
}

/// Counts and logs a limit that refuses a request, or ends its response. `None`: the request is not
/// known.
pub(super) fn hit<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    limit: LimitKind,
    request: Option<&RequestHead<'_>>,
) {
    connection.metrics.hit(limit);
    connection.worker.limit_log.log(limit, || {
        let client = exchange.client.map_or_else(|| "a client".to_owned(), |ip| ip.to_string());
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
pub(super) fn count_refusal<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    error: ParseError,
    request: Option<&RequestHead<'_>>,
) {
    let limit = match error {
        ParseError::HeadTooSlow => LimitKind::HeadTime,
        ParseError::BodyTooSlow => LimitKind::BodyTime,
        ParseError::BodyTooLarge => LimitKind::Body,
        error if HEAD_LIMITS.contains(&error.status()) => LimitKind::Head,
        _ => return,
    };
    hit(connection, exchange, limit, request);
}

/// Counts the limit that an answer of this server or of an application in it tells of. The
/// replacement of an error tells of none: the error was counted if it did.
pub(super) fn count_limit<T>(connection: &Connection<T>, exchange: &Exchange, answer: &Answer) {
    if answer.status == StatusCode::PAYLOAD_TOO_LARGE
        && !exchange.has_replacement
        && !exchange.is_upstream_error
    {
        connection.metrics.hit(LimitKind::Body);
    }
}

/// Has the bytes of bodies in files counted, if the log may have them.
pub(super) fn count_buffered<T>(connection: &Connection<T>, exchange: &mut Exchange) {
    if connection.worker.log.as_ref().is_some_and(|log| log.has_details()) {
        exchange.details().buffered.get_or_insert_default();
    }
}

/// Keeps the upstream of the response for the log.
pub(super) fn note_upstream<T>(
    connection: &Connection<T>,
    exchange: &mut Exchange,
    upstream: impl FnOnce() -> UpstreamLog,
) {
    if connection.worker.log.as_ref().is_some_and(|log| log.has_details()) {
        exchange.details().upstream = Some(upstream());
    }
}

/// Counts a response and writes the access log line. `None`: no request could be parsed.
#[inline]
pub(super) fn observe<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    request: Option<&RequestHead<'_>>,
    status: StatusCode,
    head_bytes: u64,
    completed: Result<(), ExchangeError>,
) {
    let protocol = match connection.io.version() {
        Version::HTTP_2 => metrics::Protocol::Http2,
        Version::HTTP_3 => metrics::Protocol::Http3,
        _ => metrics::Protocol::Http1,
    };
    let route = &connection.route;
    let body_bytes = exchange.sent.moved.get().saturating_sub(head_bytes);
    route.count(protocol, status.as_u16(), body_bytes);
    // A known file that is not timed, without an access log. A response that was not sent
    // completely may have hit a limit.
    if completed.is_ok()
        && exchange.begun.is_none()
        && exchange.cache_status.is_none()
        && connection.worker.log.is_none()
    {
        return route.count_untimed();
    }
    observe_more(connection, exchange, request, Sent { status, head_bytes, completed });
}

/// Counts and logs a request that gets no response.
pub(super) fn observe_unanswered<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    request: &RequestHead<'_>,
    completed: Result<(), ExchangeError>,
) {
    let status = match completed {
        Err(ExchangeError::Gone) => CLIENT_GONE,
        _ => NO_RESPONSE,
    };
    // An interim response is no body.
    exchange.sent.moved.set(0);
    observe(connection, exchange, Some(request), status, 0, completed);
}

/// Counts the time of a response and the result of the response cache, and writes the access log
/// line. It is a function of its own because it needs many registers and a large stack frame.
#[inline(never)]
fn observe_more<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    request: Option<&RequestHead<'_>>,
    sent: Sent,
) {
    let Connection { route, worker, .. } = connection;
    drop(exchange.in_flight.take());
    if sent.completed == Err(ExchangeError::Stalled) {
        hit(connection, exchange, LimitKind::SendTime, request);
    }
    let is_untimed = exchange.details.as_ref().is_some_and(|details| details.is_untimed);
    match exchange.begun {
        _ if is_untimed => {}
        Some(begun) => {
            let responses = route.time(begun.elapsed());
            let path = request.and_then(|request| request.target.path_and_query());
            let path = path.map_or(&b"*"[..], |(path, _)| path);
            worker.activity.count(route, path, responses);
        }
        None => route.count_untimed(),
    }
    if let Some(result) = exchange.cache_status {
        route.count_cached(result.name());
    }
    let (client, peer, is_tls) = (exchange.client, connection.peer, connection.io.is_secure());
    if let Some(log) = &worker.log
        && worker.log_filter.admits(route, request, client, peer, is_tls)
    {
        write_line(connection, exchange, log, request, sent);
    }
}

/// Writes the access log line.
fn write_line<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    log: &WorkerLog,
    request: Option<&RequestHead<'_>>,
    Sent { status, head_bytes, completed }: Sent,
) {
    let Connection { io, route, .. } = connection;
    let duration = exchange.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
    let noted = exchange.details.as_ref();
    let (identity, name);
    let details = match log.has_details() {
        false => Details::NONE,
        true => {
            identity = identity_of(connection, exchange, request);
            name = io.server_name();
            Details {
                request_id: identity.request_id.as_deref(),
                trace_id: identity.trace_id.as_deref(),
                site: route.site(),
                mount: route.mount(),
                head_bytes,
                request_bytes: request.map_or(0, |_| exchange.request_bytes.get()),
                buffered: noted
                    .and_then(|of| of.buffered.as_ref())
                    .map_or((0, 0), |of| (of.request.load(Relaxed), of.response.load(Relaxed))),
                tls: io.cipher(),
                server_name: name.as_deref(),
                upstream: noted.and_then(|of| of.upstream.as_ref()).map(times),
            }
        }
    };
    let user = request.and_then(|request| auth::user_name(request.authorization?));
    let refused = noted.and_then(|details| details.refused.as_ref());
    log.record(&LogRecord {
        client: exchange.client,
        method: request.map_or(refused.map_or(b"", |line| &line.method), |r| r.method.as_bytes()),
        target: request.map_or(refused.map_or(b"", |line| &line.target), |r| r.raw_target),
        version: match refused {
            Some(line) if line.is_http11 => Version::HTTP_11,
            _ => version(connection, request),
        },
        status: status.as_u16(),
        body_bytes: exchange.sent.moved.get().saturating_sub(head_bytes),
        duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        host: request.and_then(|r| r.host).map_or(b"", |host| host.name),
        referer: request.and_then(|r| r.referer),
        user_agent: request.and_then(|r| r.user_agent),
        user: user.as_deref().map(str::as_bytes),
        completion: completion(completed),
        cache: exchange.cache_status.map(CacheStatus::name),
        unix_secs: clock::coarse_unix_secs(clock::now_ms()),
        details,
    });
}

/// Returns the protocol version of a request.
fn version<T: Protocol>(connection: &Connection<T>, request: Option<&RequestHead<'_>>) -> Version {
    match request {
        Some(request) if request.http10 => Version::HTTP_10,
        None if connection.io.version() == Version::HTTP_11 => Version::HTTP_10,
        _ => connection.io.version(),
    }
}

/// Returns the request's IDs for the log. A known file has none yet.
fn identity_of<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    request: Option<&RequestHead<'_>>,
) -> Identity {
    let given = exchange.details.as_ref().and_then(|details| details.identity.clone());
    let is_trusted = connection.trusted().is_some();
    let made = |request| Identity::of(request, connection.worker.tracing, is_trusted);
    given.or_else(|| request.map(made)).unwrap_or_default()
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
