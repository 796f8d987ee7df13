//! A real Redis for tests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child as Process, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::child::{PATIENCE, eventually};
use crate::metrics::{scrape, value};
use crate::support::{Dir, reserved_address};

/// A Redis without persistence, killed when dropped.
pub(crate) struct Redis {
    process: Process,
    pub(crate) port: u16,
}

impl Redis {
    /// `None`: it is not installed.
    pub(crate) fn start() -> Option<Redis> {
        let port = reserved_address().port();
        let started = Redis::start_at(port);
        if started.is_none() {
            eprintln!(
                "skipped: no redis-server here; cargo xtask test --only packages installs it"
            );
        }
        started
    }

    pub(crate) fn start_at(port: u16) -> Option<Redis> {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().ok()?;
        let redis = Redis { process, port };
        eventually("redis answers", || redis.answers());
        Some(redis)
    }

    /// Executes a command; returns the bytes of the reply.
    #[track_caller]
    pub(crate) fn ask(&self, command: &[&str]) -> String {
        let mut peer = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        for words in [command, &["QUIT"]] {
            write!(peer, "*{}\r\n", words.len()).unwrap();
            words.iter().for_each(|word| write!(peer, "${}\r\n{word}\r\n", word.len()).unwrap());
        }
        let mut reply = String::new();
        peer.read_to_string(&mut reply).unwrap();
        assert!(!reply.starts_with('-'), "{command:?}: {reply}");
        reply.strip_suffix("+OK\r\n").expect("the reply to QUIT").to_owned()
    }

    #[track_caller]
    pub(crate) fn set(&self, name: &str, setting: &str) {
        self.ask(&["CONFIG", "SET", name, setting]);
    }

    /// The IDs of the connections of servers.
    pub(crate) fn connections(&self) -> Vec<String> {
        let list = self.ask(&["CLIENT", "LIST"]);
        let of_servers = list.lines().filter(|line| !line.contains(" cmd=client|list "));
        let ids = of_servers.filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
        ids.map(str::to_owned).collect()
    }

    fn answers(&self) -> bool {
        let Ok(mut peer) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = [0; 7];
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        peer.write_all(b"PING\r\n").is_ok() && peer.read_exact(&mut answer).is_ok()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A figure of the server whose admin socket is beside the directory.
pub(crate) fn figure(dir: &Dir, name: &str) -> f64 {
    value(&scrape(&dir.path("../admin.sock")), name).unwrap()
}
