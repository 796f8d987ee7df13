//! Type-checks the code for other systems, which needs their Rust targets but no linker.

use crate::command::{cargo, output, program};
use crate::console::Console;
use crate::steps::{Failure, Outcome};

pub(crate) fn macos(console: &Console<'_>) -> Result<Outcome, Failure> {
    check(console, "x86_64-apple-darwin")
}

pub(crate) fn freebsd(console: &Console<'_>) -> Result<Outcome, Failure> {
    check(console, "x86_64-unknown-freebsd")
}

fn check(console: &Console<'_>, target: &str) -> Result<Outcome, Failure> {
    // Returns at once if the target is installed.
    if let Err(Failure(why)) = output(&mut program("rustup", &["target", "add", target])) {
        return Ok(Outcome::NotRun(why));
    }
    // The cryptography is C and needs the other system's headers. Its objects are not used here, so
    // `true` stands in for the compiler and the archiver.
    let tool = |name: &str| format!("{name}_{}", target.replace('-', "_"));
    // The tests too: `cargo xtask platform-report` runs them there.
    let mut check = cargo(&["check", "--tests", "--target", target]);
    check.args(["--package", "hurtle", "--package", "hurtle-config"]);
    console.run(check.env(tool("CC"), "true").env(tool("AR"), "true"))?;
    Ok(Outcome::Passed)
}
