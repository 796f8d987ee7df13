//! Basic authentication (RFC 7617): whether a client has shown the name and the password of a user.
//! Passwords are checked off the event loops, two at once at most, however many are asked for; a
//! success is remembered for a while, under a hash whose key nobody knows. `credentials` reads the
//! field; whether passwords may come in clear is the configuration's and the server's to say.

mod credentials;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};

use self::credentials::Credentials;
use crate::answer::Answer;
use crate::clock;
use crate::config::{Basic, Config, User, read_users};
use crate::disk::{Disk, Failure, Lane};

/// Threads that check passwords.
const THREADS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// How long a success is remembered: a page and what it is made of, not a working day.
const REMEMBERED_MS: u64 = 60_000;

/// Successes a worker remembers for one gate; more are forgotten all at once.
const REMEMBERED_MAX: usize = 1_024;

/// Everybody who may be let in anywhere, and who checks it: one for the process.
#[derive(Clone, Debug)]
pub struct Guard {
    files: Arc<HashMap<PathBuf, Arc<Users>>>,
    /// `None`: nothing is asked anywhere.
    checkers: Option<(Disk, Lane)>,
}

/// The users of a file.
#[derive(Debug, Default)]
struct Users {
    hashes: HashMap<String, String>,
    /// For names that nobody has: one of these is checked in vain.
    any: Vec<String>,
    secret: RandomState,
}

/// What a site or mount asks, as one worker knows it.
#[derive(Debug)]
pub struct Gate {
    users: Arc<Users>,
    /// Where they are written down: one name in two files is two users.
    file: PathBuf,
    realm: String,
    challenge: HeaderValue,
    checkers: Option<(Disk, Lane)>,
    remembered: RefCell<HashMap<(u64, u64), u64>>,
    /// Two keys, for a hash too long to be met by chance.
    secrets: (RandomState, RandomState),
}

impl Guard {
    /// Reads every file of users that a configuration names.
    ///
    /// # Errors
    /// What is wrong in them; a thread refused by the system.
    pub fn read(config: &Config) -> io::Result<Guard> {
        let mut files = HashMap::new();
        for basic in config.gates() {
            let users = read_users(&basic.users).map_err(|problems| {
                io::Error::new(io::ErrorKind::InvalidData, problems.join("\n"))
            })?;
            files.insert(basic.users.clone(), Arc::new(Users::new(users)));
        }
        let checkers = match files.is_empty() {
            true => None,
            false => {
                let disk = Disk::start_wholly_shared(THREADS, "password")?;
                let lane = disk.lane();
                Some((disk, lane))
            }
        };
        Ok(Guard { files: Arc::new(files), checkers })
    }

    /// One that lets nobody in, for those who only ask what is asked.
    pub fn closed() -> Guard {
        Guard { files: Arc::default(), checkers: None }
    }

    /// What a site or mount asks.
    pub fn gate(&self, basic: &Basic) -> Gate {
        // RFC 7617 2.1: names and passwords are UTF-8.
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", basic.realm);
        Gate {
            users: self.files.get(&basic.users).cloned().unwrap_or_default(),
            file: basic.users.clone(),
            realm: basic.realm.clone(),
            challenge: HeaderValue::try_from(challenge)
                .unwrap_or(HeaderValue::from_static("Basic realm=\"hurtle\"")),
            checkers: self.checkers.clone(),
            remembered: RefCell::default(),
            secrets: (RandomState::new(), RandomState::new()),
        }
    }
}

impl Gate {
    /// What the client is told the password is for.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// Whether this value of Authorization was right a while ago.
    pub fn knows(&self, authorization: Option<&[u8]>, now_ms: u64) -> bool {
        let Some(value) = authorization else { return false };
        self.remembered.borrow().get(&self.key(value)).is_some_and(|until_ms| now_ms < *until_ms)
    }

    /// Lets the client in, or says what it is answered.
    ///
    /// # Errors
    /// 401 with the challenge; 503 where too many ask at once.
    pub async fn check(&self, authorization: Option<&[u8]>) -> Result<(), Answer> {
        if self.knows(authorization, clock::now_ms()) {
            return Ok(());
        }
        let Some(value) = authorization else { return Err(self.refusal()) };
        let Some(shown) = Credentials::parse(value) else { return Err(self.refusal()) };
        let Some((checkers, lane)) = &self.checkers else { return Err(self.refusal()) };
        let users = Arc::clone(&self.users);
        match checkers.run(*lane, move || users.admit(&shown)).await {
            Ok(true) => {
                self.remember(value);
                Ok(())
            }
            Ok(false) => Err(self.refusal()),
            Err(Failure::Busy) => {
                tracing::warn!("too many passwords to check; answered 503");
                Err(Answer::error(StatusCode::SERVICE_UNAVAILABLE, None))
            }
            Err(Failure::Panicked) => Err(Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)),
        }
    }

    /// Who a client is that was let in: the same for as long as the server's configuration is.
    pub fn user(&self, authorization: Option<&[u8]>) -> Option<String> {
        // RFC 7617 2: a name holds no colon.
        let name = Credentials::parse(authorization?)?.name;
        Some(format!("{name}:{}", self.file.display()))
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
        let any = users.iter().map(|user| user.hash.clone()).collect();
        let hashes = users.into_iter().map(|user| (user.name, user.hash)).collect();
        Users { hashes, any, secret: RandomState::new() }
    }

    /// Whether somebody has that name and that password. A name that nobody has costs as much as
    /// one of these, always the same one: that tells nobody which names there are.
    fn admit(&self, shown: &Credentials) -> bool {
        let known = self.hashes.get(&shown.name);
        let stand_in = self.secret.hash_one(&shown.name) % (self.any.len().max(1) as u64);
        let Some(hash) = known.or_else(|| self.any.get(stand_in as usize)) else { return false };
        // An error is a password longer than bcrypt looks at, which is never right.
        let right = bcrypt::non_truncating_verify(&shown.password, hash).unwrap_or(false);
        right && known.is_some()
    }
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
    fn a_user_is_his_name_and_his_password() {
        let users = users();
        let long = "x".repeat(80);
        let rows = [
            ("right", "anna", "secret", true),
            ("in UTF-8, with a colon", "björn", "påss:word", true),
            ("another's password", "anna", "påss:word", false),
            ("no password", "anna", "", false),
            ("a known password, a name nobody has", "bo", "secret", false),
            ("names have a case", "Anna", "secret", false),
            ("longer than is looked at", "anna", &long, false),
        ];
        for (sentence, name, password, want) in rows {
            let shown = Credentials { name: name.into(), password: password.into() };
            assert_eq!(users.admit(&shown), want, "{sentence}");
        }
        assert!(!Users::default().admit(&Credentials { name: "a".into(), password: "b".into() }));
    }

    #[test]
    fn every_spelling_of_a_hash_is_one() {
        // As `htpasswd -nbB -C 4 anna secret` and others write it: a, b and y are the same.
        let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap().to_string();
        for variant in ["$2a$", "$2b$", "$2y$"] {
            let hash = format!("{variant}{}", &hash[4..]);
            assert!(bcrypt::non_truncating_verify("secret", &hash).unwrap(), "{variant}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_ends() {
        let gate = Guard::closed().gate(&Basic::new("users".into()));
        let now_ms = clock::now_ms();
        gate.remember(b"Basic one");
        assert!(gate.knows(Some(b"Basic one"), now_ms));
        assert!(!gate.knows(Some(b"Basic two"), now_ms) && !gate.knows(None, now_ms));
        assert!(!gate.knows(Some(b"Basic one"), now_ms + 2 * REMEMBERED_MS), "not for ever");
        for n in 0..3 * REMEMBERED_MAX {
            gate.remember(format!("Basic {n}").as_bytes());
        }
        assert!(gate.remembered.borrow().len() <= REMEMBERED_MAX);
    }
}
