//! Authentication that decides about each request, and may replace its fields.

use std::rc::Rc;

use crate::auth::{Guard, TokenGate};
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
    /// Returns whether the guard has the keys of tokens, unchanged.
    pub(super) fn is_of(&self, guard: &Guard) -> bool {
        match self {
            Authenticator::Server(_) => true,
            Authenticator::Token(gate) => guard.has_keys_of(gate),
        }
    }
}
