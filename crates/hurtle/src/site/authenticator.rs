//! Authentication that decides about each request, and may replace its fields.

use std::rc::Rc;

use http::HeaderName;

use super::mount::names_lane;
use crate::auth::{Guard, TokenGate};
use crate::config::Auth;
use crate::handler::directory::Resources;
use crate::handler::proxy::ForwardAuth;

/// The authentication of a site or mount by a server or a token.
#[derive(Clone, Debug)]
pub enum Authenticator {
    /// A server that is asked about each request.
    Server(Rc<ForwardAuth>),
    /// A token that each request has.
    Token(Rc<TokenGate>),
}

impl Authenticator {
    /// Creates it for a setting of `auth`.
    pub(super) fn of(auth: &Auth, guard: &Guard, resources: &Resources) -> Option<Authenticator> {
        match auth {
            Auth::None | Auth::Basic(_) => None,
            Auth::Forward(config) => {
                let names = (&resources.disk, names_lane(&resources.disk));
                let server = ForwardAuth::new(config, names, &resources.upstream_tls);
                Some(Authenticator::Server(Rc::new(server)))
            }
            Auth::Jwt(config) => Some(Authenticator::Token(Rc::new(guard.token_gate(config)))),
        }
    }

    /// Returns the request fields that the decision sets.
    pub fn own_fields(&self) -> Vec<HeaderName> {
        match self {
            Authenticator::Server(server) => server.own_fields().to_vec(),
            Authenticator::Token(gate) => gate.own_fields().cloned().collect(),
        }
    }

    /// Returns whether the guard has the keys of tokens, unchanged, and TLS to the server is as it was.
    pub(super) fn is_of(&self, guard: &Guard, resources: &Resources) -> bool {
        match self {
            Authenticator::Server(server) => server.uses(&resources.upstream_tls),
            Authenticator::Token(gate) => guard.has_keys_of(gate),
        }
    }
}
