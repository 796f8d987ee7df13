//! Sends complete responses, as long as the client reads them.

use std::io::{self, ErrorKind};
use std::pin::pin;

use http::StatusCode;

use super::connection::{Connection, Next};
use super::exchange::Exchange;
use super::worker::Worker;
use crate::body::Body;
use crate::deadline::DeadlineError;
use crate::handler::client::ExchangeError;
use crate::protocol::{InterimFields, Protocol};
use crate::transport::{Input, Output};

/// Sends a head and a body.
///
/// # Errors
/// The client is gone or does not read, or the file has changed.
pub(super) async fn send<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    head: Output,
    body: &Body,
) -> Result<(), ExchangeError> {
    let Connection { io, worker, watch, .. } = connection;
    let stall_ms = begin_to_send(exchange, worker);
    let sending = pin!(io.send(&worker.sender, head, body, &exchange.sent));
    completed(watch.wait_while_moving(sending, &exchange.sent, stall_ms).await)
}

/// Sends a head and the first `len` bytes of `input`.
///
/// # Errors
/// The client is gone or does not read.
pub(super) async fn send_from<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    head: Output,
    input: &mut Input,
    len: usize,
) -> Result<(), ExchangeError> {
    let Connection { io, worker, watch, .. } = connection;
    let stall_ms = begin_to_send(exchange, worker);
    let sending = pin!(io.send_from(head, input, len, &exchange.sent));
    completed(watch.wait_while_moving(sending, &exchange.sent, stall_ms).await)
}

/// Sends an interim response.
///
/// # Errors
/// The client is gone or does not read.
pub(super) async fn send_interim<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    status: StatusCode,
    fields: InterimFields<'_>,
) -> Result<(), ExchangeError> {
    let mut interim = Output::new();
    connection.io.encode_interim(interim.vec(), status, fields);
    if interim.is_empty() {
        return Ok(());
    }
    send(connection, exchange, interim, &Body::Empty).await
}

/// Begins to count what is sent; returns the stall timeout in milliseconds.
fn begin_to_send(exchange: &Exchange, worker: &Worker) -> u64 {
    exchange.sent.moved.set(0);
    exchange.sent.held.set(false);
    exchange.write_stall_ms(&worker.limits)
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
