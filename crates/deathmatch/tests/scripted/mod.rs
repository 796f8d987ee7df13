//! A scripted server, and a plan short enough for tests.

#![allow(dead_code, reason = "each test that uses this file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "the servers' threads are tests too")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;

/// One file, one work at a rate, one as fast as it goes.
pub(crate) const PLAN: &str = r#"
name = "scripted"
title = "A plan for tests"
description = "Short."
reference = "one"
rounds = 2
turns = true
warm_up_s = 0
sample_s = 0.05
contenders = ["one"]

[[file]]
name = "a.png"
bytes = 100

[[work]]
file = "a.png"
open = { requests = [200], connections = 2 }

[[work]]
file = "a.png"
closed = { connections = [2] }
"#;

/// A server that answers every request with its present content.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    /// Requests it has answered.
    pub(crate) requests: Arc<AtomicU64>,
    /// Connections it has accepted.
    pub(crate) connections: Arc<AtomicU64>,
    body: Arc<Vec<u8>>,
    /// Its answers are wrong.
    is_wrong: Arc<AtomicBool>,
    /// It accepts no connection any more.
    is_gone: Arc<AtomicBool>,
    listens: Option<thread::JoinHandle<()>>,
}

impl Scripted {
    pub(crate) fn serving(body: Vec<u8>) -> Scripted {
        Scripted::serving_at("127.0.0.1", body)
    }

    pub(crate) fn serving_at(address: &str, body: Vec<u8>) -> Scripted {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let mut server = Scripted {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
            body: Arc::new(body),
            is_wrong: Arc::default(),
            is_gone: Arc::default(),
            listens: None,
        };
        let (requests, body, wrong) =
            (server.requests.clone(), server.body.clone(), server.is_wrong.clone());
        let (connections, is_gone) = (server.connections.clone(), server.is_gone.clone());
        server.listens = Some(thread::spawn(move || {
            for socket in listener.incoming() {
                if is_gone.load(Ordering::SeqCst) {
                    return;
                }
                connections.fetch_add(1, Ordering::SeqCst);
                let (requests, body, wrong) = (requests.clone(), body.clone(), wrong.clone());
                thread::spawn(move || converse(socket.unwrap(), &requests, &body, &wrong));
            }
        }));
        server
    }

    /// From now on it refuses connections.
    pub(crate) fn leave(&mut self) {
        self.is_gone.store(true, Ordering::SeqCst);
        let Some(listens) = self.listens.take() else { return };
        // It waits for a connection.
        drop(TcpStream::connect(self.address));
        listens.join().unwrap();
    }

    /// From now on one byte of every response is wrong.
    pub(crate) fn go_wrong(&self) {
        self.is_wrong.store(true, Ordering::SeqCst);
    }
}

fn converse(mut socket: TcpStream, requests: &AtomicU64, body: &[u8], wrong: &AtomicBool) {
    socket.set_nodelay(true).unwrap();
    let mut wrong_body = body.to_vec();
    wrong_body[0] ^= 1;
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(n) => read.extend_from_slice(&piece[..n]),
        }
        if !read.ends_with(b"\r\n\r\n") {
            continue;
        }
        read.clear();
        requests.fetch_add(1, Ordering::SeqCst);
        let body = if wrong.load(Ordering::SeqCst) { &wrong_body } else { body };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if socket.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}

/// The hurtle of this tree: the one that DEATHMATCH_HURTLE names (`cargo xtask test` has built it
/// with everything else), or one that cargo builds first, beside deathmatch.
pub(crate) fn hurtle_beside(deathmatch: &str) -> PathBuf {
    if let Some(hurtle) = std::env::var_os("DEATHMATCH_HURTLE") {
        return hurtle.into();
    }
    let cargo = std::env::var_os("CARGO").unwrap();
    let built =
        Command::new(cargo).args(["build", "--package", "hurtle", "--bin", "hurtle"]).status();
    assert!(built.unwrap().success(), "hurtle must be built to be measured");
    PathBuf::from(deathmatch).with_file_name("hurtle")
}

/// A folder of this test's own, new.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("deathmatch-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Ports of one test: two for each contender of its plan.
const PORTS: u16 = 40;

/// A free port, the first of a test's own. All are below 32768, where ephemeral ports of clients
/// begin (ip_local_port_range, ip(7)).
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 10_000) as u16;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut ports = (0..300).map(|_| first + PORTS * NEXT.fetch_add(1, Ordering::Relaxed));
    ports.find(|first| (0..PORTS).all(|port| is_free(first + port))).unwrap()
}

/// Checks that the report of a `vs` run, the terminal and JSON have this judgement.
pub(crate) fn judged(out: &std::path::Path, verdict: &str, words: &str) {
    let report = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deathmatch"));
        let output = command.arg("report").arg(out).args(more).output().unwrap();
        // Lines are broken between words.
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = report(&[]);
    assert!(said.contains(words), "{words}: {said}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let verdict_box = page.split("Verdict</b>").nth(1).unwrap().split("</li>").next().unwrap();
    assert!(verdict_box.contains(words), "{words}: {verdict_box}");
    let found: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    assert_eq!(found["judged"]["judgements"][0]["verdict"], verdict, "{found}");
}
