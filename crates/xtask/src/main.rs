//! The developers' commands: `cargo xtask test` sets up and runs every check of the project, the
//! cheapest first; `cargo xtask package` builds what users install. It uses the standard library
//! only, so that it builds quickly.

#![allow(clippy::print_stdout, reason = "talking to the developer is what it is for")]

use std::process::ExitCode;

mod command;
mod console;
mod fuzz;
mod installation;
mod licences;
mod package;
mod packages;
mod platform_report;
mod platforms;
mod steps;
mod terminal;
mod test_programs;

use steps::{QUICK, STEPS};

const HELP: &str = "\
cargo xtask test: set up and run every check of the project

Usage: cargo xtask test [--only STEP]... [--list] [--quick]
       cargo xtask package deb|oci|static [--target TARGET] [--binary FILE]
       cargo xtask platform-report [SUITE]...

  --only STEP   run this step only; may be given more than once
  --list        say which steps there are
  --quick       format, build, and tests that start no other program: nothing is installed
  -h, --help    say this
  --target T    x86_64-unknown-linux-musl (the default) or aarch64-unknown-linux-musl
  --binary F    pack this executable in place of a release build

`platform-report` runs the tests that matter on macOS, FreeBSD or another system, and writes a report to
paste into an issue. It exits with 1 if a test fails.

Steps that build run one after another, and beside them those that wait: packages and tests.
Then each command's output is shown when the command ends; at once with --only of one step.
Stops at the first step that fails (exit code 1; 2 when the command line is wrong).
NO_COLOR=1 turns colours off; FUZZ_SECONDS=60 fuzzes each target that long.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args) {
        Ok(Asked::Help) => println!("{HELP}"),
        Ok(Asked::List) => {
            for step in STEPS {
                println!("{:<12} {}", step.name, step.about);
            }
        }
        Ok(Asked::Test(only)) => return steps::run(STEPS, &only),
        Ok(Asked::Quick) => return steps::run(QUICK, &[]),
        Ok(Asked::PlatformReport(only)) => match platform_report::run(&only) {
            Ok(code) => return code,
            Err(steps::Failure(what)) => {
                eprintln!("{what}");
                return ExitCode::from(2);
            }
        },
        Ok(Asked::Package(kind, target, binary)) => {
            // Tools that get it work in other directories.
            let binary = binary.map(std::path::PathBuf::from);
            let binary = binary.map(|path| std::path::absolute(&path).unwrap_or(path));
            let made = package::out_dir()
                .and_then(|out| package::package(kind, target.as_deref(), binary.as_deref(), &out));
            match made {
                Ok(made) => println!("{}", made.display()),
                Err(steps::Failure(what)) => {
                    eprintln!("{what}");
                    return ExitCode::FAILURE;
                }
            }
        }
        Err(problem) => {
            eprintln!("{problem}\nTry: cargo xtask --help");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

#[derive(Debug, PartialEq)]
enum Asked {
    Help,
    List,
    /// Run these steps; all if empty.
    Test(Vec<String>),
    /// Run the steps of a first contribution.
    Quick,
    /// Build a package for a target, from an executable.
    Package(package::Kind, Option<String>, Option<String>),
    /// Run these suites on this system; all if empty.
    PlatformReport(Vec<String>),
}

fn parse(args: &[String]) -> Result<Asked, String> {
    let mut args = args.iter().map(String::as_str);
    match args.next() {
        Some("test") => {}
        Some("package") => return parse_package(args),
        Some("platform-report") => {
            let only: Vec<String> = args.map(str::to_owned).collect();
            if only.iter().any(|name| name == "-h" || name == "--help") {
                return Ok(Asked::Help);
            }
            return Ok(Asked::PlatformReport(only));
        }
        None | Some("help" | "-h" | "--help") => return Ok(Asked::Help),
        Some(other) => {
            return Err(format!("no command `{other}`; there are: test, package, platform-report"));
        }
    }
    let mut only = Vec::new();
    while let Some(arg) = args.next() {
        match arg {
            "-h" | "--help" => return Ok(Asked::Help),
            "--list" => return Ok(Asked::List),
            "--quick" => return Ok(Asked::Quick),
            "--only" => {
                let name = args.next().ok_or("--only needs the name of a step (see --list)")?;
                if !STEPS.iter().any(|step| step.name == name) {
                    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                    return Err(format!("no step `{name}`; there are: {}", names.join(", ")));
                }
                only.push(name.to_owned());
            }
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    Ok(Asked::Test(only))
}

fn parse_package<'a>(mut args: impl Iterator<Item = &'a str>) -> Result<Asked, String> {
    let kind = args.next().and_then(|name| package::KINDS.iter().find(|(known, _)| *known == name));
    let (_, kind) = kind.ok_or("package needs one of: deb, oci, static")?;
    let (mut target, mut binary) = (None, None);
    while let Some(arg) = args.next() {
        let slot = match arg {
            "--target" => &mut target,
            "--binary" => &mut binary,
            other => return Err(format!("unknown argument `{other}`")),
        };
        *slot = Some(args.next().ok_or_else(|| format!("{arg} needs a value"))?.to_owned());
    }
    Ok(Asked::Package(*kind, target, binary))
}

#[cfg(test)]
mod tests {
    use super::{Asked, parse};
    use crate::package::Kind;

    #[test]
    fn arguments() {
        let only = |name: &str| Ok(Asked::Test(vec![name.to_owned()]));
        let rows = [
            ("nothing asked: help", "", Ok(Asked::Help)),
            ("everything", "test", Ok(Asked::Test(Vec::new()))),
            ("one step", "test --only clippy", only("clippy")),
            ("the list", "test --list", Ok(Asked::List)),
            ("a first contribution", "test --quick", Ok(Asked::Quick)),
            ("help of a command", "test --help", Ok(Asked::Help)),
            (
                "a package",
                "package oci --target aarch64-unknown-linux-musl",
                Ok(Asked::Package(Kind::Oci, Some("aarch64-unknown-linux-musl".into()), None)),
            ),
            (
                "a report of one suite",
                "platform-report sys",
                Ok(Asked::PlatformReport(vec!["sys".to_owned()])),
            ),
            ("a package that is not there", "package rpm", Err("one of: deb")),
            ("a step that is not there", "test --only clipy", Err("no step `clipy`")),
            ("a step without a name", "test --only", Err("--only needs")),
            ("a command that is not there", "tset", Err("no command `tset`")),
            ("a flag that is not there", "test --fast", Err("unknown argument `--fast`")),
        ];
        for (sentence, args, expected) in rows {
            let args: Vec<String> = args.split_whitespace().map(String::from).collect();
            match (parse(&args), expected) {
                (Ok(asked), Ok(expected)) => assert_eq!(asked, expected, "{sentence}"),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{sentence}"),
                (got, _) => panic!("{sentence}: {got:?}"),
            }
        }
    }
}
