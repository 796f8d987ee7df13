//! The file of `deathmatch load`, and what it writes beside it.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use scripted::{Scripted, folder};
use serde_json::Value;

/// The generator needs a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn a_generator_that_prints_its_file_writes_the_outcomes_of_its_conditions() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = folder("fleet-outcomes");
    let server = Scripted::serving(b"hello".to_vec());
    let url = format!("http://{}/", server.address);
    let [junit, summary] = ["load.xml", "load.md"].map(|name| dir.join(name));
    let conditions = ["--fail-if", "rate > 0", "--junit", path(&junit), "--step-summary"];
    let load = ["load", &url, "-n", "4", "-c", "1", "--out", "-"];
    let output = run(&[&load[..], &conditions, &[path(&summary)]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["counts"]["responses"], 4, "{printed}");
    assert!(fs::read_to_string(&junit).unwrap().contains("failures=\"1\""));
    assert!(fs::read_to_string(&summary).unwrap().contains("rate"));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn visits_of_another_course_are_another_load() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = folder("fleet-visits");
    let server = Scripted::serving(b"hello".to_vec());
    let file = dir.join("visit.toml");
    let sum_of = |steps: &str| {
        fs::write(&file, format!("server = \"http://{}\"\n{steps}", server.address)).unwrap();
        let output = run(&["load", "--scenario", path(&file), "-n", "1", "-c", "1", "--out", "-"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        printed["options"]["request_sha256"].as_str().unwrap().to_owned()
    };
    let step = "[[step]]\nrequest = \"/a\"\n";
    let (page, next) = (format!("{step}assets = [\"/b\"]"), step.replace("/a", "/b"));
    let sums = [
        sum_of(step),
        sum_of(&format!("{step}pause = \"1ms\"")),
        sum_of(&page),
        sum_of(&format!("{step}{next}")),
        sum_of(&format!("connections = 2\n{step}")),
    ];
    let different: BTreeSet<&String> = sums.iter().collect();
    assert_eq!(different.len(), sums.len(), "{sums:?}");
    assert_eq!(sum_of(step), sums[0], "and the same one is the same");
    fs::remove_dir_all(dir).unwrap();
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deathmatch")).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}
