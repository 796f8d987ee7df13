//! Type-checking for the systems this machine is not: it needs their Rust target, not their linker.

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
    // Also says at once that it is there already.
    if let Err(Failure(why)) = output(&mut program("rustup", &["target", "add", target])) {
        return Ok(Outcome::NotRun(why));
    }
    // The cryptography is C, which needs the other system's headers, and nothing here looks at what
    // comes of it: `true` compiles and archives it at once.
    let tool = |name: &str| format!("{name}_{}", target.replace('-', "_"));
    let mut check = cargo(&["check", "--package", "hurtle", "--target", target]);
    console.run(check.env(tool("CC"), "true").env(tool("AR"), "true"))?;
    Ok(Outcome::Passed)
}
