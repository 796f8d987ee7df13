//! What a request is told before any handler is asked: by whom it may be sent, on which channel, and
//! whether it needs a handler at all.

use http::{HeaderValue, StatusCode};

use super::Connection;
use super::asked::path_of;
use crate::answer::Answer;
use crate::h1::request::{Method, Request};
use crate::handler::gateway::Granted;
use crate::semantics::host;
use crate::semantics::target::Target;
use crate::tls;
use crate::transport::Transport;

impl<T: Transport> Connection<T> {
    /// The answer to an authority that was told to ask (RFC 8555 8.3); before all that a site may
    /// say of its requests, since it comes in clear and is nobody's client.
    pub(super) fn challenge(&self, request: &Request<'_>) -> Option<Answer> {
        let keyring = self.worker.keyring.as_ref()?;
        let (path, _) = path_of(&request.target)?;
        if !path.starts_with(tls::HTTP_PREFIX)
            || !matches!(request.method, Method::Get | Method::Head)
        {
            return None;
        }
        let mut name = Vec::new();
        host::normalize(request.host.as_ref()?.name, &mut name);
        let answer = keyring.challenge_answer(&name, path)?;
        let opaque = HeaderValue::from_static("application/octet-stream");
        Some(Answer::bytes(StatusCode::OK, opaque, answer))
    }

    /// The answer to a request that came by the wrong channel for its site.
    pub(super) fn elsewhere(&self, request: &Request<'_>) -> Option<Answer> {
        let name = request.host.as_ref().map(|h| h.name);
        let (_, site) = self.worker.sites.find(name)?;
        let channel = self.channel();
        let open = site.is_open_to(channel);
        (!open).then(|| site.elsewhere(channel, name, path_of(&request.target)))
    }

    /// Whether the client has shown what it must, and an authorizer lets the request through, with
    /// what it has to say; `Err`: what is answered if not.
    pub(super) async fn authorise(&self, request: &Request<'_>) -> Result<Granted, Answer> {
        let found = self.worker.sites.find(request.host.as_ref().map(|h| h.name));
        let Some(((_, site), (path, query))) = found.zip(path_of(&request.target)) else {
            return Ok(Granted::new());
        };
        if let Some(gate) = site.gate(path, query, self.client) {
            gate.check(request.authorization).await?;
        }
        self.ask_authorizer(request, site).await
    }

    /// The answer that needs no handler, if there is one.
    pub(super) fn refusal(&self, request: &Request<'_>) -> Option<Answer> {
        match request.method {
            Method::Options if request.target == Target::Asterisk => return Some(Answer::options()),
            Method::Get | Method::Head | Method::Options => {}
            Method::Other(_) => return Some(Answer::method_refused(request.method.is_known())),
        }
        let name = request.host.as_ref().map(|h| h.name);
        if self.worker.sites.find(name).is_none() {
            return Some(Answer::error(StatusCode::MISDIRECTED_REQUEST, None));
        }
        (request.method == Method::Options).then(Answer::options)
    }
}
