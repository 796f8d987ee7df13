//! The `hurtle` command: parses its arguments, runs one command and reports errors.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use hurtle::apps::keeper;
use hurtle::cli::{self, Cli, Command, ConfigProblems, LoadedConfig, ServeArgs};
use hurtle::lifecycle::process::{self, ProcessConfig};
use hurtle::lifecycle::{Launch, dns_hooks, resolver, starter, supervisor};
use hurtle::{config, explain, observe, tls};

/// Exit code for an unusable configuration, the same as clap's for wrong arguments.
const EXIT_CONFIG: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Cli::parse().into_command() {
        Command::Serve(_) if supervisor::is_needed() => return supervise(),
        Command::Serve(args) => serve(args),
        Command::Check(args) => args
            .load()
            .map_err(CommandError::Config)
            .and_then(|config| say(&cli::checked::checked(&config))),
        Command::PrintConfig(args) => args
            .config()
            .map_err(CommandError::Config)
            .and_then(|loaded| say(config::print(&loaded.config).trim_end())),
        Command::Explain(args) => args.config().map_err(CommandError::Config).and_then(|config| {
            let text = explain::explain(&config, &args.request()).map_err(CommandError::Run)?;
            say(text.trim_end())
        }),
        Command::KeepApp(args) => return keep_app(&args.options()),
        Command::StartUpgrades(args) => {
            starter::run(&args.program, &args.arguments).map_err(CommandError::Run)
        }
        Command::LookUpNames(args) => {
            let (user, group) = (args.user.as_deref(), args.group.as_deref());
            resolver::run(user, group).map_err(CommandError::Run)
        }
        Command::RunDnsHook(args) => dns_hooks::run(&args.options()).map_err(CommandError::Run),
        Command::Reload(args) => executed(args.send()),
        Command::Upgrade(args) => executed(args.send()),
        Command::Status(args) => say_reply(args.send()),
        Command::Top(args) => say_reply(args.run()),
        Command::LogLevel(args) => say_reply(args.send()),
        Command::Upstream(args) => say_reply(args.send()),
        Command::Purge(args) => say_reply(args.send()),
        Command::Trust(args) => match args.phone() {
            Some(page) => page.map_err(CommandError::Config).and_then(|page| {
                say(&page.text)?;
                page.wait().map_err(CommandError::Run)
            }),
            None => match args.run().map_err(CommandError::Config) {
                Ok(report) => match say(report.text.trim_end()) {
                    Ok(()) if report.has_failed => return ExitCode::FAILURE,
                    said => said,
                },
                Err(failure) => Err(failure),
            },
        },
        Command::Import(args) => {
            let translated = args.translated().map_err(CommandError::Config);
            match translated.and_then(|it| say(it.text.trim_end()).map(|()| it.left_out)) {
                Ok(0) => Ok(()),
                Ok(_) => return ExitCode::from(PARTLY_TRANSLATED),
                Err(failure) => Err(failure),
            }
        }
        Command::Completions(args) => print(&args.text()),
        Command::Man => cli::man().map_err(CommandError::Run).and_then(|page| print(&page)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn serve(args: ServeArgs) -> Result<(), CommandError> {
    let loaded = args.config().map_err(CommandError::Config)?;
    let (file, watch) = (args.file(), args.watch().map_err(CommandError::Config)?);
    let launch = Launch::new(&loaded.config, file.as_deref()).map_err(CommandError::Run)?;
    let errors = observe::init(&loaded.config.error_log).map_err(|e| {
        CommandError::Run(io::Error::new(e.kind(), format!("cannot open the error log: {e}")))
    })?;
    if let Some(authority) = &loaded.authority {
        say(&tls::local::how_to_trust(authority))?;
    }
    let load = Arc::new(move || args.config().map(|loaded| loaded.config));
    let LoadedConfig { config, any_port, .. } = loaded;
    let process = ProcessConfig { config, any_port, file, watch, load };
    process::run(launch, process, &errors).map_err(CommandError::Run)
}

/// The outcome of a command that a running server has executed.
fn executed(outcome: Result<String, cli::CommandError>) -> Result<(), CommandError> {
    match outcome {
        Ok(text) => say(text.trim_end()),
        Err(cli::CommandError::Problems(problems)) => Err(CommandError::Config(problems)),
        Err(cli::CommandError::Unreachable(e)) => Err(CommandError::Run(e)),
    }
}

fn supervise() -> ExitCode {
    match supervisor::run() {
        Ok(code) => ExitCode::from(code),
        Err(e) => CommandError::Run(e).report(),
    }
}

fn keep_app(options: &keeper::KeeperOptions) -> ExitCode {
    match keeper::run(options) {
        Ok(code) => ExitCode::from(code),
        Err(e) => CommandError::Run(e).report(),
    }
}

/// The exit code of an import that left directives out.
const PARTLY_TRANSLATED: u8 = 3;

/// The reason of a failure.
enum CommandError {
    Config(ConfigProblems),
    Run(io::Error),
}

impl CommandError {
    fn report(self) -> ExitCode {
        let mut err = io::stderr();
        // A failure to write to standard error cannot be reported.
        match self {
            CommandError::Config(problems) => {
                for problem in problems {
                    let _ = writeln!(err, "{problem}");
                }
                ExitCode::from(EXIT_CONFIG)
            }
            CommandError::Run(e) => {
                let _ = writeln!(err, "hurtle: {e}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Prints a server's reply to a command, if there is any.
fn say_reply(sent: Result<io::Result<String>, ConfigProblems>) -> Result<(), CommandError> {
    let reply = sent.map_err(CommandError::Config)?.map_err(CommandError::Run)?;
    if reply.is_empty() {
        return Ok(());
    }
    say(reply.trim_end())
}

fn print(bytes: &[u8]) -> Result<(), CommandError> {
    printed(io::stdout().write_all(bytes))
}

fn say(text: &str) -> Result<(), CommandError> {
    printed(writeln!(io::stdout(), "{text}"))
}

/// A reader of standard output that has closed the pipe has seen enough.
fn printed(outcome: io::Result<()>) -> Result<(), CommandError> {
    match outcome {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(CommandError::Run),
    }
}
