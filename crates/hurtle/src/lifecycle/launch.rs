//! The first steps of the server process, before its first thread starts: what it inherits, the
//! processes that start upgrades, run the DNS hook and look up names, and the sandbox.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::process::geteuid;

use super::dns_hooks::DnsHooks;
use super::resolver::{self, Resolver};
use super::sandbox::{Permissions, Sandbox};
use super::starter::Starter;
use super::supervisor;
use super::upgrade::{Launcher, Program};
use crate::config::Config;
use crate::monitoring::log_files;
use crate::services::certificates;
use crate::sockets::activation::{self, Passed};

/// A process that is ready to serve.
#[derive(Debug)]
pub struct Launch {
    /// Listeners from the service manager.
    pub(super) passed: Passed,
    pub(super) launcher: Launcher,
    pub(super) sandbox: Sandbox,
}

impl Launch {
    /// Takes the inherited sockets and confines this process to what a configuration, which may
    /// have been read from `file`, needs. It must be called before a thread starts, because a
    /// thread inherits the sandbox.
    ///
    /// # Errors
    /// The inherited sockets are unusable, or the system refuses a process.
    pub fn new(config: &Config, file: Option<&Path>) -> io::Result<Launch> {
        let program = Program::current();
        // Before a program starts, which would inherit the sockets.
        let passed = activation::listeners()?;
        // Before the permissions, which a file has only if it exists.
        log_files::create(config);
        certificates::create_directory(config)?;
        let permissions = Permissions::of(config, file);
        // Without root the server could not start a process that has what it has now.
        let gives_up_root = config.user.is_some() && geteuid().is_root();
        let starter = if supervisor::is_supervised() {
            Starter::of_supervisor()?
        } else if permissions.is_ok() || gives_up_root {
            Some(Starter::spawn(&program)?)
        } else {
            None
        };
        if let Some(hooks) = DnsHooks::spawn(config)? {
            hooks.install();
        }
        // It ends again if the system has no sandbox.
        let resolver = match &permissions {
            Ok(_) if Resolver::is_needed(config) => Some(Resolver::spawn(config)?),
            _ => None,
        };
        let sandbox = match permissions {
            Err(reason) => Sandbox::Absent(reason.to_owned()),
            Ok(permissions) => match permissions.enter() {
                Ok(()) => Sandbox::Entered(permissions),
                Err(e) => Sandbox::Absent(format!("the kernel does not offer all of it: {e}")),
            },
        };
        if let Sandbox::Entered(_) = sandbox {
            resolver.map_or_else(resolver::install_none, Resolver::install);
        }
        let regains_root = gives_up_root && (starter.is_some() || supervisor::is_supervised());
        let launcher = Launcher { program, starter: starter.map(Arc::new), regains_root };
        Ok(Launch { passed, launcher, sandbox })
    }
}
