//! Reloads under load: sites and mounts come and go while clients of every protocol send requests,
//! and a download, an upload and a WebSocket go on all the time. `HURTLE_TEST_FULL=1` runs 200
//! reloads in 20 s under 10,000 requests/s, and compares latency and memory.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::open_tunnel;
use crate::child::{Child, PATIENCE, hurtle, write_config};
use crate::frames::{self, DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Wire};
use crate::support::Dir;

/// The size of a run.
struct Plan {
    reloads: usize,
    reload_every: Duration,
    /// The rate of all clients together.
    requests_per_second: u32,
    download_bytes: u64,
    /// Time without reloads before them.
    quiet: Duration,
    /// `true`: latency and memory are compared.
    is_full: bool,
}

const SHORT: Plan = Plan {
    reloads: 30,
    reload_every: Duration::from_millis(50),
    requests_per_second: 1_000,
    download_bytes: 64 << 20,
    quiet: Duration::from_millis(500),
    is_full: false,
};

const FULL: Plan = Plan {
    reloads: 200,
    reload_every: Duration::from_millis(100),
    requests_per_second: 10_000,
    download_bytes: 1 << 30,
    quiet: Duration::from_secs(10),
    is_full: true,
};

/// Reloads before memory is measured first.
const WARM: usize = 10;

/// Most growth of memory, in KiB.
const GROWTH_KIB_MAX: u64 = 1 << 10;

const CLIENTS: [fn(&Load, &mut Pace); 6] = [h1, h1, h1_connecting, h1_tls, h2, h2_tls];

/// State that clients of every kind share.
struct Load {
    clear: SocketAddr,
    secure: SocketAddr,
    tls: Arc<ClientConfig>,
    done: AtomicBool,
    /// 0: before reloads, 1: during them.
    phase: AtomicUsize,
}

/// The schedule of a client, and the latencies of its requests by phase.
struct Pace {
    next: Instant,
    every: Duration,
    latencies: [Vec<Duration>; 2],
}

impl Pace {
    /// Waits until the next request is due and sends it.
    fn request(&mut self, load: &Load, exchange: impl FnOnce()) {
        let now = Instant::now();
        // A client that is late does not catch up.
        self.next = (self.next + self.every).max(now);
        thread::sleep(self.next - now);
        let (begun, phase) = (Instant::now(), load.phase.load(SeqCst));
        exchange();
        self.latencies[phase].push(begun.elapsed());
    }
}

impl Load {
    fn is_on(&self) -> bool {
        !self.done.load(SeqCst)
    }

    fn connect(&self) -> TcpStream {
        connect(self.clear)
    }

    fn connect_tls(&self, alpn: &[u8]) -> StreamOwned<ClientConnection, TcpStream> {
        let mut config = (*self.tls).clone();
        config.alpn_protocols = vec![alpn.to_vec()];
        let name = ServerName::try_from("a.test").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        StreamOwned::new(session, connect(self.secure))
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request over HTTP/1.1 and expects the file.
fn expect_file(stream: &mut (impl Read + Write)) {
    stream.write_all(b"GET /x.txt HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nof a") {
        let mut piece = [0; 1024];
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "cut after {:?}", String::from_utf8_lossy(&answer));
        answer.extend(&piece[..n]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

fn h1(load: &Load, pace: &mut Pace) {
    let mut stream = load.connect();
    while load.is_on() {
        pace.request(load, || expect_file(&mut stream));
    }
}

fn h1_connecting(load: &Load, pace: &mut Pace) {
    while load.is_on() {
        pace.request(load, || expect_file(&mut load.connect()));
    }
}

fn h1_tls(load: &Load, pace: &mut Pace) {
    let mut stream = load.connect_tls(b"http/1.1");
    while load.is_on() {
        pace.request(load, || expect_file(&mut stream));
    }
}

fn h2(load: &Load, pace: &mut Pace) {
    multiplex(load, pace, Wire::over(load.connect(), &[]), "http");
}

fn h2_tls(load: &Load, pace: &mut Pace) {
    multiplex(load, pace, Wire::over(load.connect_tls(b"h2"), &[]), "https");
}

fn multiplex(load: &Load, pace: &mut Pace, mut wire: Wire<impl Read + Write>, scheme: &str) {
    let fields =
        [(":method", "GET"), (":scheme", scheme), (":authority", "a.test"), (":path", "/x.txt")];
    let block = frames::block(&fields);
    // The connection's window is for all responses of the run.
    wire.send(&frames::frame(frames::WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()));
    for stream in (1..).step_by(2) {
        if !load.is_on() {
            return;
        }
        pace.request(load, || {
            let flags = frames::END_HEADERS | END_STREAM;
            wire.send(&frames::frame(HEADERS, flags, stream, &block));
            let mut body: Vec<u8> = Vec::new();
            loop {
                let frame = wire.next().expect("the stream is answered");
                match frame.kind {
                    DATA => body.extend(&frame.payload),
                    GOAWAY | RST_STREAM => panic!("{frame:?}"),
                    _ => {}
                }
                if frame.stream == stream && frame.flags & END_STREAM != 0 {
                    break;
                }
            }
            assert_eq!(body, b"of a");
        });
    }
}

/// Reads a download over the whole time of the run; returns its size.
fn download(mut stream: TcpStream, len: u64, time: Duration) -> u64 {
    let begun = Instant::now();
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let (mut piece, mut received, mut head) = (vec![0; 1 << 20], 0, vec![]);
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    while received < len {
        let n = stream.read(&mut piece).unwrap();
        assert!(n > 0, "the download is cut after {received} bytes");
        received += n as u64;
        let due = time.mul_f64(received as f64 / len as f64);
        thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    received
}

/// Sends an upload until the run is over; returns its size.
fn upload(mut stream: TcpStream, load: &Load) -> u64 {
    let head = "PUT /up/new.bin HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let (piece, mut sent) = (vec![b'x'; 4 << 10], 0);
    while load.is_on() {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
        stream.write_all(&chunk).unwrap();
        sent += piece.len() as u64;
        thread::sleep(Duration::from_millis(10));
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 201");
    sent
}

/// A configuration; the sites and mounts beside those of the clients depend on its number.
fn config(number: usize, upstream: SocketAddr) -> String {
    let mut text = format!(
        "admin = '{{root}}/../admin.sock'\nlisten_tls = '127.0.0.1:0'\n\
         [[site]]\nhosts = ['a', 'a.test']\nauth = 'none'\n\
         [site.tls]\ncertificate = '{{root}}/../chain.pem'\nkey = '{{root}}/../key.pem'\n\
         redirect = false\n\
         [[site.mount]]\nfiles = '{{root}}/a'\n\
         [[site.mount]]\npath = '/socket'\nproxy = 'http://{upstream}'\n\
         [[site.mount]]\npath = '/up'\nfiles = '{{root}}/up'\nuploads = {{ free_bytes = 0 }}\n"
    );
    if number % 2 == 1 {
        text.push_str("[[site.mount]]\npath = '/more'\nredirect = '/'\n");
        text.push_str("[[site]]\nhosts = 'b'\n[[site.mount]]\nfiles = '{root}/b'\n");
    }
    text.push_str(&format!("[limits]\nconnections_per_address = {}\n", 100 + number));
    text
}

/// Reloads by the admin socket.
fn reload(dir: &Dir) {
    let mut admin = UnixStream::connect(dir.path("../admin.sock")).unwrap();
    admin.write_all(b"POST /reload HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    admin.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("reloaded"), "{answer}");
}

fn percentile(latencies: &mut [Duration], part: f64) -> Duration {
    latencies.sort_unstable();
    latencies[((latencies.len() - 1) as f64 * part) as usize]
}

#[test]
fn reloads_under_load_fail_no_request_and_cut_nothing() {
    let plan = if env::var_os("HURTLE_TEST_FULL").is_some() { FULL } else { SHORT };
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let dir = Dir::new(&[("a/x.txt", "of a"), ("b/x.txt", "of b"), ("up/old", "")]);
    fs::write(dir.path("../chain.pem"), pair.cert.pem()).unwrap();
    fs::write(dir.path("../key.pem"), pair.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(dir.path("up"), Permissions::from_mode(0o777)).unwrap();
    File::create(dir.path("a/large.bin")).unwrap().set_len(plan.download_bytes).unwrap();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = upstream.local_addr().unwrap();
    let file = write_config(&dir, &config(0, far));
    let child = Child::start(hurtle().arg("--config").arg(&file));
    let secure = child.stdout().split_once("https://").unwrap().1.to_owned();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pair.cert.der().to_vec())).unwrap();
    let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let load = Load {
        clear: child.address(),
        secure: secure.split('/').next().unwrap().parse().unwrap(),
        tls: Arc::new(tls),
        done: AtomicBool::new(false),
        phase: AtomicUsize::new(0),
    };
    let (mut near, mut remote) = open_tunnel(&child, &upstream);
    let expected = plan.quiet + plan.reload_every * (plan.reloads + WARM) as u32;
    let every = Duration::from_secs(CLIENTS.len() as u64) / plan.requests_per_second;
    let (mut warm_kib, mut took, mut latencies) = (0, Duration::ZERO, [vec![], vec![]]);
    let (downloaded, uploaded) = thread::scope(|scope| {
        let load = &load;
        let clients = CLIENTS.map(|client| {
            scope.spawn(move || {
                let mut pace = Pace { next: Instant::now(), every, latencies: [vec![], vec![]] };
                client(load, &mut pace);
                pace.latencies
            })
        });
        let downloading = scope.spawn(|| download(load.connect(), plan.download_bytes, expected));
        let uploading = scope.spawn(|| upload(load.connect(), load));
        thread::sleep(plan.quiet);
        load.phase.store(1, SeqCst);
        let mut begun = Instant::now();
        for number in 1..=WARM + plan.reloads {
            let due = Instant::now() + plan.reload_every;
            write_config(&dir, &config(number, far));
            reload(&dir);
            near.write_all(b"x").unwrap();
            remote.read_exact(&mut [0]).unwrap();
            remote.write_all(b"y").unwrap();
            near.read_exact(&mut [0]).unwrap();
            if number == WARM {
                (warm_kib, begun) = (child.resident_kib(), Instant::now());
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        took = begun.elapsed();
        load.done.store(true, SeqCst);
        for client in clients {
            for (all, of) in latencies.iter_mut().zip(client.join().unwrap()) {
                all.extend(of);
            }
        }
        (downloading.join().unwrap(), uploading.join().unwrap())
    });
    assert_eq!(downloaded, plan.download_bytes);
    assert_eq!(fs::metadata(dir.path("up/new.bin")).unwrap().len(), uploaded);
    let grown_kib = child.resident_kib().saturating_sub(warm_kib);
    let [quiet, reloading] = latencies.each_mut().map(|of| percentile(of, 0.99));
    println!(
        "{} reloads in {took:.1?}; {} requests before them, {} during them; p99 {quiet:?} and \
         {reloading:?}; {uploaded} bytes uploaded; {grown_kib} KiB more",
        plan.reloads,
        latencies[0].len(),
        latencies[1].len(),
    );
    assert!(latencies[1].len() > plan.reloads, "requests were served meanwhile");
    if plan.is_full {
        assert!(reloading <= quiet * 2, "p99 {quiet:?} and {reloading:?}");
        assert!(grown_kib <= GROWTH_KIB_MAX, "{warm_kib} KiB have grown by {grown_kib} KiB");
    }
}
