//! The file of `deathmatch load`, and what it writes beside it.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

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

/// Regression: a generator that starts as soon as it is ready was marked late, because its own
/// first connection took a while.
#[test]
fn a_generator_without_a_start_is_not_late() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = folder("fleet-ready");
    let (url, file) = (format!("ws://{}/", slow_at_first()), dir.join("load.json"));
    let output = run(&["load", &url, "-n", "20", "-c", "1", "--out", path(&file)]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let output = run(&["merge", path(&file), "--json", "--out", path(&dir.join("report"))]);
    let merged: Value = serde_json::from_slice(&output.stdout).unwrap();
    let generator = &merged["generators"][0];
    assert_eq!(generator["marks"], serde_json::json!([]), "{merged}");
    assert_eq!((output.status.code(), &merged["responses"]), (Some(0), &20.into()), "{merged}");
    fs::remove_dir_all(dir).unwrap();
}

/// A server of WebSockets that accepts the first one late, and takes its time for each message, so
/// that the generator mostly waits.
fn slow_at_first() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let is_first = Arc::new(AtomicBool::new(true));
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, is_first) = (socket.unwrap(), is_first.clone());
            thread::spawn(move || {
                // A connection without a request is no attempt to open one.
                let has_request = socket.peek(&mut [0]).is_ok_and(|count| count > 0);
                if has_request && is_first.swap(false, Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(300));
                }
                let Ok(mut socket) = tungstenite::accept(socket) else { return };
                while socket.read().is_ok() {
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
    });
    address
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
