//! Checks before a request reaches a handler: the channel, credentials, authorizers, and methods
//! that need no handler.

use http::{HeaderValue, StatusCode};
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::host;
use hurtle_http::semantics::target::Target;

use super::Exchange;
use super::request_info::path_of;
use crate::answer::Answer;
use crate::handler::gateway::AuthorizerVariables;
use crate::protocol::Protocol;
use crate::site::Resolved;
use crate::tls;

impl<T: Protocol> Exchange<T> {
    /// Answers an ACME HTTP challenge (RFC 8555 section 8.3). This precedes all access rules: the
    /// validating server connects in clear and has no credentials.
    pub(super) fn challenge(&self, request: &RequestHead<'_>) -> Option<Answer> {
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

    /// Returns the response to a request on the wrong channel for its site: a redirect to HTTPS, or
    /// 421.
    pub(super) fn elsewhere(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Option<Answer> {
        let channel = self.channel();
        let is_open = resolved.site.is_open_to(channel);
        let name = request.host.as_ref().map(|h| h.name);
        (!is_open).then(|| resolved.site.elsewhere(channel, name, resolved.target))
    }

    /// Checks the client's credentials, then calls the authorizer. Returns the authorizer's
    /// variables, or the response that refuses the request.
    pub(super) async fn authorise(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<AuthorizerVariables, Answer> {
        if let Some(gate) = resolved.gate() {
            gate.check(request.authorization).await?;
        }
        self.ask_authorizer(request, resolved).await
    }

    /// Returns the response to a request that needs no handler: a refused method, OPTIONS, or an
    /// unknown site.
    pub(super) fn refusal(request: &RequestHead<'_>, has_site: bool) -> Option<Answer> {
        match request.method {
            Method::Options if request.target == Target::Asterisk => return Some(Answer::options()),
            Method::Get | Method::Head | Method::Options => {}
            Method::Other(_) => return Some(Answer::method_refused(request.method.is_known())),
        }
        if !has_site {
            return Some(Answer::error(StatusCode::MISDIRECTED_REQUEST, None));
        }
        (request.method == Method::Options).then(Answer::options)
    }
}
