//! The ACME thread, with an event loop of its own because authorities respond slowly.

use std::io;
use std::thread;

use tokio::sync::oneshot;

use super::worker::event_loop;
use crate::acme::{Acme, STORAGE_MODE};
use crate::config::Config;
use crate::tls::Keyring;
use crate::users;

/// Certificates are issued and renewed until this is dropped.
pub(crate) type AcmeHandle = oneshot::Sender<()>;

/// Loads the ACME account and certificates before the process gives up root. The storage directory
/// becomes that of the user that the process becomes.
///
/// # Errors
/// The file or directory that cannot be used.
pub(crate) fn load(config: &Config) -> io::Result<Option<Acme>> {
    if let Some(acme) = &config.acme {
        let dir = &acme.storage;
        let created = users::create_directory(dir, STORAGE_MODE, config);
        created.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", dir.display())))?;
    }
    Acme::load(config)
}

/// Starts the ACME thread, for the certificates of a keyring.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn start(acme: Acme, keyring: Option<&Keyring>) -> io::Result<AcmeHandle> {
    let (alive, ended) = oneshot::channel();
    let automatic = keyring.map(Keyring::automatic).unwrap_or_default();
    let life = move || {
        let work = async {
            tokio::select! { _ = ended => {}, () = acme.run(&automatic) => {} }
        };
        if let Err(e) = event_loop().map(|runtime| runtime.block_on(work)) {
            tracing::error!("automatic certificates are off: {e}");
        }
    };
    thread::Builder::new().name("acme".to_owned()).spawn(life)?;
    Ok(alive)
}
