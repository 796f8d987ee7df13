//! One attempt with one authority: from an order to a certificate (RFC 8555 7.4). What has been
//! begun is on disk before it is gone on with, and taken up where it was left.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{
    AuthorizationHandle, AuthorizationStatus, ChallengeStatus, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::account::{Authority, identifier};
use super::http::why;
use super::now;
use super::storage::{Record, Storage, Unfinished};
use crate::config::{ChallengeKind, HostName};
use crate::rt;
use crate::tls::{Challenge, Facts};

/// How long an authority may take to look, and to sign.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// Servers that share a storage look there every second for what authorities will ask for.
const UNTIL_ALL_KNOW: Duration = Duration::from_secs(2);

/// No attempt takes longer, and after it nobody comes any more.
const CHALLENGE_SECS: u64 = 10 * 60;

/// Tries of an order: with what it replaces, without, and with a new account.
const TRIES: usize = 3;

/// How often an authority may refuse one request's nonce again, beside the client's own tries.
const NONCE_TRIES: usize = 5;
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";

/// What is wanted.
pub(super) struct Wish<'a> {
    pub(super) name: &'a str,
    pub(super) names: &'a [String],
    pub(super) hosts: &'a [HostName],
    /// The preferred first.
    pub(super) kinds: Vec<ChallengeKind>,
    /// The certificate that it is in place of, if it is this authority's.
    pub(super) replaces: Option<(Vec<u8>, Vec<u8>)>,
}

/// A certificate with its key and chain, in PEM.
///
/// # Errors
/// What went wrong, for people.
pub(super) async fn obtain(
    authority: &mut Authority,
    wish: &Wish<'_>,
    record: &mut Record,
    storage: &Storage,
) -> Result<String, String> {
    let mut got = obtain_once(authority, wish, record, storage).await;
    for _ in 1..NONCE_TRIES {
        // Nothing was done: the same is gone on with (RFC 8555 6.5).
        if !got.as_ref().is_err_and(|why| why.contains(BAD_NONCE)) {
            break;
        }
        got = obtain_once(authority, wish, record, storage).await;
    }
    got
}

async fn obtain_once(
    authority: &mut Authority,
    wish: &Wish<'_>,
    record: &mut Record,
    storage: &Storage,
) -> Result<String, String> {
    let (mut order, key) = match resumed(authority, record, storage).await? {
        Some(begun) => begun,
        None => begin(authority, wish, record, storage).await?,
    };
    if order.state().status == OrderStatus::Pending {
        prove(&mut order, wish, storage).await?;
    }
    if order.state().status == OrderStatus::Ready {
        let mut params = CertificateParams::new(wish.names).map_err(|e| e.to_string())?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(|e| e.to_string())?;
        order.finalize_csr(request.der()).await.map_err(|e| why(&e))?;
    }
    let chain = order.poll_certificate(&PATIENCE).await.map_err(|e| why(&e))?;
    let pem = format!("{}{chain}", key.serialize_pem());
    is_useful(&pem, wish.hosts).map(|()| pem)
}

/// Whether this is what was asked for: if not, to ask again at once would not help.
fn is_useful(pem: &str, hosts: &[HostName]) -> Result<(), String> {
    let facts = Facts::read(pem.as_bytes(), hosts)?;
    match facts.lacks.first() {
        Some(name) => Err(format!("the certificate it issued is not for {name}")),
        None if facts.valid.1 <= now() => {
            Err("the certificate it issued is over already; is the clock right?".to_owned())
        }
        None => Ok(()),
    }
}

/// The order that a crash or a failure has left, where it can still be gone on with.
async fn resumed(
    authority: &mut Authority,
    record: &mut Record,
    storage: &Storage,
) -> Result<Option<(Order, KeyPair)>, String> {
    let left = record.order.take().filter(|left| left.directory == authority.directory);
    let Some(left) = left else { return Ok(None) };
    let Ok(key) = KeyPair::from_pem(&left.key) else { return Ok(None) };
    let account = authority.account(storage).await?;
    match account.order(left.url.clone()).await {
        Ok(mut order) => {
            let is_alive = order.state().status != OrderStatus::Invalid;
            record.order = is_alive.then_some(left);
            Ok(is_alive.then_some((order, key)))
        }
        // It has expired.
        Err(Error::Api(problem)) if problem.r#type.as_deref() != Some(BAD_NONCE) => Ok(None),
        Err(e) => {
            record.order = Some(left);
            Err(why(&e))
        }
    }
}

async fn begin(
    authority: &mut Authority,
    wish: &Wish<'_>,
    record: &mut Record,
    storage: &Storage,
) -> Result<(Order, KeyPair), String> {
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let order = new_order(authority, wish, storage).await?;
    record.order = Some(Unfinished {
        directory: authority.directory.clone(),
        url: order.url().to_owned(),
        key: key.serialize_pem(),
    });
    storage.keep_record(wish.name, record).map_err(|e| e.to_string())?;
    Ok((order, key))
}

async fn new_order(
    authority: &mut Authority,
    wish: &Wish<'_>,
    storage: &Storage,
) -> Result<Order, String> {
    let names = wish.names.iter().cloned();
    let names: Vec<Identifier> = names.map(Identifier::Dns).collect();
    let mut replaces = wish.replaces.as_ref();
    let mut failure = String::new();
    for _ in 0..TRIES {
        let account = authority.account(storage).await?;
        let mut order = NewOrder::new(&names);
        if let Some(id) = replaces {
            order = order.replaces(identifier(id));
        }
        let e = match account.new_order(&order).await {
            Ok(order) => return Ok(order),
            Err(e) => e,
        };
        failure = why(&e);
        if is_of_kind(&e, "accountDoesNotExist") {
            authority.forget(storage);
        } else if replaces.take().is_none() || is_of_kind(&e, "rateLimited") {
            // What it replaces is a courtesy: not all authorities want to know (RFC 9773 5).
            break;
        }
    }
    Err(failure)
}

/// RFC 8555 6.7.
fn is_of_kind(error: &Error, kind: &str) -> bool {
    let Error::Api(problem) = error else { return false };
    let found = problem.r#type.as_deref().and_then(|found| found.rsplit(':').next());
    found == Some(kind)
}

/// Shows that the names are this server's.
async fn prove(order: &mut Order, wish: &Wish<'_>, storage: &Storage) -> Result<(), String> {
    let mut challenges = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next.map_err(|e| why(&e))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let kind = chosen(&authorization, &wish.kinds)?;
        let Some(challenge) = authorization.challenge(kind) else { continue };
        let Identifier::Dns(name) = challenge.identifier().identifier else { continue };
        let authorization = challenge.key_authorization();
        challenges.push(Challenge {
            name: name.to_ascii_lowercase(),
            token: challenge.token.clone(),
            answer: authorization.as_str().to_owned(),
            digest: BASE64_URL_SAFE_NO_PAD.encode(authorization.digest()),
            until: now() + CHALLENGE_SECS,
        });
    }
    storage.keep_challenges(&challenges).map_err(|e| e.to_string())?;
    rt::sleep(UNTIL_ALL_KNOW).await;
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next.map_err(|e| why(&e))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let kind = chosen(&authorization, &wish.kinds)?;
        let Some(mut challenge) = authorization.challenge(kind) else { continue };
        if challenge.status == ChallengeStatus::Pending {
            challenge.set_ready().await.map_err(|e| why(&e))?;
        }
    }
    match order.poll_ready(&PATIENCE).await {
        Ok(OrderStatus::Invalid) | Err(Error::Api(_)) => Err(refusal(order, &wish.kinds).await),
        Ok(_) => Ok(()),
        Err(e) => Err(why(&e)),
    }
}

/// The first challenge that is possible here and offered there.
fn chosen(
    authorization: &AuthorizationHandle<'_>,
    kinds: &[ChallengeKind],
) -> Result<ChallengeType, String> {
    let is_offered =
        |kind: &ChallengeType| authorization.challenges.iter().any(|c| c.r#type == *kind);
    let found = kinds.iter().map(|kind| offered(*kind)).find(is_offered);
    found.ok_or_else(|| {
        let name = authorization.identifier();
        format!("for {name} it offers none of the challenges that are possible here")
    })
}

fn offered(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Http01 => ChallengeType::Http01,
    }
}

/// What the authority did not like, name by name.
async fn refusal(order: &mut Order, kinds: &[ChallengeKind]) -> String {
    let mut whys = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let kinds = kinds.iter().map(|kind| offered(*kind));
        for kind in kinds {
            let asked = authorization.challenges.iter().find(|c| c.r#type == kind);
            if let Some(problem) = asked.and_then(|challenge| challenge.error.as_ref()) {
                let detail = problem.detail.as_deref().unwrap_or("it does not say why");
                whys.push(format!("{}: {detail}", authorization.identifier()));
            }
        }
    }
    match whys.is_empty() {
        true => "it did not believe that the names are this server's".to_owned(),
        false => format!("it did not find what it asked for: {}", whys.join("; ")),
    }
}
