//! Servers that run already: targets of `run`, and both sides of `vs`.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use deathmatch::arena::recorded;
use deathmatch::sample::Sample;
use rustix::process::{Pid, Signal, kill_process};
use scripted::{PLAN, folder, free_port};
use serde_json::Value;

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

/// The generator needs a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn a_target_of_http_1_0_beneath_a_path_is_measured_beside_contenders() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("target");
    let (plan, out) = (root.join("plan.toml"), root.join("out"));
    fs::write(&plan, PLAN).unwrap();
    let server = Server::start(Some(out.join("docroot")));
    let target = format!("mine=http://localhost:{}/sub/folder/?x", server.address.port());
    let run = |more: &[&str]| {
        let mut command = Command::new(DEATHMATCH);
        command.arg("run").arg(&plan).args([
            "--target",
            &target,
            "--port",
            &free_port().to_string(),
        ]);
        command.arg("--out").arg(&out).args(more).output().unwrap()
    };
    // This process has the server.
    let pid = std::process::id().to_string();
    let output = run(&["--only", "floor", "--pid", &pid]);
    assert!(output.status.success(), "{}", said(&output));
    let samples = recorded(&out).unwrap();
    let of = |name: &str| -> Vec<&Sample> {
        samples.iter().filter(|s| s.contender == name && !s.probe).collect()
    };
    assert!(!of("floor").is_empty(), "{}", said(&output));
    let mine = of("mine");
    assert!(!mine.is_empty(), "{}", said(&output));
    for sample in mine {
        let load = &sample.load;
        assert!(load.replies > 0 && load.errors.total() == 0, "{load:?}");
        let used = sample.server.as_ref().unwrap();
        assert!(used.cpu_s > 0.0, "{used:?}");
    }
    assert_eq!(server.elsewhere.load(Ordering::SeqCst), 0, "every path is in the folder");

    fs::remove_dir_all(&out).unwrap();
    for (more, words) in [
        (&["--pid", "other=1"][..], "--pid"),
        (&["--pid", "4000000000"], "no process"),
        (&["--pid", "x"], "PID"),
        (&["--only", "mine"], "another name"),
        (&["--target", "dead=127.0.0.1:1"], "nothing listens"),
    ] {
        let output = run(more);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", said(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(words), "{more:?}: {}", said(&output));
    }
}

#[test]
fn vs_judges_the_first_url_by_the_others_and_by_a_kept_run() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("vs");
    let (one, two) = (Server::start(None), Server::start(None));
    let vs = |first: &Server, second: &Server, out: &str, more: &[&str]| {
        let url = |server: &Server| format!("http://{}/any?thing", server.address);
        let output = Command::new(DEATHMATCH)
            .args([
                "vs",
                &url(first),
                &url(second),
                "-c",
                "2",
                "--budget",
                "40s",
                "--precision",
                "50%",
                "--json",
            ])
            .args(["--out".as_ref(), root.join(out).as_os_str()])
            .args(more)
            .output()
            .unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output, found)
    };
    // Without a delay the rate of the fast one would swing with the machine.
    one.delay_ms.store(2, Ordering::SeqCst);
    two.delay_ms.store(20, Ordering::SeqCst);
    let (output, found) = vs(&one, &two, "fast", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let judged = &found["judgements"][0];
    assert_eq!(judged["verdict"], "fine", "{found}");
    assert_eq!(judged["against"], two.address.to_string(), "{found}");
    assert_eq!(found["outcome"], "fine", "{found}");
    scripted::judged(&root.join("fast"), "fine", "replies a second: at most 5 % worse than");
    let (output, found) = vs(&two, &one, "slow", &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(found["judgements"][0]["verdict"], "regression", "{found}");
    let words = "replies a second: WORSE by more than 5 % than";
    scripted::judged(&root.join("slow"), "regression", words);

    // Slower than before, though as fast as the other.
    let before = root.join("fast");
    one.delay_ms.store(20, Ordering::SeqCst);
    let (output, found) = vs(&one, &two, "after", &["--baseline", before.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(found["judgements"][0]["verdict"], "regression", "{found}");
    let (output, _) = vs(&two, &one, "turned", &["--baseline", before.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let words = format!("the first server of that run is {}, not {}", one.address, two.address);
    assert!(String::from_utf8_lossy(&output.stderr).contains(&words), "{}", said(&output));

    // This process has both servers.
    let pid = std::process::id().to_string();
    let (output, found) = vs(&one, &two, "pids", &["--pid", &pid, "--pid", &pid]);
    let judged = found["judgements"].as_array().unwrap_or_else(|| panic!("{}", said(&output)));
    let measures: Vec<&str> = judged.iter().filter_map(|one| one["measure"].as_str()).collect();
    assert_eq!(measures, ["processor time of a request", "replies a second"], "{found}");
    for (pid, words) in [("4000000000", "no process"), ("x", "PID"), ("nginx=1", "HOST:PORT=PID")] {
        let (output, _) = vs(&one, &two, "bad", &["--pid", pid]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(words), "{pid}: {}", said(&output));
    }

    let (output, _) = vs(&one, &two, "none", &["--baseline", "/nonexistent"]);
    assert!(!output.status.success(), "{}", said(&output));
    two.length.store(3, Ordering::SeqCst);
    let (output, _) = vs(&one, &two, "bytes", &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("was not measured"), "the bytes differ: {}", said(&output));
}

#[test]
fn vs_judges_failed_requests_of_the_first_server() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("vs-failed");
    let (one, two) = (Server::start(None), Server::start(None));
    one.fails_each.store(50, Ordering::SeqCst);
    let url = |server: &Server| format!("http://{}/any", server.address);
    let output = Command::new(DEATHMATCH)
        .args(["vs", &url(&one), &url(&two), "-c", "2", "--budget", "1s", "--json", "--out"])
        .arg(root.join("out"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let words = format!("{}, failed requests: WORSE than {} (", one.address, two.address);
    scripted::judged(&root.join("out"), "regression", &words);

    // So many that no slice of the other can be compared.
    one.fails_each.store(2, Ordering::SeqCst);
    let output = Command::new(DEATHMATCH)
        .args(["vs", &url(&two), &url(&one), "-c", "2", "--budget", "1s", "--out"])
        .arg(root.join("other"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = format!("the slices of {} are marked: Little's law", one.address);
    let table = format!("{} is not compared: {why}", one.address);
    let verdict = format!("{} is not compared with {}: {why}.", two.address, one.address);
    assert!(text.contains(&table) && text.contains(&verdict), "{}", said(&output));
}

#[test]
fn vs_has_no_verdict_on_a_server_that_dies_meanwhile() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("vs-dies");
    let (out, pid) = (root.join("out"), root.join("pid"));
    let floor = env!("CARGO_BIN_EXE_deathmatch-floor");
    let command = format!("echo $$ > {} && exec {floor} {{port}} {{docroot}} 1", pid.display());
    let port = free_port().to_string();
    let mut duel = Command::new(DEATHMATCH)
        .args(["vs", &command, "floor", "-c", "2", "--budget", "60m", "--precision", "0.1%"])
        .args(["--tolerance", "50%", "--json", "--port", &port, "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Enough bursts for an interval, and then within one: after the last slice of a burst a server
    // is stopped anyway.
    let samples = || fs::read_to_string(out.join("samples.jsonl")).unwrap_or_default();
    while samples().lines().count() < 2 * (4 * 4 + 1) {
        assert_eq!(duel.try_wait().unwrap(), None, "the duel has ended early");
        thread::sleep(Duration::from_millis(10));
    }
    let pid: i32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let output = duel.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    let words = "deathmatch-floor failed, so there is no verdict: in cycle ";
    assert!(error.contains(words) && error.contains("it died"), "{}", said(&output));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("outcome"), "{}", said(&output));
}

/// Regression: faults of the generator ended `vs` with 1, the code of a server that is worse.
#[test]
fn vs_without_a_verdict_has_the_code_of_wrong_usage() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("vs-faults");
    let (file, out, port) = (root.join("file"), root.join("out"), free_port().to_string());
    fs::write(&file, "").unwrap();
    let beneath = file.join("out");
    for (out, cores, words) in [(&out, "0,4000", "core 4000"), (&beneath, "0,1", "directory")] {
        let output = Command::new(DEATHMATCH)
            .args(["vs", "floor", "floor", "-c", "2", "--budget", "1s", "--cores", cores])
            .args(["--port", &port, "--out"])
            .arg(out)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{cores}: {}", said(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(words), "{cores}: {}", said(&output));
    }
}

#[test]
fn vs_starts_a_command() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("vs-command");
    let floor = env!("CARGO_BIN_EXE_deathmatch-floor");
    let command = format!("{floor} {{port}} {{docroot}} 1");
    let port = free_port().to_string();
    let output = Command::new(DEATHMATCH)
        .args([
            "vs",
            &command,
            "floor",
            "-c",
            "2",
            "--budget",
            "20s",
            "--precision",
            "50%",
            "--json",
            "--port",
            &port,
        ])
        .args(["--out".as_ref(), root.join("out").as_os_str()])
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let judged = found["judgements"].as_array().unwrap_or_else(|| panic!("{}", said(&output)));
    assert!(judged.iter().any(|j| j["against"] == "floor"), "{}", said(&output));
    assert!(found["duels"][0]["contenders"]["deathmatch-floor"]["cpu_us"].as_f64() > Some(0.0));
    for (servers, words) in [
        (&["nginx"][..], "SERVER"),
        (&["./x -p 80", "nginx"], "{port}"),
        (&["iis", "nginx"], "no contender"),
        (&["http://127.0.0.1:1/", "floor"], "nothing listens"),
    ] {
        let output = Command::new(DEATHMATCH).arg("vs").args(servers).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{servers:?}: {}", said(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(words), "{servers:?}: {}", said(&output));
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A server that closes the connection after each response, which is one of HTTP/1.0 if it has a
/// docroot.
struct Server {
    address: SocketAddr,
    delay_ms: Arc<AtomicU64>,
    length: Arc<AtomicU64>,
    /// One of so many requests of the generator fails; 0: none.
    fails_each: Arc<AtomicU64>,
    /// Requests outside of `/sub/folder/`.
    elsewhere: Arc<AtomicU64>,
}

impl Server {
    fn start(docroot: Option<std::path::PathBuf>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            delay_ms: Arc::default(),
            length: Arc::new(AtomicU64::new(5)),
            fails_each: Arc::default(),
            elsewhere: Arc::default(),
        };
        let (delay, length) = (server.delay_ms.clone(), server.length.clone());
        let (elsewhere, fails_each) = (server.elsewhere.clone(), server.fails_each.clone());
        thread::spawn(move || {
            for (number, socket) in (1_u64..).zip(listener.incoming()) {
                let (delay, length) = (delay.clone(), length.clone());
                let (elsewhere, docroot) = (elsewhere.clone(), docroot.clone());
                let fails_each = fails_each.load(Ordering::SeqCst);
                thread::spawn(move || {
                    let mut socket = socket.unwrap();
                    let Some(head) = receive(&mut socket) else { return };
                    let path = head.split(' ').nth(1).unwrap();
                    let is_measured = head.contains("User-Agent: deathmatch");
                    let fails = fails_each > 0 && is_measured && number % fails_each == 0;
                    let status = if fails { "500 Failed" } else { "200 OK" };
                    thread::sleep(Duration::from_millis(delay.load(Ordering::SeqCst)));
                    let length = usize::try_from(length.load(Ordering::SeqCst)).unwrap();
                    let response = match &docroot {
                        Some(docroot) => file(docroot, path, &elsewhere),
                        None => format!(
                            "HTTP/1.1 {status}\r\nContent-Type: text/x\r\nConnection: close\r\n\
                             Content-Length: {length}\r\n\r\n{}",
                            &"hello"[..length]
                        )
                        .into_bytes(),
                    };
                    let _ = socket.write_all(&response);
                });
            }
        });
        server
    }
}

/// The head of a request.
fn receive(socket: &mut TcpStream) -> Option<String> {
    let (mut read, mut piece) = (Vec::new(), [0; 4096]);
    while !read.ends_with(b"\r\n\r\n") {
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => read.extend_from_slice(&piece[..count]),
        }
    }
    Some(String::from_utf8_lossy(&read).into_owned())
}

/// Without a length: the end of the connection ends it.
fn file(docroot: &Path, path: &str, elsewhere: &AtomicU64) -> Vec<u8> {
    let Some(name) = path.strip_prefix("/sub/folder/") else {
        elsewhere.fetch_add(1, Ordering::SeqCst);
        return b"HTTP/1.0 404 No\r\n\r\n".to_vec();
    };
    let head = b"HTTP/1.0 200 OK\r\nContent-Type: image/png\r\n\r\n".to_vec();
    [head, fs::read(docroot.join(name)).unwrap()].concat()
}
