//! The directory of the applications' sockets. Each application has a subdirectory that only its
//! user and the server may enter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process;

use rustix::process::geteuid;

use super::run::Account;

/// Name of a socket in its directory.
const SOCKET: &str = "socket";

/// Attempts to find an unused random name.
const TRIES: usize = 16;

/// The directory; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketDir(PathBuf);

impl SocketDir {
    /// Creates the directory.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn create() -> io::Result<SocketDir> {
        let mut denied = io::ErrorKind::AlreadyExists.into();
        for _ in 0..TRIES {
            let mut random = [0; 4];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            let name = format!("hurtle-{}-{:08x}", process::id(), u32::from_ne_bytes(random));
            let path = std::env::temp_dir().join(name);
            // `create` fails on an existing directory, which another user may have prepared.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return SocketDir(path).opened(),
                Err(e) => denied = e,
            }
        }
        Err(io::Error::new(
            denied.kind(),
            format!("cannot create a directory for sockets: {denied}"),
        ))
    }

    /// Lets other users' applications enter the directory if the server is root.
    fn opened(self) -> io::Result<SocketDir> {
        if geteuid().is_root() {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o711))?;
        }
        Ok(self)
    }

    /// Path of an application's socket, which may not exist yet.
    pub(super) fn path(&self, name: &str, serial: u64) -> PathBuf {
        self.0.join(format!("{name}-{serial}")).join(SOCKET)
    }

    /// Creates an empty directory for a socket.
    ///
    /// # Errors
    /// An error of the system.
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

impl Drop for SocketDir {
    fn drop(&mut self) {
        // A failure leaves an empty directory behind.
        let _ = fs::remove_dir_all(&self.0);
    }
}
