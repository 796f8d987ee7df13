//! The gates of a path: what a request must pass before its handler.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::access::admits;
use super::handler_builder::names_lane;
use super::maintenance::Maintenance;
use super::{Channel, Site};
use crate::auth::{Guard, PasswordGate, TokenGate};
use crate::config::{self, Access, Auth, Cors, MountClientAuth};
use crate::handler::gateway::Authorizer;
use crate::handler::proxy::ForwardAuth;
use crate::handler::resources::{HandlerServices, Resources};
use crate::limits::concurrency::ConcurrencyLimiter;
use crate::limits::rate::RateLimiter;

/// A gate. The configuration of a site and each of its mounts is compiled into a list of them, in
/// the order of this enum. The pipeline passes a request through the list, a known file asks it,
/// and `hurtle explain` describes it.
#[derive(Clone, Debug)]
pub(crate) enum Gate {
    /// Answers challenges of a certificate authority (RFC 8555 section 8.3): it connects in clear,
    /// and has no credentials.
    AcmeChallenge,
    /// Requires a client certificate, or answers 403. A request that `Channel` leads to another
    /// connection passes, and a preflight that `Cors` answers.
    ClientCertificate,
    /// Requires TLS, or the site's authentication of clients by certificates.
    Channel,
    /// Refuses all requests while a file exists.
    Maintenance(Rc<Maintenance>),
    /// Answers preflights of scripts of other origins.
    Cors(Rc<Cors>),
    /// Admits addresses of clients; a mount has its site's gate, too.
    Address(Rc<Access>),
    /// Refuses a request that announces a body of more bytes; one without a length is cut there.
    BodySize(u64),
    /// Limits the rate of requests: the site's limits, then the mount's.
    Rate(Rc<[Arc<RateLimiter>]>),
    /// Counts these limits over all servers that share a store.
    SharedRate(Rc<[Arc<RateLimiter>]>),
    /// Requires a token (RFC 6750, RFC 7519), or answers 401.
    Token(Rc<TokenGate>),
    /// Asks a server about each request.
    Forward(Rc<ForwardAuth>),
    /// Requires a password (RFC 7617), or answers 401.
    Basic(Rc<PasswordGate>),
    /// Asks a FastCGI application about each request.
    Authorizer(Rc<Authorizer>),
    /// Limits the requests that are handled at once.
    Concurrency(Arc<ConcurrencyLimiter>),
}

/// A request for something known, as gates see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor<'a> {
    /// The security properties of the connection.
    pub channel: Channel,
    /// The client's address; `None`: a unix socket.
    pub address: Option<IpAddr>,
    /// The value of Authorization.
    pub credentials: Option<&'a [u8]>,
    /// `true`: an ACME challenge is pending for the path.
    pub is_challenge: bool,
    /// This thread's time, in milliseconds.
    pub now_ms: u64,
}

impl Gate {
    /// Returns whether the gate lets a request pass without more ado. `false` decides nothing: the
    /// request takes the way of all others.
    #[inline]
    pub(super) fn allows_known(&self, site: &Site, visitor: &Visitor<'_>) -> bool {
        match self {
            Gate::AcmeChallenge => !visitor.is_challenge,
            Gate::ClientCertificate => !site.lacks_certificate(visitor.channel),
            Gate::Channel => site.is_open_to(visitor.channel),
            Gate::Maintenance(maintenance) => maintenance.is_up(visitor.now_ms) == Some(true),
            Gate::Address(access) => admits(access, visitor.address),
            // Only requests without a body are for something known.
            Gate::BodySize(_) => true,
            Gate::Basic(passwords) => passwords.is_remembered(visitor.credentials, visitor.now_ms),
            Gate::Cors(_)
            | Gate::Rate(_)
            | Gate::SharedRate(_)
            | Gate::Token(_)
            | Gate::Forward(_)
            | Gate::Authorizer(_)
            | Gate::Concurrency(_) => false,
        }
    }

    /// Returns whether both are one gate, which is passed once.
    pub(crate) fn is(&self, other: &Gate) -> bool {
        match (self, other) {
            (Gate::AcmeChallenge, Gate::AcmeChallenge)
            | (Gate::ClientCertificate, Gate::ClientCertificate)
            | (Gate::Channel, Gate::Channel)
            | (Gate::Maintenance(_), Gate::Maintenance(_)) => true,
            (Gate::Token(one), Gate::Token(other)) => Rc::ptr_eq(one, other),
            (Gate::Forward(one), Gate::Forward(other)) => Rc::ptr_eq(one, other),
            (Gate::Basic(one), Gate::Basic(other)) => Rc::ptr_eq(one, other),
            (Gate::Concurrency(one), Gate::Concurrency(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns the gate without the limits of rates that are in `counted`: they count a request
    /// once, also if its error is replaced by another response.
    pub(crate) fn without_rates(&self, counted: &[&Gate]) -> Gate {
        let counted: Vec<_> = counted.iter().filter_map(|gate| gate.rates()).flatten().collect();
        let rest = |rates: &[Arc<RateLimiter>]| -> Rc<[_]> {
            let is_new = |rate: &&Arc<RateLimiter>| !counted.iter().any(|c| Arc::ptr_eq(c, rate));
            rates.iter().filter(is_new).cloned().collect()
        };
        match self {
            Gate::Rate(rates) => Gate::Rate(rest(rates)),
            Gate::SharedRate(rates) => Gate::SharedRate(rest(rates)),
            other => other.clone(),
        }
    }

    /// Returns the limits of a gate that counts requests.
    pub(crate) fn rates(&self) -> Option<&[Arc<RateLimiter>]> {
        match self {
            Gate::Rate(rates) => Some(rates),
            _ => None,
        }
    }

    /// Returns whether it refuses requests beyond a rate.
    pub(crate) fn limits_rate(&self) -> bool {
        matches!(self, Gate::Rate(_) | Gate::SharedRate(_))
    }

    /// Returns whether a request without a path, such as `OPTIONS *`, needs to pass the gate.
    pub(super) fn is_for_server(&self) -> bool {
        matches!(
            self,
            Gate::AcmeChallenge
                | Gate::Channel
                | Gate::Maintenance(_)
                | Gate::BodySize(_)
                | Gate::Cors(_)
                | Gate::Address(_)
                | Gate::Rate(_)
                | Gate::SharedRate(_)
        )
    }

    /// Returns whether the guard has the users and the keys of the gate, unchanged, and TLS to its
    /// server is as it was.
    pub(super) fn is_of(&self, guard: &Guard, resources: &Resources<'_>) -> bool {
        match self {
            Gate::Token(tokens) => guard.has_keys_of(tokens),
            Gate::Forward(server) => server.uses(resources.upstream_tls),
            Gate::Basic(passwords) => passwords.is_of(guard),
            _ => true,
        }
    }
}

/// Compiles the gates of a site.
pub(super) struct Compiler<'a> {
    pub(super) site: &'a config::Site,
    guard: &'a Guard,
    pub(super) resources: &'a Resources<'a>,
    /// The authentication of the site, which its mounts share.
    auth: Option<Gate>,
    maintenance: Option<Rc<Maintenance>>,
}

impl Compiler<'_> {
    pub(super) fn new<'a>(
        site: &'a config::Site,
        guard: &'a Guard,
        resources: &'a Resources<'a>,
    ) -> Compiler<'a> {
        let maintenance = site.maintenance.as_deref();
        let maintenance =
            maintenance.map(|file| Rc::new(Maintenance::new(file, &resources.shared.disk)));
        let mut compiler = Compiler { site, guard, resources, auth: None, maintenance };
        compiler.auth = site.auth.as_ref().and_then(|auth| compiler.authentication(auth));
        compiler
    }

    /// Returns the gates of the site's paths without a mount.
    pub(super) fn of_site(&self) -> Vec<Gate> {
        let rates = self.guard.limiters().of_site(self.site).rates;
        let body_bytes = self.site.policy.body_bytes;
        let cors = self.site.cors.as_ref();
        let mut gates =
            self.of_place(MountClientAuth::None, cors, &[&self.site.access], body_bytes, rates);
        gates.extend(self.auth.clone());
        gates
    }

    /// Returns the gates of a mount.
    pub(super) fn of_mount(&self, mount: &config::Mount) -> Vec<Gate> {
        let limiters = self.guard.limiters();
        // A request that is handed on has been counted for the site.
        let mut rates = match mount.given_name {
            Some(_) => Vec::new(),
            None => limiters.of_site(self.site).rates,
        };
        let limits = limiters.of_mount(self.site, mount);
        rates.extend(limits.rates);
        let cors = mount.cors.as_ref().or(self.site.cors.as_ref());
        let body_bytes = mount.policy.body_bytes.or(self.site.policy.body_bytes);
        let access = [&self.site.access, &mount.access];
        let mut gates = self.of_place(mount.client_auth, cors, &access, body_bytes, rates);
        gates.extend(match &mount.auth {
            None => self.auth.clone(),
            Some(auth) => self.authentication(auth),
        });
        let authorizer = mount.authorizer.clone().map(Authorizer::new);
        gates.extend(authorizer.map(|authorizer| Gate::Authorizer(Rc::new(authorizer))));
        gates.extend(limits.concurrency.map(Gate::Concurrency));
        gates
    }

    /// Returns the gates before authentication.
    fn of_place(
        &self,
        client_auth: MountClientAuth,
        cors: Option<&Cors>,
        access: &[&Access],
        body_bytes: Option<u64>,
        rates: Vec<Arc<RateLimiter>>,
    ) -> Vec<Gate> {
        let mut gates = vec![Gate::AcmeChallenge];
        if client_auth == MountClientAuth::Required {
            gates.push(Gate::ClientCertificate);
        }
        gates.push(Gate::Channel);
        gates.extend(self.maintenance.clone().map(Gate::Maintenance));
        gates.extend(cors.map(|cors| Gate::Cors(Rc::new(cors.clone()))));
        let restricts = |access: &&&Access| !access.allow.is_empty() || !access.deny.is_empty();
        let restricting = access.iter().filter(restricts);
        gates.extend(restricting.map(|&access| Gate::Address(Rc::new(access.clone()))));
        gates.extend(body_bytes.map(Gate::BodySize));
        if !rates.is_empty() {
            let rates: Rc<[_]> = rates.into();
            gates.extend([Gate::Rate(Rc::clone(&rates)), Gate::SharedRate(rates)]);
        }
        gates
    }

    fn authentication(&self, auth: &Auth) -> Option<Gate> {
        match auth {
            Auth::None => None,
            Auth::Jwt(config) => Some(Gate::Token(Rc::new(self.guard.token_gate(config)))),
            Auth::Forward(config) => {
                let Resources { shared: HandlerServices { disk, .. }, upstream_tls, .. } =
                    self.resources;
                let server = ForwardAuth::new(config, disk, names_lane(disk), upstream_tls);
                Some(Gate::Forward(Rc::new(server)))
            }
            Auth::Basic(config) => Some(Gate::Basic(Rc::new(self.guard.gate(config)))),
        }
    }
}
