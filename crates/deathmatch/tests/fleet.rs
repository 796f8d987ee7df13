//! `deathmatch load`, `watch` and `merge` as a user starts them, and the manifest of a Kubernetes
//! Job.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser as _;
use deathmatch::cli::{Cli, Command as Parsed};
use deathmatch::fleet::{Sum, Watched, rfc3339, unix_now};
use rustix::process::{Pid, Signal, kill_process};
use scripted::{Scripted, folder};
use serde_json::Value;

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

/// Set within the network namespace of the test's own.
const INSIDE: &str = "DEATHMATCH_TEST_NAMESPACE";

/// Address of the server in that namespace.
const SERVER: &str = "10.99.0.1";

/// The generators need whole cores: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn four_generators_in_namespaces_are_one_report() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let is_inside = std::env::var_os(INSIDE).is_some();
    let makes = "ip link set lo up && ip link add v type veth peer name w";
    let can_make = || {
        let tried = Command::new("unshare").args(["-rn", "sh", "-c", makes]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if !is_inside && can_make() {
        let inner = Command::new("unshare")
            .arg("-rn")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "four_generators_in_namespaces_are_one_report", "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(inner.status.success(), "{}", said(&inner));
        return;
    }
    four_generators(is_inside);
}

/// 100 requests a second for two seconds from each.
fn four_generators(in_namespaces: bool) {
    let dir = folder("fleet-four");
    if in_namespaces {
        shell(&format!("ip link set lo up && ip addr add {SERVER}/32 dev lo"));
    }
    let server = match in_namespaces {
        true => Scripted::serving_at(SERVER, b"hello".to_vec()),
        false => Scripted::serving(b"hello".to_vec()),
    };
    let own = std::process::id().to_string();
    let watch_file = dir.join("watch.jsonl");
    let watch = spawn(&["watch", &own, "--out", path(&watch_file)]);
    let url = format!("http://{}/", server.address);
    let at = rfc3339(unix_now() + 3.0);
    let files: Vec<PathBuf> = (1..=4).map(|i| dir.join(format!("load-{i}.json"))).collect();
    let generators: Vec<Child> = files
        .iter()
        .zip(1..)
        .map(|(file, i)| {
            let load = ["load", &url, "-c", "2", "-r", "100", "-d", "2s", "--at", &at, "--out"];
            let load = [&load[..], &[path(file)]].concat();
            if in_namespaces { in_namespace(i, &load) } else { spawn(&load) }
        })
        .collect();
    for generator in generators {
        let output = generator.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    stop(&watch, Signal::INT);
    assert!(watch.wait_with_output().unwrap().status.success());
    assert_eq!(server.requests.load(Ordering::SeqCst), 800);

    let out = dir.join("report");
    let mut named: Vec<&str> = files.iter().map(|file| path(file)).collect();
    named.push(path(&watch_file));
    let (output, merged) = merge(&named, &out);
    // A loaded machine may make a generator late.
    let is_marked = merged["is_marked"] == true;
    assert_eq!(output.status.code(), Some(i32::from(is_marked)), "{}", said(&output));
    assert_eq!((&merged["responses"], &merged["failed"]), (&800.into(), &0.into()), "{merged}");
    assert_eq!(merged["statuses"], serde_json::json!({ "200": 800 }));
    assert_eq!(merged["rate"], 400.0);
    let mut sum = Sum::default();
    for file in &files {
        let its: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(its["counts"]["responses"], 200, "{its}");
        sum.add(&Sum::decode(text(&its["counts"]["histogram"])).unwrap());
    }
    assert_eq!((sum.count(), &sum), (800, &Sum::decode(text(&merged["histogram"])).unwrap()));
    assert!(merged["server"]["cpus"].as_f64().unwrap() > 0.0, "{}", merged["server"]);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("responses/s") && page.contains("Processors that the server used"));
    assert!(!page.contains("<script") && !page.contains("http://www"), "one file, no JavaScript");
    if in_namespaces {
        let hosts: Vec<&str> =
            merged["generators"].as_array().unwrap().iter().map(|g| text(&g["host"])).collect();
        assert_eq!(hosts, ["gen-1", "gen-2", "gen-3", "gen-4"]);
        assert!(hosts.iter().all(|host| page.contains(host)));
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_skewed_and_a_late_generator_are_marked() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = folder("fleet-marks");
    let server = Scripted::serving(b"hello".to_vec());
    let url = format!("http://{}/", server.address);
    let start = unix_now() + 2.0;
    let file = |name: &str| dir.join(format!("{name}.json"));
    let generator = |name: &str, start: f64| {
        let (file, at) = (file(name), rfc3339(start));
        spawn(&["load", &url, "-c", "1", "-r", "50", "-d", "1s", "--at", &at, "--out", path(&file)])
    };
    let first =
        [("a", start), ("b", start), ("skewed", start + 1.5)].map(|(n, at)| generator(n, at));
    for child in first {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    // Its start has passed when it is called.
    assert!(generator("late", start).wait_with_output().unwrap().status.success());
    let files = ["a", "b", "skewed", "late"].map(file);
    let named: Vec<&str> = files.iter().map(|file| path(file)).collect();
    let (output, merged) = merge(&named, &dir.join("report"));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let kinds = |name: &str| -> Vec<String> {
        let all = merged["generators"].as_array().unwrap();
        let its = all.iter().find(|its| text(&its["file"]).ends_with(&format!("{name}.json")));
        let marks = its.unwrap()["marks"].as_array().unwrap();
        marks.iter().map(|mark| text(&mark["kind"]).to_owned()).collect()
    };
    let has = |name: &str, kind: &str| kinds(name).contains(&kind.to_owned());
    assert!(has("skewed", "skewed") && has("late", "late"), "{merged}");
    assert!(!has("late", "skewed") && !has("a", "skewed") && !has("b", "skewed"), "{merged}");
    let page = fs::read_to_string(dir.join("report/report.html")).unwrap();
    assert!(page.contains("by its clock") && page.contains("late.json"), "the page has the marks");
    let output = run(&[&["merge"], &named[..], &["--out", path(&dir.join("again"))]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("1.5 s after the others"), "{}", said(&output));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_generator_s_only_output_is_its_file_without_secrets() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Scripted::serving(b"hello".to_vec());
    let url = format!("http://{}/", server.address);
    let secret = "Authorization: Bearer s3cret";
    let args = ["load", &url, "-n", "20", "-c", "2", "-H", secret, "-H", "X-A: b", "--out", "-"];
    let output = run(&args);
    assert!(output.status.success(), "{}", said(&output));
    assert!(output.stderr.is_empty(), "{}", said(&output));
    let its: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&its["counts"]["responses"], &its["format"]),
        (&20.into(), &"deathmatch-load-1".into())
    );
    assert_eq!(its["options"]["headers"][0], "Authorization: (not recorded)");
    assert_eq!(its["options"]["headers"][1], "X-A: b");
    assert!(!said(&output).contains("s3cret"));
}

#[test]
fn a_load_that_fails_is_written_and_one_that_is_interrupted_is_marked() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = folder("fleet-ends");
    let file = |name: &str| dir.join(format!("{name}.json"));
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", deaf.local_addr().unwrap());
    thread::spawn(move || deaf.incoming().for_each(drop));
    let output = run(&["load", &url, "-n", "3", "-c", "1", "--out", path(&file("failed"))]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let its: Value = serde_json::from_str(&fs::read_to_string(file("failed")).unwrap()).unwrap();
    assert_eq!((&its["counts"]["failed"], &its["counts"]["responses"]), (&3.into(), &0.into()));
    let (output, merged) = merge(&[path(&file("failed"))], &dir.join("report"));
    assert_eq!(merged["failed"], 3, "{}", said(&output));

    let server = Scripted::serving(b"hello".to_vec());
    let url = format!("http://{}/", server.address);
    let cut = file("cut");
    let args = ["load", &url, "-c", "1", "-r", "100", "-d", "1h", "--out", path(&cut)];
    let generator = spawn(&args);
    let until = Instant::now() + Duration::from_secs(60);
    while server.requests.load(Ordering::SeqCst) < 10 {
        assert!(Instant::now() < until, "no ten requests within a minute");
        thread::sleep(Duration::from_millis(10));
    }
    stop(&generator, Signal::TERM);
    assert_eq!(generator.wait_with_output().unwrap().status.code(), Some(1));
    let (output, merged) = merge(&[path(&cut)], &dir.join("report"));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let marks = merged["generators"][0]["marks"].as_array().unwrap();
    assert!(marks.iter().any(|mark| mark["kind"] == "early"), "{marks:?}");

    // Before its start there is nothing to write.
    let early = file("early");
    let before = server.connections.load(Ordering::SeqCst);
    let waiting = spawn(&[&args[..8], &["--at", "+1h", "--out", path(&early)]].concat());
    while server.connections.load(Ordering::SeqCst) == before {
        assert!(Instant::now() < until + Duration::from_secs(60), "no connection");
        thread::sleep(Duration::from_millis(10));
    }
    stop(&waiting, Signal::INT);
    assert!(!waiting.wait_with_output().unwrap().status.success());
    assert!(!early.exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn wrong_usage_and_unreadable_files_exit_with_2_and_name_the_file() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = folder("fleet-files");
    let server = Scripted::serving(b"hello".to_vec());
    let url = format!("http://{}/", server.address);
    let good = dir.join("good.json");
    let made = run(&["load", &url, "-n", "10", "-c", "1", "--out", path(&good)]);
    assert!(made.status.success(), "{}", said(&made));
    let whole = fs::read_to_string(&good).unwrap();
    let line = |pid: u32| {
        let watched =
            Watched { format: "deathmatch-watch-1".to_owned(), pid, ..Watched::default() };
        serde_json::to_string(&watched).unwrap() + "\n"
    };
    let write = |name: &str, content: &[u8]| {
        let file = dir.join(name);
        fs::write(&file, content).unwrap();
        path(&file).to_owned()
    };
    let its: Value = serde_json::from_str(&whole).unwrap();
    let histogram = text(&its["counts"]["histogram"]);
    let bad = [
        (dir.join("none.json").display().to_string(), "no such file"),
        (write("empty.json", b""), "has not ended"),
        (write("cut.json", &whole.as_bytes()[..whole.len() / 2]), "collect it again"),
        (write("other.json", b"{}"), "not a whole file"),
        (write("binary.json", &[0xff, 0xfe]), "not text"),
        (write("old.json", whole.replace("load-1", "load-0").as_bytes()), "one version"),
        (write("damaged.json", whole.replace(histogram, "AAAA").as_bytes()), "HdrHistogram"),
        (write("twice.json", whole.as_bytes()), "same generator"),
        (write("watch.jsonl", (line(1) + "{\n" + &line(1)).as_bytes()), "line 2"),
    ];
    let out = dir.join("report");
    for (file, why) in &bad {
        let output = run(&["merge", path(&good), file, "--out", path(&out)]);
        assert_eq!(output.status.code(), Some(2), "{file}: {}", said(&output));
        assert!(said(&output).contains(why) && said(&output).contains(file), "{}", said(&output));
    }
    let watch = write("only.jsonl", line(1).as_bytes());
    let two = write("two.jsonl", (line(1) + &line(2)).as_bytes());
    let (gone, good, out) = (dir.join("no/x.json"), path(&good), path(&out));
    let full = dir.join("full.json");
    let rows: [(&[&str], &str); 10] = [
        (&["merge", &watch, "--out", out], "none of these files"),
        (&["merge", good, &two, "--out", out], "several processes"),
        (&["merge", "--out", out], "FILES"),
        (&["load", &url], "--out"),
        (&["load", &url, "--json", "--out", "-"], "leave --json"),
        (&["load", &url, "--at", "noon", "--out", out], "+5s"),
        (&["load", &url, "--at", "2001-01-01T00:00:00Z", "--out", out], "check the clock"),
        (&["load", &url, "--out", path(&gone)], "there is no folder"),
        (&["watch", "4194305", "--out", out], "no such process"),
        (&["load", &url, "-n", "1", "--csv", "/dev/full", "--out", path(&full)], "/dev/full: "),
    ];
    for (args, why) in rows {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{args:?}: {}", said(&output));
    }
    assert!(full.exists(), "it is written in spite of another file");
    // A watch that was copied while it wrote.
    let cut = write("cut.jsonl", (line(1) + "{\"form").as_bytes());
    let output = run(&["merge", good, &cut, "--out", out]);
    assert!(said(&output).contains("not watched in the time"), "{}", said(&output));
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_watch_ends_with_its_process_and_at_a_signal() {
    let dir = folder("fleet-watch");
    for by_signal in [false, true] {
        let file = dir.join(format!("{by_signal}.jsonl"));
        let mut busy =
            Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        let mut watch = spawn(&["watch", &busy.id().to_string(), "--out", path(&file)]);
        let lines = || fs::read_to_string(&file).unwrap_or_default().lines().count();
        let until = Instant::now() + Duration::from_secs(60);
        while lines() < 2 {
            assert!(Instant::now() < until, "no second line within a minute");
            thread::sleep(Duration::from_millis(20));
        }
        if by_signal {
            stop(&watch, Signal::TERM);
            assert!(watch.wait().unwrap().success());
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(watch.wait().unwrap().success());
        let text = fs::read_to_string(&file).unwrap();
        let all: Vec<Watched> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(all.iter().all(|line| line.pid == busy.id() && line.unix_s > 1e9), "{text}");
        let (first, second) = (&all[0], &all[1]);
        assert!(first.server.cpu_s > 0.0 && second.machine.seconds > 0.5, "{text}");
        assert!(second.unix_s > first.unix_s, "{text}");
    }
    fs::remove_dir_all(dir).unwrap();
}

/// The Kubernetes API's own types check it with the other manifests
/// (crates/hurtle/tests/fleet/chart.rs).
#[test]
fn the_manifest_is_an_indexed_job_whose_arguments_are_understood() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/load-job.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let value = |key: &str| {
        let found = lines.iter().find_map(|line| line.trim_start().strip_prefix(key));
        found.unwrap_or_else(|| panic!("{key} is missing")).split(" #").next().unwrap().trim()
    };
    for (key, right) in [
        ("apiVersion:", "batch/v1"),
        ("kind:", "Job"),
        ("completionMode:", "Indexed"),
        ("backoffLimit:", "0"),
        ("restartPolicy:", "Never"),
        ("command:", r#"["deathmatch", "load"]"#),
    ] {
        assert_eq!(value(key), right, "{key}");
    }
    assert_eq!(value("completions:"), value("parallelism:"), "all at once");
    assert!(!text.contains('\t'));
    let args: Vec<String> = serde_json::from_str(value("args:")).unwrap();
    let given = args.iter().map(|arg| arg.replace("START", "2026-01-31T12:00:00Z"));
    let all = ["deathmatch".to_owned(), "load".to_owned()].into_iter().chain(given);
    match Cli::try_parse_from(all).unwrap().command {
        Some(Parsed::Load(load)) => {
            assert_eq!(load.out.as_os_str(), "-");
            assert!(
                load.at.is_some() && !load.load.urls.is_empty() && load.load.duration.is_some()
            );
        }
        other => panic!("{other:?}"),
    }
}

fn merge(files: &[&str], out: &Path) -> (Output, Value) {
    let output = run(&[&["merge"], files, &["--json", "--out", path(out)]].concat());
    let merged =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    let written: Value =
        serde_json::from_str(&fs::read_to_string(out.join("merged.json")).unwrap()).unwrap();
    assert_eq!(written, merged);
    (output, merged)
}

/// Starts it in a network namespace of its own, joined to this one by a pair of interfaces.
fn in_namespace(i: u32, args: &[&str]) -> Child {
    let near = format!("10.77.{i}.1");
    let setup = format!(
        "hostname gen-{i} && echo ready && read go && ip link set lo up && \
         ip addr add 10.77.{i}.2/24 dev e0 && ip link set e0 up && \
         ip route add default via {near} && exec \"$@\""
    );
    let mut child = Command::new("unshare")
        .args(["--net", "--uts", "sh", "-c", &setup, "sh", DEATHMATCH])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut stdout = BufReader::with_capacity(1, child.stdout.take().unwrap());
    stdout.read_line(&mut ready).unwrap();
    if ready != "ready\n" {
        let mut why = String::new();
        child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        panic!("no namespace: {why}");
    }
    child.stdout = Some(stdout.into_inner());
    let pid = child.id();
    shell(&format!(
        "ip link add v{i} type veth peer name e0 netns {pid} && ip addr add {near}/24 dev v{i} && \
         ip link set v{i} up"
    ));
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    child
}

fn shell(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", said(&output));
}

fn spawn(args: &[&str]) -> Child {
    let mut command = Command::new(DEATHMATCH);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn run(args: &[&str]) -> Output {
    Command::new(DEATHMATCH).args(args).stdin(Stdio::null()).output().unwrap()
}

fn stop(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}
