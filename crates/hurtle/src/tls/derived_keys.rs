//! Keys of session tickets that are derived from a secret (HKDF, RFC 5869), so that all servers
//! with the secret have the same keys at the same time. Time is divided into periods, each with its
//! key.

use std::path::Path;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use super::tickets::{Key, NAME_BYTES, PolicyDigest, SECRET_BYTES};
use crate::config::read_secret;

/// Minimum length of the secret, in bytes.
const MIN_BYTES: usize = 32;

/// Separates these keys from others that a program may derive from the same secret.
const SALT: &[u8] = b"hurtle session tickets 1";

/// The keys of one site.
pub(super) struct DerivedKeys {
    prk: Prk,
    /// Separates the site's keys from those of other sites and of other client policies.
    scope: Vec<u8>,
}

impl DerivedKeys {
    /// Reads the secret and derives the keys of a site with this name and client policy.
    ///
    /// # Errors
    /// The file and the reason: it is unusable or too short, or others may read it.
    pub(super) fn read(
        path: &Path,
        site: &str,
        policy: PolicyDigest,
    ) -> Result<DerivedKeys, String> {
        let secret = read_secret(path)?;
        if secret.len() < MIN_BYTES {
            let (path, len) = (path.display(), secret.len());
            let hint = format!("openssl rand -base64 48 > {path}");
            return Err(format!("{path}: {len} bytes, fewer than {MIN_BYTES}; write {hint}"));
        }
        Ok(DerivedKeys::new(&secret, site, policy))
    }

    pub(super) fn new(secret: &[u8], site: &str, policy: PolicyDigest) -> DerivedKeys {
        let scope = [&policy[..], site.as_bytes()].concat();
        DerivedKeys { prk: Salt::new(HKDF_SHA256, SALT).extract(secret), scope }
    }

    /// The key of a period; `None` never happens, since the length is fixed.
    pub(super) fn of_period(&self, period: u64) -> Option<Key> {
        let mut bytes = [0; NAME_BYTES + SECRET_BYTES];
        let number = period.to_be_bytes();
        let info = [&number[..], &self.scope];
        self.prk.expand(&info, KeyBytes).ok()?.fill(&mut bytes).ok()?;
        let (name, secret) = bytes.split_first_chunk()?;
        Some(Key { name: *name, secret: *secret.first_chunk()? })
    }
}

/// The length of a key with its name.
struct KeyBytes;

impl KeyType for KeyBytes {
    fn len(&self) -> usize {
        NAME_BYTES + SECRET_BYTES
    }
}
