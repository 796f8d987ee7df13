//! Writes an upstream's response: a small body that has arrived leaves with the head, any other
//! frame by frame.

use hurtle_http::message::response::Delimiter;
use hurtle_http::request::RequestHead;

use super::arriving::ArrivingBody;
use super::beside::beside;
use super::body_writer::BodyWriter;
use super::client::Incoming;
use super::connection::{Connection, Next};
use super::duplex::Duplex;
use super::exchange::Exchange;
use super::finish::finish_stream;
use super::observe::{note_upstream, observe};
use super::respond::{cut_by, discard_rest, persistence};
use super::send::{next_after, send_from};
use crate::answer::Answer;
use crate::clock;
use crate::handler::request::describe;
use crate::handler::wait::Waits;
use crate::handler::{RelayEnd, UpstreamBody, UpstreamResponse};
use crate::protocol::Protocol;
use crate::site::Resolved;
use crate::transport::Output;

/// The upstream has failed before a byte of its response was sent, or the file that it names cannot
/// be: the client gets this error.
pub(super) struct Unsent {
    pub(super) error: Answer,
    pub(super) incoming: Incoming,
}

/// Writes an upstream's response.
///
/// # Errors
/// Nothing was sent: another response is to be written.
pub(super) async fn relay<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    request: &RequestHead<'_>,
    resolved: &Resolved<'_>,
    mut response: UpstreamResponse,
    mut incoming: Incoming,
) -> Result<Next, Box<Unsent>> {
    let mut fields = finish_stream(&mut response, request, resolved, connection.io.is_secure());
    let UpstreamResponse { status, mut body, .. } = response;
    let delimiter = body.delimiter();
    let body_allows_reuse = match &incoming {
        Incoming::Arriving(arriving) => arriving.allows_reuse(),
        Incoming::Done => true,
        // The upstream responds to an error, and nothing reads the body.
        Incoming::Unread => false,
    };
    let is_reusable =
        connection.count_request(request) && body_allows_reuse && delimiter != Delimiter::Close;
    let persistence = persistence(request, is_reusable);
    let now_ms = clock::now_ms();
    let out = connection.encode_head(status, &fields, delimiter, persistence, now_ms);
    connection.worker.buffers.recycle(&mut fields);
    let head_bytes = out.len() as u64;
    note_upstream(connection, exchange, || body.log());
    exchange.begin_response();
    let is_arriving =
        matches!(&incoming, Incoming::Arriving(arriving) if !arriving.reading.is_done());
    let whole = if is_arriving { None } else { body.take_whole() };
    if let Some((mut input, len)) = whole {
        if let Err(error) = send_from(connection, exchange, out, &mut input, len).await {
            observe(connection, exchange, Some(request), status, head_bytes, Err(error));
            return Ok(next_after(error));
        }
    } else {
        let arriving = &mut incoming;
        let relaying =
            relay_body(connection, exchange, request, &mut body, arriving, out, delimiter);
        let (error, next) = match Box::pin(relaying).await {
            Ok(()) => (None, Next::Request),
            Err(RelayEnd::Cut(error, trailers)) => {
                // A body with a stated length that is cut is malformed, with trailers too.
                if let (Some(trailers), false) =
                    (trailers, matches!(delimiter, Delimiter::Length(_)))
                {
                    // The client may be gone.
                    let nothing = &mut Output::default();
                    let _ = connection.io.end(nothing, delimiter, Some(&trailers));
                }
                (Some(error), cut_by(error, delimiter))
            }
            Err(RelayEnd::Reported(error)) => (Some(error), Next::Linger),
            Err(RelayEnd::Unsent(status)) => {
                let error = Answer::error(status, None);
                return Err(Box::new(Unsent { error, incoming }));
            }
        };
        if let Some(error) = error {
            observe(connection, exchange, Some(request), status, head_bytes, Err(error));
            return Ok(next);
        }
    }
    observe(connection, exchange, Some(request), status, head_bytes, Ok(()));
    body.finish();
    Ok(match incoming {
        Incoming::Arriving(arriving) if !arriving.reading.is_done() => {
            drop(body);
            Box::pin(discard_rest(connection, exchange, request, *arriving, is_reusable)).await
        }
        Incoming::Unread => connection.after(false, true),
        // A client that did not ask to close may have sent the next request already.
        _ => connection.after(is_reusable, request.keep_alive),
    })
}

/// Sends a response whose body has not arrived completely or is large; `out` holds its head.
async fn relay_body<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &Exchange,
    request: &RequestHead<'_>,
    body: &mut UpstreamBody,
    incoming: &mut Incoming,
    out: Output,
    delimiter: Delimiter,
) -> Result<(), RelayEnd> {
    exchange.sent.moved.set(0);
    let mut none;
    let arriving = match incoming {
        Incoming::Arriving(arriving) => &mut **arriving,
        Incoming::Done | Incoming::Unread => {
            none = ArrivingBody::none();
            &mut none
        }
    };
    let waits = Waits::default();
    let streaming = async |duplex: &Duplex<'_, T>| {
        let mut writer = BodyWriter::new(duplex, out, delimiter);
        let has_sent = || duplex.sent_bytes() > 0;
        body.each_frame(&waits, request, has_sent, async |frame| writer.write(frame).await).await
    };
    let ended = beside(connection, exchange, arriving, &waits, streaming).await;
    let Err(error) = ended.map_err(Into::into).flatten() else { return Ok(()) };
    let description = || {
        let path = request.target.path_and_query().map_or(&b"*"[..], |(path, _)| path);
        describe(request, path)
    };
    Err(body.end(error, request, description, exchange.sent.moved.get() > 0))
}
