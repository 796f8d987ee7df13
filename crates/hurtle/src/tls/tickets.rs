//! Keys of session tickets (RFC 8446 section 4.6.1, RFC 5077). rustls has the same, but its keys
//! cannot be handed to the process that replaces this one.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;
use serde::{Deserialize, Serialize};

use super::derived_keys::DerivedKeys;

/// Time for which a key encrypts tickets, in seconds. It decrypts them for as long again.
const PERIOD_SECS: u64 = 6 * 60 * 60;

/// Lifetime of a ticket, in seconds.
const LIFETIME_SECS: u32 = 2 * PERIOD_SECS as u32;

pub(super) const NAME_BYTES: usize = 16;
pub(super) const SECRET_BYTES: usize = 32;

/// Digest (SHA-256) of a site's client policy.
pub(super) type PolicyDigest = [u8; 32];

/// Encrypts sessions into tickets. Its copies in other threads and processes read them too.
pub(super) struct Ticketer(Keys);

enum Keys {
    /// Random keys of this server.
    Random(RwLock<KeyRing>),
    /// Keys that other servers derive too.
    Derived(DerivedKeys),
}

/// The keys of one site's tickets.
#[derive(Clone, Serialize, Deserialize)]
pub struct TicketKeys {
    /// The name of the site.
    pub(super) site: String,
    /// Digest of the client policy: a session holds for this one only.
    pub(super) policy: PolicyDigest,
    keys: KeyRing,
}

#[derive(Clone, Serialize, Deserialize)]
struct KeyRing {
    current: Key,
    previous: Option<Key>,
    /// Time at which another key becomes the current one, in seconds since 1970.
    until_secs: u64,
}

/// A key of tickets.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Key {
    /// The first bytes of each ticket.
    pub(super) name: [u8; NAME_BYTES],
    pub(super) secret: [u8; SECRET_BYTES],
}

impl Ticketer {
    /// Makes a ticketer with a random key.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(super) fn new() -> Result<Ticketer, String> {
        let failed = |e| format!("no random key for session tickets: {e}");
        let (current, until_secs) = (Key::random().map_err(failed)?, now_secs() + PERIOD_SECS);
        Ok(Ticketer(Keys::Random(RwLock::new(KeyRing { current, previous: None, until_secs }))))
    }

    /// Makes a ticketer with derived keys.
    pub(super) fn derived(keys: DerivedKeys) -> Ticketer {
        Ticketer(Keys::Derived(keys))
    }

    /// Returns whether the keys are derived.
    pub(super) fn is_derived(&self) -> bool {
        matches!(self.0, Keys::Derived(_))
    }

    /// The random keys, for another process; `None`: it derives them itself.
    pub(super) fn export(&self, site: String, policy: PolicyDigest) -> Option<TicketKeys> {
        let Keys::Random(keys) = &self.0 else { return None };
        let keys = keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        Some(TicketKeys { site, policy, keys })
    }

    /// Uses the keys of another process in place of random ones.
    pub(super) fn adopt(&self, adopted: &TicketKeys) {
        if let Keys::Random(keys) = &self.0 {
            *keys.write().unwrap_or_else(PoisonError::into_inner) = adopted.keys.clone();
        }
    }

    /// The key that encrypts tickets at this time.
    fn current(&self, now_secs: u64) -> Option<Key> {
        match &self.0 {
            Keys::Random(keys) => {
                rotate(keys, now_secs)?;
                Some(keys.read().ok()?.current.clone())
            }
            Keys::Derived(keys) => keys.of_period(now_secs / PERIOD_SECS),
        }
    }

    /// The key of this name, if it decrypts tickets at this time.
    fn named(&self, name: &[u8; NAME_BYTES], now_secs: u64) -> Option<Key> {
        match &self.0 {
            Keys::Random(keys) => {
                rotate(keys, now_secs)?;
                let keys = keys.read().ok()?;
                let mut known = std::iter::once(&keys.current).chain(&keys.previous);
                known.find(|key| key.name == *name).cloned()
            }
            Keys::Derived(keys) => {
                let period = now_secs / PERIOD_SECS;
                // The next one for servers whose clocks are ahead.
                let accepted = [period, period.saturating_sub(1), period + 1];
                let mut known = accepted.into_iter().filter_map(|period| keys.of_period(period));
                known.find(|key| key.name == *name)
            }
        }
    }

    fn seal(&self, plain: &[u8], now_secs: u64) -> Option<Vec<u8>> {
        let Key { name, secret } = self.current(now_secs)?;
        let mut sealed = plain.to_vec();
        let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret).ok()?;
        let nonce = key.seal_in_place_append_tag(Aad::from(name), &mut sealed).ok()?;
        Some([&name[..], nonce.as_ref(), &sealed].concat())
    }

    fn open(&self, ticket: &[u8], now_secs: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let secret = self.named(name, now_secs)?.secret;
        let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret).ok()?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = key.open_in_place(nonce, Aad::from(*name), &mut plain).ok()?.len();
        plain.truncate(len);
        Some(plain)
    }
}

/// Replaces the current key if its time is over, or if the clock was set back by more than that.
fn rotate(keys: &RwLock<KeyRing>, now_secs: u64) -> Option<()> {
    let is_current = |until_secs| now_secs < until_secs && until_secs <= now_secs + PERIOD_SECS;
    if is_current(keys.read().ok()?.until_secs) {
        return Some(());
    }
    let mut keys = keys.write().ok()?;
    if is_current(keys.until_secs) {
        return Some(());
    }
    let before = std::mem::replace(&mut keys.current, Key::random().ok()?);
    let is_recent = now_secs < keys.until_secs + PERIOD_SECS;
    keys.previous = is_recent.then_some(before);
    keys.until_secs = now_secs + PERIOD_SECS;
    Some(())
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_SECS
    }

    /// A ticket is the key's name, a nonce, and the session as AES-256-GCM-SIV (RFC 8452) has it.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, now_secs())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, now_secs())
    }
}

impl Key {
    fn random() -> Result<Key, getrandom::Error> {
        let mut key = Key { name: [0; NAME_BYTES], secret: [0; SECRET_BYTES] };
        getrandom::fill(&mut key.name)?;
        getrandom::fill(&mut key.secret)?;
        Ok(key)
    }
}

/// Keeps the keys out of logs.
impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticketer")
    }
}

/// Keeps the keys out of logs.
impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKeys of {}", self.site)
    }
}

fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_by_its_keys_only_and_for_two_periods() {
        let first = Ticketer::new().unwrap();
        let ticket = first.encrypt(b"session").unwrap();
        assert_eq!(first.decrypt(&ticket).as_deref(), Some(&b"session"[..]));

        let second = Ticketer::new().unwrap();
        assert_eq!(second.decrypt(&ticket), None, "of another key");
        second.adopt(&first.export("site".to_owned(), [0; 32]).unwrap());
        assert_eq!(second.decrypt(&ticket).as_deref(), Some(&b"session"[..]), "of adopted keys");

        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(first.decrypt(&changed), None, "byte {at} changed");
            assert_eq!(first.decrypt(&ticket[..at]), None, "{at} bytes");
        }

        let open = |ticketer: &Ticketer, at| ticketer.open(&ticket, at);
        let later = now_secs() + PERIOD_SECS;
        assert_eq!(open(&first, later).as_deref(), Some(&b"session"[..]), "the previous key");
        assert_ne!(first.seal(b"session", later).unwrap()[..NAME_BYTES], ticket[..NAME_BYTES]);
        assert_eq!(open(&first, later + PERIOD_SECS), None, "the key before that");
        assert_eq!(open(&second, later + PERIOD_SECS), None, "nothing happened for two periods");
    }

    #[test]
    fn servers_with_one_secret_read_each_others_tickets_of_three_periods() {
        let ticketer = |secret: &[u8], site: &str, policy| {
            Ticketer::derived(DerivedKeys::new(secret, site, policy))
        };
        let secret = [7; 32];
        let first = ticketer(&secret, "a", [0; 32]);
        let now = 1_000 * PERIOD_SECS + 1;
        let ticket = first.seal(b"session", now).unwrap();
        let rows = [
            ("another server", ticketer(&secret, "a", [0; 32]), true),
            ("another secret", ticketer(&[8; 32], "a", [0; 32]), false),
            ("another site", ticketer(&secret, "b", [0; 32]), false),
            ("another client policy", ticketer(&secret, "a", [1; 32]), false),
            ("random keys", Ticketer::new().unwrap(), false),
        ];
        for (sentence, other, opens) in rows {
            assert_eq!(other.open(&ticket, now).is_some(), opens, "{sentence}");
        }
        let rows = [
            ("a clock one period behind", now - PERIOD_SECS, true),
            ("a clock two periods behind", now - 2 * PERIOD_SECS, false),
            ("the next period", now + PERIOD_SECS, true),
            ("the period after that", now + 2 * PERIOD_SECS, false),
        ];
        for (sentence, at, opens) in rows {
            assert_eq!(first.open(&ticket, at).is_some(), opens, "{sentence}");
        }
        assert!(
            first.export("a".to_owned(), [0; 32]).is_none(),
            "derived keys are not handed over"
        );
    }
}
