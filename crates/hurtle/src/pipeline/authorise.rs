//! The second step: the checks before a request reaches a handler. They are the channel, credentials
//! and authorizers.

use http::{HeaderValue, StatusCode};
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::host;

use super::Exchange;
use super::resolve::path_of;
use super::worker::Worker;
use crate::answer::Answer;
use crate::handler::request::AuthorizerVariables;
use crate::protocol::Protocol;
use crate::site::{Channel, Resolved};
use crate::tls;

/// The decision about a request before it is handled.
pub(super) enum Authorised {
    /// The request needs neither credentials nor an authorizer.
    Open,
    /// `check_credentials` decides.
    Gated,
    /// The client gets this response.
    Refused(Box<Answer>),
}

impl<T: Protocol> Exchange<T> {
    /// Returns the security properties of the connection.
    pub(super) fn channel(&self) -> Channel {
        Channel { secure: self.io.is_secure(), policy: self.io.policy() }
    }

    /// Decides whether a request reaches its handler.
    pub(super) fn authorise(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Authorised {
        match self.refuse_channel(request, Some(resolved)) {
            Some(answer) => Authorised::Refused(Box::new(answer)),
            None if resolved.is_open() => Authorised::Open,
            None => Authorised::Gated,
        }
    }

    /// Returns the response to an ACME challenge, or to a request on the wrong channel.
    pub(super) fn refuse_channel(
        &self,
        request: &RequestHead<'_>,
        resolved: Option<&Resolved<'_>>,
    ) -> Option<Answer> {
        self.challenge(request).or_else(|| self.redirect_channel(request, resolved?))
    }

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
    fn redirect_channel(
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
    pub(super) async fn check_credentials(
        &self,
        request: &RequestHead<'_>,
        (worker, resolved): (&Worker, &Resolved<'_>),
        now_ms: u64,
    ) -> Result<AuthorizerVariables, Answer> {
        if let Some(gate) = resolved.gate() {
            gate.check(request.authorization).await?;
        }
        let (authorizer, mounted) = (resolved.authorizer(), resolved.mount());
        let Some((authorizer, (mount, matched))) = authorizer.zip(mounted) else {
            return Ok(AuthorizerVariables::new());
        };
        let context = self.context(request, (worker, resolved), (mount, matched), &[], now_ms);
        authorizer.check(&context).await
    }
}
