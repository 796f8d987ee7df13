//! Runs the steps of `cargo xtask test` in two concurrent lanes, up to the first step that fails.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::cargo;
use crate::console::Console;
use crate::terminal::{Colour, heading, paint, seconds};
use crate::{fuzz, installation, licences, packages, platforms, test_programs};

pub(crate) struct Step {
    /// Its name for `--only`.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    lane: Lane,
    /// The step that must pass first; it runs even if it is not selected.
    needs: Option<&'static str>,
    /// The step of the other lane that must pass first, if it runs.
    after: Option<&'static str>,
    run: fn(&Console<'_>) -> Result<Outcome, Failure>,
}

/// A sequence of steps that run one after another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Steps that use cargo's build directory, which only one command can use at a time.
    Build,
    /// Steps that wait more than they compute, for a network or for tests.
    Wait,
}

/// Outcome of a step that did not fail.
pub(crate) enum Outcome {
    Passed,
    /// The step could not run on this machine, for this reason.
    NotRun(String),
}

/// Description of an error.
pub(crate) struct Failure(pub(crate) String);

/// All steps, the cheapest first.
pub(crate) const STEPS: &[Step] = &[
    build("format", "rustfmt", format),
    build("licences", "licences of everything we ship", licences::check),
    wait("packages", "system packages the tests use", packages::install),
    // First of those that compile, because the tests wait for it.
    build("build", "every test and program builds", test_programs::build),
    Step {
        needs: Some("build"),
        ..wait("tests", "every test that does not measure", test_programs::run)
    },
    build("clippy", "clippy, warnings denied", clippy),
    build("crates", "the crates can be published", installation::crates),
    Step {
        needs: Some("build"),
        ..wait("install", "the packages install, serve and purge", installation::install)
    },
    build("docs", "the documentation builds without a warning, its examples run", docs),
    build("advisories", "known faults in dependencies", licences::advisories),
    build("macos", "type-check for macOS", platforms::macos),
    build("freebsd", "type-check for FreeBSD", platforms::freebsd),
    build("fuzz", "a short run of every fuzz target", fuzz::smoke),
    Step {
        needs: Some("build"),
        after: Some("tests"),
        ..build("measuring", "the tests that measure, by themselves", test_programs::run_measuring)
    },
    // Last, because it builds another program in the place of the one that the steps before use.
    Step { after: Some("install"), ..build("wasm", "applications in WebAssembly", wasm) },
];

/// The steps of `--quick`, for a first contribution: they install nothing, and wait for nobody.
pub(crate) const QUICK: &[Step] = &[
    build("format", "rustfmt", format),
    build("build", "every test and program builds", test_programs::build),
    Step {
        needs: Some("build"),
        ..build("tests", "tests that start no other program", test_programs::run_quick)
    },
];

/// A feature that is compiled apart, because its compiler of applications is large.
const WASM: &str = "hurtle/wasm";

type Run = fn(&Console<'_>) -> Result<Outcome, Failure>;

const fn build(name: &'static str, about: &'static str, run: Run) -> Step {
    Step { name, about, lane: Lane::Build, needs: None, after: None, run }
}

const fn wait(name: &'static str, about: &'static str, run: Run) -> Step {
    Step { name, about, lane: Lane::Wait, needs: None, after: None, run }
}

/// Runs the selected steps and those they require; all of these if none is selected.
pub(crate) fn run(steps: &'static [Step], only: &[String]) -> ExitCode {
    let begun = Instant::now();
    let is_named = |name| only.is_empty() || only.iter().any(|one| one == name);
    let is_needed = |name| steps.iter().any(|s| is_named(s.name) && s.needs == Some(name));
    let chosen = || steps.iter().filter(|step| is_named(step.name) || is_needed(step.name));
    let progress =
        Progress { chosen: chosen().map(|step| step.name).collect(), ..Progress::default() };
    let is_shared = only.len() != 1;
    thread::scope(|scope| {
        for lane in [Lane::Build, Lane::Wait] {
            let steps = chosen().filter(move |step| step.lane == lane);
            scope.spawn(|| progress.carry_out(steps, is_shared));
        }
    });
    let state = progress.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if state.failed.is_empty() {
        summarize(&state.done, begun.elapsed());
        return ExitCode::SUCCESS;
    }
    for (name, Failure(what)) in state.failed {
        println!("\n{} {what}", paint(Colour::Red, &format!("{name} failed:")));
        println!("After fixing it: cargo xtask test --only {name}");
    }
    ExitCode::FAILURE
}

/// State shared by both lanes.
#[derive(Default)]
struct Progress {
    /// Names of the steps to run.
    chosen: Vec<&'static str>,
    state: Mutex<StepState>,
    changed: Condvar,
    /// `true` once a step has failed: no other starts.
    failed: AtomicBool,
}

#[derive(Default)]
struct StepState {
    done: Vec<(&'static str, Outcome, Duration)>,
    failed: Vec<(&'static str, Failure)>,
}

impl Progress {
    /// Runs a lane's steps until a step of either lane fails.
    fn carry_out<'a>(&self, steps: impl Iterator<Item = &'a Step>, is_shared: bool) {
        let _end = EndOfLane(self);
        for step in steps {
            if !self.may_begin(step) {
                return;
            }
            let console = Console { name: step.name, is_shared, failed: &self.failed };
            match is_shared {
                true => console.say(&format!("{} begins: {}", step.name, step.about)),
                false => print!("{}", heading(step.name, step.about)),
            }
            let begun = Instant::now();
            let result = (step.run)(&console);
            let took = begun.elapsed();
            if is_shared {
                let how = if result.is_ok() { "has ended" } else { "has failed" };
                console.say(&format!("{} {how} after {}", step.name, seconds(took)));
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(outcome) => state.done.push((step.name, outcome, took)),
                Err(failure) => {
                    self.failed.store(true, Ordering::Relaxed);
                    state.failed.push((step.name, failure));
                }
            }
            self.changed.notify_all();
        }
    }

    /// Waits until the required steps have passed; `false` if a step has failed.
    fn may_begin(&self, step: &Step) -> bool {
        let before = || [step.needs, step.after].into_iter().flatten();
        let is_done = |state: &StepState| {
            let mut before = before().filter(|name| self.chosen.contains(name));
            before.all(|before| state.done.iter().any(|(name, ..)| *name == before))
        };
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut StepState| !self.failed.load(Ordering::Relaxed) && !is_done(state);
        drop(self.changed.wait_while(state, waits));
        !self.failed.load(Ordering::Relaxed)
    }
}

/// A lane that panics must not leave the other one waiting.
struct EndOfLane<'a>(&'a Progress);

impl Drop for EndOfLane<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let state = self.0.state.lock();
            self.0.failed.store(true, Ordering::Relaxed);
            drop(state);
            self.0.changed.notify_all();
        }
    }
}

fn summarize(done: &[(&str, Outcome, Duration)], took: Duration) {
    println!();
    for (name, outcome, time) in done {
        let outcome = match outcome {
            Outcome::Passed => paint(Colour::Green, "passed"),
            Outcome::NotRun(why) => format!("{} {why}", paint(Colour::Yellow, "not run:")),
        };
        println!("{name:<12} {:>12}  {outcome}", seconds(*time));
    }
    let passed = done.iter().filter(|(_, outcome, _)| matches!(outcome, Outcome::Passed)).count();
    let not_run = done.len() - passed;
    println!("\nxtask result: ok. {passed} passed; {not_run} not run; {}", seconds(took));
}

fn format(console: &Console<'_>) -> Result<Outcome, Failure> {
    for project in [&["--all"][..], &["--manifest-path", "fuzz/Cargo.toml"]] {
        console
            .run(cargo(&["fmt", "--check"]).args(project))
            .map_err(|Failure(what)| Failure(format!("{what}; without --check it is mended")))?;
    }
    Ok(Outcome::Passed)
}

/// Checks the code with the features that are tested, without them, and with WebAssembly.
fn clippy(console: &Console<'_>) -> Result<Outcome, Failure> {
    let tested = ["--all-targets", "--features", test_programs::FEATURES];
    let wasm = ["--lib", "--test", "wasm", "--features", WASM];
    for what in [&tested[..], &["--lib", "--bins"], &wasm] {
        let mut command = cargo(&["clippy", "--workspace"]);
        console.run(command.args(what).args(["--", "-D", "warnings"]))?;
    }
    Ok(Outcome::Passed)
}

/// The whole workspace is named, so that all dependencies are those of the steps before.
fn wasm(console: &Console<'_>) -> Result<Outcome, Failure> {
    console.run(&mut cargo(&["test", "--workspace", "--features", WASM, "--test", "wasm"]))?;
    Ok(Outcome::Passed)
}

/// The features of the steps before, so that the libraries are compiled once for all of them.
fn docs(console: &Console<'_>) -> Result<Outcome, Failure> {
    let tested = ["--workspace", "--features", test_programs::FEATURES];
    let mut command = cargo(&["doc", "--no-deps"]);
    console.run(command.args(tested).env("RUSTDOCFLAGS", "-D warnings"))?;
    console.run(cargo(&["test", "--doc"]).args(tested))?;
    Ok(Outcome::Passed)
}
