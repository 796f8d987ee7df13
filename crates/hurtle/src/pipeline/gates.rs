//! The step `gates`: the checks before a request reaches its handler, in the order of its route's
//! list.

use std::rc::Rc;

use http::{HeaderName, HeaderValue, StatusCode};
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, ParseError, RequestHead};
use hurtle_http::semantics::host;

use super::client::{ExchangeClient, Incoming};
use super::connection::Connection;
use super::context::{context, context_without_mount};
use super::exchange::Exchange;
use super::limits::{check_rates, check_shared_rates, find_place};
use super::observe::hit;
use super::resolve::Routed;
use crate::answer::Answer;
use crate::clock;
use crate::edits::cors::preflight;
use crate::handler::client::{Client as _, InterimSender};
use crate::handler::gateway::Unauthorized;
use crate::handler::request::{AuthorizerVariables, MatchedPath, with_fields};
use crate::handler::wait::Waits;
use crate::handler::{Handled, HandlerError};
use crate::limits::concurrency::Place;
use crate::metrics::LimitKind;
use crate::protocol::Protocol;
use crate::site::{Gate, Maintenance, Resolved, Visitor, admits};
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
    fn plain(answer: Answer) -> Refusal {
        Refusal::Plain(Box::new(answer))
    }

    fn error(status: StatusCode, why: Option<&str>) -> Refusal {
        Refusal::Error(Box::new(Answer::error(status, why)))
    }

    /// A refusal that has read nothing of the request's body.
    fn handled(handled: Handled, request: &RequestHead<'_>) -> Refusal {
        Refusal::Handled(Box::new((handled, Incoming::of(request))))
    }

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
    /// The request's field lines as the gate edited them, and the names of those that this server
    /// or a gate before has set.
    Fields(Vec<u8>, Vec<HeaderName>),
    /// Nothing, but the request names a user.
    Identity,
    /// The variables of an authorizer.
    Variables(AuthorizerVariables),
    Place(Rc<Place>),
}

/// The additions of all gates.
#[derive(Default)]
pub(super) struct Granted {
    fields: Option<(Vec<u8>, Vec<HeaderName>)>,
    /// `true`: the request names a user, so that the response is not for others.
    is_identified: bool,
    /// The variables of authorizers; of one name the last.
    pub(super) variables: AuthorizerVariables,
    /// Held until the response is sent, or the tunnel has ended.
    pub(super) place: Option<Rc<Place>>,
}

impl Granted {
    /// Returns the request with the fields of the gates.
    pub(super) fn head<'a>(&'a self, request: &RequestHead<'a>) -> RequestHead<'a> {
        let is_identified = self.is_identified || request.is_identified;
        match &self.fields {
            None => RequestHead { is_identified, ..request.clone() },
            Some((lines, own)) => {
                RequestHead { own_fields: own, is_identified, ..with_fields(request, lines) }
            }
        }
    }

    fn add(&mut self, grant: Grant) {
        match grant {
            Grant::Fields(lines, own) => {
                self.fields = Some((lines, own));
                self.is_identified = true;
            }
            Grant::Identity => self.is_identified = true,
            Grant::Variables(variables) => self.variables.extend(variables),
            Grant::Place(place) => self.place = Some(place),
        }
    }
}

/// Returns the request as the gates of something known see it.
pub(super) fn visitor<'a, T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    request: &RequestHead<'a>,
    now_ms: u64,
) -> Visitor<'a> {
    Visitor {
        channel: connection.channel(),
        address: exchange.client,
        credentials: request.authorization,
        is_challenge: challenge(connection, request).is_some(),
        now_ms,
    }
}

/// Passes a request through its gates as far as none has to wait.
///
/// # Errors
/// The number of the gate that refuses the request.
pub(super) fn pass_at_once<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    routed: Routed<'_, '_>,
) -> Result<Passage, (usize, Refusal)> {
    for (number, gate) in routed.resolved.gates().iter().enumerate() {
        match decide(connection, exchange, gate, routed) {
            None => return Ok(Passage::Waits(number)),
            Some(decided) => decided.map_err(|refusal| (number, refusal))?,
        }
    }
    Ok(Passage::Open)
}

/// Passes a request through gates of its route. `granted`: the additions of those that it has
/// passed.
///
/// # Errors
/// The number of the gate that refuses the request.
pub(super) async fn pass<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    routed: Routed<'_, '_>,
    gates: &[Gate],
    mut granted: Granted,
) -> Result<Granted, (usize, Refusal)> {
    for (number, gate) in gates.iter().enumerate() {
        let head = granted.head(routed.request);
        let passed = pass_gate(connection, exchange, gate, routed.with(&head)).await;
        let grant = passed.map_err(|refusal| (number, refusal))?;
        grant.into_iter().for_each(|grant| granted.add(grant));
    }
    Ok(granted)
}

/// Decides about a request. `None`: the gate has to wait.
fn decide<T: Protocol>(
    connection: &Connection<T>,
    exchange: &Exchange,
    gate: &Gate,
    routed: Routed<'_, '_>,
) -> Option<Result<(), Refusal>> {
    let Routed { request, resolved, .. } = routed;
    let refused = match gate {
        Gate::AcmeChallenge => challenge(connection, request).map(Refusal::plain),
        Gate::ClientCertificate => {
            // Browsers send preflights without certificates; the gate of CORS answers them.
            let is_preflight =
                || resolved.cors().is_some_and(|cors| preflight(request, cors).is_some());
            let is_refused =
                resolved.site.lacks_certificate(connection.channel()) && !is_preflight();
            let why = Some("a client certificate is required");
            is_refused.then(|| Refusal::error(StatusCode::FORBIDDEN, why))
        }
        Gate::Channel => redirect_channel(connection, routed).map(Refusal::plain),
        Gate::Maintenance(maintenance) => {
            let is_up = maintenance.is_up(clock::now_ms())?;
            (!is_up).then(|| Refusal::of(maintenance))
        }
        Gate::Cors(cors) => preflight(request, cors).map(Refusal::plain),
        Gate::Address(access) => {
            let is_admitted = admits(access, exchange.client);
            (!is_admitted).then(|| Refusal::error(StatusCode::FORBIDDEN, None))
        }
        Gate::BodySize(bytes_max) => {
            let is_larger = matches!(request.body, BodyLength::Exactly(len) if len > *bytes_max);
            is_larger.then(|| {
                hit(connection, exchange, LimitKind::Body, Some(request));
                let why = ParseError::BodyTooLarge.to_string();
                Refusal::error(StatusCode::PAYLOAD_TOO_LARGE, Some(&why))
            })
        }
        Gate::Rate(limiters) => {
            let checked = check_rates(connection, exchange, limiters, routed);
            checked.err().map(Refusal::Error)
        }
        Gate::SharedRate(_) if connection.worker.shared_store.is_none() => None,
        Gate::SharedRate(_)
        | Gate::Token(_)
        | Gate::Forward(_)
        | Gate::Basic(_)
        | Gate::Authorizer(_)
        | Gate::Concurrency(_) => return None,
    };
    Some(refused.map_or(Ok(()), Err))
}

/// Passes a request through a gate, which may have to wait.
async fn pass_gate<T: Protocol>(
    connection: &mut Connection<T>,
    exchange: &mut Exchange,
    gate: &Gate,
    routed: Routed<'_, '_>,
) -> Result<Option<Grant>, Refusal> {
    if let Some(decided) = decide(connection, exchange, gate, routed) {
        return decided.map(|()| None);
    }
    let Routed { request, worker, resolved } = routed;
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
            decide(connection, exchange, gate, routed).unwrap_or(Ok(())).map(|()| None)
        }
        Gate::SharedRate(limiters) => {
            let Some(store) = &worker.shared_store else { return Ok(None) };
            let checked = check_shared_rates(connection, exchange, store, limiters, routed).await;
            checked.map(|()| None).map_err(Refusal::Error)
        }
        Gate::Token(tokens) => match tokens.check(request) {
            Ok(Some(lines)) => {
                let own = request.own_fields.iter().chain(tokens.own_fields()).cloned().collect();
                Ok(Some(Grant::Fields(lines, own)))
            }
            Ok(None) => Ok(Some(Grant::Identity)),
            Err(answer) => Err(Refusal::handled(Err(HandlerError::Answer(answer)), request)),
        },
        Gate::Forward(server) => {
            let now_ms = clock::now_ms();
            let matched = matched_path(resolved);
            let context = context_without_mount(connection, exchange, routed, matched, now_ms);
            let mut client = ExchangeClient::new(connection, exchange, request, None);
            match server.check(&context, &mut client).await {
                Ok(lines) => {
                    let own = [request.own_fields, server.own_fields()].concat();
                    Ok(Some(Grant::Fields(lines, own)))
                }
                Err(handled) => Err(Refusal::Handled(Box::new((*handled, client.incoming)))),
            }
        }
        Gate::Basic(passwords) => {
            let checked = passwords.check(request.authorization).await;
            checked.map(|()| None).map_err(|answer| Refusal::Error(Box::new(answer)))
        }
        Gate::Authorizer(authorizer) => {
            let Some((mount, matched)) = resolved.mount() else { return Ok(None) };
            let now_ms = clock::now_ms();
            let context = context(connection, exchange, routed, mount, matched, now_ms);
            let mut client = ExchangeClient::new(connection, exchange, request, None);
            let check = async |_: &dyn InterimSender| authorizer.check(&context).await;
            match client.beside(&Waits::default(), check).await {
                Ok(Ok(variables)) => Ok(Some(Grant::Variables(variables))),
                Ok(Err(Unauthorized::Refused(answer))) => Err(Refusal::plain(answer)),
                Ok(Err(Unauthorized::Undecided(answer))) => Err(Refusal::Error(Box::new(answer))),
                Err(gone) => Err(Refusal::handled(Err(gone.into()), request)),
            }
        }
        Gate::Concurrency(limiter) => {
            let place = find_place(connection, exchange, limiter, routed).await;
            let refused = |error| Refusal::handled(Err(error), request);
            place.map(|place| Some(Grant::Place(place))).map_err(refused)
        }
    }
}

/// Returns the path of a request for a gate. One without a mount is matched by no mount.
fn matched_path<'a>(resolved: &'a Resolved<'_>) -> MatchedPath<'a> {
    match resolved.mount() {
        Some((_, matched)) => matched,
        None => {
            let path = resolved.target().map_or(&b""[..], |(path, _)| path);
            let query = resolved.target().and_then(|(_, query)| query);
            MatchedPath { path, rest: path, query, mount: 0, cacheable: false }
        }
    }
}

/// Answers an ACME HTTP challenge (RFC 8555 section 8.3). This precedes all access rules: the
/// validating server connects in clear and has no credentials.
pub(super) fn challenge<T>(
    connection: &Connection<T>,
    request: &RequestHead<'_>,
) -> Option<Answer> {
    let keyring = connection.worker.keyring.as_ref()?;
    let (path, _) = request.target.path_and_query()?;
    if !path.starts_with(tls::HTTP_PREFIX) || !matches!(request.method, Method::Get | Method::Head)
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
fn redirect_channel<T: Protocol>(
    connection: &Connection<T>,
    Routed { request, resolved, .. }: Routed<'_, '_>,
) -> Option<Answer> {
    let channel = connection.channel();
    let is_open = resolved.site.is_open_to(channel);
    let name = request.host.as_ref().map(|h| h.name);
    (!is_open).then(|| resolved.site.elsewhere(channel, name, resolved.target()))
}
