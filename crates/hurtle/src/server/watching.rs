//! The thread that reads the changes of watched directories, for all workers.

use std::thread;

use crate::files::{Changed, Watched};

/// Begins to watch the directories of cached files. `None`: the system cannot, so files are looked up
/// again after `revalidate` only.
pub(super) fn start(changed: &Changed) -> Option<Watched> {
    let started = Watched::new(changed).and_then(|(watched, reader)| {
        thread::Builder::new().name("watch".to_owned()).spawn(move || {
            if let Err(error) = reader.run() {
                tracing::debug!("directories are not watched any more: {error}");
            }
        })?;
        Ok(watched)
    });
    started.inspect_err(|error| tracing::debug!("directories are not watched: {error}")).ok()
}
