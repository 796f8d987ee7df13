//! Dictionaries of `dcz` (RFC 9842 section 5): former versions of files, known by the hashes that
//! clients name.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest;

use crate::body::Stamp;

/// SHA-256 of a dictionary.
pub(crate) type DictionaryHash = [u8; 32];

/// Begins every `dcz` body: a skippable frame of zstd, which holds the dictionary's hash.
const MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

/// Hashes that are remembered: 80 bytes each.
const HASHES_MAX: usize = 4_096;

/// A file that clients have.
pub(crate) struct Dictionary {
    /// Stamp of the file, which changes with its contents.
    pub stamp: Stamp,
    /// The hash of its bytes in that state.
    pub hash: DictionaryHash,
    /// Reads its bytes; blocks on the disk.
    pub load: Box<dyn FnOnce() -> io::Result<Vec<u8>> + Send>,
}

impl Dictionary {
    /// Reads the bytes.
    ///
    /// # Errors
    /// The file cannot be read, or has other bytes by now.
    pub(super) fn content(self) -> io::Result<Vec<u8>> {
        let content = (self.load)()?;
        if hash(&content) != self.hash {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the dictionary has changed"));
        }
        Ok(content)
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dictionary")
    }
}

/// The first bytes of a body that was encoded with the dictionary of this hash.
pub(super) fn head(hash: &DictionaryHash) -> Vec<u8> {
    [&MAGIC[..], hash].concat()
}

/// Hashes of files, by their states.
#[derive(Debug, Default)]
pub(super) struct Hashes(Mutex<HashMap<Stamp, DictionaryHash>>);

impl Hashes {
    /// Returns the hash of a file in a state; `load` reads it.
    pub(super) fn of(
        &self,
        stamp: Stamp,
        load: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<DictionaryHash> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&stamp) {
            return Ok(*known);
        }
        let hash = hash(&load()?);
        let mut known = lock();
        if known.len() >= HASHES_MAX {
            known.clear();
        }
        known.insert(stamp, hash);
        Ok(hash)
    }
}

fn hash(content: &[u8]) -> DictionaryHash {
    let mut hash = [0; 32];
    // SHA-256 has 32 bytes.
    hash.copy_from_slice(digest::digest(&digest::SHA256, content).as_ref());
    hash
}
