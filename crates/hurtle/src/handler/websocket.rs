//! WebSockets over HTTP/2 and HTTP/3 (RFC 8441, RFC 9220): an extended CONNECT. Applications, and
//! upstreams over HTTP/1.1, get it as HTTP/1.1's request to switch protocols.

use http::StatusCode;

use super::client::Client;
use super::request::RequestContext;
use super::{Handled, Handler, HandlerError, Outcome};
use crate::answer::Answer;

/// Handles an extended CONNECT. A response that switches nothing must not succeed, because the
/// client would take it for a tunnel.
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
        Handler::Proxy(proxy) if proxy.may_switch(request.head) => {
            proxy.call(request, client).await?
        }
        Handler::Directory(directory) => {
            let (store, rest) = (request.store, request.matched.rest);
            match directory.hands_on_path(store, rest).await {
                Ok(true) => Outcome::Otherwise,
                _ => return Err(refused()),
            }
        }
        Handler::Abort => Outcome::Abort,
        _ => return Err(refused()),
    };
    let is_success = match &outcome {
        Outcome::Answer(answer) => answer.status.is_success(),
        Outcome::Stream(response) => response.status.is_success(),
        Outcome::Tunnel(_) => false,
        Outcome::InternalRedirect(_) => true,
        Outcome::Otherwise | Outcome::Abort => false,
    };
    if is_success { Err(refused()) } else { Ok(outcome) }
}

fn is_websocket(request: &RequestContext<'_>) -> bool {
    request.head.protocol.is_some_and(|name| name.eq_ignore_ascii_case(b"websocket"))
}
