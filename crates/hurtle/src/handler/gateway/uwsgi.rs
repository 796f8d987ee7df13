//! One request to a uWSGI application on a connection of its own. `hurtle_http::uwsgi` encodes the
//! request. The response ends with the connection.

use std::future::poll_fn;

use bytes::Bytes;
use hurtle_http::uwsgi::{self, ResponseBegin};

use super::super::body_buffer::PIECES_MAX;
use super::exchange::{GatewayError, Sink, Timer};
use super::peer::{ApplicationRequest, write};
use crate::rt;
use crate::transport::{self, Fill, Output, Plain, SendQueue, Transport};

/// Takes the place of `HTTP/1.1` before a status, as in a response of CGI.
const STATUS_FIELD: &[u8] = b"Status: ";

/// Sends a request; `false`: the application closed its side.
pub(super) async fn send(
    io: &Plain,
    call: &mut ApplicationRequest,
    timer: &Timer<'_>,
) -> Result<bool, GatewayError> {
    let mut queue = SendQueue::default();
    let mut head = Output::new();
    uwsgi::begin(head.vec(), &call.variables).map_err(GatewayError::Variables)?;
    queue.push(head);
    let mut pieces = 0_u64;
    while write(io, &mut queue, timer).await? {
        pieces += 1;
        if pieces.is_multiple_of(PIECES_MAX) {
            rt::give_way().await;
        }
        match call.body.next().await {
            None => return Ok(true),
            Some(Err(_)) => return Err(GatewayError::Abandoned),
            Some(Ok(data)) => queue.push(data),
        }
    }
    Ok(false)
}

/// Reads a response until the application closes the connection.
pub(super) async fn read_response(
    io: &Plain,
    timer: &Timer<'_>,
    sink: &mut Sink,
) -> Result<(), GatewayError> {
    let mut input = transport::Input::default();
    let mut has_begun = false;
    loop {
        let fill = async || poll_fn(|cx| io.poll_fill(cx, &mut input, Fill::Body)).await;
        match timer.read(sink.has_head(), fill).await? {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) => return Err(GatewayError::Gone(Some(e))),
        }
        if !has_begun {
            match uwsgi::response_begin(input.bytes()) {
                ResponseBegin::Partial => continue,
                ResponseBegin::Fields => {}
                ResponseBegin::StatusLine(len) => {
                    sink.take(Bytes::from_static(STATUS_FIELD)).await?;
                    input.consume(len);
                }
            }
            has_begun = true;
        }
        let len = input.bytes().len();
        sink.take(Bytes::copy_from_slice(input.bytes())).await?;
        input.consume(len);
    }
}
