//! `cargo xtask platform-report`: runs the tests that matter on a system that the project's own
//! machines do not have (macOS, FreeBSD), and writes a report to paste into an issue. It needs
//! cargo and a C compiler only. A test program that does not build or does not end is a row of the
//! report too.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{cargo, output, program, root};
use crate::steps::Failure;
use crate::terminal::{Colour, paint, seconds};

/// Test programs of one subject.
struct Suite {
    name: &'static str,
    about: &'static str,
    /// Arguments of `cargo test`.
    arguments: &'static [&'static str],
}

const fn suite(
    name: &'static str,
    about: &'static str,
    arguments: &'static [&'static str],
) -> Suite {
    Suite { name, about, arguments }
}

/// Suites that depend on the system come first.
const SUITES: &[Suite] = &[
    suite("sys", "the contract of the system calls", &["-p", "hurtle", "--test", "sys_contract"]),
    suite("parsers", "HTTP without a socket", &["-p", "hurtle-http", "--lib", "--tests"]),
    suite("units", "functions, and connections in memory", &["-p", "hurtle", "--lib"]),
    suite("golden", "messages byte by byte", &["-p", "hurtle", "--test", "golden"]),
    suite("keys", "the configuration as types", &["-p", "hurtle-config", "--lib"]),
    suite("config", "configurations", &["-p", "hurtle", "--test", "config_golden"]),
    suite("files", "files over HTTP/1.1", &["-p", "hurtle", "--test", "it"]),
    suite("h2", "HTTP/2", &["-p", "hurtle", "--test", "h2"]),
    suite("tls", "TLS and client certificates", &["-p", "hurtle", "--test", "tls"]),
    suite("applications", "applications in the process", &["-p", "hurtle", "--test", "app"]),
    suite("proxy", "upstreams and the response cache", &["-p", "hurtle", "--test", "proxy"]),
    suite("gateway", "FastCGI and CGI", &["-p", "hurtle", "--test", "gateway"]),
    suite(
        "process",
        "signals, reloads, upgrades, logs; some tests read /proc, which only Linux has",
        &["-p", "hurtle", "--test", "process"],
    ),
];

/// Longest time of a suite, with its build.
const TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// Interval of looking whether a suite has ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Failed tests of a suite whose output is in the report, and lines of each.
const SHOWN_MAX: usize = 20;
const LINES_MAX: usize = 25;

/// Outcome of a suite.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    passed: u32,
    ignored: u32,
    /// Names of the failed tests.
    failed: Vec<String>,
    /// The reason why there are no results, or not all.
    broken: Option<String>,
}

impl Outcome {
    fn is_ok(&self) -> bool {
        self.failed.is_empty() && self.broken.is_none()
    }

    fn summary(&self) -> String {
        let mut text = format!("{} passed", self.passed);
        // Writing to a string cannot fail.
        if !self.failed.is_empty() {
            let _ = write!(text, ", **{} failed**", self.failed.len());
        }
        if self.ignored > 0 {
            let _ = write!(text, ", {} ignored", self.ignored);
        }
        if let Some(why) = &self.broken {
            let _ = write!(text, ", **{why}**");
        }
        text
    }
}

/// Runs all suites, or those named, and writes the report.
///
/// # Errors
/// The report or an output cannot be written, or a name is unknown.
pub(crate) fn run(only: &[String]) -> Result<ExitCode, Failure> {
    if let Some(unknown) = only.iter().find(|name| !SUITES.iter().any(|s| s.name == **name)) {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(Failure(format!("no suite `{unknown}`; there are: {}", names.join(", "))));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let place = root().join(target.unwrap_or_else(|| "target".into())).join("platform-report");
    let problem = |error: std::io::Error| Failure(format!("{}: {error}", place.display()));
    fs::create_dir_all(&place).map_err(problem)?;
    let mut report = heading();
    let mut details = String::new();
    let mut is_ok = true;
    for suite in SUITES.iter().filter(|s| only.is_empty() || only.iter().any(|o| o == s.name)) {
        println!("{:<14}{}", suite.name, suite.about);
        let log = place.join(format!("{}.txt", suite.name));
        let begun = Instant::now();
        let ended = run_suite(suite, &log)?;
        let took = seconds(begun.elapsed());
        let text = String::from_utf8_lossy(&fs::read(&log).map_err(problem)?).into_owned();
        let outcome = judged(&text, ended);
        is_ok &= outcome.is_ok();
        let colour = if outcome.is_ok() { Colour::Green } else { Colour::Red };
        println!("{:<14}{} ({took})", "", paint(colour, &outcome.summary().replace("**", "")));
        // Writing to a string cannot fail.
        let _ = writeln!(
            report,
            "| {} | {} | {} | {took} |",
            suite.name,
            suite.about,
            outcome.summary()
        );
        details.push_str(&detailed(suite, &outcome, &text));
    }
    report.push_str(&details);
    let path = place.join("report.md");
    fs::write(&path, report).map_err(problem)?;
    let path = fs::canonicalize(&path).unwrap_or(path);
    println!("\nPaste this file into an issue: {}", path.display());
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The facts of the machine, and the head of the table.
fn heading() -> String {
    let fact = |command: &mut Command| match output(command) {
        Ok(text) => text.trim().replace('\n', "; "),
        Err(Failure(why)) => why,
    };
    let cores = thread::available_parallelism().map_or_else(|e| e.to_string(), |n| n.to_string());
    // A source package has no repository.
    let version = fact(&mut program("git", &["describe", "--always", "--dirty"]));
    let descriptors = fact(&mut program("sh", &["-c", "ulimit -n"]));
    let compiler = fact(&mut program("cc", &["--version"]));
    format!(
        "## hurtle on {system}\n\n- hurtle {package}, commit {version}\n- {system}\n- {rust}\n- {compiler}\n\
         - {cores} processors, {descriptors} descriptors\n\n\
         | suite | | result | time |\n|---|---|---|--:|\n",
        package = env!("CARGO_PKG_VERSION"),
        system = fact(&mut program("uname", &["-srm"])),
        rust = fact(&mut program("rustc", &["--version"])),
        compiler = compiler.split(';').next().unwrap_or_default(),
    )
}

/// Runs a suite, whose output goes to `log`; `None`: it has not ended in time and was killed.
fn run_suite(suite: &Suite, log: &Path) -> Result<Option<bool>, Failure> {
    let problem = |error: std::io::Error| Failure(format!("{}: {error}", log.display()));
    let out = File::create(log).map_err(problem)?;
    let err = out.try_clone().map_err(problem)?;
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(suite.arguments).env_remove("CARGO_TERM_COLOR").env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    let mut child = command.spawn().map_err(problem)?;
    let end = Instant::now() + TIME_MAX;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().map_err(problem)? {
            return Ok(Some(status.success()));
        }
        thread::sleep(LOOK_EVERY);
    }
    // The whole group: cargo, the test program, and the servers it has started. It may have ended
    // in the meantime.
    let _ = output(&mut program("kill", &["-KILL", "--", &format!("-{}", child.id())]));
    let _ = child.wait();
    Ok(None)
}

/// Reads the results from the output of `cargo test`. `ended`: `true` for success; `None`: killed.
fn judged(text: &str, ended: Option<bool>) -> Outcome {
    let mut outcome = Outcome::default();
    let (mut programs, mut begun) = (0, 0);
    for line in text.lines() {
        if let Some(results) = line.strip_prefix("test result: ") {
            programs += 1;
            let count = |what: &str| {
                let before = results.split(what).next().unwrap_or_default();
                let number = before.split_whitespace().next_back();
                number.and_then(|number| number.parse::<u32>().ok()).unwrap_or(0)
            };
            outcome.passed += count(" passed");
            outcome.ignored += count(" ignored");
        } else if line.starts_with("running ") {
            begun += 1;
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED"))
        {
            outcome.failed.push(name.to_owned());
        }
    }
    outcome.broken = match ended {
        None => Some(format!("killed after {} minutes", TIME_MAX.as_secs() / 60)),
        Some(false) if programs == 0 && begun == 0 => Some("does not build".to_owned()),
        // A program without a result has crashed.
        Some(false) if programs < begun || outcome.failed.is_empty() => {
            Some("ended early".to_owned())
        }
        _ => None,
    };
    outcome
}

/// Outputs of the failed tests, folded; of a suite without results, its last lines.
fn detailed(suite: &Suite, outcome: &Outcome, text: &str) -> String {
    let mut details = String::new();
    let mut fold = |title: &str, lines: &[&str]| {
        let begin = lines.len().saturating_sub(LINES_MAX);
        // Writing to a string cannot fail.
        let _ = write!(
            details,
            "\n<details><summary>{}: {title}</summary>\n\n```text\n{}\n```\n\n</details>\n",
            suite.name,
            lines[begin..].join("\n").replace("```", "'''")
        );
    };
    for name in outcome.failed.iter().take(SHOWN_MAX) {
        let begin = format!("---- {name} stdout ----");
        let lines = text.lines().skip_while(|line| *line != begin).skip(1);
        let is_end = |line: &&str| !line.starts_with("---- ") && *line != "failures:";
        let lines: Vec<&str> = lines.take_while(is_end).filter(|line| !line.is_empty()).collect();
        // The assertion comes first.
        fold(name, &lines[..lines.len().min(LINES_MAX)]);
    }
    if outcome.failed.len() > SHOWN_MAX {
        let rest: Vec<&str> = outcome.failed[SHOWN_MAX..].iter().map(String::as_str).collect();
        fold("more failed tests", &rest);
    }
    if let Some(why) = &outcome.broken {
        fold(why, &text.lines().collect::<Vec<_>>());
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\ntest d ... ignored\n\n\
        failures:\n\n---- b::c stdout ----\nassertion failed: x\n\n\nfailures:\n    b::c\n\n\
        test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n\
        running 4 tests\ntest result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";

    #[test]
    fn results_are_read_from_the_output_of_the_tests() {
        let failed = judged(OUTPUT, Some(false));
        let failed_names = vec!["b::c".to_owned()];
        assert_eq!(failed, Outcome { passed: 5, ignored: 1, failed: failed_names, broken: None });
        assert_eq!(failed.summary(), "5 passed, **1 failed**, 1 ignored");
        let details = detailed(&SUITES[0], &failed, OUTPUT);
        assert!(details.contains("sys: b::c") && details.contains("\nassertion failed: x\n"));
        assert!(!details.contains("test result"), "{details}");
        let rows = [
            ("a build that fails", "error: no such crate", Some(false), "does not build"),
            (
                "a test program that crashes",
                "test result: ok. 1 passed",
                Some(false),
                "ended early",
            ),
            ("the only one, too", "running 1 test\n", Some(false), "ended early"),
            (
                "one beside a test that fails",
                "running 1 test\ntest a ... FAILED\ntest result: FAILED. 0 passed; 1 failed\n\
                 running 2 tests\n",
                Some(false),
                "ended early",
            ),
            ("a test that hangs", "running 1 test", None, "killed after 30 minutes"),
        ];
        for (sentence, text, ended, why) in rows {
            let outcome = judged(text, ended);
            assert_eq!(outcome.broken.as_deref(), Some(why), "{sentence}");
            assert!(!outcome.is_ok(), "{sentence}");
        }
        assert!(judged("test result: ok. 1 passed; 0 failed", Some(true)).is_ok());
    }
}
