//! One request to a FastCGI application on a connection. `hurtle_http::fcgi` encodes the records.

use std::future::poll_fn;

use bytes::Bytes;
use hurtle_http::fcgi::{self, CONTENT_BYTES_MAX, Decoder, EndStatus, Event, Role};

use super::super::body_buffer::PIECES_MAX;
use super::exchange::{GatewayError, Sink, Timer};
use super::peer::{ApplicationRequest, write};
use super::stderr_log::StderrLog;
use crate::rt;
use crate::transport::{self, Fill, Output, Plain, SendQueue, Transport};

/// Sends a request; `false`: the application closed its side.
pub(super) async fn send(
    io: &Plain,
    call: &mut ApplicationRequest,
    keep: bool,
    timer: &Timer<'_>,
) -> Result<bool, GatewayError> {
    let mut queue = SendQueue::default();
    let mut head = Output::new();
    fcgi::begin(head.vec(), call.role, keep, &call.variables);
    queue.push(head);
    // An authorizer has no input (FastCGI section 6.3).
    if call.role == Role::Authorizer {
        return write(io, &mut queue, timer).await;
    }
    let (body, mut pieces) = (&mut call.body, 0_u64);
    while !body.is_end_stream() {
        pieces += 1;
        if pieces.is_multiple_of(PIECES_MAX) {
            rt::give_way().await;
        }
        if !write(io, &mut queue, timer).await? {
            return Ok(false);
        }
        let mut data = match body.next().await {
            None => break,
            Some(Err(_)) => return Err(GatewayError::Abandoned),
            Some(Ok(data)) => data,
        };
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(CONTENT_BYTES_MAX));
            let mut head = Output::new();
            fcgi::stdin(head.vec(), piece.len());
            queue.push(head);
            queue.push(piece);
            if !write(io, &mut queue, timer).await? {
                return Ok(false);
            }
        }
    }
    let mut end = Output::new();
    fcgi::stdin(end.vec(), 0);
    queue.push(end);
    write(io, &mut queue, timer).await
}

/// Reads until the request is over; `true` if no byte is left unread.
pub(super) async fn read_response(
    io: &Plain,
    name: &str,
    timer: &Timer<'_>,
    sink: &mut Sink,
) -> Result<bool, GatewayError> {
    let mut stderr_log = StderrLog::new(name);
    let (mut input, mut decoder) = (transport::Input::default(), Decoder::default());
    loop {
        while let Some((said, len)) = decoder.next(input.bytes()).map_err(GatewayError::Record)? {
            let ended = match said {
                Event::Stdout(bytes) => {
                    let data = Bytes::copy_from_slice(bytes);
                    sink.take(data).await?;
                    None
                }
                Event::Stderr(bytes) => {
                    stderr_log.take(bytes);
                    None
                }
                Event::End(ended) => Some(ended),
                Event::Skipped => None,
            };
            input.consume(len);
            match ended {
                None => {}
                Some(EndStatus::Complete) => return Ok(input.bytes().is_empty()),
                Some(EndStatus::Overloaded) => return Err(GatewayError::Overloaded),
                Some(EndStatus::UnknownRole) => return Err(GatewayError::Role),
            }
        }
        let fill = async || poll_fn(|cx| io.poll_fill(cx, &mut input, Fill::Body)).await;
        match timer.read(sink.has_head(), fill).await? {
            Ok(0) => return Err(GatewayError::Gone(None)),
            Ok(_) => {}
            Err(e) => return Err(GatewayError::Gone(Some(e))),
        }
    }
}
