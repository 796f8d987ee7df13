//! What the access log is told of an exchange.

use std::time::Duration;

use http::{StatusCode, Version};

use super::Connection;
use super::outcome::Outcome;
use crate::clock;
use crate::h1::request::Request;
use crate::observe::Exchange;
use crate::transport::Transport;

impl<T: Transport> Connection<T> {
    /// The protocol that brought a request.
    pub(super) fn version(&self, request: Option<&Request<'_>>) -> Version {
        match request {
            _ if T::IS_HTTP2 => Version::HTTP_2,
            Some(request) if !request.http10 => Version::HTTP_11,
            _ => Version::HTTP_10,
        }
    }

    /// Writes the access log's line; `None`: there was no request that could be read.
    pub(super) fn log(&self, request: Option<&Request<'_>>, status: StatusCode, head_bytes: u64) {
        let Some(log) = &self.worker.log else { return };
        let duration = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        log.record(&Exchange {
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
            cache: self.outcome.map(Outcome::name),
            unix_secs: clock::coarse_unix_secs(clock::now_ms()),
        });
    }
}
