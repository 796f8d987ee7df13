//! Arguments of the processes that the server starts itself.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::server::apps::keeper::KeeperOptions;

/// Arguments of `start-upgrades`.
#[derive(Debug, Args)]
pub struct StartUpgradesArgs {
    /// The program.
    #[arg(required = true)]
    pub program: PathBuf,
    /// Its arguments.
    #[arg(last = true)]
    pub arguments: Vec<OsString>,
}

/// Arguments of `look-up-names`.
#[derive(Debug, Args)]
pub struct LookUpNamesArgs {
    /// The user that the process becomes.
    #[arg(long)]
    pub user: Option<String>,
    /// Its group.
    #[arg(long)]
    pub group: Option<String>,
}

/// Arguments of `keep-app`.
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
