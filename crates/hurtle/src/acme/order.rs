//! One attempt with one authority: from an order to a certificate (RFC 8555 section 7.4). An order
//! is stored before it proceeds, so that a later attempt can resume it.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, ChallengeStatus, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::account::{Authority, identifier};
use super::hook::Records;
use super::http::reason;
use super::now;
use super::storage::{OpenOrder, Record, Storage};
use crate::config::{self, ChallengeKind, DnsHook, HostName};
use crate::rt;
use crate::tls::{CertificateId, Challenge, IssuedCertificate};

/// Time limit of the validation, and of the issuance.
const POLL_POLICY: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// Delay before validation: servers that share a storage reload the challenges every second.
const RELOAD_DELAY: Duration = Duration::from_secs(2);

/// Lifetime of a challenge; no attempt takes longer.
const CHALLENGE_SECS: u64 = 10 * 60;

/// Tries of a new order: with `replaces`, without it, and with a new account.
const TRIES: usize = 3;

/// Tries of an attempt whose nonce is refused; instant-acme retries each request, too.
const NONCE_TRIES: usize = 5;
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const SERVER_INTERNAL: &str = "urn:ietf:params:acme:error:serverInternal";

/// The certificate to order.
pub(super) struct CertificateRequest<'a> {
    pub(super) name: &'a str,
    pub(super) names: &'a [String],
    pub(super) hosts: &'a [HostName],
    /// Possible challenges, the preferred one first.
    pub(super) kinds: Vec<ChallengeKind>,
    /// The hook of dns-01 validations.
    pub(super) dns: Option<&'a DnsHook>,
    /// Identifier of the certificate that this one replaces, if this authority issued it.
    pub(super) replaces: Option<CertificateId>,
}

/// Obtains a certificate; returns its key and chain, in PEM.
///
/// # Errors
/// The reason, for the log.
pub(super) async fn obtain(
    authority: &mut Authority,
    request: &CertificateRequest<'_>,
    record: &mut Record,
    storage: &Storage,
) -> Result<String, String> {
    let mut issued = obtain_once(authority, request, record, storage).await;
    for _ in 1..NONCE_TRIES {
        // The authority did nothing, so the attempt can be repeated (RFC 8555 section 6.5).
        if !issued.as_ref().is_err_and(|reason| reason.contains(BAD_NONCE)) {
            break;
        }
        issued = obtain_once(authority, request, record, storage).await;
    }
    issued
}

async fn obtain_once(
    authority: &mut Authority,
    request: &CertificateRequest<'_>,
    record: &mut Record,
    storage: &Storage,
) -> Result<String, String> {
    let (mut order, key) = match resume(authority, record, storage).await? {
        Some(resumed) => resumed,
        None => create(authority, request, record, storage).await?,
    };
    if order.state().status == OrderStatus::Pending {
        validate(&mut order, request, storage).await?;
    }
    if order.state().status == OrderStatus::Ready {
        let names = request.names.iter().map(|name| name.trim_matches(['[', ']']).to_owned());
        let names: Vec<String> = names.collect();
        let mut params = CertificateParams::new(names).map_err(|e| e.to_string())?;
        params.distinguished_name = DistinguishedName::new();
        let csr = params.serialize_request(&key).map_err(|e| e.to_string())?;
        order.finalize_csr(csr.der()).await.map_err(|e| reason(&e))?;
    }
    let chain = order.poll_certificate(&POLL_POLICY).await.map_err(|e| reason(&e))?;
    let pem = format!("{}{chain}", key.serialize_pem());
    let checked = check(&pem, request.hosts);
    if checked.is_err() {
        // The authority would give the same certificate again.
        record.order = None;
    }
    checked.map(|()| pem)
}

/// Checks the names and the expiry of the issued certificate. An unsuitable one is a failed
/// attempt, so that it is not ordered again at once.
fn check(pem: &str, hosts: &[HostName]) -> Result<(), String> {
    let issued = IssuedCertificate::read(pem.as_bytes(), hosts)?;
    match issued.missing_names.first() {
        Some(name) => Err(format!("the issued certificate is not for {name}")),
        None if issued.valid.until <= now() => {
            Err("the issued certificate has expired already; is the clock right?".to_owned())
        }
        None => Ok(()),
    }
}

/// Resumes the order of an earlier attempt; `None` if there is none or the authority dropped it.
async fn resume(
    authority: &mut Authority,
    record: &mut Record,
    storage: &Storage,
) -> Result<Option<(Order, KeyPair)>, String> {
    // That of another authority stays until this one has another.
    let known = record.order.clone().filter(|open| open.directory == authority.directory);
    let Some(OpenOrder { url, key, .. }) = known else { return Ok(None) };
    let Ok(key) = KeyPair::from_pem(&key) else { return Ok(None) };
    // Until the authority has told its state, the order stays in the record: another one in its
    // place counts against the authority's limits.
    let account = authority.account(storage).await?;
    match account.order(url).await {
        Ok(mut order) => {
            if order.state().status != OrderStatus::Invalid {
                return Ok(Some((order, key)));
            }
        }
        // It has expired.
        Err(Error::Api(problem)) if !is_passing(&problem) => {}
        Err(e) => return Err(reason(&e)),
    }
    record.order = None;
    Ok(None)
}

/// Returns whether a problem says nothing about the order (RFC 8555 section 6.7).
fn is_passing(problem: &Problem) -> bool {
    matches!(problem.r#type.as_deref(), Some(BAD_NONCE | RATE_LIMITED | SERVER_INTERNAL))
        || problem.status.is_some_and(|status| status >= 500)
}

async fn create(
    authority: &mut Authority,
    request: &CertificateRequest<'_>,
    record: &mut Record,
    storage: &Storage,
) -> Result<(Order, KeyPair), String> {
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let order = new_order(authority, request, storage).await?;
    record.order = Some(OpenOrder {
        directory: authority.directory.clone(),
        url: order.url().to_owned(),
        key: key.serialize_pem(),
    });
    storage.write_record(request.name, record).map_err(|e| e.to_string())?;
    Ok((order, key))
}

async fn new_order(
    authority: &mut Authority,
    request: &CertificateRequest<'_>,
    storage: &Storage,
) -> Result<Order, String> {
    let identifier_of = |name: &String| match config::address(name) {
        Some(address) => Identifier::Ip(address),
        None => Identifier::Dns(name.clone()),
    };
    let names: Vec<Identifier> = request.names.iter().map(identifier_of).collect();
    let mut replaces = request.replaces.as_ref();
    let mut failure = String::new();
    for _ in 0..TRIES {
        let account = authority.account(storage).await?;
        let mut order = NewOrder::new(&names);
        if let Some(profile) = &authority.profile {
            check_profile(&account, profile)?;
            order = order.profile(profile);
        }
        if let Some(id) = replaces {
            order = order.replaces(identifier(id));
        }
        let e = match account.new_order(&order).await {
            Ok(order) => return Ok(order),
            Err(e) => e,
        };
        failure = reason(&e);
        if is_of_kind(&e, "accountDoesNotExist") {
            authority.forget(storage);
        } else if replaces.take().is_none() || is_of_kind(&e, "rateLimited") {
            // `replaces` is optional; some authorities reject it (RFC 9773 section 5).
            break;
        }
    }
    Err(failure)
}

/// Checks that an authority has a profile.
fn check_profile(account: &Account, profile: &str) -> Result<(), String> {
    let known: Vec<&str> = account.profiles().map(|known| known.name).collect();
    match (known.contains(&profile), known.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => {
            Err(format!("the authority has no profiles; leave profile = {profile:?} out"))
        }
        (false, false) => Err(format!(
            "the authority has no profile {profile:?}, but {}; write one of these",
            known.join(", ")
        )),
    }
}

/// Tells whether the authority's problem document has this type (RFC 8555 section 6.7).
fn is_of_kind(error: &Error, kind: &str) -> bool {
    let Error::Api(problem) = error else { return false };
    let found = problem.r#type.as_deref().and_then(|found| found.rsplit(':').next());
    found == Some(kind)
}

/// Answers the order's challenges and waits for their validation.
async fn validate(
    order: &mut Order,
    request: &CertificateRequest<'_>,
    storage: &Storage,
) -> Result<(), String> {
    let challenges = challenges(order, request).await?;
    let Some(hook) = request.dns else {
        storage.add_challenges(&challenges).await.map_err(|e| e.to_string())?;
        rt::sleep(RELOAD_DELAY).await;
        return confirm(order, request).await;
    };
    let records = Records::open(hook)?;
    let mut outcome = records.publish(&challenges).await;
    if outcome.is_ok() {
        outcome = confirm(order, request).await;
    }
    records.remove(request.name).await;
    outcome
}

/// The challenges of the pending authorizations. A name and its wildcard have one each.
async fn challenges(
    order: &mut Order,
    request: &CertificateRequest<'_>,
) -> Result<Vec<Challenge>, String> {
    let mut challenges = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next.map_err(|e| reason(&e))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let kind = select(&authorization, &request.kinds)?;
        let Some(challenge) = authorization.challenge(kind) else { continue };
        // As hosts of the configuration are written.
        let name = match challenge.identifier().identifier {
            Identifier::Dns(name) => name.to_ascii_lowercase(),
            Identifier::Ip(IpAddr::V4(address)) => address.to_string(),
            Identifier::Ip(IpAddr::V6(address)) => format!("[{address}]"),
            _ => continue,
        };
        let authorization = challenge.key_authorization();
        challenges.push(Challenge {
            name,
            token: challenge.token.clone(),
            answer: authorization.as_str().to_owned(),
            digest: BASE64_URL_SAFE_NO_PAD.encode(authorization.digest()),
            until: now() + CHALLENGE_SECS,
        });
    }
    Ok(challenges)
}

/// Has the authority validate the challenges, and waits for its verdict.
async fn confirm(order: &mut Order, request: &CertificateRequest<'_>) -> Result<(), String> {
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next.map_err(|e| reason(&e))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let kind = select(&authorization, &request.kinds)?;
        let Some(mut challenge) = authorization.challenge(kind) else { continue };
        if challenge.status == ChallengeStatus::Pending {
            challenge.set_ready().await.map_err(|e| reason(&e))?;
        }
    }
    match order.poll_ready(&POLL_POLICY).await {
        // The authority did nothing: it is no verdict on the challenges.
        Err(e) if is_of_kind(&e, "badNonce") => Err(reason(&e)),
        Ok(OrderStatus::Invalid) | Err(Error::Api(_)) => Err(refusal(order, &request.kinds).await),
        Ok(_) => Ok(()),
        Err(e) => Err(reason(&e)),
    }
}

/// Selects the first configured kind of challenge that the authority offers.
fn select(
    authorization: &AuthorizationHandle<'_>,
    kinds: &[ChallengeKind],
) -> Result<ChallengeType, String> {
    let is_offered =
        |kind: &ChallengeType| authorization.challenges.iter().any(|c| c.r#type == *kind);
    let found = kinds.iter().map(|kind| challenge_type(*kind)).find(is_offered);
    found.ok_or_else(|| {
        let name = authorization.identifier();
        format!("it offers none of the configured challenges for {name}")
    })
}

fn challenge_type(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::Dns01 => ChallengeType::Dns01,
    }
}

/// Describes why the authority rejected the order, name by name.
async fn refusal(order: &mut Order, kinds: &[ChallengeKind]) -> String {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let kinds = kinds.iter().map(|kind| challenge_type(*kind));
        for kind in kinds {
            let tried = authorization.challenges.iter().find(|c| c.r#type == kind);
            if let Some(problem) = tried.and_then(|challenge| challenge.error.as_ref()) {
                let detail = problem.detail.as_deref().unwrap_or("no reason given");
                reasons.push(format!("{}: {detail}", authorization.identifier()));
            }
        }
    }
    match reasons.is_empty() {
        true => "validation failed; no reason given".to_owned(),
        false => format!("validation failed: {}", reasons.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;

    /// Regression: an internal error of the authority cost the order.
    #[test]
    fn problems_that_say_nothing_of_an_order() {
        let rows = [
            (BAD_NONCE, 400, true),
            (RATE_LIMITED, 429, true),
            (SERVER_INTERNAL, 500, true),
            ("urn:example:overloaded", 503, true),
            ("urn:ietf:params:acme:error:malformed", 404, false),
        ];
        for (kind, status, expected) in rows {
            let problem = Problem {
                r#type: Some(kind.to_owned()),
                detail: None,
                status: Some(status),
                subproblems: Vec::new(),
            };
            assert_eq!(is_passing(&problem), expected, "{kind}");
        }
    }

    /// Regression: an order was forgotten when its authority could not be reached, and made again.
    #[test]
    fn an_order_is_kept_while_its_authority_does_not_answer() {
        let storage = std::env::temp_dir().join(format!("hurtle-order-{}", std::process::id()));
        let directory = "https://127.0.0.1:1/directory";
        let text = format!(
            "listen = \"127.0.0.1:80\"\nlisten_tls = \"127.0.0.1:443\"\n\
             [acme]\naccept_terms = true\nstorage = {storage:?}\n\
             [[acme.authority]]\ndirectory = \"{directory}\"\n\
             [[site]]\nhosts = \"a.example\"\ntls = {{ certificate = \"auto\" }}\n\
             [[site.mount]]\nrespond = \"\"\n"
        );
        let config = check(&text, std::path::Path::new("/etc/hurtle.toml")).unwrap();
        let acme = config.acme.unwrap();
        let mut authority = Authority::load(&acme.authorities[0], &acme).unwrap();
        let key = KeyPair::generate().unwrap().serialize_pem();
        let open = OpenOrder { directory: directory.to_owned(), url: directory.to_owned(), key };
        let mut record = Record { order: Some(open.clone()), ..Record::default() };
        let opened = Storage::open(&storage).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let resumed = runtime.block_on(resume(&mut authority, &mut record, &opened));
        assert!(resumed.is_err(), "the authority cannot be reached");
        assert_eq!(record.order, Some(open));
        std::fs::remove_dir_all(&storage).unwrap();
    }
}
