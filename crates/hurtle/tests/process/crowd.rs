//! More clients than the server has capacity for: thousands of idle connections, no descriptors
//! left, limits reached.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::child::{Child, PATIENCE, eventually, write_config};
use crate::support::{Client, Dir};

/// Number of idle connections; fewer if the system allows this process fewer descriptors.
const CROWD: usize = 20_000;

/// Descriptors reserved for the other tests of this process.
const DESCRIPTORS_LEFT: usize = 2_000;

/// Connections among them that have sent a request and stay open.
const KEPT_ALIVE: usize = 10_000;

/// Memory limit of an idle connection, in bytes: 4,000 without optimisation, and what the process
/// allocates meanwhile besides.
const IDLE_BYTES_MAX: u64 = (4 << 10) + 256;

#[test]
fn thousands_of_idle_connections_use_little_memory_and_delay_no_request() {
    let crowd = (raise_descriptor_limit() - DESCRIPTORS_LEFT).min(CROWD);
    let asking = KEPT_ALIVE.min(crowd);
    let dir = Dir::new(&[("hot.txt", "hot\n")]);
    // On a slow machine the first clients are silent for minutes.
    let times = "head_timeout = \"1h\"\nidle_timeout = \"1h\"";
    let limits = format!("root = '{{root}}'\n[limits]\nconnections = {}\n{times}\n", crowd + 10);
    let child = Child::configured(&dir, &limits);
    // Lets one-time allocations happen first.
    let first: Vec<_> = (0..100).map(|_| idle_after_one(&child)).collect();
    let before_kib = child.resident_kib();
    let mut idle: Vec<_> = (0..asking).map(|_| idle_after_one(&child)).collect();
    let each = (child.resident_kib() - before_kib) * 1024 / asking as u64;
    println!("{each} bytes for each of {asking} idle connections");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes for each idle connection");

    // The other connections are silent, except for one in 500. Its response shows that the
    // connections before it are accepted, so the queue does not overflow.
    idle.extend((idle.len() + first.len()..crowd).map(|n| match n % 500 {
        0 => idle_after_one(&child),
        _ => connect(child.address()),
    }));
    let crowd = idle.len() + first.len();
    eventually("all are accepted", || child.descriptors().len() > crowd);
    let mut hot = child.connect();
    let slowest = (0..200).map(|_| {
        let begun = Instant::now();
        assert_eq!(hot.request("GET", "/hot.txt").text(), "hot\n");
        begun.elapsed()
    });
    let slowest = slowest.max().unwrap();
    println!("{crowd} idle connections; slowest of 200 answers beside them {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?} beside {crowd} idle connections");
    assert_eq!(child.get("/hot.txt").status, 200, "a new connection");
}

#[test]
fn without_descriptors_cached_files_go_first_and_accepting_pauses_without_spinning() {
    const LIMIT: usize = 64;
    const CLIENTS: usize = 80;
    let names: Vec<_> = (0..40).map(|n| format!("{n}.bin")).collect();
    let dir = Dir::new(&[]);
    for name in &names {
        dir.write(name, vec![b'x'; 40 << 10]);
    }
    // The limit on connections is above the limit on descriptors.
    let config = write_config(&dir, "root = '{root}'\n[limits]\nconnections = 1000\n");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {LIMIT}; exec \"$0\" --config \"$1\"")]);
    let child = Child::start(command.arg(env!("CARGO_BIN_EXE_hurtle")).arg(config));
    for name in &names {
        assert_eq!(child.get(&format!("/{name}")).status, 200);
    }
    // Look-ups share the open root, which stays.
    let root = dir.root();
    let is_file = |path: &&std::path::PathBuf| path.starts_with(&root) && **path != root;
    let cached = || child.descriptors().iter().filter(is_file).count();
    assert!(cached() > 0, "no file is kept open");

    let mut clients: Vec<_> = (0..CLIENTS).map(|_| child.connect()).collect();
    eventually("cached descriptors are given up", || cached() == 0);
    // A descriptor inherited from the test runner may have a number above the limit.
    let full = || child.descriptors().len() >= LIMIT;
    eventually("all descriptors are used up", full);
    let before = child.cpu_ticks();
    thread::sleep(Duration::from_secs(1));
    let ticks = child.cpu_ticks() - before;
    assert!(full(), "the fault is gone: {:?}", child.descriptors());
    println!("{ticks} ticks of 10 ms in a second without descriptors");
    assert!(ticks <= 10, "it spins: {ticks} of 100 ticks in a second");

    let waiting = clients.split_off(CLIENTS - 10);
    drop(clients);
    for mut client in waiting {
        let answer = client.request("GET", "/0.bin");
        assert_eq!((answer.status, answer.body.len()), (200, 40 << 10));
    }
}

#[test]
fn clients_beyond_a_connection_limit_get_503_with_retry_after() {
    let rows = [("in all", "connections = 3"), ("for one address", "connections_per_address = 3")];
    for (limit, line) in rows {
        let dir = Dir::new(&[("a.txt", "a\n")]);
        let child = Child::configured(&dir, &format!("root = '{{root}}'\n[limits]\n{line}\n"));
        let mut inside: Vec<_> = (0..3).map(|_| child.connect()).collect();
        inside.iter_mut().for_each(Client::expect_open);
        // Requests that arrive before the server looks must not lose their response: closing with
        // unread bytes resets the connection.
        child.signal(Signal::STOP);
        let request = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";
        let turned_away = (0..20).map(|_| {
            let mut client = child.connect();
            client.send(request);
            client
        });
        let turned_away: Vec<_> = turned_away.collect();
        child.signal(Signal::CONT);
        for mut client in turned_away {
            let answer = client.response();
            assert_eq!(answer.status, 503, "{limit}");
            assert_eq!(answer.field("Retry-After"), Some("1"), "{limit}");
            client.expect_end();
            // Linux delivers bytes received before a reset; other systems drop them.
            assert!(client.stream.take_error().unwrap().is_none(), "{limit}: reset");
        }
        let other_address = from_another_address(child.address()).request("GET", "/a.txt");
        let expected = if limit == "in all" { 503 } else { 200 };
        assert_eq!(other_address.status, expected, "{limit}: another address");
        inside.iter_mut().for_each(Client::expect_open);
        inside.pop();
        eventually("there is room again", || child.get("/a.txt").status == 200);
    }
}

/// Regression: a client was reset, and could lose the response, if its next request was in flight
/// when the server closed the connection.
#[test]
fn a_connection_ended_by_a_limit_lets_its_client_read_the_answer() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let config = "root = '{root}'\n[limits]\nrequests_per_connection = 1\n";
    let child = Child::configured(&dir, config);
    let mut client = child.connect();
    let answer = client.request("GET", "/a.txt");
    assert_eq!(answer.field("Connection"), Some("close"));
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    client.expect_end();
    assert!(client.stream.take_error().unwrap().is_none(), "reset");
}

/// A keep-alive connection after one request.
fn idle_after_one(child: &Child) -> TcpStream {
    let mut client = child.connect();
    assert_eq!(client.request("GET", "/hot.txt").status, 200);
    client.stream
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect_timeout(&address, PATIENCE).unwrap()
}

/// A client with another address than 127.0.0.1.
fn from_another_address(address: SocketAddr) -> Client {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    Client::of(socket.into())
}

/// Raises the limit as far as allowed; returns the result.
fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    limit.maximum.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX))
}
