//! A proxy as contender: its upstream runs beside it, is measured, and is not counted; and the slow
//! upstream of herds.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deathmatch::arena::recorded;
use deathmatch::contender::Contender;
use deathmatch::report::Run;
use deathmatch::sample::Sample;
use scripted::{folder, free_port};

const DEATHMATCH: &str = env!("CARGO_BIN_EXE_deathmatch");

const READER: &str = env!("CARGO_BIN_EXE_deathmatch-reader");

const PLAN: &str = r#"
name = "short"
title = "Through a proxy"
description = "Short."
reference = "floor"
rounds = 1
turns = true
warm_up_s = 0.1
sample_s = 1
contenders = ["floor"]

[[file]]
name = "10k.bin"
bytes = 10240

[[work]]
file = "10k.bin"
open = { requests = [300], connections = 4 }
"#;

/// A server with an upstream that it never asks.
const HOLDER: &str = r#"
name = "holder"
title = "The holder"
packages = []
executable = "READER"
start = ["{BIN}", "{PORT}", "{DOCROOT}"]
url = "/{FILE}"
upstream = "floor"
ready_s = 10
tuned = []

[version]
command = ["{BIN}", "--version"]
after = "deathmatch-reader "

[stop]
signal = "TERM"
grace_s = 2
"#;

#[test]
fn herds_are_counted_at_a_slow_upstream() {
    let root = folder("herd");
    let (plan, out) = (root.join("plan.toml"), root.join("out"));
    let open = "open = { requests = [300], connections = 4 }";
    let text = PLAN.replace(open, "herd = true\nclosed = { connections = [20] }");
    fs::write(&plan, text.replace("[\"floor\"]", "[\"floor\", \"holder\"]")).unwrap();
    let own = root.join("contenders/holder");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("contender.toml"), HOLDER.replace("READER", READER)).unwrap();
    let mut command = Command::new(DEATHMATCH);
    command.arg("run").arg(&plan).arg("--out").arg(&out).args(["--port", &free_port().to_string()]);
    let output = command.arg("--contender-dir").arg(root.join("contenders")).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("floor has no upstream, where this plan puts `reader-slow`"), "{said}");
    let samples = recorded(&out).unwrap();
    let sample = samples.iter().find(|s| s.contender == "holder" && !s.probe).unwrap();
    let herd = sample.herd.as_ref().unwrap();
    assert!(herd.herds > 0 && herd.upstream_requests == 0, "it asks for nothing: {herd:?}");
    let load = &sample.load;
    assert_eq!((load.replies, load.errors.total()), (20 * herd.herds, 0), "{load:?}");
    let run: Run = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    let shown = run.contenders.iter().find(|c| c.name == "holder").unwrap();
    assert!(shown.config.contains("200 Cache-Control"), "it got the slow one: {}", shown.config);
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("Herds"), "{said}");
    fs::remove_dir_all(root).unwrap();
}

/// Workers of the pool serve one request at a time, so a request whose body is not there yet holds
/// one, and two hold all. The third is answered once one of them has gone.
#[test]
fn a_pool_serves_as_many_requests_at_once_as_it_has_workers() {
    let root = folder("pool");
    fs::write(root.join("a.txt"), "hello").unwrap();
    let mut server = Command::new(READER)
        .args(["0", root.to_str().unwrap(), "0", "", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let open = |text: &str| {
        let mut socket = TcpStream::connect(address.trim()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(text.as_bytes()).unwrap();
        socket
    };
    let whole = |mut socket: TcpStream| {
        let mut response = String::new();
        socket.read_to_string(&mut response).unwrap();
        assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\nhello"), "{response}");
    };
    let begun = "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf ";
    let (mut first, second) = (open(begun), open(begun));
    let third = open("GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    third.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(third.peek(&mut [0]).is_err(), "both workers wait for bodies");
    third.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    first.write_all(b"whole").unwrap();
    whole(first);
    whole(third);
    drop(second);
    server.kill().unwrap();
    server.wait().unwrap();
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_slow_upstream_delays_its_responses_and_counts_its_requests() {
    let root = folder("slow-upstream");
    fs::write(root.join("a.txt"), "hello").unwrap();
    let mut server = Command::new(READER)
        .args(["0", root.to_str().unwrap(), "50", "Cache-Control: max-age=9"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let mut socket = TcpStream::connect(address.trim()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut ask = |path: &str, ends: &str| {
        write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut response = String::new();
        while !response.ends_with(ends) {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            response.push(char::from(byte[0]));
        }
        response
    };
    for query in ["1", "2"] {
        let begun = Instant::now();
        let response = ask(&format!("/a.txt?{query}"), "hello");
        assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());
        assert!(response.contains("\r\nCache-Control: max-age=9\r\n"), "{response}");
    }
    assert!(ask("/requests", "\r\n\r\n2\n").starts_with("HTTP/1.1 200 OK"));
    server.kill().unwrap();
    server.wait().unwrap();
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_upstream_works_for_its_proxy_and_is_not_counted_to_it() {
    let here = |name: &&str| match Contender::by_name(name).unwrap().probe() {
        Ok(_) => true,
        Err(missing) => {
            eprintln!("not measured: {missing}");
            false
        }
    };
    let known = ["nginx-proxy", "lighttpd-proxy", "h2o-proxy", "caddy-proxy"];
    let proxies: Vec<&str> = known.into_iter().filter(here).collect();
    let root = folder("proxy");
    let (plan, out) = (root.join("plan.toml"), root.join("out"));
    fs::write(&plan, PLAN).unwrap();
    let mut command = Command::new(DEATHMATCH);
    command.arg("run").arg(&plan).arg("--out").arg(&out).args(["--port", &free_port().to_string()]);
    let names = [&["floor"], &proxies[..]].concat();
    let output = command.args(["--only", &names.join(",")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let samples = recorded(&out).unwrap();
    let of = |name: &str| -> &Sample {
        let found = samples.iter().find(|s| s.contender == name && !s.probe);
        found.unwrap_or_else(|| panic!("{name}: {said}"))
    };
    let run: Run = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    let upstream_cpu_s = |name| of(name).machine.as_ref().unwrap().upstream_cpu_s;
    assert_eq!(upstream_cpu_s("floor"), 0.0, "it passes nothing on");
    for name in proxies {
        let (load, server) = (&of(name).load, of(name).server.as_ref().unwrap());
        assert_eq!((load.replies, load.errors.total()), (300, 0), "{name}: {load:?}");
        assert!(upstream_cpu_s(name) > 0.0, "{name}: its upstream answered");
        assert!(server.cpu_s > 0.0, "{name}: {server:?}");
        let shown = run.contenders.iter().find(|c| c.name == name).unwrap();
        assert!(shown.config.contains("deathmatch-floor"), "{name}: {}", shown.config);
    }
    let table = fs::read_to_string(out.join("summary.csv")).unwrap();
    let head: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = head.iter().position(|name| *name == "upstream_cpu_us_per_request").unwrap();
    for row in table.lines().skip(1) {
        let told = row.split(',').nth(column).unwrap();
        assert_eq!(told.is_empty(), row.contains(",floor,"), "{row}");
    }
    fs::remove_dir_all(root).unwrap();
}
