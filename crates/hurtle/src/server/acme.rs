//! The ACME thread, with an event loop of its own because authorities respond slowly.

use std::io;
use std::thread;

use nix::unistd::chown;
use tokio::sync::oneshot;

use super::worker::event_loop;
use crate::acme::Acme;
use crate::config::Config;
use crate::tls::Keyring;
use crate::users::next_user;

/// Certificates are issued and renewed until this is dropped.
pub(crate) type AcmeHandle = oneshot::Sender<()>;

/// Loads the ACME account and certificates before the process gives up root. The storage directory
/// is handed over to the user that the process becomes.
///
/// # Errors
/// The file or directory that cannot be used.
pub(crate) fn load(config: &Config) -> io::Result<Option<Acme>> {
    let acme = Acme::load(config)?;
    if let (Some(acme), Some(user)) = (&acme, next_user(config)?) {
        chown(acme.storage(), Some(user.uid), None)?;
    }
    Ok(acme)
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
