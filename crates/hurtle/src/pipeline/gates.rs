//! The second step: the gates before a request reaches its handler, in the order of its route's list.

use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, ParseError, RequestHead};
use hurtle_http::semantics::host;

use super::client::{ExchangeClient, Incoming};
use super::worker::Worker;
use super::{Connection, Last};
use crate::answer::Answer;
use crate::clock;
use crate::edits::cors::preflight;
use crate::handler::client::ExchangeError;
use crate::handler::proxy::{AuthDecision, ForwardAuth, with_fields};
use crate::handler::request::{AuthorizerVariables, MatchedPath};
use crate::handler::{Handled, HandlerError};
use crate::limits::concurrency::{ConcurrencyLimiter, Place};
use crate::limits::rate::{RateExceededError, RateLimiter, Requester};
use crate::metrics::LimitKind;
use crate::protocol::Protocol;
use crate::rt::{self, First};
use crate::shared_store::{Decision, SharedStore};
use crate::site::{Channel, Gate, Maintenance, Resolved, Visitor, admits};
use crate::tls;

/// The reason why a request passes no further, with its response.
pub(super) enum Refusal {
    /// The response, which the site has no page for.
    Plain(Box<Answer>),
    /// An error, which the site may have a page for.
    Error(Box<Answer>),
    /// The outcome, and the state of the request's body.
    Handled(Box<(Handled, Incoming)>),
}

impl Refusal {
    /// The response of a site that is down.
    fn of(maintenance: &Maintenance) -> Refusal {
        match maintenance.answer() {
            Ok(page) => Refusal::Plain(page),
            Err(error) => Refusal::Error(error),
        }
    }
}

/// The rest of a request's gates.
pub(super) enum Passage {
    /// The request has passed all of them.
    Open,
    /// Those from this number on may have to wait.
    Waits(usize),
}

/// A gate's addition to a request that has passed it.
enum Grant {
    /// The request's field lines as the gate edited them, and the names that it sets.
    Fields(Vec<u8>, Vec<HeaderName>),
    /// The variables of an authorizer.
    Variables(AuthorizerVariables),
    Place(Rc<Place>),
}

/// The additions of all gates.
#[derive(Default)]
pub(super) struct Granted {
    fields: Option<(Vec<u8>, Vec<HeaderName>)>,
    /// The variables of an authorizer.
    pub(super) variables: AuthorizerVariables,
    /// Held until the response is sent, or the tunnel has ended.
    pub(super) place: Option<Rc<Place>>,
}

impl Granted {
    /// Returns the request with the fields of the gates.
    pub(super) fn head<'a>(&'a self, request: &RequestHead<'a>) -> RequestHead<'a> {
        match &self.fields {
            None => request.clone(),
            Some((lines, own)) => RequestHead { own_fields: own, ..with_fields(request, lines) },
        }
    }

    fn add(&mut self, grant: Grant) {
        match grant {
            Grant::Fields(lines, own) => self.fields = Some((lines, own)),
            Grant::Variables(variables) => self.variables = variables,
            Grant::Place(place) => self.place = Some(place),
        }
    }
}

impl<T: Protocol> Connection<T> {
    /// Returns the security properties of the connection.
    pub(super) fn channel(&self) -> Channel {
        let policy = self.io.policy();
        let has_certificate = policy != 0 && self.io.client().is_some();
        Channel { secure: self.io.is_secure(), policy, has_certificate }
    }

    /// Returns the request as the gates of something known see it.
    pub(super) fn visitor<'a>(&self, request: &RequestHead<'a>, now_ms: u64) -> Visitor<'a> {
        Visitor {
            channel: self.channel(),
            address: self.exchange.client,
            credentials: request.authorization,
            is_challenge: self.challenge(request).is_some(),
            now_ms,
        }
    }

    /// Passes a request through its gates as far as none has to wait.
    ///
    /// # Errors
    /// A gate refuses the request.
    pub(super) fn pass_at_once(
        &self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<Passage, Refusal> {
        for (number, gate) in resolved.gates().iter().enumerate() {
            match self.decide(gate, request, resolved) {
                None => return Ok(Passage::Waits(number)),
                Some(decided) => decided?,
            }
        }
        Ok(Passage::Open)
    }

    /// Passes a request through gates of its route. `granted`: the additions of those that it has passed.
    ///
    /// # Errors
    /// A gate refuses the request.
    pub(super) async fn pass(
        &mut self,
        request: &RequestHead<'_>,
        at: (&Worker, &Resolved<'_>),
        gates: &[Gate],
        mut granted: Granted,
    ) -> Result<Granted, Refusal> {
        for gate in gates {
            let head = granted.head(request);
            let grant = self.pass_gate(gate, &head, at).await?;
            grant.into_iter().for_each(|grant| granted.add(grant));
        }
        Ok(granted)
    }

    /// Decides about a request. `None`: the gate has to wait.
    fn decide(
        &self,
        gate: &Gate,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Option<Result<(), Refusal>> {
        let refused = match gate {
            Gate::AcmeChallenge => self.challenge(request),
            Gate::ClientCertificate => {
                // Browsers send preflights without certificates; the gate of CORS answers them.
                let is_preflight =
                    || resolved.cors().is_some_and(|cors| preflight(request, cors).is_some());
                let is_refused = resolved.site.lacks_certificate(self.channel()) && !is_preflight();
                let why = "a client certificate is required";
                let refusal = || Box::new(Answer::error(StatusCode::FORBIDDEN, Some(why)));
                return Some(if is_refused { Err(Refusal::Error(refusal())) } else { Ok(()) });
            }
            Gate::Channel => self.redirect_channel(request, resolved),
            Gate::Maintenance(maintenance) => {
                let is_up = maintenance.is_up(clock::now_ms())?;
                return Some(if is_up { Ok(()) } else { Err(Refusal::of(maintenance)) });
            }
            Gate::Cors(cors) => preflight(request, cors),
            Gate::Address(access) => {
                let is_admitted = admits(access, self.exchange.client);
                let refusal = || Box::new(Answer::error(StatusCode::FORBIDDEN, None));
                return Some(if is_admitted { Ok(()) } else { Err(Refusal::Error(refusal())) });
            }
            Gate::BodySize(bytes_max) => {
                let is_larger =
                    matches!(request.body, BodyLength::Exactly(len) if len > *bytes_max);
                return Some(if is_larger { Err(self.refuse_size(request)) } else { Ok(()) });
            }
            Gate::Rate(limiters) => {
                return Some(self.check_rates(limiters, request, resolved).map_err(Refusal::Error));
            }
            Gate::SharedRate(_) if self.worker.shared_store.is_none() => None,
            Gate::SharedRate(_)
            | Gate::Token(_)
            | Gate::Forward(_)
            | Gate::Basic(_)
            | Gate::Authorizer(_)
            | Gate::Concurrency(_) => return None,
        };
        Some(refused.map_or(Ok(()), |answer| Err(Refusal::Plain(Box::new(answer)))))
    }

    /// Refuses a request with too large a body.
    fn refuse_size(&self, request: &RequestHead<'_>) -> Refusal {
        self.hit(LimitKind::Body, Some(request));
        let why = ParseError::BodyTooLarge.to_string();
        Refusal::Error(Box::new(Answer::error(StatusCode::PAYLOAD_TOO_LARGE, Some(&why))))
    }

    /// Passes a request through a gate, which may have to wait.
    async fn pass_gate(
        &mut self,
        gate: &Gate,
        request: &RequestHead<'_>,
        at: (&Worker, &Resolved<'_>),
    ) -> Result<Option<Grant>, Refusal> {
        let (worker, resolved) = at;
        if let Some(decided) = self.decide(gate, request, resolved) {
            return decided.map(|()| None);
        }
        match gate {
            // Decided above.
            Gate::AcmeChallenge
            | Gate::ClientCertificate
            | Gate::Channel
            | Gate::Cors(_)
            | Gate::Address(_)
            | Gate::BodySize(_)
            | Gate::Rate(_) => Ok(None),
            Gate::Maintenance(maintenance) => {
                maintenance.look_up().await;
                self.decide(gate, request, resolved).unwrap_or(Ok(())).map(|()| None)
            }
            Gate::SharedRate(limiters) => {
                let Some(store) = &worker.shared_store else { return Ok(None) };
                let checked = self.check_shared_rates(store, limiters, request, resolved).await;
                checked.map(|()| None).map_err(Refusal::Error)
            }
            Gate::Token(tokens) => match tokens.check(request) {
                Ok(lines) => {
                    let own = || tokens.own_fields().cloned().collect();
                    Ok(lines.map(|lines| Grant::Fields(lines, own())))
                }
                Err(refusal) => {
                    let refused = (Err(HandlerError::Answer(refusal)), Incoming::of(request));
                    Err(Refusal::Handled(Box::new(refused)))
                }
            },
            Gate::Forward(server) => self.ask(server, request, at).await.map(Some),
            Gate::Basic(passwords) => {
                let checked = passwords.check(request.authorization).await;
                checked.map(|()| None).map_err(|answer| Refusal::Plain(Box::new(answer)))
            }
            Gate::Authorizer(authorizer) => {
                let Some((mount, matched)) = resolved.mount() else { return Ok(None) };
                let context = self.context(request, at, (mount, matched), &[], clock::now_ms());
                let checked = authorizer.check(&context).await;
                let granted = checked.map(|variables| Some(Grant::Variables(variables)));
                granted.map_err(|answer| Refusal::Plain(Box::new(answer)))
            }
            Gate::Concurrency(limiter) => {
                let place = self.find_place(limiter, request, resolved).await;
                let refused = |e| Refusal::Handled(Box::new((Err(e), Incoming::of(request))));
                place.map(|place| Some(Grant::Place(place))).map_err(refused)
            }
        }
    }

    /// Writes the response to a request that a gate has refused.
    pub(super) async fn refuse_at_gate(
        &mut self,
        request: &RequestHead<'_>,
        at: (&Worker, &Resolved<'_>),
        refusal: Refusal,
    ) -> Last {
        match refusal {
            Refusal::Plain(answer) => self.write_refusal(request, at.1, *answer).await.into(),
            Refusal::Error(answer) => {
                self.write_error(request, at, *answer, Incoming::of(request)).await.into()
            }
            Refusal::Handled(refused) => {
                let (handled, incoming) = *refused;
                self.write(request, at, handled, incoming).await
            }
        }
    }

    /// Returns the properties by which rate limits tell clients apart.
    fn requester<'a>(
        &self,
        request: &'a RequestHead<'a>,
        resolved: &'a Resolved<'_>,
    ) -> Requester<'a> {
        let path = resolved.target().map_or(&b""[..], |(path, _)| path);
        Requester { address: self.exchange.client, path, head: request }
    }

    /// Checks the request against the rate limits. One that a limit refuses counts for none.
    ///
    /// # Errors
    /// The response: 429.
    fn check_rates(
        &self,
        limiters: &[Arc<RateLimiter>],
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<(), Box<Answer>> {
        let requester = self.requester(request, resolved);
        let now_ns = clock::now_ms().saturating_mul(1_000_000);
        for (number, limiter) in limiters.iter().enumerate() {
            let Some(key) = limiter.key(&requester) else { continue };
            if let Err(error) = limiter.take(key, now_ns) {
                for taken in &limiters[..number] {
                    taken.key(&requester).into_iter().for_each(|key| taken.put_back(key));
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
    async fn check_shared_rates(
        &self,
        store: &SharedStore,
        limiters: &[Arc<RateLimiter>],
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<(), Box<Answer>> {
        let requester = self.requester(request, resolved);
        let limits = limiters.iter().map(|limiter| &**limiter);
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

    /// Waits for a place of a concurrency limit. A request whose body is taken whole first gets one that
    /// its handler takes then, unless it would be refused now.
    ///
    /// # Errors
    /// The response (503), or the client is gone.
    async fn find_place(
        &self,
        limiter: &Arc<ConcurrencyLimiter>,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
    ) -> Result<Rc<Place>, HandlerError> {
        let place = Place::new(limiter);
        let mount = resolved.mount().map(|(mount, _)| mount);
        let is_later = mount.is_some_and(|mount| mount.handler().takes_body(request));
        if !is_later || limiter.is_full() {
            match rt::race(place.take(), self.io.reset()).await {
                First::A(Ok(())) => {}
                First::A(Err(error)) => {
                    self.hit(LimitKind::Concurrency, Some(request));
                    return Err(HandlerError::unavailable(&error.to_string()));
                }
                First::B(()) => return Err(HandlerError::Exchange(ExchangeError::Gone)),
            }
        }
        Ok(Rc::new(place))
    }

    /// Answers an ACME HTTP challenge (RFC 8555 section 8.3). This precedes all access rules: the
    /// validating server connects in clear and has no credentials.
    pub(super) fn challenge(&self, request: &RequestHead<'_>) -> Option<Answer> {
        let keyring = self.worker.keyring.as_ref()?;
        let (path, _) = request.target.path_and_query()?;
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
        (!is_open).then(|| resolved.site.elsewhere(channel, name, resolved.target()))
    }

    /// Asks a server about a request.
    async fn ask(
        &mut self,
        server: &ForwardAuth,
        request: &RequestHead<'_>,
        (worker, resolved): (&Worker, &Resolved<'_>),
    ) -> Result<Grant, Refusal> {
        let matched = match resolved.mount() {
            Some((_, matched)) => matched,
            None => {
                let path = resolved.target().map_or(&b""[..], |(path, _)| path);
                let query = resolved.target().and_then(|(_, query)| query);
                MatchedPath { path, rest: path, query, mount: 0, cacheable: false }
            }
        };
        let now_ms = clock::now_ms();
        let context = self.context_without_mount(request, (worker, resolved), matched, now_ms);
        let mut client = ExchangeClient::new(self, request, None);
        match server.check(&context, &mut client).await {
            AuthDecision::Granted(lines) => Ok(Grant::Fields(lines, server.own_fields().to_vec())),
            AuthDecision::Denied(handled) => {
                Err(Refusal::Handled(Box::new((handled, client.incoming))))
            }
        }
    }
}
