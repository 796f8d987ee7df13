//! Replacing all servers one by one under load: no request is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::balancer::{Balancer, Kind};
use crate::child::eventually;
use crate::servers::{FILES, SERVERS, Servers, path_of, served_by};
use crate::support::Client;

/// Clients of the load: every second one opens a connection for each request.
const CLIENTS: usize = 6;

/// Requests of a client at most, with a pause after each: the load leaves room for others.
const REQUESTS_MAX: usize = 60_000;
const PAUSE: Duration = Duration::from_millis(2);

/// Requests answered between two steps, so that each step is under load.
const STEP: usize = 200;

/// Larger than all buffers between a server and a client that does not read.
const LARGE: u64 = 64 << 20;
/// Paths of large files: with so many, each server has some.
const LARGE_FILES: usize = 40;

/// Counts of the clients of the load.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    sent: AtomicUsize,
    answered: AtomicUsize,
}

#[test]
fn a_rollout_loses_no_request() {
    for kind in [Kind::HaProxy, Kind::Envoy] {
        let mut servers = Servers::start("4s");
        for number in 0..LARGE_FILES {
            servers.dir.write(format!("large/{number}"), "");
            let file = servers.dir.path(format!("large/{number}"));
            std::fs::File::options().write(true).open(file).unwrap().set_len(LARGE).unwrap();
        }
        let Some(balancer) = Balancer::start(kind, &servers) else { continue };
        let load = Load::default();
        let (client, to) = (servers.client(), servers.balancer());
        let seen: Vec<BTreeMap<String, usize>> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let load = &load;
                    scope.spawn(move || {
                        load.run(number, || Client::of(crate::servers::connect(client, to, None)))
                    })
                })
                .collect();
            // The load must end if a step fails.
            let over = Over(&load.is_over);
            for index in 0..SERVERS {
                load.wait_for(STEP);
                replace(&mut servers, &balancer, index);
            }
            load.wait_for(STEP);
            drop(over);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let (sent, answered) = (load.sent.into_inner(), load.answered.into_inner());
        assert_eq!(sent, answered, "{kind:?}: lost requests");
        let by: BTreeSet<String> = seen.iter().flat_map(|seen| seen.keys().cloned()).collect();
        let generations = (0..SERVERS).flat_map(|index| [1, 2].map(|n| format!("{index}.{n}")));
        assert_eq!(by, generations.collect(), "{kind:?}: all processes have served");
        println!("{kind:?}: {answered} requests, none lost, while {SERVERS} servers were replaced");
    }
}

/// Replaces a server while it sends a large file.
#[track_caller]
fn replace(servers: &mut Servers, balancer: &Balancer, index: usize) {
    let mut download = download_from(servers, index);
    let mut old = servers.processes[index].take().unwrap();
    old.signal(Signal::TERM);
    let health = balancer.expect(servers, index, false);
    let by_check = health.detail.contains("503") || health.detail.contains("failed_active_hc");
    assert!(by_check, "its check has failed, before it stops: {health:?}");
    assert_eq!(old.ended(), None, "it serves while the balancer takes it out");
    eventually("it stops accepting", || {
        std::net::TcpStream::connect((servers.address_of(index), 8080)).is_err()
    });
    assert_eq!(old.ended(), None, "it waits for the download");
    let rest = std::io::copy(&mut download.stream, &mut std::io::sink()).unwrap();
    assert!(download.begun + rest >= LARGE, "{} bytes of {LARGE}", download.begun + rest);
    assert_eq!(old.wait().code(), Some(0), "{}", old.stderr());
    servers.start_one(index);
    balancer.expect(servers, index, true);
}

/// A response that is not yet read to its end.
struct Download {
    stream: std::net::TcpStream,
    /// Bytes of the body that are read.
    begun: u64,
}

/// Begins to download a large file from this server.
#[track_caller]
fn download_from(servers: &Servers, index: usize) -> Download {
    let wanted = format!("x-served-by: {}\r\n", servers.name(index));
    for number in 0..LARGE_FILES {
        let mut stream = servers.connect_with(Some(16 << 10));
        let request =
            format!("GET /large/{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let mut piece = [0; 1024];
        while memchr::memmem::find(&bytes, b"\r\n\r\n").is_none() {
            let n = stream.read(&mut piece).unwrap();
            assert!(n > 0, "no head: {}", bytes.escape_ascii());
            bytes.extend_from_slice(&piece[..n]);
        }
        let end = memchr::memmem::find(&bytes, b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        if head.contains(&wanted) {
            return Download { stream, begun: (bytes.len() - end) as u64 };
        }
    }
    panic!("no large file at server {index}");
}

/// Ends the load when dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// Sends requests until the load is over; returns the number of responses of each process.
    #[track_caller]
    fn run(&self, number: usize, connect: impl Fn() -> Client) -> BTreeMap<String, usize> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut client = connect();
        for request in 0..REQUESTS_MAX {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let file = (number + request * CLIENTS) % FILES;
            if number % 2 == 1 {
                client = connect();
            }
            self.sent.fetch_add(1, Ordering::Relaxed);
            let response = client.request("GET", &path_of(file));
            assert_eq!((response.status, response.text()), (200, &*file.to_string()));
            *seen.entry(served_by(&response).to_owned()).or_default() += 1;
            self.answered.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        seen
    }

    /// Waits until this many more requests are answered.
    #[track_caller]
    fn wait_for(&self, more: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually("the load is on", || self.answered.load(Ordering::Relaxed) >= before + more);
    }
}
