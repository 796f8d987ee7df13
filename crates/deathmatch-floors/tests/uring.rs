//! The floor on io_uring at its socket: right bytes, split and pipelined requests, peers that reset
//! or do not read, more connections than buffers and than descriptors, and a system that refuses
//! io_uring. Without io_uring the tests are not run, which they say.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

const BIN: &str = env!("CARGO_BIN_EXE_deathmatch-floor-uring");
/// Time limit of every wait.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn files_are_sent_as_they_are() {
    let Some(server) = Server::start("files", &[]) else { return };
    let mut client = server.connect();
    for round in 0..3 {
        for (name, bytes) in files() {
            let got = client.get(name);
            assert_eq!(got.status, 200, "{name}");
            assert!(got.body == bytes, "{name}, {round}");
            let kind =
                if name.ends_with(".html") { "text/html" } else { "application/octet-stream" };
            assert_eq!(got.fields["content-type"], kind, "{name}");
        }
        assert_eq!(client.get("nothing").status, 404);
    }
    assert_eq!(client.get("below/deep.bin").body, noise(100), "a file in a folder");
}

#[test]
fn a_request_may_be_split_anywhere() {
    let Some(server) = Server::start("split", &[]) else { return };
    let request = request("1k.bin");
    for at in 1..request.len() {
        let mut client = server.connect();
        client.write(&request[..at]);
        // A response on another connection shows that the first part has been received.
        assert_eq!(server.connect().get("1k.bin").status, 200);
        client.write(&request[at..]);
        assert_eq!(client.read().body, noise(1024), "split at {at}");
    }
}

#[test]
fn requests_may_be_sent_before_the_responses() {
    let Some(server) = Server::start("pipelined", &[]) else { return };
    // More than the server buffers: it receives on while it sends.
    let names = ["1k.bin", "10k.bin", "64k.bin", "nothing", "1k.bin", "3m.bin", "32k.bin"];
    let all: Vec<&str> = names.iter().copied().cycle().take(700).collect();
    let mut client = server.connect();
    let writer = client.stream.get_ref().try_clone().unwrap();
    let requests: Vec<u8> = all.iter().flat_map(|name| request(name)).collect();
    let written = thread::spawn(move || (&writer).write_all(&requests));
    let files: BTreeMap<&str, Vec<u8>> = files().into_iter().collect();
    for (at, name) in all.iter().enumerate() {
        let got = client.read();
        assert!(got.body == files.get(name).cloned().unwrap_or_default(), "{at}: {name}");
    }
    written.join().unwrap().unwrap();
}

#[test]
fn a_peer_that_only_writes_is_not_received_from_without_bound() {
    let Some(server) = Server::start("flood", &[]) else { return };
    server.connect().get("1k.bin");
    let before = server.memory_kb();
    let clients: Vec<TcpStream> = (0..20).map(|_| server.connect().stream.into_inner()).collect();
    let requests: Vec<u8> = (0..10_000).flat_map(|_| request("10k.bin")).collect();
    let mut written = 0;
    for client in &clients {
        // Until nothing has been taken for a while; if that is too short, less is shown.
        client.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        for _ in 0..100 {
            match (&*client).write(&requests) {
                Ok(taken) => written += taken,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                // A process that is stopped and goes on, as when its machine is frozen.
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => panic!("{e}"),
            }
        }
    }
    let grown = server.memory_kb().saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KB for {written} bytes of {} peers", clients.len());
    assert_eq!(server.connect().get("1k.bin").status, 200, "others are served");
}

#[test]
fn a_long_head_ends_its_connection() {
    let Some(server) = Server::start("long", &[]) else { return };
    let mut client = server.connect();
    // The server may have closed before the last byte is written.
    let _ = client.stream.get_mut().write_all(&[b'a'; 100_000]);
    let ended = client.stream.read_exact(&mut [0]).map_err(|e| e.kind());
    let ends = [Err(ErrorKind::UnexpectedEof), Err(ErrorKind::ConnectionReset)];
    assert!(ends.contains(&ended), "{ended:?}");
    assert_eq!(server.connect().get("1k.bin").status, 200);
}

#[test]
fn a_peer_may_end_its_side_first() {
    let Some(server) = Server::start("ended", &[]) else { return };
    for name in ["1k.bin", "3m.bin"] {
        let mut client = server.connect();
        client.write(&request(name));
        client.write(&request("10k.bin"));
        client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read().status, 200, "{name}");
        assert_eq!(client.read().body, noise(10_240), "{name}");
        assert_eq!(client.stream.read_to_end(&mut Vec::new()).unwrap(), 0, "{name}");
    }
}

#[test]
fn a_reset_frees_the_connection() {
    let Some(server) = Server::start("reset", &[]) else { return };
    server.connect().get("1k.bin");
    let before = server.descriptors();
    for turn in 0..300 {
        let mut client = server.connect();
        client.write(&request(["3m.bin", "10k.bin", "32k.bin"][turn % 3]));
        if turn % 2 == 0 {
            client.stream.read_exact(&mut [0; 100]).unwrap();
        }
        let socket = socket2::SockRef::from(client.stream.get_ref());
        // Closing sends RST.
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
    assert_eq!(server.connect().get("1k.bin").status, 200);
    server.wait_for("all descriptors to be closed", || server.descriptors() <= before);
}

#[test]
fn many_connections_are_served() {
    const CONNECTIONS: usize = 1500;
    let Some(server) = Server::start("many", &[]) else { return };
    raise_descriptors();
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for round in 0..3 {
        // All at once for the server, which is stopped meanwhile.
        server.signal(Signal::STOP);
        clients.iter_mut().for_each(|client| client.write(&request("1k.bin")));
        server.signal(Signal::CONT);
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.read().body, noise(1024), "{round}, {at}");
        }
    }
}

#[test]
fn requests_for_which_no_buffer_is_free_wait() {
    const CONNECTIONS: usize = 60;
    const REQUESTS: usize = 2000;
    let Some(server) = Server::start("buffers", &[]) else { return };
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    let requests: Vec<u8> = request("nothing").repeat(REQUESTS);
    for round in 0..3 {
        server.signal(Signal::STOP);
        // As much as the sockets take: the kernel wants some 30 buffers at once for each.
        let mut written = Vec::new();
        for client in &mut clients {
            client.stream.get_ref().set_nonblocking(true).unwrap();
            written.push(client.stream.get_mut().write(&requests).unwrap());
            client.stream.get_ref().set_nonblocking(false).unwrap();
        }
        server.signal(Signal::CONT);
        for (at, (client, written)) in clients.iter_mut().zip(written).enumerate() {
            client.write(&requests[written..]);
            for _ in 0..REQUESTS {
                assert_eq!(client.read().status, 404, "{round}, {at}");
            }
        }
    }
}

#[test]
fn clients_wait_while_descriptors_have_run_out() {
    let Some(server) = Server::start("descriptors", &["prlimit", "--nofile=64:64"]) else { return };
    let mut first: Vec<Client> = (0..80).map(|_| server.connect()).collect();
    first.iter_mut().for_each(|client| client.write(&request("1k.bin")));
    // The first ones are served; some wait until these are gone.
    first.drain(..40).for_each(|mut client| assert_eq!(client.read().status, 200));
    first.iter_mut().for_each(|client| assert_eq!(client.read().status, 200));
}

#[test]
fn a_field_is_in_every_response_with_a_file() {
    let Some(server) = Server::start_with("field", &[], &["Cache-Control: max-age=1"]) else {
        return;
    };
    let mut client = server.connect();
    for name in ["1k.bin", "3m.bin"] {
        assert_eq!(client.get(name).fields["cache-control"], "max-age=1");
    }
}

#[test]
fn an_unavailable_ring_is_an_error_with_a_remedy() {
    let output = without_ring(&["--check"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("io_uring is not available: Operation not permitted"), "{said}");
    assert!(said.contains("kernel.io_uring_disabled"), "{said}");
    let port = free_port().to_string();
    let output = without_ring(&[&port, "/usr/share/doc/nothing-here", "1"]);
    assert!(!output.status.success());
    let output = without_ring(&["--version"]);
    assert!(output.status.success(), "the version needs no ring");
}

#[test]
fn wrong_arguments_are_refused() {
    let rows: [(&[&str], &str); 4] = [
        (&[], "usage: deathmatch-floor-uring PORT DIRECTORY WORKERS [FIELD]"),
        (&["1", ".", "1", "A: b", "c"], "usage:"),
        (&["x", ".", "1"], "PORT and WORKERS are numbers"),
        (&["70000", ".", "1"], "PORT and WORKERS are numbers"),
    ];
    for (words, expected) in rows {
        let output = Command::new(BIN).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{words:?}: {said}");
    }
}

/// Runs the program where the kernel refuses io_uring, as in most containers.
fn without_ring(words: &[&str]) -> Output {
    let run = || {
        let rules = [(io_uring_setup(), vec![])].into();
        let refuse = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
        seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        Command::new(BIN).args(words).output().unwrap()
    };
    // The filter binds this thread and what it starts.
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// Its number is the same on all systems of Linux that this workspace is built for.
fn io_uring_setup() -> i64 {
    425
}

/// A running floor and its files.
struct Server {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    fn start(name: &str, before: &[&str]) -> Option<Server> {
        Server::start_with(name, before, &[])
    }

    /// Started by the words `before`, with `more` arguments; `None` without io_uring.
    fn start_with(name: &str, before: &[&str], more: &[&str]) -> Option<Server> {
        let check = Command::new(BIN).arg("--check").output().unwrap();
        if !check.status.success() {
            eprintln!("not run: {}", String::from_utf8_lossy(&check.stderr));
            return None;
        }
        let folder =
            std::env::temp_dir().join(format!("floor-uring-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("below")).unwrap();
        for (name, bytes) in files().into_iter().chain([("below/deep.bin", noise(100))]) {
            fs::write(folder.join(name), bytes).unwrap();
        }
        let port = free_port();
        let words = [before, &[BIN]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(port.to_string()).arg(&folder).arg("1").args(more);
        let server = Server { process: command.spawn().unwrap(), port, folder };
        server.wait_for("a connection", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        Some(server)
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).unwrap();
        if signal == Signal::STOP {
            self.wait_for("it to stop", || self.status("State:").starts_with('T'));
        }
    }

    /// Resident memory.
    fn memory_kb(&self) -> usize {
        self.status("VmRSS:").split(' ').next().unwrap().parse().unwrap()
    }

    fn status(&self, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    fn wait_for(&self, event: &str, mut has_come: impl FnMut() -> bool) {
        let deadline = Instant::now() + SOON;
        while !has_come() {
            assert!(Instant::now() < deadline, "waited for {event}");
            thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Client {
    stream: BufReader<TcpStream>,
}

struct Response {
    status: u16,
    /// By name in lower case.
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Client {
    fn get(&mut self, name: &str) -> Response {
        self.write(&request(name));
        self.read()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    fn read(&mut self) -> Response {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "ended after {lines:?}");
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let fields: BTreeMap<_, _> = lines[1..]
            .iter()
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let mut body = vec![0; fields["content-length"].parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        Response { status, fields, body }
    }
}

fn request(name: &str) -> Vec<u8> {
    format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// On both sides of the sizes from which files are sent otherwise.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let sized = |name, length| (name, noise(length));
    vec![
        sized("empty.bin", 0),
        sized("page.html", 300),
        sized("1k.bin", 1024),
        sized("10k.bin", 10_240),
        sized("32k.bin", 32_768),
        sized("33k.bin", 32_769),
        sized("64k.bin", 65_536),
        sized("1m.bin", 1_048_576),
        sized("3m.bin", 3_000_000),
    ]
}

fn noise(length: u32) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// As many descriptors as this process and those it starts may have.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
