//! Health checks of an upstream: a GET, or the health service of gRPC.

use std::future::poll_fn;
use std::io::Write as _;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use hurtle_http::h2::RequestLine;
use hurtle_http::semantics::target::encode_path;

use super::forward::{INTERIM_MAX, is_interim};
use super::link::{Channel, Link, RawHead, Source};
use super::peer::{Peer, UpstreamError};
use super::wait::Waits;
use crate::config::HealthCheck;
use crate::protocol::h1::RequestWriter;
use crate::protocol::h2::RequestStream;
use crate::protocol::reading::Reading;
use crate::rt::{self, Alarm};
use crate::transport::Output;

/// Time limit of a check, from connecting to the end of the response's head.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The method of the health service of gRPC ("GRPC Health Checking Protocol"): this path is checked
/// by a call.
const GRPC_HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Request of that call: an empty message, which asks about the whole server.
const GRPC_REQUEST: &[u8] = &[0; 5];

/// Response of a server that serves: a message whose field 1 is 1 (SERVING).
const GRPC_SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 1];

/// Checks one upstream periodically.
pub(super) struct HealthChecker {
    peer: Weak<Peer>,
    /// Path of the check, percent-encoded.
    path: String,
    config: HealthCheck,
}

impl HealthChecker {
    pub(super) fn new(peer: &Rc<Peer>, config: &HealthCheck) -> HealthChecker {
        let path = encode_path(config.path.as_bytes()).into_owned();
        HealthChecker { peer: Rc::downgrade(peer), path, config: config.clone() }
    }

    /// Runs the checks until the upstream is dropped.
    pub(super) async fn run(self) {
        let (mut failed, mut passed) = (0, 0);
        let mut alarm = Alarm::unset();
        while let Some(peer) = self.peer.upgrade() {
            let found = rt::timeout(CHECK_TIMEOUT, self.check(&peer)).await;
            if found.is_none() {
                // A shared connection may be dead.
                peer.multiplexer.retire();
                // The name may have another address.
                peer.addresses.request_update();
            }
            match found.unwrap_or_else(|| Err("it does not respond".to_owned())) {
                Ok(()) => {
                    (failed, passed) = (0, self.config.passes.min(passed + 1));
                    if passed >= self.config.passes {
                        peer.set_healthy(true, "");
                    }
                }
                Err(why) => {
                    (failed, passed) = (self.config.fails.min(failed + 1), 0);
                    if failed >= self.config.fails {
                        peer.set_healthy(false, &why);
                    }
                }
            }
            drop(peer);
            alarm.wait(self.config.interval).await;
        }
    }

    /// Makes one check; the error is the reason of its failure.
    async fn check(&self, peer: &Rc<Peer>) -> Result<(), String> {
        let text = |error: UpstreamError| error.to_string();
        let (mut link, head) = self.ask(peer).await.map_err(text)?;
        let reply = head.parse().map_err(|error| text(UpstreamError::BadResponse(error)))?;
        match reply.status {
            StatusCode::OK if self.is_call(peer) => serving(&mut link).await,
            status if self.config.accepts(status.as_u16()) => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }

    fn host<'a>(&'a self, peer: &'a Peer) -> &'a str {
        self.config.host.as_deref().unwrap_or(&peer.authority)
    }

    fn is_call(&self, peer: &Peer) -> bool {
        peer.is_http2() && self.path == GRPC_HEALTH
    }

    /// Sends the request and waits for a final head. An HTTP/2 upstream gets it on the connection
    /// that requests share, if that has room.
    async fn ask(&self, peer: &Rc<Peer>) -> Result<(Link, RawHead), UpstreamError> {
        let within_ms = CHECK_TIMEOUT.as_millis() as u64;
        let mut link = match peer.is_http2() {
            false => peer.connect(None, within_ms).await?,
            true => {
                let is_call = self.is_call(peer);
                let line = RequestLine {
                    method: if is_call { b"POST" } else { b"GET" },
                    scheme: if peer.is_tls() { b"https" } else { b"http" },
                    authority: self.host(peer).as_bytes(),
                    path: self.path.as_bytes(),
                    protocol: None,
                };
                let fields: [(&[u8], &[u8]); 3] = [
                    (b"user-agent", b"hurtle"),
                    (b"content-type", b"application/grpc"),
                    (b"te", b"trailers"),
                ];
                let fields = fields.into_iter().take(if is_call { 3 } else { 1 });
                let connection = peer.connection_for_check(within_ms).await?;
                let stream = RequestStream::open(&connection, &line, fields, !is_call);
                let stream = stream.ok_or(UpstreamError::Unprocessed)?;
                if is_call {
                    let mut body = Bytes::from_static(GRPC_REQUEST);
                    let sent = poll_fn(|cx| stream.poll_send(cx, &mut body, true)).await;
                    sent.map_err(UpstreamError::NotRead)?;
                }
                Link::of_stream(stream)
            }
        };
        if let Channel::Socket(io) = &link.channel {
            let (path, host) = (&self.path, self.host(peer));
            let mut request = Output::new();
            let _ = write!(
                request.vec(),
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hurtle\r\nConnection: close\r\n\r\n"
            );
            let mut writer = RequestWriter::default();
            writer.begin(request);
            let sent = poll_fn(|cx| writer.poll_send(io, cx)).await;
            sent.map_err(UpstreamError::NotRead)?;
        }
        for _ in 0..INTERIM_MAX {
            let head = link.channel.head(&mut link.input).await?;
            if !is_interim(&head)? {
                return Ok((link, head));
            }
        }
        Err(UpstreamError::TooManyInterim)
    }
}

/// Reads the response to a call of the health service; the error is the reason of its failure.
async fn serving(link: &mut Link) -> Result<(), String> {
    let (mut reading, waits) = (Reading::Frames, Waits::default());
    let mut source = Source::new(&link.channel);
    while matches!(reading, Reading::Frames) && link.input.bytes().len() <= GRPC_SERVING.len() {
        let filled = source.fill(&mut link.input, Some(&mut reading), &waits, None).await;
        filled.map_err(|e| e.to_string())?;
    }
    match link.input.bytes() == GRPC_SERVING {
        true => Ok(()),
        false => Err("its health service does not answer SERVING".to_owned()),
    }
}
