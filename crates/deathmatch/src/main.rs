//! The `deathmatch` command: reads its arguments, does one thing, and says what went wrong.

mod commands;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use deathmatch::cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => commands::run(&args),
        Command::List { json } => commands::list(json),
        Command::Plan { plan } => commands::plan(&plan),
        Command::Install { names, all } => commands::install(&names, all),
        Command::Doctor { json } => commands::examine(json),
        Command::Report { dir, json } => commands::report(&dir, json),
        Command::Calls(args) => commands::calls(&args),
        Command::Compare(args) => commands::compare(&args),
    };
    match outcome {
        Ok(code) => code,
        // A reader that has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            // Nobody is left to tell if this fails.
            let _ = writeln!(io::stderr(), "deathmatch: {e}");
            ExitCode::FAILURE
        }
    }
}
