//! Where applications listen: a directory of the server's own with one in it for each of them,
//! which only that application's user and the server may enter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process;

use rustix::process::geteuid;

use super::run::Account;

/// The name of a socket in its directory.
const SOCKET: &str = "socket";

/// How often a name is tried that nobody else should have.
const TRIES: usize = 16;

/// The directory; gone with this.
#[derive(Debug)]
pub(super) struct Sockets(PathBuf);

impl Sockets {
    /// Makes it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create() -> io::Result<Sockets> {
        let mut denied = io::ErrorKind::AlreadyExists.into();
        for _ in 0..TRIES {
            let mut random = [0; 4];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            let name = format!("hurtle-{}-{:08x}", process::id(), u32::from_ne_bytes(random));
            let path = std::env::temp_dir().join(name);
            // Made, and not found: whoever may write there too has not prepared it.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Sockets(path).opened(),
                Err(e) => denied = e,
            }
        }
        Err(io::Error::new(denied.kind(), format!("no directory for sockets: {denied}")))
    }

    /// Where the server is root, applications of other users must pass.
    fn opened(self) -> io::Result<Sockets> {
        if geteuid().is_root() {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o711))?;
        }
        Ok(self)
    }

    /// Where the socket of an application is, which need not be there yet.
    pub(super) fn path(&self, name: &str, serial: u64) -> PathBuf {
        self.0.join(format!("{name}-{serial}")).join(SOCKET)
    }

    /// Makes a directory for such a socket, and clears it of what was there.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn make(&self, socket: &Path, account: Option<&Account>) -> io::Result<()> {
        let dir = socket.parent().unwrap_or(&self.0);
        match fs::remove_dir_all(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(dir)?;
        match account {
            Some(account) => chown(dir, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // What is left is empty, and of no use to anybody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
