//! Basic authentication (RFC 7617) and bearer tokens (`jwt`). Passwords are verified on their own
//! threads, at most two at once. A successful check is cached for a minute, under a keyed hash of
//! the header. The configuration decides whether passwords and tokens may be sent without TLS.

mod credentials;
mod jwt;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};

pub(crate) use self::jwt::TokenGate;

use self::credentials::Credentials;
use self::jwt::Issuers;
use crate::answer::Answer;
use crate::clock;
use crate::config::{Auth, Basic, Config, Jwt, User, read_users};
use crate::disk::{Disk, Failure, Lane};
use crate::limits::Limiters;

/// Number of threads that verify passwords.
const THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// Lifetime of a cached success, in milliseconds: long enough for a page and its resources.
const REMEMBERED_MS: u64 = 60_000;

/// Maximum number of cached successes of one gate in one worker. A full cache drops expired
/// entries, then all.
const REMEMBERED_MAX: usize = 1_024;

/// The state of all gates: the users of the configuration, the threads that verify passwords, the
/// keys that verify tokens, and the request limits. One per process.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    files: Arc<HashMap<PathBuf, Arc<Users>>>,
    /// `None` if no site or mount requires a password.
    checkers: Option<(Disk, Lane)>,
    issuers: Issuers,
    limiters: Limiters,
}

/// The users of one file.
#[derive(Debug, Default)]
struct Users {
    hashes: HashMap<String, String>,
    /// Hashes that are verified for unknown user names, so that they take the same time.
    decoys: Vec<String>,
    secret: RandomState,
}

/// The password requirement of a site or mount, for one worker.
#[derive(Debug)]
pub(crate) struct PasswordGate {
    users: Arc<Users>,
    /// The file of users. Equal names in two files are two users.
    file: PathBuf,
    realm: String,
    challenge: HeaderValue,
    checkers: Option<(Disk, Lane)>,
    remembered: RefCell<HashMap<(u64, u64), u64>>,
    /// Two hash keys: a 128-bit key makes collisions negligible.
    secrets: (RandomState, RandomState),
}

impl Guard {
    /// Reads every file of users and keys that the configuration names. What is equal in
    /// `previous`, the guard of the configuration before, is shared with it.
    ///
    /// # Errors
    /// A file is unreadable or malformed, or a thread cannot be started.
    pub(crate) fn read(config: &Config, previous: Option<&Guard>) -> io::Result<Guard> {
        let mut files = HashMap::new();
        for auth in config.auths() {
            let Auth::Basic(basic) = auth else { continue };
            let users = read_users(&basic.users).map_err(|problems| {
                io::Error::new(io::ErrorKind::InvalidData, problems.join("\n"))
            })?;
            let users = Users::new(users);
            let known = previous.and_then(|guard| guard.files.get(&basic.users));
            let known = known.filter(|known| known.hashes == users.hashes);
            files.insert(basic.users.clone(), known.map_or_else(|| Arc::new(users), Arc::clone));
        }
        let checkers = match previous.and_then(|guard| guard.checkers.clone()) {
            Some(checkers) => Some(checkers),
            None if files.is_empty() => None,
            None => {
                let disk = Disk::start_wholly_shared(THREADS, "password")?;
                let lane = disk.lane();
                Some((disk, lane))
            }
        };
        let issuers = Issuers::open(config, previous.map(|guard| &guard.issuers))?;
        let limiters = Limiters::new(config, previous.map(|guard| &guard.limiters));
        Ok(Guard { files: Arc::new(files), checkers, issuers, limiters })
    }

    /// A guard without users, for `hurtle explain`, which verifies no passwords.
    pub(crate) fn closed() -> Guard {
        Guard {
            files: Arc::default(),
            checkers: None,
            issuers: Issuers::default(),
            limiters: Limiters::default(),
        }
    }

    /// Returns the limits of requests, which gates share.
    pub(crate) fn limiters(&self) -> &Limiters {
        &self.limiters
    }

    /// Returns the token requirement of a site or mount.
    pub(crate) fn token_gate(&self, jwt: &Jwt) -> TokenGate {
        self.issuers.gate(jwt)
    }

    /// Returns whether a token requirement has its keys, unchanged, from this guard.
    pub(crate) fn has_keys_of(&self, gate: &TokenGate) -> bool {
        self.issuers.have_keys_of(gate)
    }

    /// Returns the gate of a site or mount.
    pub(crate) fn gate(&self, basic: &Basic) -> PasswordGate {
        // RFC 7617 section 2.1: names and passwords are UTF-8.
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", basic.space.realm);
        PasswordGate {
            users: self.files.get(&basic.users).cloned().unwrap_or_default(),
            file: basic.users.clone(),
            realm: basic.space.realm.clone(),
            challenge: HeaderValue::try_from(challenge)
                .unwrap_or(HeaderValue::from_static("Basic realm=\"hurtle\"")),
            checkers: self.checkers.clone(),
            remembered: RefCell::default(),
            secrets: (RandomState::new(), RandomState::new()),
        }
    }
}

impl PasswordGate {
    /// Returns whether the guard has the users of this gate, unchanged.
    pub(crate) fn is_of(&self, guard: &Guard) -> bool {
        let users = guard.files.get(&self.file);
        users.is_some_and(|users| Arc::ptr_eq(users, &self.users))
    }

    /// The realm of the challenge.
    pub(crate) fn realm(&self) -> &str {
        &self.realm
    }

    /// True if this Authorization value was verified recently.
    pub(crate) fn is_remembered(&self, authorization: Option<&[u8]>, now_ms: u64) -> bool {
        let Some(value) = authorization else { return false };
        self.remembered.borrow().get(&self.key(value)).is_some_and(|until_ms| now_ms < *until_ms)
    }

    /// Verifies an Authorization value.
    ///
    /// # Errors
    /// The response: 401 with the challenge, or 503 if too many checks are queued.
    pub(crate) async fn check(&self, authorization: Option<&[u8]>) -> Result<(), Answer> {
        if self.is_remembered(authorization, clock::now_ms()) {
            return Ok(());
        }
        let Some(value) = authorization else { return Err(self.refusal()) };
        let Some(credentials) = Credentials::parse(value) else { return Err(self.refusal()) };
        let Some((checkers, lane)) = &self.checkers else { return Err(self.refusal()) };
        let users = Arc::clone(&self.users);
        match checkers.run(*lane, move || users.verify(&credentials)).await {
            Ok(true) => {
                self.remember(value);
                Ok(())
            }
            Ok(false) => Err(self.refusal()),
            Err(Failure::Busy) => {
                tracing::warn!("the queue of password checks is full; answered 503");
                Err(Answer::error(StatusCode::SERVICE_UNAVAILABLE, None))
            }
            Err(Failure::Panicked) => Err(Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)),
        }
    }

    /// Returns a unique name for an authenticated client. It is stable as long as the configuration
    /// is.
    pub(crate) fn user(&self, authorization: Option<&[u8]>) -> Option<String> {
        // RFC 7617 section 2: a name holds no colon, so `name:file` is unambiguous.
        Some(format!("{}:{}", self.name(authorization)?, self.file.display()))
    }

    /// Returns the name of an authenticated client.
    pub(crate) fn name(&self, authorization: Option<&[u8]>) -> Option<String> {
        user_name(authorization?)
    }

    fn refusal(&self) -> Answer {
        Answer::error(StatusCode::UNAUTHORIZED, None)
            .with(header::WWW_AUTHENTICATE, self.challenge.clone())
    }

    fn remember(&self, value: &[u8]) {
        let now_ms = clock::now_ms();
        let mut remembered = self.remembered.borrow_mut();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, until_ms| now_ms < *until_ms);
        }
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(self.key(value), now_ms + REMEMBERED_MS);
    }

    fn key(&self, value: &[u8]) -> (u64, u64) {
        (self.secrets.0.hash_one(value), self.secrets.1.hash_one(value))
    }
}

impl Users {
    fn new(users: Vec<User>) -> Users {
        let decoys = users.iter().map(|user| user.hash.clone()).collect();
        let hashes = users.into_iter().map(|user| (user.name, user.hash)).collect();
        Users { hashes, decoys, secret: RandomState::new() }
    }

    /// Verifies a name and password. An unknown name takes as long as a known one: it is verified
    /// against the hash of one user, always the same one. So the duration does not reveal names.
    fn verify(&self, credentials: &Credentials) -> bool {
        let known = self.hashes.get(&credentials.name);
        let decoy = self.secret.hash_one(&credentials.name) % (self.decoys.len().max(1) as u64);
        let Some(hash) = known.or_else(|| self.decoys.get(decoy as usize)) else { return false };
        // bcrypt fails for passwords longer than 72 bytes, which are never correct.
        let right = bcrypt::non_truncating_verify(&credentials.password, hash).unwrap_or(false);
        right && known.is_some()
    }
}

/// Returns the name in the value of Authorization; `None`: its scheme is not Basic.
pub(crate) fn user_name(authorization: &[u8]) -> Option<String> {
    Some(Credentials::parse(authorization)?.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        let hash = |password| bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap().to_string();
        let user = |name: &str, password| User { name: name.into(), hash: hash(password) };
        Users::new(vec![user("anna", "secret"), user("björn", "påss:word")])
    }

    #[test]
    fn name_and_password_must_match() {
        let users = users();
        let long = "x".repeat(80);
        let rows = [
            ("right", "anna", "secret", true),
            ("in UTF-8, with a colon", "björn", "påss:word", true),
            ("another's password", "anna", "påss:word", false),
            ("no password", "anna", "", false),
            ("a known password, an unknown name", "bo", "secret", false),
            ("names have a case", "Anna", "secret", false),
            ("longer than is looked at", "anna", &long, false),
        ];
        for (sentence, name, password, want) in rows {
            let credentials = Credentials { name: name.into(), password: password.into() };
            assert_eq!(users.verify(&credentials), want, "{sentence}");
        }
        assert!(!Users::default().verify(&Credentials { name: "a".into(), password: "b".into() }));
    }

    #[test]
    fn every_variant_of_a_hash_is_accepted() {
        // Output of `htpasswd -nbB -C 4 anna secret` and others: variants a, b and y are
        // equivalent.
        let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap().to_string();
        for variant in ["$2a$", "$2b$", "$2y$"] {
            let hash = format!("{variant}{}", &hash[4..]);
            assert!(bcrypt::non_truncating_verify("secret", &hash).unwrap(), "{variant}");
        }
    }

    #[test]
    fn the_cache_is_bounded_and_expires() {
        let gate = Guard::closed().gate(&Basic::new("users".into()));
        let now_ms = clock::now_ms();
        gate.remember(b"Basic one");
        assert!(gate.is_remembered(Some(b"Basic one"), now_ms));
        assert!(
            !gate.is_remembered(Some(b"Basic two"), now_ms) && !gate.is_remembered(None, now_ms)
        );
        assert!(!gate.is_remembered(Some(b"Basic one"), now_ms + 2 * REMEMBERED_MS), "it expires");
        for n in 0..3 * REMEMBERED_MAX {
            gate.remember(format!("Basic {n}").as_bytes());
        }
        assert!(gate.remembered.borrow().len() <= REMEMBERED_MAX);
    }
}
