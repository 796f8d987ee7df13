//! State that the thread of ACME certificates shares with handshakes and snapshots. It outlives reloads.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

/// ACME certificates of a process.
#[derive(Debug, Default)]
pub struct Automatic {
    /// Time of the next attempt by the certificate's file, in seconds since 1970.
    renewals: Mutex<HashMap<PathBuf, u64>>,
}

impl Automatic {
    /// Notes when the certificate in this file is ordered next, in seconds since 1970.
    pub fn set_renewal(&self, file: &Path, time: u64) {
        let mut renewals = self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
        renewals.insert(file.to_owned(), time);
    }

    /// Forgets the times of another configuration.
    pub fn clear_renewals(&self) {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Time at which the certificate in this file is ordered next; `None`: not known yet.
    pub(super) fn renewal(&self, file: &Path) -> Option<u64> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner).get(file).copied()
    }
}
