//! Words of `vs` and `run`: what they say about a run is true, and the same in each of its outputs.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use deathmatch::arena::recorded;
use rustix::process::{Pid, Signal, kill_process};
use scripted::{PLAN, folder, free_port, judged};
use serde_json::Value;

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");
const FLOOR: &str = env!("CARGO_BIN_EXE_deathmatch-floor");

/// The generator needs a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs deathmatch in a directory.
fn run_in(dir: &Path, words: &[&str]) -> Output {
    Command::new(DEATHMATCH).args(words).current_dir(dir).output().unwrap()
}

fn stdout(output: &Output) -> String {
    // Lines are broken between words.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn vs_runs_a_command_in_the_callers_directory_by_the_shell() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("words-shell");
    let script = root.join("mine.sh");
    fs::write(&script, format!("#!/bin/sh\nexec {FLOOR} \"$1\" \"$2\" 1\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(root.join("below")).unwrap();
    for (command, name) in [
        ("./mine.sh {port} {docroot}", "mine"),
        ("cd below && ../mine.sh {port} {docroot}", "mine"),
        ("SIZE=1 exec ./mine.sh {port} {docroot}", "mine"),
    ] {
        let (port, out) = (free_port().to_string(), root.join("out"));
        let words = ["vs", command, "floor", "-c", "2", "--budget", "1s", "--json", "--port"];
        let output = run_in(&root, &[&words[..], &[&port, "--out", "out"]].concat());
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        let its = &found["duels"][0]["contenders"][name];
        assert!(its["cpu_us"].as_f64() > Some(0.0), "{command}: {}", stderr(&output));
        assert!(out.join("report.html").exists(), "{command}: a report also with --json");
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn vs_measures_nothing_if_a_server_does_not_start() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("words-dead");
    let port = free_port().to_string();
    for servers in [["exit 3 {port}", "floor"], ["floor", "exit 3 {port}"]] {
        let _ = fs::remove_dir_all(root.join("out"));
        let words = ["vs", servers[0], servers[1], "--port", &port, "--out", "out"];
        let output = run_in(&root, &words);
        assert_eq!(output.status.code(), Some(2), "{servers:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("exit was not measured: exit ended before"), "{servers:?}: {said}");
        let samples = fs::read_to_string(root.join("out/samples.jsonl")).unwrap_or_default();
        assert_eq!(samples, "", "{servers:?}: nothing was measured alone");
    }
}

#[test]
fn a_failure_names_its_reason_and_has_the_code_of_wrong_usage() {
    let root = folder("words-usage");
    fs::write(root.join("samples.jsonl"), "").unwrap();
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let private = root.join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    let rows: [(&[&str], &str); 4] = [
        (&["report", "/nosuch"], "/nosuch is not the directory of a run"),
        (&["vs", "floor", "floor", "--baseline", "/nosuch"], "--baseline: /nosuch is not"),
        (&["run", "quick", "--resume", "--out", "."], "--resume: . is not the directory"),
        (&["run", "--quick", "--only", "floor", "--out", "private"], "who may not enter"),
    ];
    for (words, expected) in rows.into_iter().filter(|row| is_root || !row.1.contains("enter")) {
        let output = run_in(&root, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn an_interrupted_vs_names_no_option_that_it_lacks() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let out = folder("words-interrupted").join("out");
    let port = free_port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_deathmatch"));
    command.args(["vs", "floor", "floor", "-c", "2", "--budget", "10m", "--port", &port, "--out"]);
    command.arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !recorded(&out).is_ok_and(|samples| !samples.is_empty()) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended too early");
        thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("samples.jsonl.") && !said.contains("--resume"), "{said}");
}

#[test]
fn a_run_of_other_works_or_times_is_not_continued() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("words-resume");
    let port = free_port().to_string();
    let run = |plan: &str, more: &[&str]| {
        let plan = PLAN.replace("\"one\"", "\"floor\"").replace("rounds = 2", plan);
        fs::write(root.join("plan.toml"), plan).unwrap();
        let words = ["run", "plan.toml", "--only", "floor", "--out", "out", "--port", &port];
        run_in(&root, &[&words[..], more].concat())
    };
    let output = run("rounds = 1", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let samples = || fs::read(root.join("out/samples.jsonl")).unwrap();
    let first = samples();
    let longer = "rounds = 1\nprecision = 0.02";
    for (plan, is_continued) in [(longer, true), ("rounds = 2", true), ("rounds = 1", true)] {
        let output = run(plan, &["--resume"]);
        assert_eq!(output.status.success(), is_continued, "{plan}: {}", stderr(&output));
    }
    assert_ne!(samples(), first, "a further round");
    let plan = PLAN.replace("\"one\"", "\"floor\"");
    for (from, to) in [
        ("sample_s = 0.05", "sample_s = 0.06"),
        ("warm_up_s = 0", "warm_up_s = 0.1"),
        ("turns = true\n", ""),
        ("requests = [200]", "requests = [300]"),
    ] {
        let (other, before) = (plan.replace(from, to), samples());
        assert_ne!(other, plan, "{from}");
        fs::write(root.join("plan.toml"), other).unwrap();
        let words = ["run", "plan.toml", "--only", "floor", "--out", "out", "--resume"];
        let output = run_in(&root, &words);
        assert_eq!(output.status.code(), Some(2), "{to}: {}", stderr(&output));
        assert!(stderr(&output).contains("was begun with other works or times"), "{to}");
        assert_eq!(samples(), before, "{to}");
    }
}

/// Regression: a duel went on with other contenders, and its ratios were of two different duels.
#[test]
fn a_duel_of_other_contenders_is_not_continued() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("words-contenders");
    let port = free_port().to_string();
    let duel = |names: &[&str], more: &[&str]| {
        let words = ["--work", "1k:2", "--precision", "0.1%", "--out", "out", "--port", &port];
        run_in(&root, &[&["duel"], names, &words, more].concat())
    };
    let output = duel(&["floor", "a=floor"], &["--budget", "1s"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let samples = || fs::read(root.join("out/samples.jsonl")).unwrap();
    let facts = || fs::read(root.join("out/run.json")).unwrap();
    let (first, run) = (samples(), facts());
    for names in [&["floor", "b=floor"][..], &["a=floor", "floor"], &["floor", "a=floor", "floor"]]
    {
        let output = duel(names, &["--resume"]);
        assert_eq!(output.status.code(), Some(2), "{names:?}: {}", stderr(&output));
        let why = "out was begun with other contenders (a, floor; the reference is floor)";
        assert!(stderr(&output).contains(why), "{names:?}: {}", stderr(&output));
        assert!(samples() == first && facts() == run, "{names:?}");
    }
    let output = duel(&["floor", "a=floor"], &["--resume", "--budget", "2s"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_ne!(samples(), first, "with its own it goes on");
    // Regression: slices of two programs made one ratio.
    let (floor, copy) = (Path::new(DEATHMATCH).with_file_name("deathmatch-floor"), root.join("b"));
    fs::copy(floor, &copy).unwrap();
    let named = format!("b=floor:{}", copy.display());
    let words = ["duel", "floor", &named, "--work", "1k:2", "--budget", "1s", "--out", "other"];
    let words = [&words[..], &["--port", &port]].concat();
    let output = run_in(&root, &words);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut program = fs::OpenOptions::new().append(true).open(&copy).unwrap();
    program.write_all(b"\0").unwrap();
    drop(program);
    let output = run_in(&root, &[&words[..], &["--resume"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("was begun with another program"), "{}", stderr(&output));
}

#[test]
fn a_duel_without_a_terminal_says_how_far_it_is_and_only_what_is_true() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("words-progress");
    let port = free_port().to_string();
    let words = ["vs", "floor", "floor", "-c", "2", "-r", "200", "--budget", "1s", "--tolerance"];
    let more = ["0.5%", "--port", &port, "--junit", "vs.xml", "--step-summary", "vs.md"];
    let output = run_in(&root, &[&words[..], &more].concat());
    let (said, progress) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(progress.lines().any(|line| line.starts_with("100 %, ")), "{progress}");
    let not_shown = "not shown to be at most 0.5 % worse than floor-2, since an interval needs";
    let true_ones = ["about 4 s; in deathmatch-vs", "the budget ended before +-1 %"];
    let more = ["the rate is fixed", "the floor against itself", not_shown];
    for words in true_ones.into_iter().chain(more) {
        assert!(said.contains(words), "{words}: {said}");
    }
    for words in ["about 1 min", "every interval", "no contender ran twice", "more than 0 %"] {
        assert!(!said.contains(words), "{words}: {said}");
    }
    let xml = fs::read_to_string(root.join("vs.xml")).unwrap();
    assert!(xml.contains("failures=\"1\"") && xml.contains(not_shown), "{xml}");
    assert!(fs::read_to_string(root.join("vs.md")).unwrap().contains("| **failed** | "));
    judged(&root.join("deathmatch-vs"), "not_shown", not_shown);
    assert!(said.contains("floor-2 "), "two names: {said}");
}

#[test]
fn files_that_cannot_be_written_are_named_before_a_load() {
    let root = folder("words-files");
    fs::create_dir(root.join("begun")).unwrap();
    fs::write(root.join("begun/samples.jsonl"), "").unwrap();
    fs::write(root.join("file"), "").unwrap();
    // Nobody listens there, so a load would fail otherwise.
    let url = "http://127.0.0.1:1/";
    let rows: [(&[&str], &str); 5] = [
        (&["--csv", "none/a", url], "--csv none/a: there is no folder none"),
        (&["--junit", "none/a", url], "--junit none/a: there is no folder none"),
        (&["--html", "begun", url], "--html begun: that is a folder"),
        (&["vs", "nginx", "lighttpd", "--out", "file/out"], "--out file/out: "),
        (&["vs", "nginx", "lighttpd", "--out", "begun"], "begun contains a run: use another --out"),
    ];
    for (words, why) in rows {
        let output = run_in(&root, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
    fs::remove_dir_all(root).unwrap();
}
