//! One request to an application: builds its `http::Request`, polls for the response once, then
//! waits while the request's body arrives.

use std::task::{Context, Poll};

use http::StatusCode;
use hurtle_http::message::forward::{reported_scheme, upgrades};

use super::super::client::{Client, Continue, ExchangeError, InterimSender};
use super::super::request::RequestContext;
use super::super::wait::Waits;
use super::super::{Answering, Handled, Outcome, Tunnel, http_request, own_response};
use super::{App, Calling};
use crate::answer::Answer;
use crate::body::{EarlyHints, RequestBody};
use crate::protocol::InterimFields;
use crate::rt::{First, race};
use crate::transport::Offer;

/// A request that was begun.
pub(crate) enum AppCall {
    /// The application was called.
    Begun(Calling),
    /// It is not called yet: the client may switch the protocol, or gets early hints.
    Extensible(Box<http::Request<RequestBody>>),
    /// The target is not a valid URI.
    BadTarget,
}

impl AppCall {
    /// Polls for the response before anything is waited for. An error is the server's own one.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        request: &RequestContext<'_>,
    ) -> Poll<Result<Answer, Answer>> {
        match self {
            AppCall::Begun(calling) => calling.poll(cx, request.now_ms, || request.describe()),
            AppCall::Extensible(_) => Poll::Pending,
            AppCall::BadTarget => Poll::Ready(Err(Answer::error(StatusCode::BAD_REQUEST, None))),
        }
    }
}

impl App {
    /// Waits for the response of a call that is not ready.
    pub(crate) async fn wait<C: Client>(
        &self,
        call: AppCall,
        request: &RequestContext<'_>,
        client: &mut C,
    ) -> Handled {
        match call {
            AppCall::Begun(calling) => wait(client, None, calling.wait(request.describe())).await,
            AppCall::Extensible(built) => self.call_with_extensions(request, *built, client).await,
            AppCall::BadTarget => own_response(Answer::error(StatusCode::BAD_REQUEST, None)),
        }
    }

    /// Builds the `http::Request`, and calls the application if nothing else has to be added.
    pub(crate) fn call<C: Client>(&self, request: &RequestContext<'_>, client: &mut C) -> AppCall {
        let body = client.body(Continue::OnRead);
        let built = http_request::build(request, body, |original, extensions| {
            let info = &request.client;
            let reported = info.trusted;
            let reported =
                reported.and_then(|family| reported_scheme(request.head, family, info.address));
            let is_https = reported.map_or(info.is_tls, |scheme| scheme == b"https");
            extensions.insert(self.arrival(info.address, info.is_tls, is_https, original));
            if let Some(certificate) = client.certificate() {
                extensions.insert(certificate);
            }
        });
        match built {
            None => AppCall::BadTarget,
            Some(built) if upgrades(request.head).is_some() || request.gets_early_hints() => {
                AppCall::Extensible(Box::new(built))
            }
            Some(built) => AppCall::Begun(self.start(built)),
        }
    }

    /// Calls the application with a protocol switch that it may accept, or with early hints.
    async fn call_with_extensions<C: Client>(
        &self,
        request: &RequestContext<'_>,
        mut built: http::Request<RequestBody>,
        client: &mut C,
    ) -> Handled {
        let (mut offer, mut hints) = (None, None);
        if upgrades(request.head).is_some()
            && let Some((new, on_upgrade)) = Offer::make().await
        {
            built.extensions_mut().insert(on_upgrade);
            offer = Some(new);
        }
        if request.gets_early_hints() {
            built.extensions_mut().insert(hints.insert(EarlyHints::default()).clone());
        }
        let answering = self.start(built).wait(request.describe());
        match (wait(client, hints, answering).await?, offer) {
            (Outcome::Answer(answer), Some(offer))
                if answer.status == StatusCode::SWITCHING_PROTOCOLS =>
            {
                Ok(Outcome::Tunnel(Tunnel::App(Box::new((answer, offer)))))
            }
            (outcome, _) => Ok(outcome),
        }
    }
}

/// Waits for the response while the request's body arrives, and sends early hints meanwhile.
async fn wait<C: Client>(
    client: &mut C,
    hints: Option<EarlyHints>,
    answering: Answering,
) -> Handled {
    let waiting = async |interim: &dyn InterimSender| match hints {
        Some(hints) => wait_with_hints(interim, &hints, answering).await,
        None => Ok(answering.await),
    };
    match client.beside(&Waits::default(), waiting).await?? {
        Ok(answer) => Ok(Outcome::Answer(answer)),
        Err(own) => own_response(own),
    }
}

async fn wait_with_hints(
    interim: &dyn InterimSender,
    hints: &EarlyHints,
    mut answering: Answering,
) -> Result<Result<Answer, Answer>, ExchangeError> {
    loop {
        match race(answering.as_mut(), hints.next()).await {
            First::A(answer) => return Ok(answer),
            First::B(fields) => {
                interim.send(StatusCode::EARLY_HINTS, InterimFields::Made(&fields)).await?;
            }
        }
    }
}
