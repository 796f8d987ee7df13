//! Runs the fuzz targets briefly: as an ordinary test, and, if nightly Rust and cargo-fuzz are
//! installed, guided by coverage. fuzz/README.md describes long runs.

use std::fs;

use crate::command::{cargo, output, program, root};
use crate::console::Console;
use crate::steps::{Failure, Outcome};

/// Seconds for each target, unless FUZZ_SECONDS says otherwise.
const SECONDS: &str = "5";

pub(crate) fn smoke(console: &Console<'_>) -> Result<Outcome, Failure> {
    // The workspace's build directory, so that common dependencies are compiled once.
    let shared = ["--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"];
    console.run(cargo(&["test", "--no-default-features", "--features", "config"]).args(shared))?;

    if output(&mut program("rustup", &["run", "nightly", "cargo", "fuzz", "--version"])).is_err() {
        console.say("Not guided by coverage: that needs nightly Rust and cargo-fuzz.");
        return Ok(Outcome::Passed);
    }
    let seconds = std::env::var("FUZZ_SECONDS").unwrap_or_else(|_| SECONDS.into());
    for name in targets()? {
        // cargo-fuzz writes new inputs to the first directory, which must exist.
        let corpus = format!("fuzz/corpus/{name}");
        fs::create_dir_all(root().join(&corpus)).map_err(|e| Failure(format!("{corpus}: {e}")))?;
        let fuzz = ["run", "nightly", "cargo", "fuzz", "run", &name, &corpus];
        let mut command = program("rustup", &fuzz);
        command.args([format!("fuzz/seeds/{name}"), "--".into()]);
        console.run(command.args(["-verbosity=0", &format!("-max_total_time={seconds}")]))?;
    }
    Ok(Outcome::Passed)
}

/// The names of the targets, in order.
fn targets() -> Result<Vec<String>, Failure> {
    let dir = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&dir).map_err(|e| Failure(format!("{}: {e}", dir.display())))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut names: Vec<String> =
        paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}
