//! Bearer tokens (RFC 6750) that are JSON Web Tokens. A worker verifies a signature itself: that
//! takes tens of microseconds. `token` decides about a token, `keys` has the keys.

mod fetch;
mod keys;
mod token;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::request::RequestHead;
use hurtle_http::request::fields::is_same;

use self::keys::KeySource;
use self::token::{Claims, TokenError};
use crate::answer::Answer;
use crate::clock;
use crate::config::{Auth, Config, JwksSource, Jwt, KeySet};
use crate::rt::Threads;

/// Seconds after which a client may try again while there are no keys.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// The keys of all issuers.
#[derive(Clone, Debug, Default)]
pub(super) struct Issuers {
    sources: Arc<HashMap<JwksSource, Arc<KeySource>>>,
    /// The thread that fetches; `None` without tokens.
    threads: Option<Arc<Threads>>,
}

/// The token requirement of a site or mount, for one worker.
#[derive(Debug)]
pub(crate) struct TokenGate {
    config: Jwt,
    /// `None`: `hurtle explain` verifies no tokens.
    source: Option<Arc<KeySource>>,
    /// This worker's copy of the keys, with its number.
    generation: Cell<u64>,
    keys: RefCell<Option<Arc<KeySet>>>,
}

impl Issuers {
    /// Reads the files of keys, and starts to fetch URLs. What `previous` has is shared with it.
    ///
    /// # Errors
    /// A file is unusable, or the system refuses a thread.
    pub(super) fn open(config: &Config, previous: Option<&Issuers>) -> io::Result<Issuers> {
        let mut issuers = Issuers::default();
        let mut sources = HashMap::new();
        for auth in config.auths() {
            let Auth::Jwt(jwt) = auth else { continue };
            if sources.contains_key(&jwt.jwks) {
                continue;
            }
            let known = previous.and_then(|issuers| issuers.threads.clone());
            let threads = match issuers.threads.take().or(known) {
                Some(threads) => threads,
                None => Arc::new(Threads::start_one("jwks")?),
            };
            let known = previous.and_then(|issuers| issuers.sources.get(&jwt.jwks));
            sources.insert(jwt.jwks.clone(), keys::open(&jwt.jwks, known, &threads)?);
            issuers.threads = Some(threads);
        }
        issuers.sources = Arc::new(sources);
        Ok(issuers)
    }

    pub(super) fn gate(&self, config: &Jwt) -> TokenGate {
        TokenGate {
            source: self.sources.get(&config.jwks).cloned(),
            config: config.clone(),
            generation: Cell::new(0),
            keys: RefCell::default(),
        }
    }

    /// Returns whether a gate has its keys from here.
    pub(super) fn have_keys_of(&self, gate: &TokenGate) -> bool {
        match (self.sources.get(&gate.config.jwks), &gate.source) {
            (Some(source), Some(own)) => Arc::ptr_eq(source, own),
            _ => false,
        }
    }
}

impl TokenGate {
    pub(crate) fn config(&self) -> &Jwt {
        &self.config
    }

    /// Verifies the tokens of a request. Returns the request's field lines with those of the
    /// claims; `None`: the fields stay as they are.
    ///
    /// # Errors
    /// The response: 401 with the challenge, or 503 while there are no keys.
    pub(crate) fn check(&self, request: &RequestHead<'_>) -> Result<Option<Vec<u8>>, Box<Answer>> {
        let mut tokens = self.tokens(request).peekable();
        if tokens.peek().is_none() {
            return Err(Box::new(self.refusal(None)));
        }
        let Some(keys) = self.keys() else {
            let why = "the keys that verify tokens could not be fetched yet";
            let answer = Answer::error(StatusCode::SERVICE_UNAVAILABLE, Some(why));
            return Err(Box::new(answer.with(header::RETRY_AFTER, RETRY_AFTER)));
        };
        match self.verify(tokens, &keys) {
            Ok(Some(claims)) if !self.config.rules.claims.is_empty() => {
                Ok(Some(self.edited_lines(request, &claims)))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                if let (TokenError::UnknownKey, Some(source)) = (error, &self.source) {
                    source.want_others();
                }
                Err(Box::new(self.refusal(Some(error))))
            }
        }
    }

    /// Returns the request fields that claims set.
    pub(crate) fn own_fields(&self) -> impl Iterator<Item = &HeaderName> {
        self.config.rules.claims.iter().map(|(_, name)| name)
    }

    /// Verifies all tokens, up to the first that is wrong: an upstream may read another one than
    /// the first. Returns the claims of the first.
    fn verify<'a>(
        &self,
        tokens: impl Iterator<Item = &'a [u8]>,
        keys: &KeySet,
    ) -> Result<Option<Claims>, TokenError> {
        let (mut verified, mut first) = (Vec::new(), None);
        for token in tokens {
            // One that is sent again costs nothing.
            if !verified.contains(&token) {
                let claims = token::verify(token, keys, &self.config.rules, clock::unix_secs())?;
                first.get_or_insert(claims);
                verified.push(token);
            }
        }
        Ok(first)
    }

    /// Returns the tokens, those of Authorization before those of the cookie.
    fn tokens<'a>(&self, request: &RequestHead<'a>) -> impl Iterator<Item = &'a [u8]> {
        let fields = request.fields;
        let of = move |wanted: &'static [u8]| {
            let lines = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            lines.map(|(_, value)| value)
        };
        let cookie = self.config.rules.token_cookie.as_deref().map(str::as_bytes);
        let pairs = of(b"cookie").flat_map(|value| value.split(|byte| *byte == b';'));
        let of_cookie = pairs.filter_map(move |pair| {
            let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
            (Some(name.trim_ascii()) == cookie).then(|| value[1..].trim_ascii())
        });
        of(b"authorization").filter_map(bearer).chain(of_cookie)
    }

    fn keys(&self) -> Option<Arc<KeySet>> {
        let source = self.source.as_ref()?;
        // Read first: a set that comes meanwhile is copied once more.
        let generation = source.generation();
        if self.generation.replace(generation) != generation {
            self.keys.replace(source.current());
        }
        self.keys.borrow().clone()
    }

    /// Returns the request's field lines with those of the claims. A client's own fields of these
    /// names are removed in any case.
    fn edited_lines(&self, request: &RequestHead<'_>, claims: &Claims) -> Vec<u8> {
        let is_own = |name: &[u8]| {
            self.config.rules.claims.iter().any(|(_, own)| is_same(name, own.as_str().as_bytes()))
        };
        let mut lines = Vec::new();
        let mut line = |name: &[u8], value: &[u8]| {
            for part in [name, b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        };
        for (name, value) in request.fields.iter().filter(|(name, _)| !is_own(name)) {
            line(name, value);
        }
        for (claim, name) in &self.config.rules.claims {
            if let Some(value) = claims.get(claim).and_then(token::field_value) {
                line(name.as_str().as_bytes(), value.as_bytes());
            }
        }
        lines
    }

    /// Returns the response to a request without a token, or with this problem (RFC 6750 section
    /// 3).
    fn refusal(&self, error: Option<TokenError>) -> Answer {
        let mut challenge = format!("Bearer realm=\"{}\"", self.config.space.realm);
        if let Some(error) = error {
            challenge += &format!(", error=\"invalid_token\", error_description=\"{error}\"");
        }
        let challenge =
            HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Bearer"));
        Answer::error(StatusCode::UNAUTHORIZED, None).with(header::WWW_AUTHENTICATE, challenge)
    }
}

/// Returns the token of an Authorization value (RFC 6750 section 2.1).
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked("Bearer".len())?;
    let is_separated = token.first().is_some_and(u8::is_ascii_whitespace);
    (scheme.eq_ignore_ascii_case(b"Bearer") && is_separated).then(|| token.trim_ascii())
}
