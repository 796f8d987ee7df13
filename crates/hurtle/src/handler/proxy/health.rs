//! Asks an upstream how it is, from time to time.

use std::future::poll_fn;
use std::io::IoSlice;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::link::Source;
use super::peer::{Fault, Peer};
use crate::h1::reply;
use crate::rt::{self, Alarm};
use crate::semantics::target::encode_path;
use crate::transport::Transport as _;

/// How long an answer may take, from connecting to its head's end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bad answers in a row that are one: a single one may be bad luck.
const BAD_MAX: u32 = 2;

/// What is asked of one upstream.
pub(super) struct Question {
    peer: Weak<Peer>,
    request: String,
    interval: Duration,
}

impl Question {
    pub(super) fn new(peer: &Rc<Peer>, path: &str, interval: Duration) -> Question {
        let path = encode_path(path.as_bytes());
        let host = &peer.authority;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: hurtle\r\nConnection: close\r\n\r\n"
        );
        Question { peer: Rc::downgrade(peer), request, interval }
    }

    /// Asks for as long as the upstream is anybody's.
    pub(super) async fn keep_asking(self) {
        let mut bad = 0;
        let mut alarm = Alarm::unset();
        while let Some(peer) = self.peer.upgrade() {
            let found = rt::timeout(PATIENCE, self.ask(&peer)).await;
            match found.unwrap_or_else(|| Err("it does not answer".to_owned())) {
                Ok(()) => {
                    bad = 0;
                    peer.set_well(true, "");
                }
                Err(why) => {
                    bad += 1;
                    if bad >= BAD_MAX {
                        peer.set_well(false, &why);
                    }
                }
            }
            drop(peer);
            alarm.wait(self.interval).await;
        }
    }

    /// Nothing, or what is wrong.
    async fn ask(&self, peer: &Peer) -> Result<(), String> {
        let told = |fault: Fault| fault.to_string();
        let mut link = peer.connect().await.map_err(told)?;
        let mut left = self.request.as_bytes();
        while !left.is_empty() {
            let bufs = [IoSlice::new(left)];
            let sent = poll_fn(|cx| link.io.poll_write_shared(cx, &bufs)).await;
            let n = sent.map_err(|e| told(Fault::Deaf(e)))?;
            left = &left[n..];
        }
        let head = Source::Own(&mut link.io).head(&mut link.input).await.map_err(told)?;
        let reply = reply::parse(&head).map_err(|flaw| told(Fault::Flaw(flaw)))?;
        match reply.status {
            status if status.is_success() || status.is_redirection() => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }
}
