//! `deathmatch run` under faults, as a user sees it: its messages, its files, the processes it
//! ends.

#![allow(clippy::unwrap_used)]

mod scripted;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use deathmatch::arena::recorded;
use deathmatch::plan::Plan;
use deathmatch::sample::Sample;
use deathmatch::stats::Duel;
use rustix::process::{Pid, Signal, kill_process};
use scripted::{PLAN, Scripted, folder, free_port};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");
const FLOOR: &str = env!("CARGO_BIN_EXE_deathmatch-floor");

/// The generator needs a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn a_signal_ends_it_at_once_and_nothing_is_lost() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for signal in [Signal::INT, Signal::TERM] {
        let stage = Stage::new("signal");
        // Longer than this test may take: only the signal ends it.
        stage.write_plan(&PLAN.replace("sample_s = 0.05", "sample_s = 600"));
        let mut child = stage.command(&["--only", "floor"]).spawn().unwrap();
        stage.until_asked(&mut child);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("Continue with:") && error.contains("--resume"), "{error}");
        stage.assert_nothing_runs();

        stage.write_plan(PLAN);
        let output = stage.command(&["--only", "floor", "--resume"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(
            recorded(&stage.out).unwrap().iter().filter(|s| !s.probe && s.trial == 0).count(),
            4
        );
        assert!(stage.out.join("report.html").exists(), "and is drawn");
    }
}

#[test]
fn a_failed_contender_is_a_row_with_a_reason_and_the_run_continues() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("fails");
    let dying = stage.script(
        "dying",
        &format!(
            "case \"$*\" in *--version*) exec {FLOOR} \"$@\" ;; esac\necho out of order\nexit 3"
        ),
    );
    let output = stage
        .command(&[
            "--only",
            "floor,broken",
            "--contender",
            &format!("broken=floor:{}", dying.display()),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "the run is good: {}", said(&output));
    let page = fs::read_to_string(stage.out.join("report.html")).unwrap();
    assert!(page.contains("out of order"), "its last words are in the report");
    let samples = recorded(&stage.out).unwrap();
    assert!(samples.iter().all(|s| s.contender == "floor"));
    stage.assert_nothing_runs();
}

#[test]
fn a_contender_that_dies_keeps_its_earlier_samples() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("dies");
    stage.write_plan(
        &PLAN.replace("sample_s = 0.05", "sample_s = 1").replace("rounds = 2", "rounds = 1"),
    );
    let mut child = stage.command(&["--only", "floor"]).spawn().unwrap();
    stage.until(&mut child, || recorded(&stage.out).is_ok_and(|s| s.iter().any(|s| !s.probe)));
    for (pid, _) in stage.processes() {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(said(&output).contains("it died"), "{}", said(&output));
    assert_eq!(recorded(&stage.out).unwrap().iter().filter(|s| !s.probe).count(), 1);
    stage.assert_nothing_runs();
}

#[test]
fn a_port_in_use_means_another_port() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("port");
    let taken = TcpListener::bind(("127.0.0.1", stage.port)).unwrap();
    let output = stage.command(&["--only", "floor"]).output().unwrap();
    let said = said(&output);
    assert!(said.contains(&format!("some from {} on are in use", stage.port)), "{said}");
    assert!(output.status.success(), "{said}");
    drop(taken);
    stage.assert_nothing_runs();
}

#[test]
fn a_full_disk_is_reported_and_earlier_samples_remain() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("full");
    let body = {
        let plan = Plan::read(PLAN).unwrap();
        assert_eq!(plan.files.len(), 1);
        let output = stage.command(&["--only", "floor"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        fs::read(stage.out.join("docroot/a.png")).unwrap()
    };
    let server = Scripted::serving(body);
    let disk = stage.root.join("disk");
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=32k none {disk} && {{ {DEATHMATCH} run {plan} --rounds 50 --target {at} \
         --out {disk}/out; echo exit $?; wc -l < {disk}/out/samples.jsonl; }}",
        disk = disk.display(),
        plan = stage.plan().display(),
        at = server.address,
    );
    let output = Command::new("unshare").args(["-rm", "sh", "-c", &script]).output().unwrap();
    let said = said(&output);
    if said.contains("unshare:") {
        eprintln!("not run: no small disk can be made here: {said}");
        return;
    }
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("exit 1"), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: usize = printed.lines().last().unwrap().trim().parse().unwrap();
    assert!(lines > 0, "what was over before is there: {said}");
}

#[test]
fn invalid_arguments_are_refused_before_anything_starts() {
    let rows: [(&[&str], &str, &str); 6] = [
        (&["--only", "iis"], "no contender \"iis\"", "nobody of that name"),
        (&["--contender", "x"], "write NEW=NAME", "an override that is none"),
        (&["--target", "nowhere"], "write HOST:PORT", "a target that is none"),
        (&["--cores", "0"], "--cores", "one processor only"),
        (&["--cores", "0,9999", "--only", "floor"], "core 9999", "a processor that is not there"),
        (&["--only", "floor", "--contender", "y=floor:/nowhere"], "/nowhere", "no such program"),
    ];
    for (words, expected, sentence) in rows {
        let stage = Stage::new("words");
        let output = stage.command(words).output().unwrap();
        assert!(said(&output).contains(expected), "{sentence}: {}", said(&output));
    }
    let stage = Stage::new("keys");
    stage.write_plan(&PLAN.replace("rounds = 2", "roudns = 2"));
    let output = stage.command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("unknown field `roudns`"), "{}", said(&output));
    assert!(!stage.out.exists(), "nothing was begun");
}

#[test]
fn a_server_that_chooses_its_processors_has_turns() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("apart");
    let plan = PLAN.replace("open", "sessions").replace("connections = 2", "calls = 10");
    stage.write_plan(&plan.replace("turns = true", "budget_s = 1"));
    let both = stage.script("both", &format!("exec taskset -c 0,1 {FLOOR} \"$@\""));
    let contender = format!("both=floor:{}", both.display());
    let output = stage.command(&["--only", "floor", "--contender", &contender]).output().unwrap();
    let said = said(&output);
    let reason = "both was measured in turns: it chooses its processors itself (0-1, not 0).";
    assert!(output.status.success() && said.contains(reason), "{said}");
    // Regression: the progress named the rounds beside slices 10001 and 10002.
    assert!(said.contains("left: round 1, ") && !said.contains("round 1000"), "{said}");
    let samples = recorded(&stage.out).unwrap();
    let count = |name: &str, is_slice: bool| {
        let own = samples.iter().filter(|s| s.contender == name && !s.probe && s.trial == 0);
        own.filter(|s| s.slice.is_some() == is_slice).count()
    };
    assert!(count("floor", true) > 0, "the other one has slices");
    // Two rounds of two works; the reference is measured beside it.
    assert_eq!((count("both", true), count("both", false), count("floor", false)), (0, 4, 4));
    stage.assert_nothing_runs();
}

#[test]
fn a_duel_prints_a_table_and_refuses_what_it_cannot_do() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("duel");
    let duel = |words: &[&str]| {
        let mut command = Command::new(DEATHMATCH);
        command.arg("duel").args(words).args(["--port", &stage.port.to_string()]);
        command.arg("--out").arg(&stage.out).output().unwrap()
    };
    for (words, part) in [
        (&[][..], "name contenders, the reference first, or a --plan"),
        (&["iis"], "no contender \"iis\""),
        (&["floor", "--work", "10x"], "write SIZE[:CONNECTIONS][@RATE]"),
        (&["floor", "--precision", "0"], "write a share from 0.1% to 50%"),
        (&["floor", "--budget", "0.5s"], "write a time such as 60s or 2m"),
        (&["floor", "--plan", "deck"], "cannot pause: it is measured by `deathmatch run`"),
    ] {
        let output = duel(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(said(&output).contains(part), "{words:?}: {}", said(&output));
        assert!(!stage.out.exists(), "{words:?}: nothing was begun");
    }

    let words =
        ["floor", "--work", "1k:2", "--work", "1k:2@200", "--budget", "1s", "--idle", "floor"];
    let output = duel(&words);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for part in [
        "1k.bin, 2 connections, as fast as they go",
        "1k.bin at 200/s over 2 connections",
        "the budget ended before +-1 %",
        "floor-2 ",
        "(no interval)",
        "floor-idle, idle with 50 connections",
        "by instructions and cycles",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let duels = fs::read_to_string(stage.out.join("duel.json")).unwrap();
    let duels: Vec<Duel> = serde_json::from_str(&duels).unwrap();
    let standing = &duels[0].contenders["floor-2"];
    assert!(standing.cpu_us.unwrap() > 0.0 && standing.wake_ups.is_some(), "{standing:?}");
    assert!(standing.cpu.is_some() && standing.replies.is_some(), "{standing:?}");
    let at_a_rate = &duels[1].contenders["floor-2"];
    assert!(at_a_rate.replies.is_none(), "a rate is offered, not compared: {at_a_rate:?}");

    let samples = fs::read_to_string(stage.out.join("samples.jsonl")).unwrap();
    let samples = samples.lines().map(|line| serde_json::from_str(line).unwrap());
    let slices: Vec<Sample> = samples.filter(|sample: &Sample| sample.slice.is_some()).collect();
    let has_read = |sample: &Sample| sample.slice.unwrap().first_level_read > Some(0.0);
    assert!(!slices.is_empty() && slices.iter().all(has_read), "the state of the core");
    let mut started = BTreeSet::new();
    for sample in &slices {
        let slice = sample.slice.unwrap();
        let is_first = started.insert((&sample.work, slice.burst, &sample.contender));
        assert_eq!(slice.idle_cpu.is_none(), is_first, "none since a warm-up: {slice:?}");
    }

    let twin = || {
        let run = fs::read_to_string(stage.out.join("run.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&run).unwrap()["twin"].clone()
    };
    assert!(twin().is_null(), "a server against itself alone is compared");
    fs::remove_dir_all(&stage.out).unwrap();
    let output = duel(&["floor", "floor-fresh", "floor", "--work", "1k:2", "--budget", "1s"]);
    assert!(output.status.success(), "{}", self::said(&output));
    assert_eq!(twin(), "floor-2", "beside others its second turn shows the machine");
    stage.assert_nothing_runs();
}

#[test]
fn a_report_without_samples_keeps_the_page() {
    let stage = Stage::new("no-samples");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/deck/run.json");
    fs::create_dir(&stage.out).unwrap();
    fs::copy(kept, stage.out.join("run.json")).unwrap();
    fs::write(stage.out.join("report.html"), "the page").unwrap();
    let output = Command::new(DEATHMATCH).arg("report").arg(&stage.out).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("with its samples.jsonl, decompressed"), "{}", said(&output));
    assert_eq!(fs::read_to_string(stage.out.join("report.html")).unwrap(), "the page");
}

/// A folder with a plan, and a port for it.
struct Stage {
    root: PathBuf,
    out: PathBuf,
    port: u16,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let root = folder(&format!("command-{name}"));
        // The user that the server becomes must be able to enter the folder.
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let port = free_port();
        let stage = Stage { out: root.join("out"), root, port };
        stage.write_plan(PLAN);
        stage
    }

    fn plan(&self) -> PathBuf {
        self.root.join("plan.toml")
    }

    fn write_plan(&self, text: &str) {
        fs::write(self.plan(), text.replace("\"one\"", "\"floor\"")).unwrap();
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(DEATHMATCH);
        command.arg("run").arg(self.plan()).arg("--out").arg(&self.out);
        command.arg("--port").arg(self.port.to_string()).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Waits until the server gets requests.
    fn until_asked(&self, child: &mut Child) {
        self.until(child, || !self.processes().is_empty());
    }

    /// Waits for a condition while the program lives, by polling.
    fn until(&self, child: &mut Child, mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            if child.try_wait().unwrap().is_some() {
                let said = child.stderr.take().map(BufReader::new).map(|r| r.lines().count());
                panic!("it ended too early, with {said:?} lines of complaint");
            }
            std::thread::yield_now();
        }
    }

    /// Processes that serve this stage's files, with their commands.
    fn processes(&self) -> Vec<(i32, String)> {
        let docroot = self.out.join("docroot");
        let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = all.filter_map(|p| p.file_name().to_str()?.parse::<i32>().ok());
        let command = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).ok().map(|c| (pid, c));
        let commands = pids.filter_map(command);
        let commands =
            commands.map(|(pid, c)| (pid, String::from_utf8_lossy(&c).replace('\0', " ")));
        commands.filter(|(_, c)| c.contains(&*docroot.to_string_lossy())).collect()
    }

    fn assert_nothing_runs(&self) {
        assert_eq!(self.processes(), [], "a server was left behind");
        TcpListener::bind(("127.0.0.1", self.port)).expect("its port is free again");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.root));
    }
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn a_path_that_is_not_there_is_an_error_that_names_it() {
    let stage = Stage::new("nosuch");
    let arguments = ["--only", "floor", "--contender", "old=floor:/nosuch"];
    let output = stage.command(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("old=floor:/nosuch: /nosuch: No such file"),
        "{}",
        said(&output)
    );
    let output = stage.command(&["--contender-dir", "/nosuch"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--contender-dir: /nosuch: No such file"), "{}", said(&output));
}

#[test]
fn the_contenders_of_a_folder_take_part() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("folder");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/contenders");
    let example = example.display().to_string();
    let arguments = ["--only", "floor,python", "--rounds", "1", "--contender-dir", &example];
    let output = stage.command(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = said(&output);
    assert!(!text.contains("1 rounds") && !text.contains("1 works"), "{text}");
    if text.contains("cannot take part: python3 was not found") {
        println!("skipped: python3 is not installed");
        return;
    }
    let samples = recorded(&stage.out).unwrap();
    assert!(samples.iter().any(|s| s.contender == "python" && s.load.replies > 0), "{text}");
}

#[test]
fn a_dead_target_is_said_to_be_unreachable() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("dead");
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    drop(socket);
    let output = stage.command(&["--target", &address]).output().unwrap();
    let text = said(&output).replace("\n  ", " ");
    assert!(text.contains(&format!("cannot connect to http://{address}/ ")), "{text}");
    assert!(!text.contains("wrong"), "{text}");
}

#[test]
fn system_calls_are_counted_or_the_missing_tool_is_named() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::new("calls");
    let calls = |path: &str| {
        let mut command = Command::new(DEATHMATCH);
        command.args(["calls", "floor", "--connections", "2", "--seconds", "1", "--json"]);
        command.args(["--port", &stage.port.to_string()]).env("PATH", path);
        command.arg("--out").arg(&stage.out).output().unwrap()
    };
    let without = stage.out.join("without");
    fs::create_dir_all(&without).unwrap();
    let output = calls(without.to_str().unwrap());
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("apt-get install linux-perf"), "{}", said(&output));

    let output = calls(&std::env::var("PATH").unwrap());
    if !output.status.success() {
        let said = said(&output);
        assert!(said.contains("linux-perf") || said.contains("as root"), "{said}");
        return;
    }
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let requests = all[0]["requests"].as_f64().unwrap();
    // The floor receives once and sends once for each request, apart from making two connections.
    for name in ["recvfrom", "sendto"] {
        let counts = all[0]["counts"].as_array().unwrap();
        let count = counts.iter().find(|count| count["name"] == name).unwrap();
        let each = count["calls"].as_f64().unwrap() / requests;
        assert!((0.99..1.05).contains(&each), "{name}: {each} of {requests}");
    }
    let moment = all[0]["moment"].as_array().unwrap();
    assert!(moment.iter().any(|call| call.as_str().unwrap().starts_with("sendto(")), "{moment:?}");
}
