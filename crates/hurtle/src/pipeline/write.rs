//! The fourth step: writes the outcome of a request, by its kind. Each ends with the log record.

use http::StatusCode;
use hurtle_http::request::RequestHead;

use super::client::Incoming;
use super::worker::Worker;
use super::{Connection, Last, Next};
use crate::answer::Answer;
use crate::clock;
use crate::handler::client::ExchangeError;
use crate::handler::{Handled, HandlerError, Outcome};
use crate::metrics::LimitKind;
use crate::protocol::Protocol;
use crate::site::Resolved;

/// Status of a request without a response in logs and metrics, as nginx has it.
const NO_RESPONSE: StatusCode = match StatusCode::from_u16(444) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

impl<T: Protocol> Connection<T> {
    /// Writes the outcome of a handler by its kind.
    pub(super) async fn write(
        &mut self,
        request: &RequestHead<'_>,
        at: (&Worker, &Resolved<'_>),
        handled: Handled,
        incoming: Incoming,
    ) -> Last {
        let next = match handled {
            Ok(Outcome::Answer(answer)) => {
                self.count_limit(&answer);
                self.write_answer(request, Some(at.1), answer, incoming).await
            }
            Ok(Outcome::Stream(response)) => self.relay(request, at, response, incoming).await,
            Ok(Outcome::Tunnel(tunnel)) => return self.open_tunnel(request, at.1, tunnel).await,
            Ok(Outcome::InternalRedirect(redirect)) => {
                let answer = self.internal_file(request, at, &redirect).await;
                self.write_answer(request, Some(at.1), answer, incoming).await
            }
            // The caller runs it in another mount.
            Ok(Outcome::Otherwise) => Next::Drop,
            Ok(Outcome::Abort) => {
                self.observe(Some(request), NO_RESPONSE, 0, Ok(()));
                Next::Abort
            }
            Err(HandlerError::Answer(answer)) => {
                self.count_limit(&answer);
                self.write_error(request, at, *answer, incoming).await
            }
            Err(HandlerError::Exchange(error)) => self.end_exchange(request, Some(at), error).await,
        };
        next.into()
    }

    /// Writes the response that refuses a request before it is handled.
    pub(super) async fn write_refusal(
        &mut self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
        mut answer: Answer,
    ) -> Next {
        if let Some(media_type) = request.call_type() {
            answer = Answer::grpc(&answer, media_type);
        }
        self.write_answer(request, Some(resolved), answer, Incoming::of(request)).await
    }

    /// Responds to a request for a host without a site.
    pub(super) async fn misdirected(&mut self, request: &RequestHead<'_>) -> Next {
        match self.refuse_host(request).await {
            (Ok(answer), incoming) => self.write_answer(request, None, answer, incoming).await,
            (Err(error), _) => self.end_exchange(request, None, error).await,
        }
    }

    /// Writes a response.
    pub(super) async fn write_answer(
        &mut self,
        request: &RequestHead<'_>,
        resolved: Option<&Resolved<'_>>,
        mut answer: Answer,
        incoming: Incoming,
    ) -> Next {
        let now_ms = clock::now_ms();
        match incoming {
            Incoming::Done => self.respond(request, resolved, &mut answer, now_ms, false).await,
            Incoming::Unread => self.respond(request, resolved, &mut answer, now_ms, true).await,
            Incoming::Upload(upload) => {
                self.respond_beside(request, resolved, answer, *upload).await
            }
        }
    }

    /// Ends an exchange that has no response, except to a request body that is malformed, too large or
    /// too slow.
    async fn end_exchange(
        &mut self,
        request: &RequestHead<'_>,
        at: Option<(&Worker, &Resolved<'_>)>,
        error: ExchangeError,
    ) -> Next {
        match error {
            ExchangeError::ParseError(error) => {
                self.refuse_body(request, at.map(|(_, resolved)| resolved), error).await
            }
            ExchangeError::Stalled => {
                self.hit(LimitKind::SendTime, Some(request));
                Next::Abort
            }
            ExchangeError::Gone | ExchangeError::ResponseBody | ExchangeError::UpstreamTimeout => {
                Next::Drop
            }
        }
    }
}
