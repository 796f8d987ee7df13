//! Requests for which there is no file, where another mount has them.

use std::sync::Arc;

use super::Directory;
use crate::files::store::LookupError;
use crate::files::{Store, Target};

impl Directory {
    /// Returns the name of the mount that has requests without a file.
    pub(crate) fn otherwise(&self) -> Option<&str> {
        self.config.otherwise.as_deref()
    }

    /// Returns whether a request with this result of its look-up is handed on.
    pub(crate) fn hands_on(&self, target: &Target) -> bool {
        let is_without_file = match target {
            Target::Missing => true,
            Target::Directory(..) => !self.config.listing,
            _ => false,
        };
        self.config.otherwise.is_some() && is_without_file
    }

    /// Returns whether a request that no file answers is handed on. Files answer GET and HEAD;
    /// other methods are handed on where there is no file.
    ///
    /// # Errors
    /// The look-up failed.
    pub(crate) async fn hands_on_path(
        &self,
        store: &Store,
        rest: &[u8],
    ) -> Result<bool, LookupError> {
        if self.config.otherwise.is_none() {
            return Ok(false);
        }
        let Some(lookup) = self.lookup(rest) else { return Ok(true) };
        Ok(self.hands_on(&store.probe(&Arc::new(lookup)).await?))
    }
}
