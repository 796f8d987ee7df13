//! The `hurtle` command: reads its arguments, does one thing, and says what went wrong.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use hurtle::cli::{Cli, Command, Refused, ServeArgs};
use hurtle::server::apps::keeper;
use hurtle::{config, explain, observe, server, tls};

/// A configuration that cannot be used, as clap's exit code for bad arguments.
const EXIT_CONFIG: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Cli::parse().into_command() {
        Command::Serve(args) => serve(args),
        Command::Check(args) => args.load().map_err(Failure::Config).and_then(|_| say("ok")),
        Command::PrintConfig(args) => args
            .config()
            .map_err(Failure::Config)
            .and_then(|meant| say(config::print(&meant.config).trim_end())),
        Command::Explain(args) => args.config().map_err(Failure::Config).and_then(|config| {
            let text = explain::explain(&config, &args.question()).map_err(Failure::Run)?;
            say(text.trim_end())
        }),
        Command::KeepApp(args) => return keep_app(&args.kept()),
        Command::Purge(args) => args
            .socket()
            .map_err(Failure::Config)
            .and_then(|socket| args.give(&socket).map_err(Failure::Run))
            .and_then(|answer| say(answer.trim_end())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn serve(args: ServeArgs) -> Result<(), Failure> {
    let meant = args.config().map_err(Failure::Config)?;
    let errors = observe::init(&meant.config.error_log).map_err(|e| {
        Failure::Run(io::Error::new(e.kind(), format!("cannot open the error log: {e}")))
    })?;
    if let Some((authority, is_new)) = &meant.authority {
        say(&tls::local::how_to_trust(authority, *is_new))?;
    }
    server::process::run(meant.config, meant.any_port, &errors).map_err(Failure::Run)
}

fn keep_app(kept: &keeper::Kept) -> ExitCode {
    match keeper::keep(kept) {
        Ok(code) => ExitCode::from(code),
        Err(e) => Failure::Run(e).report(),
    }
}

/// Why the command failed.
enum Failure {
    Config(Refused),
    Run(io::Error),
}

impl Failure {
    fn report(self) -> ExitCode {
        let mut err = io::stderr();
        // Nobody is left to tell if this fails.
        match self {
            Failure::Config(problems) => {
                for problem in problems {
                    let _ = writeln!(err, "{problem}");
                }
                ExitCode::from(EXIT_CONFIG)
            }
            // A reader that has seen enough.
            Failure::Run(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Failure::Run(e) => {
                let _ = writeln!(err, "hurtle: {e}");
                ExitCode::FAILURE
            }
        }
    }
}

fn say(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}").map_err(Failure::Run)
}
