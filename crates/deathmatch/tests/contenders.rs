//! Every installed contender starts, serves the files' own bytes on a kept connection, stops, and
//! leaves no process; missing ones give the reason. Scripted servers have the faults.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use deathmatch::contender::{Catalogue, Contender, Prepared, Site};
use deathmatch::process::{Running, StartError};
use deathmatch::verify::{Fault, upload, verify, verify_http2, verify_http3};
use scripted::free_port;

/// An upstream only: it closes each connection, where contenders keep them. `tests/proxy.rs` has
/// it.
const CLOSING: &str = "pool";

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("deathmatch-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Names and bytes: a page, the deck's picture, a file sent in many pieces, and an empty one.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let noise = |length: u32| (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
    vec![
        ("page.html", b"<!doctype html><title>a</title>".to_vec()),
        ("10k.png", noise(10_240).collect()),
        ("64k.bin", noise(65_536).collect()),
        ("1m.bin", noise(1_048_576).collect()),
        ("3m.bin", noise(3_000_000).collect()),
    ]
}

fn site(folder: &Folder) -> Site {
    let docroot = folder.0.join("files");
    fs::create_dir_all(&docroot).unwrap();
    for (name, bytes) in files() {
        fs::write(docroot.join(name), bytes).unwrap();
    }
    Site {
        work: folder.0.join("work"),
        docroot,
        port: free_port(),
        cores: vec![0],
        workers: 1,
        uploads: true,
    }
}

/// Processes whose arguments or folder contain this path.
fn processes_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if command.contains(&*folder.to_string_lossy()) || cwd.starts_with(folder) {
            found.push(format!("{pid} {command}"));
        }
    }
    found
}

#[test]
fn each_contender_starts_serves_the_files_and_stops_cleanly() {
    let only = std::env::var("DEATHMATCH_ONLY").ok();
    let mut faults = Vec::new();
    let contenders = Contender::all();
    let is_chosen = |c: &&Contender| only.as_ref().is_none_or(|name| *name == c.name);
    for contender in contenders.iter().filter(is_chosen).filter(|c| c.name != CLOSING) {
        match contender.probe() {
            Err(missing) => println!("not run: {missing}"),
            Ok(version) => match run(contender) {
                Ok(figures) => println!("{} {version}: {figures}", contender.name),
                Err(why) => faults.push(format!("{} {version}: {why}", contender.name)),
            },
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// With one worker, as the deck measures, and with two: the first server's remains must not disturb
/// the second.
fn run(contender: &Contender) -> Result<String, String> {
    let folder = Folder::new(&contender.name);
    let mut site = site(&folder);
    let mut figures = serve_once(contender, &site)?;
    if thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
        (site.workers, site.cores) = (2, vec![0, 1]);
        figures += "; two workers: ";
        figures += &serve_once(contender, &site)?;
    }
    let left = processes_in(&folder.0);
    if left.is_empty() { Ok(figures) } else { Err(format!("left behind: {left:?}")) }
}

fn serve_once(contender: &Contender, site: &Site) -> Result<String, String> {
    let prepared = contender.prepare(site).map_err(|e| e.to_string())?;
    let began = Instant::now();
    let running = prepared.start().map_err(|e| e.to_string())?;
    let ready = began.elapsed();
    let mut head_bytes = 0;
    for (name, bytes) in files() {
        let verified = verify(running.addr(), running.trust(), &running.url_path(name), &bytes);
        head_bytes = verified.map_err(|e| format!("{e}\n{}", running.log_tail()))?.head_bytes;
        if let Some(trust) = running.trust().filter(|_| contender.http2) {
            let verified = verify_http2(running.addr(), trust, &running.url_path(name), &bytes);
            verified.map_err(|e| format!("HTTP/2: {e}\n{}", running.log_tail()))?;
        }
        if let Some(trust) = running.trust().filter(|_| contender.http3) {
            let verified = verify_http3(running.addr(), trust, &running.url_path(name), &bytes);
            verified.map_err(|e| format!("HTTP/3: {e}\n{}", running.log_tail()))?;
        }
    }
    let uploads = check_uploads(&prepared, &running)?;
    let pids = running.pids();
    let upstream = running.upstream_pids();
    if upstream.is_empty() == contender.upstream.is_some()
        || upstream.iter().any(|p| pids.contains(p))
    {
        return Err(format!("its upstream's processes are {upstream:?}, its own {pids:?}"));
    }
    let cores = if site.workers == 1 { "0" } else { "0-1" };
    for pid in pids.iter().chain(&upstream) {
        // A process that has just ended has no affinity.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        if !status.contains(&format!("Cpus_allowed_list:\t{cores}\n")) {
            return Err(format!("process {pid} is not pinned to {cores}"));
        }
    }
    let began = Instant::now();
    running.stop().map_err(|e| e.to_string())?;
    let (stopped, processes) = (began.elapsed(), pids.len());
    Ok(format!(
        "head of {head_bytes}, {processes} processes, ready {ready:.0?}, stopped {stopped:.0?}{uploads}"
    ))
}

/// A file is created, then replaced by another, and stored unchanged.
fn check_uploads(prepared: &Prepared, running: &Running) -> Result<&'static str, String> {
    let Some(path) = running.upload_path("new.bin") else { return Ok("") };
    for (name, bytes) in files() {
        let said = upload(running.addr(), &path, &bytes);
        said.map_err(|e| format!("{e}\n{}", running.log_tail()))?;
        let Some(stored) = prepared.stored("new.bin") else { continue };
        match fs::read(&stored) {
            Ok(there) if there == bytes => {}
            other => return Err(format!("{name} was not stored: {:?}", other.map(|b| b.len()))),
        }
    }
    Ok(", takes uploads")
}

#[test]
fn an_executable_override_runs_as_its_contender() {
    for words in ["old=nginx:/usr/sbin/nginx", "otp=inets:/usr/bin/erl", "twin=floor"] {
        let contender = match Catalogue::built_in().overridden(words) {
            Ok(contender) => contender,
            Err(missing) => {
                println!("not run: {missing}");
                continue;
            }
        };
        match contender.probe() {
            Err(missing) => println!("not run: {missing}"),
            Ok(_) => drop(run(&contender).unwrap_or_else(|why| panic!("{words}: {why}"))),
        }
    }
}

/// A server from a shell script: `sh -c SCRIPT`, otherwise like nginx.
fn scripted(folder: &Folder, script: &str) -> (Contender, Site) {
    let mut contender = Contender::by_name("nginx").unwrap();
    contender.chosen = Some("/bin/sh".into());
    contender.start = vec!["{BIN}".to_owned(), "-c".to_owned(), script.to_owned()];
    contender.ready_s = 1;
    contender.stop.grace_s = 0;
    (contender, site(folder))
}

#[test]
fn a_failed_start_is_reported_and_leaves_no_process() {
    let died = |e: &StartError| matches!(e, StartError::Died(..));
    let mute = |e: &StartError| matches!(e, StartError::NotReady(..));
    let rows: [(&str, &str, fn(&StartError) -> bool, &str); 2] = [
        ("it ends at once", "echo no such module >&2; exit 3", died, "no such module"),
        ("it never listens, nor does its child", "echo waits; sleep 60 & sleep 60", mute, "waits"),
    ];
    for (sentence, script, is_it, log) in rows {
        let folder = Folder::new("script");
        let (contender, site) = scripted(&folder, script);
        let error = contender.prepare(&site).unwrap().start().unwrap_err();
        assert!(is_it(&error) && error.to_string().contains(log), "{sentence}: {error}");
        assert_eq!(processes_in(&folder.0), [""; 0], "{sentence}");
    }
    let folder = Folder::new("script");
    let (contender, site) = scripted(&folder, "sleep 60");
    let _taken = TcpListener::bind(("127.0.0.1", site.port)).unwrap();
    let error = contender.prepare(&site).unwrap().start().unwrap_err();
    assert!(matches!(error, StartError::PortTaken(..)), "a port in use: {error}");
}

/// A program that is killed, so that it cannot clean up.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Set in the process that the test below starts and kills.
const VICTIM: &str = "DEATHMATCH_VICTIM";

#[test]
fn servers_end_with_the_program_that_started_them_even_if_it_is_killed() {
    if let Some(work) = std::env::var_os(VICTIM) {
        let folder = Folder(work.into());
        let floor = Contender::by_name("floor").unwrap();
        let running = floor.prepare(&site(&folder)).unwrap().start().unwrap();
        println!("\nstarted {}", running.pids().len());
        loop {
            thread::park();
        }
    }
    let folder = Folder::new("victim");
    let mut victim = Victim(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("servers_end_with_the_program_that_started_them_even_if_it_is_killed")
            .env(VICTIM, &folder.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let lines = BufReader::new(victim.0.stdout.take().unwrap()).lines();
    let mut said = lines.map_while(Result::ok).skip_while(|line| !line.starts_with("started"));
    assert_eq!(said.next().as_deref(), Some("started 1"));
    let before = processes_in(&folder.0);
    assert_eq!(before.len(), 1, "{before:?}");
    drop(victim);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes_in(&folder.0).is_empty() {
        assert!(Instant::now() < deadline, "still there: {:?}", processes_in(&folder.0));
        thread::yield_now();
    }
}

/// Answers successive requests on one connection with the given texts, then closes.
fn script_answers(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        for answer in answers {
            if read_request(&stream).is_none() {
                return;
            }
            let _ = (&stream).write_all(&answer);
        }
    });
    addr
}

fn read_request(stream: &TcpStream) -> Option<()> {
    let mut lines = BufReader::with_capacity(1, stream).lines();
    lines.find(|line| line.as_ref().map_or(true, String::is_empty))?.ok().map(|_| ())
}

#[test]
fn a_wrong_response_is_described_exactly() {
    let ok = |extra: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n{extra}\r\n{body}")
    };
    let right = ok("Content-Length: 5\r\n", "hello");
    type Is = fn(&Fault) -> bool;
    let rows: [(&str, String, Is); 14] = [
        (
            "another status",
            right.replace("200 OK", "404 Not Found"),
            |f| matches!(f, Fault::Status(s) if s == "HTTP/1.1 404 Not Found"),
        ),
        ("other bytes", right.replace("hello", "helpo"), |f| {
            matches!(f, Fault::Byte(3, b'p', b'l'))
        }),
        (
            "another length",
            ok("Content-Length: 4\r\n", "hell"),
            |f| matches!(f, Fault::Length(l, 5) if l == "4"),
        ),
        ("no length", ok("", "hello"), |f| matches!(f, Fault::Length(l, 5) if l == "missing")),
        ("two lengths", ok("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), |f| {
            matches!(f, Fault::Length(..))
        }),
        ("cut short", ok("Content-Length: 5\r\n", "hel"), |f| matches!(f, Fault::Short(3, 5))),
        ("more than announced", ok("Content-Length: 5\r\n", "hello!!"), |f| {
            matches!(f, Fault::Surplus(2))
        }),
        ("compressed", ok("Content-Length: 5\r\nContent-Encoding: gzip\r\n", "hello"), |f| {
            matches!(f, Fault::Coded(_))
        }),
        ("in chunks", ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), |f| {
            matches!(f, Fault::Coded(_))
        }),
        ("another type", right.replace("text/plain", "text/html"), |f| matches!(f, Fault::Type(_))),
        ("no type", right.replace("Content-Type: text/plain\r\n", ""), |f| {
            matches!(f, Fault::Type(_))
        }),
        ("it says it closes", ok("Content-Length: 5\r\nConnection: close\r\n", "hello"), |f| {
            matches!(f, Fault::WillClose(_))
        }),
        ("1.0 closes without a word", right.replace("HTTP/1.1", "HTTP/1.0"), |f| {
            matches!(f, Fault::WillClose(_))
        }),
        ("no HTTP", "hello\r\n\r\n".to_owned(), |f| matches!(f, Fault::Head(_))),
    ];
    for (sentence, answer, is_it) in rows {
        for before in 0..3 {
            // The fault may be in the first response or in a later one.
            let mut answers = vec![right.clone().into_bytes(); before];
            answers.push(answer.clone().into_bytes());
            let wrong = verify(script_answers(answers), None, "/a.txt", b"hello").unwrap_err();
            assert!(is_it(&wrong.fault), "{sentence}: {wrong}");
            assert_eq!(wrong.answer as usize, before + 1, "{sentence}: {wrong}");
        }
    }
    let kept_once = script_answers(vec![right.clone().into_bytes(); 2]);
    let wrong = verify(kept_once, None, "/a.txt", b"hello").unwrap_err();
    assert!(matches!(wrong.fault, Fault::NotKept) && wrong.answer == 3, "{wrong}");
    let verified =
        verify(script_answers(vec![right.into_bytes(); 3]), None, "/a.txt", b"hello").unwrap();
    assert_eq!((&*verified.content_type, verified.head_bytes), ("text/plain", 64));
}
