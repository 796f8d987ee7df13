//! The thread that gets certificates, with an event loop of its own: authorities take their time.

use std::io;
use std::thread;

use nix::unistd::{User, chown, geteuid};
use tokio::sync::oneshot;

use super::worker::event_loop;
use crate::acme::Acme;
use crate::config::Config;

/// Certificates are got while this is there.
pub(super) type Alive = oneshot::Sender<()>;

/// Makes ready what a configuration asks for, while the process may still read what only its first
/// user may. What is written later is written by the user it becomes, who gets the storage.
///
/// # Errors
/// With the file or directory that cannot be used.
pub(super) fn load(config: &Config) -> io::Result<Option<Acme>> {
    let acme = Acme::load(config)?;
    let user = config.user.as_ref().filter(|_| geteuid().is_root());
    // There being none is told where it is to be become.
    let user = user.map(|name| User::from_name(name)).transpose()?.flatten();
    if let (Some(acme), Some(user)) = (&acme, user) {
        chown(acme.storage(), Some(user.uid), None)?;
    }
    Ok(acme)
}

/// Begins to look after the certificates.
///
/// # Errors
/// When the system refuses a thread.
pub(super) fn start(acme: Acme) -> io::Result<Alive> {
    let (alive, ended) = oneshot::channel();
    let life = move || {
        let work = async {
            tokio::select! { _ = ended => {}, () = acme.run() => {} }
        };
        if let Err(e) = event_loop().map(|runtime| runtime.block_on(work)) {
            tracing::error!("no certificates can be got: {e}");
        }
    };
    thread::Builder::new().name("acme".to_owned()).spawn(life)?;
    Ok(alive)
}
