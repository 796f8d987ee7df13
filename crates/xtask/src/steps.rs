//! The steps of `cargo xtask test` and how they are run: in order, up to the first that fails.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::command::{cargo, run as run_command};
use crate::terminal::{Colour, heading, paint, seconds};
use crate::{fuzz, licences, packages, platforms};

/// One check.
pub(crate) struct Step {
    /// For `--only`.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    run: fn() -> Result<Outcome, Failure>,
}

/// How a step ended that did not fail.
pub(crate) enum Outcome {
    Passed,
    /// It could not run on this machine, for this reason; nothing is known to be wrong.
    NotRun(String),
}

/// What went wrong.
pub(crate) struct Failure(pub(crate) String);

pub(crate) const STEPS: &[Step] = &[
    Step { name: "packages", about: "system packages the tests use", run: packages::install },
    Step { name: "format", about: "rustfmt", run: format },
    Step { name: "clippy", about: "clippy, warnings denied", run: clippy },
    Step { name: "tests", about: "every test of the workspace", run: tests },
    Step { name: "docs", about: "the documentation builds without a warning", run: docs },
    Step { name: "licences", about: "licences of everything we ship", run: licences::check },
    Step { name: "advisories", about: "known faults in dependencies", run: licences::advisories },
    Step { name: "macos", about: "type-check for macOS", run: platforms::macos },
    Step { name: "freebsd", about: "type-check for FreeBSD", run: platforms::freebsd },
    Step { name: "fuzz", about: "a short run of every fuzz target", run: fuzz::smoke },
];

/// Runs the steps named; none: all.
pub(crate) fn run(only: &[String]) -> ExitCode {
    let mut done = Vec::new();
    let chosen = |step: &&Step| only.is_empty() || only.iter().any(|name| name == step.name);
    for step in STEPS.iter().filter(chosen) {
        heading(step.name, step.about);
        let started = Instant::now();
        match (step.run)() {
            Ok(outcome) => done.push((step.name, outcome, started.elapsed())),
            Err(Failure(what)) => {
                println!("\n{} {what}", paint(Colour::Red, &format!("{} failed:", step.name)));
                println!("After mending it: cargo xtask test --only {}", step.name);
                return ExitCode::FAILURE;
            }
        }
    }
    summarize(&done);
    ExitCode::SUCCESS
}

fn summarize(done: &[(&str, Outcome, Duration)]) {
    println!();
    for (name, outcome, time) in done {
        let outcome = match outcome {
            Outcome::Passed => paint(Colour::Green, "passed"),
            Outcome::NotRun(why) => format!("{} {why}", paint(Colour::Yellow, "not run:")),
        };
        println!("{name:<12} {:>12}  {outcome}", seconds(*time));
    }
    let passed = done.iter().filter(|(_, outcome, _)| matches!(outcome, Outcome::Passed)).count();
    let total: Duration = done.iter().map(|(_, _, time)| *time).sum();
    let not_run = done.len() - passed;
    println!("\nxtask result: ok. {passed} passed; {not_run} not run; {}", seconds(total));
}

fn format() -> Result<Outcome, Failure> {
    for project in [&["--all"][..], &["--manifest-path", "fuzz/Cargo.toml"]] {
        run_command(cargo(&["fmt", "--check"]).args(project))
            .map_err(|Failure(what)| Failure(format!("{what}; without --check it is mended")))?;
    }
    Ok(Outcome::Passed)
}

fn clippy() -> Result<Outcome, Failure> {
    run_command(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Outcome::Passed)
}

fn tests() -> Result<Outcome, Failure> {
    run_command(&mut cargo(&["test", "--workspace"]))?;
    Ok(Outcome::Passed)
}

fn docs() -> Result<Outcome, Failure> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
    run_command(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Passed)
}
