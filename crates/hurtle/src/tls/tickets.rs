//! Keys of session tickets (RFC 8446 section 4.6.1, RFC 5077). rustls has the same, but its keys
//! cannot be handed to the process that replaces this one.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;
use serde::{Deserialize, Serialize};

/// Time for which a key encrypts tickets, in seconds. It decrypts them for as long again.
const PERIOD_SECS: u64 = 6 * 60 * 60;

/// Lifetime of a ticket, in seconds.
const LIFETIME_SECS: u32 = 2 * PERIOD_SECS as u32;

const NAME_BYTES: usize = 16;

/// Encrypts sessions into tickets. Its copies in other threads and processes read them too.
pub(super) struct Ticketer(RwLock<KeyRing>);

/// The keys of one site's tickets.
#[derive(Clone, Serialize, Deserialize)]
pub struct TicketKeys {
    /// The name of the site.
    pub(super) site: String,
    /// Digest of the authorities for client certificates: a session holds for these only.
    pub(super) authorities: [u8; 32],
    keys: KeyRing,
}

#[derive(Clone, Serialize, Deserialize)]
struct KeyRing {
    current: Key,
    previous: Option<Key>,
    /// Time at which another key becomes the current one, in seconds since 1970.
    until_secs: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Key {
    /// The first bytes of each ticket.
    name: [u8; NAME_BYTES],
    secret: [u8; 32],
}

impl Ticketer {
    /// Makes a ticketer with a random key.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(super) fn new() -> Result<Ticketer, String> {
        let failed = |e| format!("no random key for session tickets: {e}");
        let (current, until_secs) = (Key::random().map_err(failed)?, now_secs() + PERIOD_SECS);
        Ok(Ticketer(RwLock::new(KeyRing { current, previous: None, until_secs })))
    }

    /// The keys, for another process.
    pub(super) fn export(&self, site: String, authorities: [u8; 32]) -> TicketKeys {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        TicketKeys { site, authorities, keys }
    }

    /// Uses the keys of another process.
    pub(super) fn adopt(&self, keys: &TicketKeys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys.keys.clone();
    }

    /// Replaces the current key if its time is over.
    fn rotate(&self, now_secs: u64) -> Option<()> {
        if now_secs < self.0.read().ok()?.until_secs {
            return Some(());
        }
        let mut keys = self.0.write().ok()?;
        if now_secs < keys.until_secs {
            return Some(());
        }
        let before = std::mem::replace(&mut keys.current, Key::random().ok()?);
        let is_recent = now_secs < keys.until_secs + PERIOD_SECS;
        keys.previous = is_recent.then_some(before);
        keys.until_secs = now_secs + PERIOD_SECS;
        Some(())
    }
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
        self.rotate(now_secs())?;
        let Key { name, secret } = self.0.read().ok()?.current.clone();
        let mut sealed = plain.to_vec();
        let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret).ok()?;
        let nonce = key.seal_in_place_append_tag(Aad::from(name), &mut sealed).ok()?;
        Some([&name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.rotate(now_secs())?;
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.0.read().ok()?;
        let mut known = std::iter::once(&keys.current).chain(&keys.previous);
        let secret = known.find(|key| key.name == *name)?.secret;
        drop(keys);
        let key = RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret).ok()?;
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = key.open_in_place(nonce, Aad::from(*name), &mut plain).ok()?.len();
        plain.truncate(len);
        Some(plain)
    }
}

impl Key {
    fn random() -> Result<Key, getrandom::Error> {
        let mut key = Key { name: [0; NAME_BYTES], secret: [0; 32] };
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
        second.adopt(&first.export("site".to_owned(), [0; 32]));
        assert_eq!(second.decrypt(&ticket).as_deref(), Some(&b"session"[..]), "of adopted keys");

        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(first.decrypt(&changed), None, "byte {at} changed");
            assert_eq!(first.decrypt(&ticket[..at]), None, "{at} bytes");
        }

        let later = now_secs() + PERIOD_SECS;
        first.rotate(later).unwrap();
        assert_eq!(first.decrypt(&ticket).as_deref(), Some(&b"session"[..]), "the previous key");
        assert_ne!(first.encrypt(b"session").unwrap()[..NAME_BYTES], ticket[..NAME_BYTES]);
        first.rotate(later + PERIOD_SECS).unwrap();
        assert_eq!(first.decrypt(&ticket), None, "the key before that");
        second.rotate(later + PERIOD_SECS).unwrap();
        assert_eq!(second.decrypt(&ticket), None, "nothing happened for two periods");
    }
}
