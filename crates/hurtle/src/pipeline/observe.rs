//! Access log entries.

use std::time::Duration;

use http::{StatusCode, Version};
use hurtle_http::request::RequestHead;

use super::Exchange;
use crate::clock;
use crate::handler::client::ExchangeError;
use crate::handler::proxy::cache::CacheStatus;
use crate::observe::{Completion, Exchange as LogRecord};
use crate::protocol::Protocol;

impl<T: Protocol> Exchange<T> {
    /// Returns the protocol version of a request.
    pub(super) fn version(&self, request: Option<&RequestHead<'_>>) -> Version {
        match request {
            Some(request) if request.http10 => Version::HTTP_10,
            None if self.io.version() == Version::HTTP_11 => Version::HTTP_10,
            _ => self.io.version(),
        }
    }

    /// Writes the access log line. `None`: no request could be parsed.
    pub(super) fn log(
        &self,
        request: Option<&RequestHead<'_>>,
        status: StatusCode,
        head_bytes: u64,
        completed: Result<(), ExchangeError>,
    ) {
        let Some(log) = &self.worker.log else { return };
        let duration = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        log.record(&LogRecord {
            client: self.client,
            method: request.map_or(b"", |r| r.method.as_bytes()),
            target: request.map_or(b"", |r| r.raw_target),
            version: self.version(request),
            status: status.as_u16(),
            body_bytes: self.sent.moved.get().saturating_sub(head_bytes),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            host: request.and_then(|r| r.host).map_or(b"", |host| host.name),
            referer: request.and_then(|r| r.referer),
            user_agent: request.and_then(|r| r.user_agent),
            completion: completion(completed),
            cache: self.cache_status.map(CacheStatus::name),
            unix_secs: clock::coarse_unix_secs(clock::now_ms()),
        });
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
