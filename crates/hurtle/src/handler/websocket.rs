//! WebSockets over HTTP/2 and HTTP/3 (RFC 8441, RFC 9220): an extended CONNECT. Upstreams and
//! applications get it as HTTP/1.1's request to switch protocols.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::client::Client;
use super::request::RequestContext;
use super::{Handled, Handler, HandlerError, Outcome};
use crate::answer::Answer;

/// Handles an extended CONNECT. A response that switches nothing must not succeed, because the client
/// would take it for a tunnel.
///
/// # Errors
/// Nothing at the path speaks the protocol (501), or there is no response.
pub(super) async fn open<C: Client>(
    handler: &Handler,
    request: &RequestContext<'_>,
    client: &mut C,
) -> Handled {
    let refused = || {
        let why = "there is no WebSocket at this path";
        HandlerError::Answer(Box::new(Answer::error(StatusCode::NOT_IMPLEMENTED, Some(why))))
    };
    let outcome = match handler {
        Handler::App(app) if is_websocket(request) => {
            let call = app.call(request, client);
            app.wait(call, request, client).await?
        }
        Handler::Proxy(proxy) if proxy.may_switch(request) => proxy.call(request, client).await?,
        _ => return Err(refused()),
    };
    let is_success = match &outcome {
        Outcome::Answer(answer) => answer.status.is_success(),
        Outcome::Stream(response) => response.status.is_success(),
        Outcome::Tunnel(_) => false,
        Outcome::InternalRedirect(_) => true,
    };
    if is_success { Err(refused()) } else { Ok(outcome) }
}

fn is_websocket(request: &RequestContext<'_>) -> bool {
    request.head.protocol.is_some_and(|name| name.eq_ignore_ascii_case(b"websocket"))
}

/// Adds the fields by which a WebSocket of HTTP/1.1 begins.
pub(super) fn add_fields(fields: &mut HeaderMap) {
    fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = HeaderValue::try_from(key()) {
        fields.insert(header::SEC_WEBSOCKET_KEY, key);
    }
}

/// Returns a new Sec-WebSocket-Key (RFC 6455 section 4.1), which an extended CONNECT does not have.
pub(super) fn key() -> String {
    let mut key = [0; 16];
    // It is no secret: the answer to it shows that the server understands WebSocket.
    let _ = getrandom::fill(&mut key);
    STANDARD.encode(key)
}
