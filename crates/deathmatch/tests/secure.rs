//! A plan over TLS and HTTP/2 with real servers: hurtle from this tree, and Debian's nginx if
//! installed.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use deathmatch::arena::recorded;
use deathmatch::contender::Contender;
use deathmatch::plan::Plan;
use deathmatch::sample::{ConnectionUse, Handshakes, Mark, Sample};
use deathmatch::stats::Duel;
use scripted::{folder, free_port, hurtle_beside};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

const PLAN: &str = r#"
name = "short"
title = "Over TLS"
description = "Short."
reference = "hurtle-tls"
rounds = 1
turns = true
warm_up_s = 1
sample_s = 1
contenders = ["floor", "hurtle-tls", "nginx-tls"]

[[file]]
name = "10k.bin"
bytes = 10240

[[work]]
file = "10k.bin"
handshakes = "full"
sessions = { requests = [100], calls = 1 }

[[work]]
file = "10k.bin"
handshakes = "resumed"
closed = { connections = [4] }

[[work]]
file = "10k.bin"
open = { requests = [300], connections = 4 }

[[work]]
file = "10k.bin"
streams = 10
closed = { connections = [2] }
"#;

/// The generator takes a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a plan with hurtle and, if it is here, nginx: their names, its directory and its output.
fn run(plan_text: &str) -> (Vec<&'static str>, PathBuf, String) {
    let hurtle = hurtle_beside(DEATHMATCH);
    let root = folder("secure");
    let (plan, out) = (root.join("plan.toml"), root.join("out"));
    fs::write(&plan, plan_text).unwrap();
    let output = Command::new(DEATHMATCH)
        .arg("run")
        .arg(&plan)
        .arg("--out")
        .arg(&out)
        .args(["--port", &free_port().to_string(), "--contender"])
        .arg(format!("hurtle-tls=hurtle-tls:{}", hurtle.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("floor does not support TLS, which this plan measures"), "{said}");
    let mut names = vec!["hurtle-tls"];
    if Contender::by_name("nginx-tls").unwrap().probe().is_ok() {
        names.push("nginx-tls");
    }
    (names, root, said.into_owned())
}

#[test]
fn handshakes_kept_connections_and_streams_are_measured_over_tls() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (names, root, said) = run(PLAN);
    let out = root.join("out");
    let samples = recorded(&out).unwrap();
    assert!(samples.iter().any(|s| s.probe), "the floor shows how the machine is");
    for name in names {
        let own: Vec<&Sample> =
            samples.iter().filter(|s| s.contender == name && s.trial == 0).collect();
        assert_eq!(own.len(), 4, "{name}: a sample of each work: {said}");
        for sample in own {
            let (load, what) = (&sample.load, format!("{name}, {}: {sample:?}", sample.work));
            assert!(load.replies > 0 && load.errors.total() == 0, "{what}");
            assert!(load.bytes >= load.replies * 10_240, "all of the file: {what}");
            assert!(!sample.marks.contains(&Mark::WrongBytes), "{what}");
            let Handshakes { full, resumed } = load.handshakes;
            let replies = load.replies;
            let (wanted_full, wanted_resumed) = match sample.over {
                Some(ConnectionUse::Anew { resumed: false }) => (replies, 0),
                Some(ConnectionUse::Anew { resumed: true }) => (0, replies),
                Some(ConnectionUse::Streams(_) | ConnectionUse::Http3(_)) => (2, 0),
                Some(
                    ConnectionUse::Http3Anew
                    | ConnectionUse::Page { .. }
                    | ConnectionUse::Visits { .. },
                ) => (replies, 0),
                Some(ConnectionUse::Herd | ConnectionUse::Grpc(_) | ConnectionUse::WebSocket) => {
                    (0, 0)
                }
                None => (4, 0),
            };
            assert!(resumed == wanted_resumed, "{what}");
            // Connections made in advance may have been established before the measured time.
            assert!(full == wanted_full || sample.over.is_none() && full <= 4, "{what}");
        }
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for part in ["Handshakes", "a resumed handshake each", "10 streams a connection"] {
        assert!(page.contains(part), "{part} is in the report");
    }
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_duel_over_tls_keeps_connections_and_tickets_between_slices() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = PLAN.replace("turns = true", "budget_s = 1");
    let (names, root, said) = run(&plan);
    let samples = recorded(&root.join("out")).unwrap();
    for name in &names {
        let own: Vec<&Sample> = samples.iter().filter(|s| s.contender == *name).collect();
        for work in Plan::read(&plan).unwrap().works {
            let slices: Vec<&&Sample> = own.iter().filter(|s| s.work == work.name()).collect();
            assert!(slices.len() >= 2, "{name}, {}: {said}", work.name());
            for sample in slices {
                let (load, what) = (&sample.load, format!("{name}, {}: {sample:?}", sample.work));
                assert!(load.replies > 0 && load.errors.total() == 0, "{what}");
                assert!(load.replies == load.intended && sample.slice.is_some(), "{what}");
                let Handshakes { full, resumed } = load.handshakes;
                let wanted = match sample.over {
                    Some(ConnectionUse::Anew { resumed: false }) => (load.replies, 0),
                    Some(ConnectionUse::Anew { resumed: true }) => (0, load.replies),
                    Some(ConnectionUse::Http3Anew | ConnectionUse::Page { .. }) => {
                        (load.replies, 0)
                    }
                    _ => (0, 0),
                };
                assert_eq!((full, resumed), wanted, "connections are kept: {what}");
                assert!(sample.server.as_ref().unwrap().cpu_s > 0.0, "{what}");
            }
        }
    }
    let duels = fs::read_to_string(root.join("out/duel.json")).unwrap();
    let duels: Vec<Duel> = serde_json::from_str(&duels).unwrap();
    assert_eq!(duels.len(), 4, "a duel at each work");
    assert!(duels.iter().all(|duel| duel.contenders.len() == names.len()), "{duels:?}");
    fs::remove_dir_all(root).unwrap();
}
