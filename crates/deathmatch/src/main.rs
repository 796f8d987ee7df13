//! The `deathmatch` command: reads its arguments, runs one command, and reports its error.

mod commands;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use deathmatch::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let Some(command) = cli.command else {
        return ended(commands::with_verdict(commands::url(&cli.load)));
    };
    ended(match command {
        Command::Run(args) => commands::run(&args),
        Command::Duel(args) => commands::duel(&args),
        Command::Vs(args) => commands::with_verdict(commands::vs(&args)),
        Command::List { contender_dir, json } => commands::list(contender_dir.as_deref(), json),
        Command::Plan { plan } => commands::plan(&plan),
        Command::Install { names, all } => commands::install(&names, all),
        Command::Doctor { json } => commands::examine(json),
        Command::Report { dir, plot, measure, json } => {
            commands::report(&dir, plot.as_deref().map(|file| (file, measure)), json)
        }
        Command::Calls(args) => commands::calls(&args),
        Command::Compare(args) => commands::with_verdict(commands::compare(&args)),
        Command::Load(args) => commands::with_verdict(commands::load(&args)),
        Command::Watch(args) => commands::watch(&args),
        Command::Merge(args) => commands::merge(&args),
    })
}

/// The exit code; an error is printed.
fn ended(outcome: io::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(e) => {
            // A failure here could not be reported.
            let _ = writeln!(io::stderr(), "deathmatch: {e}");
            ExitCode::FAILURE
        }
    }
}
