//! The developers' commands: `cargo xtask test` sets up and runs every check of the project, the
//! cheapest first. It uses the standard library only, so that it builds quickly.

#![allow(clippy::print_stdout, reason = "talking to the developer is what it is for")]

use std::process::ExitCode;

mod command;
mod console;
mod fuzz;
mod licences;
mod packages;
mod platforms;
mod steps;
mod terminal;
mod test_programs;

use steps::STEPS;

const HELP: &str = "\
cargo xtask test: set up and run every check of the project

Usage: cargo xtask test [--only STEP]... [--list]

  --only STEP   run this step only; may be given more than once
  --list        say which steps there are
  -h, --help    say this

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
        Ok(Asked::Test(only)) => return steps::run(&only),
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
}

fn parse(args: &[String]) -> Result<Asked, String> {
    let mut args = args.iter().map(String::as_str);
    match args.next() {
        Some("test") => {}
        None | Some("help" | "-h" | "--help") => return Ok(Asked::Help),
        Some(other) => return Err(format!("no command `{other}`; there is one: test")),
    }
    let mut only = Vec::new();
    while let Some(arg) = args.next() {
        match arg {
            "-h" | "--help" => return Ok(Asked::Help),
            "--list" => return Ok(Asked::List),
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

#[cfg(test)]
mod tests {
    use super::{Asked, parse};

    #[test]
    fn arguments() {
        let only = |name: &str| Ok(Asked::Test(vec![name.to_owned()]));
        let rows = [
            ("nothing asked: help", "", Ok(Asked::Help)),
            ("everything", "test", Ok(Asked::Test(Vec::new()))),
            ("one step", "test --only clippy", only("clippy")),
            ("the list", "test --list", Ok(Asked::List)),
            ("help of a command", "test --help", Ok(Asked::Help)),
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
