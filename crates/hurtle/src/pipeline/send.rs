//! Sends complete responses, as long as the client reads them.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::rc::Rc;

use http::StatusCode;

use super::{Connection, Next};
use crate::body::Body;
use crate::config::ClientTimeouts;
use crate::deadline::DeadlineError;
use crate::handler::client::ExchangeError;
use crate::protocol::{InterimFields, Protocol};
use crate::transport::{Input, Output};

impl<T: Protocol> Connection<T> {
    /// Sends a head and a body.
    ///
    /// # Errors
    /// The client is gone or does not read, or the file has changed.
    pub(super) async fn send(&mut self, head: Output, body: &Body) -> Result<(), ExchangeError> {
        let stall_ms = self.begin_to_send();
        let sending = pin!(self.io.send(&self.worker.sender, head, body, &self.sent));
        completed(self.watch.wait_while_moving(sending, &self.sent, stall_ms).await)
    }

    /// Sends a head and the first `len` bytes of `input`.
    ///
    /// # Errors
    /// The client is gone or does not read.
    pub(super) async fn send_from(
        &mut self,
        head: Output,
        input: &mut Input,
        len: usize,
    ) -> Result<(), ExchangeError> {
        let stall_ms = self.begin_to_send();
        let sending = pin!(self.io.send_from(head, input, len, &self.sent));
        completed(self.watch.wait_while_moving(sending, &self.sent, stall_ms).await)
    }

    /// Sends an interim response.
    ///
    /// # Errors
    /// The client is gone or does not read.
    pub(super) async fn send_interim(
        &mut self,
        status: StatusCode,
        fields: InterimFields<'_>,
    ) -> Result<(), ExchangeError> {
        let mut interim = Output::new();
        self.io.encode_interim(interim.vec(), status, fields);
        if interim.is_empty() {
            return Ok(());
        }
        self.send(interim, &Body::Empty).await
    }

    /// Gives the client these timeouts; `None`: those of the server.
    #[inline]
    pub(super) fn time_by(&mut self, timeouts: Option<&Rc<ClientTimeouts>>) {
        if let Some(timeouts) = timeouts {
            timeouts.write_stall.into_iter().for_each(|stall| self.slot.extend_write_stall(stall));
            self.exchange.details.get_or_insert_default().timeouts = Some(Rc::clone(timeouts));
        } else if let Some(details) = &mut self.exchange.details {
            details.timeouts = None;
        }
    }

    /// Resets the progress of the response; returns the stall timeout in milliseconds.
    fn begin_to_send(&self) -> u64 {
        self.sent.moved.set(0);
        self.sent.held.set(false);
        self.exchange.write_stall_ms(&self.worker.limits)
    }
}

/// Names the error that ended a response.
fn completed(sent: Result<io::Result<()>, DeadlineError>) -> Result<(), ExchangeError> {
    match sent {
        Ok(Ok(())) => Ok(()),
        // See `Sender::send`: the file was truncated or edited.
        Ok(Err(e)) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) => {
            Err(ExchangeError::ResponseBody)
        }
        Ok(Err(_)) => Err(ExchangeError::Gone),
        Err(DeadlineError) => Err(ExchangeError::Stalled),
    }
}

/// Returns the next step of the connection after a response that was not sent whole.
pub(super) fn next_after(error: ExchangeError) -> Next {
    match error {
        ExchangeError::Stalled => Next::Abort,
        _ => Next::Drop,
    }
}
