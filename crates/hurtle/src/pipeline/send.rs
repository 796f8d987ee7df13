//! Sends complete responses, as long as the client reads them.

use std::io;
use std::pin::pin;

use http::StatusCode;

use super::{Exchange, Next};
use crate::body::Body;
use crate::deadline::DeadlineError;
use crate::protocol::{InterimFields, Protocol};
use crate::transport::{Input, Output};

impl<T: Protocol> Exchange<T> {
    /// Sends a head and a body, or returns the next step of the connection.
    pub(super) async fn send(&mut self, head: Output, body: &Body) -> Result<(), Next> {
        let stall_ms = self.begin_to_send();
        let sending = pin!(self.io.send(&self.worker.sender, head, body, &self.sent));
        next_step(&self.watch.wait_while_moving(sending, &self.sent, stall_ms).await)
    }

    /// Sends a head and the first `len` bytes of `input`, or returns the next step of the
    /// connection.
    pub(super) async fn send_from(
        &mut self,
        head: Output,
        input: &mut Input,
        len: usize,
    ) -> Result<(), Next> {
        let stall_ms = self.begin_to_send();
        let sending = pin!(self.io.send_from(head, input, len, &self.sent));
        next_step(&self.watch.wait_while_moving(sending, &self.sent, stall_ms).await)
    }

    /// Sends an interim response, or returns the next step of the connection.
    pub(super) async fn send_interim(
        &mut self,
        status: StatusCode,
        fields: InterimFields<'_>,
    ) -> Result<(), Next> {
        let mut interim = Output::new();
        self.io.encode_interim(interim.vec(), status, fields);
        if interim.is_empty() {
            return Ok(());
        }
        self.send(interim, &Body::Empty).await
    }

    /// Resets the progress of the response; returns the stall timeout in milliseconds.
    fn begin_to_send(&self) -> u64 {
        self.sent.moved.set(0);
        self.sent.held.set(false);
        self.worker.limits.write_stall.as_millis() as u64
    }
}

/// Maps the result of sending to the next step of the connection.
fn next_step(sent: &Result<io::Result<()>, DeadlineError>) -> Result<(), Next> {
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Next::Drop),
        Err(DeadlineError) => Err(Next::Abort),
    }
}
