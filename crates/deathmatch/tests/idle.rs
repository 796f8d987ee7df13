//! Idle connections, slow readers and reloads beside a page, and a network with delay, from the
//! plan to the report, as a user runs it.

#![allow(clippy::unwrap_used)]

mod scripted;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use deathmatch::arena::recorded;
use deathmatch::network::LossyLink;
use deathmatch::sample::{Network, Sample};
use scripted::{folder, free_port};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");
const FLOOR: &str = env!("CARGO_BIN_EXE_deathmatch-floor");

/// Generators spin on the same processor: beside another one, the thread that reloads a server did
/// not run for a whole sample.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The floor, started by a shell that takes note of reloads.
const RELOADED: &str = r#"
name = "reloaded"
title = "The floor with reloads"
packages = ["coreutils"]
executable = "sh"
start = ["{BIN}", "{WORK}/start.sh"]
files = [{ from = "reloaded/start.sh", to = "start.sh" }]
url = "/{FILE}"
reload = "HUP"
ready_s = 10

[version]
command = ["echo", "1"]
after = ""

[stop]
signal = "TERM"
grace_s = 5

[[tuned]]
setting = "none"
why = "it is a test"
"#;

const START: &str = r#"
trap 'echo reloaded >> {WORK}/reloads' HUP
trap 'kill "$floor"; exit 0' TERM
FLOOR &
floor=$!
while kill -0 "$floor" 2>/dev/null; do wait "$floor"; done
"#;

fn plan(contenders: &str, beside: &str) -> String {
    format!(
        r#"
name = "short"
title = "A page beside something"
description = "Short."
reference = "floor"
rounds = 1
turns = true
warm_up_s = 0.1
sample_s = 1
contenders = [{contenders}]

[[file]]
name = "page.html"
bytes = 5000

[[work]]
file = "page.html"
open = {{ requests = [100], connections = 2 }}

[[work]]
file = "page.html"
open = {{ requests = [100], connections = 2 }}
beside = {{ {beside} }}
"#
    )
}

#[test]
fn idle_connections_are_held_and_the_memory_for_them_is_in_the_report() {
    let root = folder("idle");
    let output = run(&root, &plan("\"floor\"", "idle = 200"), &[]);
    let [alone, beside] = &samples(&root, &output)[..] else { panic!("{output:?}") };
    assert_eq!((alone.idle, alone.load.errors.total()), (None, 0));
    let idle = beside.idle.unwrap();
    assert_eq!(idle.connections, 200);
    assert!(0 < idle.before_bytes && idle.before_bytes <= idle.after_bytes, "{idle:?}");
    assert_eq!((beside.load.replies, beside.load.errors.total()), (100, 0), "{:?}", beside.load);
    let page = fs::read_to_string(root.join("out/report.html")).unwrap();
    assert!(page.contains("for each idle connection, KB"), "in the report");
    assert!(page.contains("beside 200 idle connections"), "in the report");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_server_is_reloaded_while_it_is_measured_and_only_then() {
    let root = folder("reload");
    let own = root.join("contenders/reloaded");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("contender.toml"), RELOADED).unwrap();
    let floor = format!("{FLOOR} {{PORT}} {{DOCROOT}} {{WORKERS}}");
    fs::write(own.join("start.sh"), START.replace("FLOOR", &floor)).unwrap();
    let folder = root.join("contenders");
    let of = ["--contender-dir", folder.to_str().unwrap()];
    let output = run(&root, &plan("\"floor\", \"reloaded\"", "reloads_per_s = 4"), &of);
    let samples = samples(&root, &output);
    assert!(samples.iter().all(|s| s.load.errors.total() == 0), "{samples:?}");
    let notes = fs::read_to_string(root.join("out/work/reloaded/reloads")).unwrap();
    let all = recorded(&root.join("out")).unwrap();
    let taken = all.iter().filter(|s| s.beside.is_some()).count();
    // After 1/8 s and then every 1/4 s of each second; a busy machine has fewer in time.
    assert!((taken..=5 * taken).contains(&notes.lines().count()), "{taken}: {notes}");
    let page = fs::read_to_string(root.join("out/report.html")).unwrap();
    assert!(page.contains("beside 4 reloads/s"), "in the report");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("floor has no signal for reloads"), "{said}");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn slow_readers_read_at_their_rate_and_the_memory_for_them_is_in_the_report() {
    let root = folder("slow");
    let text = plan("\"floor\"", "file = \"large.bin\", slow = 100, kb_per_s = 10")
        + "\n[[file]]\nname = \"large.bin\"\nbytes = 10000000\n";
    let output = run(&root, &text, &[]);
    let [alone, beside] = &samples(&root, &output)[..] else { panic!("{output:?}") };
    assert_eq!((alone.idle, alone.load.slow), (None, None));
    assert_eq!(beside.idle.unwrap().connections, 100);
    let slow = beside.load.slow.unwrap();
    // Four pieces of 2.5 KB each; a busy machine reads fewer in time.
    assert!((250_000..=1_000_000).contains(&slow.bytes) && slow.closed == 0, "{slow:?}");
    assert_eq!((beside.load.replies, beside.load.errors.total()), (100, 0), "{:?}", beside.load);
    let page = fs::read_to_string(root.join("out/report.html")).unwrap();
    assert!(page.contains("for each slow client, KB"), "in the report");
    assert!(page.contains("beside 100 slow readers of 10 MB at 10 KB/s each"), "in the report");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn slow_senders_send_at_their_rate() {
    let root = folder("senders");
    let text = plan("\"reader\"", "file = \"large.bin\", slow = 20, sends = true, kb_per_s = 10")
        + "\n[[file]]\nname = \"large.bin\"\nbytes = 10000000\n";
    let output = run(&root, &text, &[]);
    let [_, beside] = &samples(&root, &output)[..] else { panic!("{output:?}") };
    let slow = beside.load.slow.unwrap();
    // Four pieces of 2.5 KB each; a busy machine sends fewer in time.
    assert!((50_000..=200_000).contains(&slow.bytes), "{slow:?}");
    let page = fs::read_to_string(root.join("out/report.html")).unwrap();
    assert!(page.contains("beside 20 slow senders of 10 MB at 10 KB/s each"), "in the report");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_network_delays_every_response_by_a_round_trip() {
    let root = folder("network");
    let text = plan("\"floor\"", "").replace("beside = {  }", "network = { delay_ms = 30 }");
    let output = run(&root, &text, &[]);
    let said = [output.stdout.clone(), output.stderr.clone()].concat();
    let said = String::from_utf8_lossy(&said);
    let network = Network { loss: 0.0, delay_ms: 0 };
    if let Err(why) = LossyLink::new(network, 0, 0) {
        println!("skipped: {why}");
        assert!(said.contains("loss and delay need root"), "{said}");
        return;
    }
    let [alone, delayed] = &samples(&root, &output)[..] else { panic!("{said}") };
    assert_eq!(alone.network, None);
    let used = delayed.network.as_ref().unwrap();
    assert!(used.packets > 200 && used.lost == 0 && !used.congestion.is_empty(), "{used:?}");
    let load = &delayed.load;
    assert_eq!((load.replies, load.errors.total()), (100, 0), "{load:?}");
    assert!(load.response.quantile(0.0) >= 59_000_000, "a round trip has 60 ms: {load:?}");
    let page = fs::read_to_string(root.join("out/report.html")).unwrap();
    assert!(page.contains("0 % loss, 30 ms each way"), "in the report");
    fs::remove_dir_all(&root).unwrap();
}

/// The first sample of each work.
fn samples(root: &Path, output: &Output) -> Vec<Sample> {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}{}", String::from_utf8_lossy(&output.stdout));
    let all = recorded(&root.join("out")).unwrap();
    all.into_iter().filter(|s| !s.probe && s.trial == 0).collect()
}

fn run(root: &Path, plan: &str, more: &[&str]) -> Output {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = fs::remove_dir_all(root.join("out"));
    fs::write(root.join("plan.toml"), plan).unwrap();
    let port = free_port().to_string();
    let mut command = Command::new(DEATHMATCH);
    command.arg("run").arg(root.join("plan.toml")).args(["--port", &port]).args(more);
    command.arg("--out").arg(root.join("out")).output().unwrap()
}
