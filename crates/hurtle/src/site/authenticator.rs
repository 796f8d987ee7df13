//! Authentication that decides about each request, and may replace its fields.

use std::rc::Rc;

use crate::auth::{Guard, TokenGate};
use crate::config::Auth;
use crate::disk::{Disk, Lane};
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
    /// Creates it for a setting of `auth`; names of servers are resolved on these disk threads.
    pub(super) fn of(auth: &Auth, guard: &Guard, names: (&Disk, Lane)) -> Option<Authenticator> {
        match auth {
            Auth::None | Auth::Basic(_) => None,
            Auth::Forward(config) => {
                Some(Authenticator::Server(Rc::new(ForwardAuth::new(config, names))))
            }
            Auth::Jwt(config) => Some(Authenticator::Token(Rc::new(guard.token_gate(config)))),
        }
    }

    /// Returns whether the guard has the keys of tokens, unchanged.
    pub(super) fn is_of(&self, guard: &Guard) -> bool {
        match self {
            Authenticator::Server(_) => true,
            Authenticator::Token(gate) => guard.has_keys_of(gate),
        }
    }
}
