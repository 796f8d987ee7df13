//! Sending what is all there, for as long as its client takes it.

use std::io;
use std::pin::pin;

use super::super::deadline::Late;
use super::{Connection, Next};
use crate::body::Body;
use crate::transport::{Output, Transport, outgoing};

impl<T: Transport> Connection<T> {
    /// Sends all of it, or says how the connection ends.
    pub(super) async fn send(&mut self, head: Output, body: &Body) -> Result<(), Next> {
        let stall_ms = self.begin_to_send();
        let sending = pin!(self.worker.sender.send(&mut self.io, head, body, &self.sent));
        left(&self.watch.wait_while_moving(sending, &self.sent, stall_ms).await)
    }

    /// The same of a head with, perhaps, a body right behind it.
    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Next> {
        let stall_ms = self.begin_to_send();
        let sending = pin!(outgoing::send_bytes(&mut self.io, bytes, &self.sent));
        left(&self.watch.wait_while_moving(sending, &self.sent, stall_ms).await)
    }

    /// Nothing of an answer has moved yet; how long it may stand.
    fn begin_to_send(&self) -> u64 {
        self.sent.moved.set(0);
        self.sent.held.set(false);
        self.worker.limits.write_stall.as_millis() as u64
    }
}

/// What an answer that did not leave whole means for the connection.
fn left(sent: &Result<io::Result<()>, Late>) -> Result<(), Next> {
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Next::Drop),
        Err(Late) => Err(Next::Abort),
    }
}
