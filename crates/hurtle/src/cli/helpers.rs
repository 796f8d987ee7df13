//! Arguments of the processes that the server starts itself.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::apps::keeper::KeeperOptions;
use crate::lifecycle::dns_hooks::HookOptions;

#[derive(Debug, Args)]
pub struct StartUpgradesArgs {
    /// The program.
    #[arg(required = true)]
    pub program: PathBuf,
    /// Its arguments.
    #[arg(last = true)]
    pub arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct LookUpNamesArgs {
    /// The user that the process becomes.
    #[arg(long)]
    pub user: Option<String>,
    /// The group of the process, if it is not that of the user.
    #[arg(long)]
    pub group: Option<String>,
}

#[derive(Debug, Args)]
pub struct RunDnsHookArgs {
    #[arg(long)]
    user: Option<String>,
    #[arg(long)]
    group: Option<String>,
    #[arg(long)]
    resolver: Vec<SocketAddr>,
    #[arg(long)]
    timeout_ms: u64,
    #[arg(last = true, required = true)]
    program: PathBuf,
}

impl RunDnsHookArgs {
    /// The options of the process.
    pub fn options(self) -> HookOptions {
        let RunDnsHookArgs { user, group, resolver, timeout_ms, program } = self;
        let timeout = Duration::from_millis(timeout_ms);
        HookOptions { user, group, resolvers: resolver, timeout, program }
    }
}

#[derive(Debug, Args)]
pub struct KeepAppArgs {
    #[arg(long)]
    socket: PathBuf,
    #[arg(long)]
    stdin: bool,
    #[arg(long)]
    open_files: u64,
    #[arg(long)]
    memory: Option<u64>,
    #[arg(long)]
    processes: Option<u64>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl KeepAppArgs {
    /// The options of the keeper.
    pub fn options(self) -> KeeperOptions {
        let KeepAppArgs { socket, stdin, open_files, memory, processes, command } = self;
        KeeperOptions { socket, stdin, open_files, memory, processes, command }
    }
}
