//! Health checks of an upstream.

use std::future::poll_fn;
use std::io;
use std::rc::{Rc, Weak};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hurtle_http::h1::response_head;
use hurtle_http::semantics::target::encode_path;

use super::link::Source;
use super::peer::{Peer, UpstreamError};
use crate::rt::{self, Alarm};
use crate::transport::{Attempt, SendQueue, Transport as _, UpstreamSocket};

/// Time limit of a check, from connecting to the end of the response's head.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Consecutive failed checks that make an upstream unhealthy.
const FAILED_CHECKS_MAX: u32 = 2;

/// Checks one upstream periodically.
pub(super) struct HealthChecker {
    peer: Weak<Peer>,
    request: Bytes,
    interval: Duration,
}

impl HealthChecker {
    pub(super) fn new(peer: &Rc<Peer>, path: &str, interval: Duration) -> HealthChecker {
        let path = encode_path(path.as_bytes());
        let host = &peer.authority;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hurtle\r\nConnection: close\r\n\r\n"
        );
        HealthChecker { peer: Rc::downgrade(peer), request: request.into(), interval }
    }

    /// Runs the checks until the upstream is dropped.
    pub(super) async fn run(self) {
        let mut failed = 0;
        let mut alarm = Alarm::unset();
        while let Some(peer) = self.peer.upgrade() {
            let found = rt::timeout(CHECK_TIMEOUT, self.check(&peer)).await;
            match found.unwrap_or_else(|| Err("it does not respond".to_owned())) {
                Ok(()) => {
                    failed = 0;
                    peer.set_healthy(true, "");
                }
                Err(why) => {
                    failed += 1;
                    if failed >= FAILED_CHECKS_MAX {
                        peer.set_healthy(false, &why);
                    }
                }
            }
            drop(peer);
            alarm.wait(self.interval).await;
        }
    }

    /// Makes one check; the error is the reason of its failure.
    async fn check(&self, peer: &Peer) -> Result<(), String> {
        let text = |error: UpstreamError| error.to_string();
        let mut link = peer.connect(CHECK_TIMEOUT.as_millis() as u64).await.map_err(text)?;
        let sent = send(&link.io, self.request.clone()).await;
        sent.map_err(|e| text(UpstreamError::NotRead(e)))?;
        let head = Source(&link.io).head(&mut link.input).await.map_err(text)?;
        let reply =
            response_head::parse(&head).map_err(|error| text(UpstreamError::BadResponse(error)))?;
        match reply.status {
            status if status.is_success() || status.is_redirection() => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }
}

async fn send(io: &UpstreamSocket, request: Bytes) -> io::Result<()> {
    let mut queue = SendQueue::default();
    queue.push(request);
    poll_fn(|cx| {
        while !queue.is_empty() {
            if ready!(io.poll_send(cx, &mut queue, Attempt::Ready))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        io.poll_flush(cx, Attempt::Ready)
    })
    .await
}
