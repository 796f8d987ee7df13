//! Builds all tests with cargo at once, then runs one program after another. Tests wait more than
//! they compute, so other steps run at the same time. Tests that measure run alone.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::command::cargo;
use crate::console::{Console, run_kept};
use crate::steps::{Failure, Outcome};
use crate::terminal::seconds;

/// The test programs made by `build`.
static BUILT: OnceLock<Built> = OnceLock::new();

/// The packages whose tests measure, and fail if other programs use the processors.
const MEASURING: [&str; 2] = ["deathmatch", "deathmatch-apps"];

/// Test programs of these packages that measure nothing.
const NOT_MEASURING: [&str; 5] = [
    "tests/compare.rs",
    "tests/contenders.rs",
    "tests/report.rs",
    "tests/stat.rs",
    "tests/stats.rs",
];

/// The test programs of `--quick`, by package and main source file: they start no program that has
/// to be installed. A package without a file has all of its programs.
const QUICK: [(&str, &str); 11] = [
    ("hurtle-config", ""),
    ("hurtle-http", ""),
    ("hurtle-import", ""),
    ("hurtle-objects", "src/lib.rs"),
    ("xtask", ""),
    ("hurtle", "tests/tidy.rs"),
    ("hurtle", "tests/golden.rs"),
    ("hurtle", "tests/config_golden.rs"),
    ("hurtle", "tests/app/main.rs"),
    ("hurtle", "tests/it/main.rs"),
    ("hurtle", "src/lib.rs"),
];

/// Number of slowest test programs listed at the end.
const SLOWEST: usize = 8;

/// Features that are off unless asked for, and are tested. Clippy also checks the code without
/// them.
pub(crate) const FEATURES: &str = "hurtle/object-store";

#[derive(Debug, Default, PartialEq)]
struct Built {
    tests: Vec<TestProgram>,
    /// The server program, which tests of other packages start.
    hurtle: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
struct TestProgram {
    /// The directory of its package.
    package: PathBuf,
    /// Its main source file, relative to `package`.
    source: String,
    executable: PathBuf,
}

pub(crate) fn build(console: &Console<'_>) -> Result<Outcome, Failure> {
    let arguments = ["--no-run", "--message-format", "json-render-diagnostics"];
    let features = ["--features", FEATURES];
    let messages = console.read(cargo(&["test", "--workspace"]).args(features).args(arguments))?;
    let built = built(&messages);
    if built.tests.is_empty() {
        return Err(Failure("cargo names no test programs".to_owned()));
    }
    // It is set only here.
    let _ = BUILT.set(built);
    Ok(Outcome::Passed)
}

pub(crate) fn run(console: &Console<'_>) -> Result<Outcome, Failure> {
    run_those(console, |test| !test.measures())
}

pub(crate) fn run_quick(console: &Console<'_>) -> Result<Outcome, Failure> {
    run_those(console, TestProgram::is_quick)
}

pub(crate) fn run_measuring(console: &Console<'_>) -> Result<Outcome, Failure> {
    run_those(console, TestProgram::measures)
}

/// The server program that `build` made.
pub(crate) fn hurtle() -> Result<PathBuf, Failure> {
    let built = BUILT.get().and_then(|built| built.hurtle.clone());
    built.ok_or_else(|| Failure("the server program is not built".to_owned()))
}

/// Runs test programs up to the first that fails.
fn run_those(
    console: &Console<'_>,
    is_wanted: impl Fn(&TestProgram) -> bool,
) -> Result<Outcome, Failure> {
    let built = BUILT.get().ok_or_else(|| Failure("the tests are not built".to_owned()))?;
    let mut ended = Vec::new();
    for test in built.tests.iter().filter(|test| is_wanted(test)) {
        if console.is_over() {
            return Err(Failure("not all tests were run, because another step failed".to_owned()));
        }
        let took = run_one(console, built, test)?;
        ended.push((took, test.name()));
    }
    console.say(&slowest(ended));
    Ok(Outcome::Passed)
}

/// Runs a test program, and shows its output under a heading like cargo's.
fn run_one(console: &Console<'_>, built: &Built, test: &TestProgram) -> Result<Duration, Failure> {
    let mut command = Command::new(&test.executable);
    command.current_dir(&test.package).env("CARGO_MANIFEST_DIR", &test.package);
    if !test.measures() {
        command.env("RUST_TEST_THREADS", tests_at_once().to_string());
    }
    if let Some(hurtle) = &built.hurtle {
        command.env("DEATHMATCH_HURTLE", hurtle);
    }
    let begun = Instant::now();
    let (status, said) = run_kept(&mut command)?;
    let took = begun.elapsed();
    let (name, program) = (test.name(), test.executable.display());
    console.print(&format!("     Running {name} ({program}): {}\n", seconds(took)), &said);
    if status.success() {
        return Ok(took);
    }
    let again = format!("cd {} && {program}", test.package.display());
    Err(Failure(format!("{name}: {status}; that one alone: ({again})")))
}

/// Number of tests of one program that run at the same time: they wait more than they compute.
fn tests_at_once() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

impl TestProgram {
    fn measures(&self) -> bool {
        MEASURING.iter().any(|package| self.package.ends_with(package))
            && !NOT_MEASURING.contains(&self.source.as_str())
    }

    fn is_quick(&self) -> bool {
        QUICK.iter().any(|(package, source)| {
            self.package.ends_with(package) && (source.is_empty() || self.source == *source)
        })
    }

    /// Its package and its main source file.
    fn name(&self) -> String {
        let package = self.package.file_name().map(|name| name.to_string_lossy());
        format!("{} {}", package.unwrap_or_default(), self.source)
    }
}

/// The test programs that took longest.
fn slowest(mut ended: Vec<(Duration, String)>) -> String {
    ended.sort_by_key(|(took, _)| Reverse(*took));
    let lines = ended.iter().take(SLOWEST);
    let lines = lines.map(|(took, name)| format!("\n{:>12}  {name}", seconds(*took)));
    format!("{} test programs; the slowest:{}", ended.len(), lines.collect::<String>())
}

/// Collects the built programs from cargo's messages, one JSON object a line.
fn built(messages: &str) -> Built {
    let mut built = Built::default();
    for line in messages.lines().filter(|line| line.contains("\"reason\":\"compiler-artifact\"")) {
        let (Some(executable), Some(manifest), Some(source)) =
            (text(line, "executable"), text(line, "manifest_path"), text(line, "src_path"))
        else {
            continue;
        };
        let package = Path::new(manifest).parent().unwrap_or(Path::new("/")).to_owned();
        let executable = PathBuf::from(executable);
        // The target has a key of this name too.
        let is_test = line.split_once("\"profile\":").is_some_and(|(_, profile)| {
            profile.split('}').next().is_some_and(|profile| profile.contains("\"test\":true"))
        });
        if is_test {
            let source = Path::new(source).strip_prefix(&package).unwrap_or(Path::new(source));
            let source = source.display().to_string();
            built.tests.push(TestProgram { package, source, executable });
        } else if text(line, "name") == Some("hurtle") {
            built.hurtle = Some(executable);
        }
    }
    built.tests.sort_by(|a, b| (&a.package, &a.source).cmp(&(&b.package, &b.source)));
    built
}

/// The string value of `key`, which occurs once and has no escapes.
fn text<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, value) = line.split_once(&format!("\"{key}\":\""))?;
    value.split('"').next()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{TestProgram, built};

    /// Messages of cargo 1.95, reduced to the keys that are read.
    const MESSAGES: &str = r#"
{"reason":"compiler-artifact","manifest_path":"/r/a/Cargo.toml","target":{"kind":["lib"],"name":"a","src_path":"/r/a/src/lib.rs","test":true},"profile":{"opt_level":"0","test":false},"executable":null,"fresh":true}
{"reason":"compiler-artifact","manifest_path":"/r/hurtle/Cargo.toml","target":{"kind":["bin"],"name":"hurtle","src_path":"/r/hurtle/src/main.rs","test":true},"profile":{"opt_level":"0","test":false},"features":[],"executable":"/r/target/debug/hurtle","fresh":true}
{"reason":"compiler-artifact","manifest_path":"/r/hurtle/Cargo.toml","target":{"kind":["test"],"name":"it","src_path":"/r/hurtle/tests/it/main.rs","test":true},"profile":{"opt_level":"0","test":true},"features":[],"executable":"/r/target/debug/deps/it-1","fresh":true}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn programs_are_found_in_cargos_messages() {
        let built = built(MESSAGES);
        assert_eq!(built.hurtle, Some(PathBuf::from("/r/target/debug/hurtle")));
        let it = TestProgram {
            package: "/r/hurtle".into(),
            source: "tests/it/main.rs".to_owned(),
            executable: "/r/target/debug/deps/it-1".into(),
        };
        assert_eq!(built.tests, [it]);
    }
}
