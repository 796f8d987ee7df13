//! The second step: the checks before a request reaches a handler. They are the channel, CORS
//! preflights, rate limits, credentials, authorizers and concurrency limits, in this order.

use http::{HeaderValue, StatusCode};
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::host;

use super::Exchange;
use super::additions::preflight;
use super::client::{ExchangeClient, Incoming};
use super::resolve::path_of;
use super::worker::Worker;
use crate::answer::Answer;
use crate::clock;
use crate::handler::client::{Client as _, ExchangeError};
use crate::handler::proxy::AuthDecision;
use crate::handler::request::{AuthorizerVariables, MatchedPath};
use crate::handler::{Handled, HandlerError};
use crate::limits::concurrency::{Admission, QueueFullError};
use crate::limits::rate::{RateExceededError, RateLimiter, Requester};
use crate::metrics::LimitKind;
use crate::protocol::Protocol;
use crate::rt::Permit;
use crate::shared_store::{Decision, SharedStore};
use crate::site::{Authenticator, Channel, Resolved};
use crate::tls;

/// The decision about a request before it is handled.
pub(super) enum Authorised {
    /// The request needs no credentials, no authorizer and no permit.
    Open,
    /// `check_credentials` and `wait_for_permit` decide.
    Gated,
    /// The client gets this response.
    Refused(Box<Answer>),
    /// The request exceeds a rate limit. The client gets this response, or the site's page for it.
    Limited(Box<Answer>),
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
        let preflight = || preflight(request, resolved.cors()?);
        match self.refuse_channel(request, Some(resolved)).or_else(preflight) {
            Some(answer) => return Authorised::Refused(Box::new(answer)),
            None if !resolved.is_limited() => {}
            None => {
                if let Err(answer) = self.check_rates(request, resolved) {
                    return Authorised::Limited(answer);
                }
            }
        }
        match resolved.is_open() {
            true => Authorised::Open,
            false => Authorised::Gated,
        }
    }

    /// Checks the request against the rate limits. One that a limit refuses counts for none.
    ///
    /// # Errors
    /// The response: 429.
    fn check_rates(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<(), Box<Answer>> {
        let path = resolved.target.map_or(&b""[..], |(path, _)| path);
        let requester = Requester { address: self.client, path, head: request };
        let now_ns = clock::now_ms().saturating_mul(1_000_000);
        let keyed = |limiter: &'_ _| RateLimiter::key(limiter, &requester);
        for (number, limiter) in resolved.rate_limits().enumerate() {
            let Some(key) = keyed(limiter) else { continue };
            if let Err(error) = limiter.take(key, now_ns) {
                for taken in resolved.rate_limits().take(number) {
                    keyed(taken).into_iter().for_each(|key| taken.put_back(key));
                }
                self.hit(LimitKind::RequestRate, Some(request));
                return Err(Box::new(limiter.refusal(error)));
            }
        }
        Ok(())
    }

    /// Checks the request against the rate limits over all servers that share the store. This server's
    /// own limits have accepted it, and decide if the store does not.
    ///
    /// # Errors
    /// The response: 429.
    pub(super) async fn check_shared_rates(
        &self,
        store: &SharedStore,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<(), Box<Answer>> {
        let path = resolved.target.map_or(&b""[..], |(path, _)| path);
        let requester = Requester { address: self.client, path, head: request };
        let limits = resolved.rate_limits().map(|limiter| &**limiter);
        let keyed = limits.filter_map(|limiter| Some((limiter, limiter.shared(&requester)?)));
        let (limiters, allowances): (Vec<_>, Vec<_>) = keyed.unzip();
        if allowances.is_empty() {
            return Ok(());
        }
        let Decision::Refused { number, wait_ns } = store.take(&allowances).await else {
            return Ok(());
        };
        for limiter in &limiters {
            limiter.key(&requester).into_iter().for_each(|key| limiter.put_back(key));
        }
        self.hit(LimitKind::RequestRate, Some(request));
        match limiters.get(number) {
            Some(limiter) => Err(Box::new(limiter.refusal(RateExceededError { wait_ns }))),
            None => Ok(()),
        }
    }

    /// Waits for the permit of the mount's concurrency limit. `Ok(None)`: the mount has none.
    ///
    /// # Errors
    /// The response (503), or the client is gone.
    pub(super) async fn wait_for_permit(
        &mut self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<Option<Permit>, HandlerError> {
        let Some(limiter) = resolved.concurrency() else { return Ok(None) };
        let place = match limiter.admit() {
            Ok(Admission::Now(permit)) => return Ok(Some(permit)),
            Ok(Admission::Queued(place)) => place,
            Err(QueueFullError) => {
                self.hit(LimitKind::Concurrency, Some(request));
                return Err(unavailable("the queue is full"));
            }
        };
        let wait_ms = u64::try_from(limiter.config().queue_timeout.as_millis()).unwrap_or(u64::MAX);
        let due_ms = clock::now_ms().saturating_add(wait_ms);
        match ExchangeClient::new(self, request).until(due_ms, place.wait()).await {
            Ok(permit) => Ok(Some(permit)),
            Err(ExchangeError::UpstreamTimeout) => {
                self.hit(LimitKind::Concurrency, Some(request));
                Err(unavailable("the queue is too slow"))
            }
            Err(gone) => Err(HandlerError::Exchange(gone)),
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

    /// Asks the authentication server, or verifies the token. Returns the request's field lines as the
    /// server or the token edited them; `Ok(None)`: they stay as they are.
    ///
    /// # Errors
    /// The outcome for the client, and the state of the request's body.
    pub(super) async fn authenticate(
        &mut self,
        request: &RequestHead<'_>,
        (worker, resolved): (&Worker, &Resolved<'_>),
        now_ms: u64,
    ) -> Result<Option<Vec<u8>>, Box<(Handled, Incoming)>> {
        let server = match resolved.authenticator() {
            None => return Ok(None),
            Some(Authenticator::Server(server)) => server,
            Some(Authenticator::Token(gate)) => {
                return gate.check(request).map_err(|refusal| {
                    let refused = Err(HandlerError::Answer(refusal));
                    Box::new((refused, Incoming::of(request)))
                });
            }
        };
        let matched = match resolved.mount() {
            Some((_, matched)) => matched,
            None => {
                let path = resolved.target.map_or(&b""[..], |(path, _)| path);
                MatchedPath { path, rest: path, mount: 0, headers: &[], cacheable: false }
            }
        };
        let context = self.context_without_mount(request, (worker, resolved), matched, now_ms);
        let mut client = ExchangeClient::new(self, request);
        match server.check(&context, &mut client).await {
            AuthDecision::Granted(lines) => Ok(Some(lines)),
            AuthDecision::Denied(handled) => Err(Box::new((handled, client.incoming))),
        }
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

fn unavailable(why: &str) -> HandlerError {
    HandlerError::Answer(Box::new(Answer::error(StatusCode::SERVICE_UNAVAILABLE, Some(why))))
}
