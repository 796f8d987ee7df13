//! The thread that reads the changes of watched directories, for all workers.

use std::thread;

use crate::files::{Changed, Watched};

/// Returns the time of the last change of a file. If `watches` is set, the directories of cached
/// files are watched for changes; where the system cannot, files are looked up again after
/// `revalidate` only.
pub(super) fn start(watches: bool) -> (Changed, Option<Watched>) {
    let changed = Changed::default();
    let watched = if watches { begin(&changed) } else { None };
    (changed, watched)
}

fn begin(changed: &Changed) -> Option<Watched> {
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
