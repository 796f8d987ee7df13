//! State that the new process takes over: sockets, ticket keys, uploads, the service.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;

use rustix::process::{Signal, kill_process, test_kill_process};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};

use super::{SITE, Upgraded};
use crate::child::{PATIENCE, eventually};
use crate::support::Dir;

#[test]
fn unix_sockets_and_the_default_port_are_taken_over() {
    let mut server = Upgraded::start(SITE);
    let socket = server.dir.path("../listen.sock");
    let text = fs::read_to_string(&server.file).unwrap();
    let listen = format!("listen = [\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
    fs::write(&server.file, text.replace("listen = \"127.0.0.1:0\"", &listen)).unwrap();
    server.child.signal(Signal::HUP);
    eventually("it listens", || UnixStream::connect(&socket).is_ok());
    for _ in 0..2 {
        let new = server.upgrade();
        server.child.wait_for_process();
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\ntext"), "{answer}");
        server.expect_service();
        assert!(test_kill_process(new).is_ok());
    }
    // The last process removes them, unless its user may not.
    let last = *server.later.last().unwrap();
    kill_process(last, Signal::TERM).unwrap();
    eventually("it ends", || test_kill_process(last).is_err());
    let refused = UnixStream::connect(&socket).unwrap_err().kind();
    assert!(matches!(refused, ErrorKind::NotFound | ErrorKind::ConnectionRefused), "{refused}");
}

#[test]
fn the_new_process_serves_metrics_of_its_own_on_the_same_sockets() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let site = SITE.replace("[[site]]", "[[site]]\nhosts = 'a'");
    let listen = format!("listen = ['{address}', 'unix:{{root}}/../metrics.sock']");
    let mut server = Upgraded::start(&format!("[metrics]\n{listen}\n{site}"));
    let socket = server.dir.path("../metrics.sock");
    let scrape = || {
        let mut tcp = TcpStream::connect(address).unwrap();
        let mut unix = UnixStream::connect(&socket).unwrap();
        let streams: [&mut dyn ReadWrite; 2] = [&mut tcp, &mut unix];
        streams.map(|stream| {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
            let total = text
                .lines()
                .find(|line| line.starts_with("hurtle_http_requests_total{site=\"a\",mount=\"/\""));
            total.and_then(|line| line.rsplit_once(' ')).map_or(0, |(_, n)| n.parse().unwrap())
        })
    };
    let get = |times| {
        for _ in 0..times {
            let answer = server.child.connect().request("GET", "/a.txt\nHost: a");
            assert_eq!(answer.text(), "text");
        }
    };
    get(3);
    assert_eq!(scrape(), [3, 3]);
    let mut upgrade = server.command("upgrade").spawn().unwrap();
    let mut scrapes = 0;
    while upgrade.try_wait().unwrap().is_none() {
        // Each of them is answered by one process or the other.
        scrape();
        scrapes += 1;
    }
    assert!(scrapes > 0);
    let output = upgrade.wait_with_output().unwrap();
    assert_eq!(scrape(), [0, 0], "{output:?}");
    get(1);
    assert_eq!(scrape(), [1, 1]);
    let new = server.note(&output);
    server.child.wait_for_process();
    assert!(socket.exists(), "the process before leaves the file");
    kill_process(new, Signal::TERM).unwrap();
    eventually("it ends", || test_kill_process(new).is_err());
    assert!(UnixStream::connect(&socket).is_err());
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn tls_sessions_are_resumed_by_the_new_process() {
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let tls = "[[site]]\nhosts = 'a.test'\n[[site.mount]]\nfiles = '{root}'\n\
               [site.tls]\ncertificate = '{root}/../chain.pem'\nkey = '{root}/../key.pem'\n";
    let dir = Dir::new(&[]);
    let (chain, key) = (dir.path("../chain.pem"), dir.path("../key.pem"));
    fs::write(&chain, pair.cert.pem()).unwrap();
    fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let tls = tls
        .replace("{root}/../chain.pem", &chain.display().to_string())
        .replace("{root}/../key.pem", &key.display().to_string());
    let mut server = Upgraded::start(&format!("listen_tls = '{address}'\n{tls}"));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pair.cert.der().to_vec())).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let client = Arc::new(client);
    let handshake = || {
        let name = ServerName::try_from("a.test").unwrap();
        let mut session = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        tls.write_all(b"GET /a.txt HTTP/1.1\r\nConnection: close\r\nHost: a.test\r\n\r\n").unwrap();
        let mut answer = String::new();
        tls.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("text"), "{answer}");
        session.handshake_kind()
    };
    assert_eq!(handshake(), Some(HandshakeKind::Full));
    assert_eq!(handshake(), Some(HandshakeKind::Resumed));
    server.upgrade();
    assert_eq!(handshake(), Some(HandshakeKind::Resumed));
}

#[test]
fn an_interrupted_upload_is_resumed_by_the_new_process() {
    const SPEAKS: &str = "Upload-Draft-Interop-Version: 8";
    let body: Vec<u8> = (0..8 << 20).map(|at: u32| at.to_be_bytes()[2]).collect();
    let site = SITE.replace("[[site]]", "[[site]]\nauth = 'none'");
    let uploads = "[site.mount.uploads]\nfree_bytes = 0\n";
    let mut server = Upgraded::start(&format!("drain = '60s'\n{site}{uploads}"));
    fs::set_permissions(server.dir.root(), Permissions::from_mode(0o777)).unwrap();
    let mut client = server.child.connect();
    client.send(format!(
        "PUT /new.bin HTTP/1.1\r\nHost: a\r\n{SPEAKS}\r\nUpload-Complete: ?1\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    ));
    let created = client.answer("PUT");
    let path = created.field("Location").unwrap();
    assert_eq!(client.answer("PUT").status, 100);
    client.send(&body[..body.len() / 2]);
    let send = |method: &str, more: &str, body: &[u8]| {
        let mut client = server.child.connect();
        let len = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{SPEAKS}\r\n{more}");
        client.send(format!("{head}Content-Length: {len}\r\n\r\n"));
        client.send(body);
        client.answer(method)
    };
    let append = |from: usize| {
        let more = format!(
            "Upload-Offset: {from}\r\nUpload-Complete: ?1\r\n\
             Content-Type: application/partial-upload\r\n"
        );
        send("PATCH", &more, &body[from..])
    };
    let store = server.dir.path(".hurtle-upload-resumable");
    eventually("a part is on the disk", || {
        let files = fs::read_dir(&store).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).any(|file| file.len() > 1 << 20)
    });
    let output = server.command("upgrade").output().unwrap();
    // The process before has the upload until its request ends.
    let refused = append(0);
    drop(client);
    let mut offset = None;
    eventually("the upload is free", || {
        let answer = send("HEAD", "", b"");
        offset = answer.field("Upload-Offset").map(|offset| offset.parse().unwrap());
        offset.is_some()
    });
    let done = append(offset.unwrap());
    assert_eq!(done.field("Upload-Complete"), Some("?1"), "{done:?}");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(server.child.get("/new.bin").body == body);
    server.note(&output);
}

#[test]
fn the_service_manager_learns_the_new_process() {
    let folder = Dir::new(&[]);
    let path = folder.path("../notify");
    fs::set_permissions(folder.path(".."), Permissions::from_mode(0o777)).unwrap();
    let manager = UnixDatagram::bind(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut bytes = [0; 256];
        let len = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let mut server = Upgraded::with(SITE, |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert_eq!(told(), "READY=1");
    let new = server.upgrade();
    let mut both = [told(), told()];
    both.sort();
    let main = format!("MAINPID={}", new.as_raw_nonzero());
    assert_eq!(both, [main, "READY=1".to_owned()]);
    assert_eq!(server.child.wait_for_process().code(), Some(0));
    kill_process(new, Signal::TERM).unwrap();
    assert_eq!(told(), "STOPPING=1", "of the new process; the one before said nothing");
}
