//! Runs every target with its seeds and random changes of them, and checks that each target has the
//! files that libFuzzer needs.
//!
//! - `FUZZ_SECONDS`: time for each target, instead of a fixed number of inputs.
//! - `FUZZ_SEED`: start of the random numbers, for other inputs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hurtle_fuzz::driver::{Found, Until, drive};
use hurtle_fuzz::{TARGETS, Target};

/// Inputs per target: a fixed number, so that the result is reproducible.
const INPUTS: u64 = 50_000;
const SEED: u64 = 1;

#[test]
fn targets_hold_their_promises() {
    let seed = number("FUZZ_SEED").unwrap_or(SEED);
    let until = match number("FUZZ_SECONDS") {
        Some(seconds) => Until::Elapsed(Duration::from_secs(seconds)),
        None => Until::Inputs(INPUTS),
    };
    let mut failed = Vec::new();
    for target in TARGETS {
        match drive(*target, &seeds(target), seed, until) {
            Ok(tried) => println!("{}: {tried} inputs, FUZZ_SEED={seed}", target.name),
            Err(Found { input, after }) => failed.push(format!(
                "{}: input {after} of FUZZ_SEED={seed}: b\"{}\"; after the fix, keep it as a file in \
                 fuzz/seeds/{}/",
                target.name,
                input.escape_ascii(),
                target.name,
            )),
        }
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
}

#[test]
fn every_target_has_its_files() {
    let names = TARGETS.iter().map(|target| target.name);
    let left_out: &[&str] = if cfg!(feature = "config") {
        &[]
    } else {
        &["caddyfile", "config", "htaccess", "nginx_config"]
    };
    let expected: BTreeSet<String> =
        names.chain(left_out.iter().copied()).map(|name| format!("{name}.rs")).collect();
    assert_eq!(files("fuzz_targets"), expected, "fuzz_targets/ and TARGETS differ");
    let manifest = fs::read_to_string(here("Cargo.toml")).unwrap();
    for target in TARGETS {
        let name = target.name;
        let main = fs::read_to_string(here(&format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(main.contains(&format!("hurtle_fuzz::{name}(")), "{name}.rs runs another target");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} has no [[bin]]");
        assert!(!seeds(target).is_empty(), "{name} has no seed: put an input into seeds/{name}/");
    }
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let dir = format!("seeds/{}", target.name);
    let paths = files(&dir).into_iter().map(|name| here(&dir).join(name));
    paths.map(|path| fs::read(path).unwrap()).collect()
}

/// Names in a directory, sorted, so that the same seed number gives the same inputs.
fn files(dir: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(here(dir)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value}: not a number")))
}
