//! The PROXY protocol of a load balancer, before plain HTTP and before TLS: the client's address,
//! and connections that are closed.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use hurtle::Arrival;
use hurtle::config::{
    AccessLog, Config, Listen, LogField, LogFormat, LogTarget, ProxyProtocol, check,
};

use crate::child::{Child, eventually, hurtle};
use crate::peer::Peer;
use crate::server::Secure;
use crate::support::{Client, Dir};

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const V1_LINE: &[u8] = b"PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n";

/// The server's time limit for a header; only the tests of this limit wait so long.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// A server that accepts headers from this machine; `/who` responds with the client's address.
fn server(change: impl FnOnce(&mut Config, &Dir)) -> Secure {
    let who = get(|request: Request| async move {
        let arrival = request.extensions().get::<Arrival>().unwrap();
        arrival.client.map_or_else(|| "nobody".to_owned(), |client| client.to_string())
    });
    let app = Router::new().route("/", who);
    Secure::mounted(
        &[("a.txt", "hello\n")],
        |config, _, dir| {
            let from = vec!["127.0.0.1/32".parse().unwrap()];
            config.proxy_protocol = Some(ProxyProtocol { on: vec![], from });
            change(config, dir);
        },
        |server| server.mount("a.test", "/who", app).unwrap(),
    )
}

fn v2(command: u8, family: u8, block: &[&[u8]]) -> Vec<u8> {
    let block = block.concat();
    let len = u16::try_from(block.len()).unwrap().to_be_bytes();
    [V2, &[command, family], &len, &block].concat()
}

/// A header for a client at 198.51.100.7.
fn v2_inet(remarks: &[&[u8]]) -> Vec<u8> {
    let addresses = [198, 51, 100, 7, 192, 0, 2, 1, 18, 103, 1, 187];
    v2(0x21, 0x11, &[&[&addresses[..]], remarks].concat())
}

/// Sends the header and a plain GET after it.
fn in_clear(to: SocketAddr, header: &[u8], target: &str) -> crate::support::Response {
    let mut client = Client::connect(to);
    client.send([header, &request(target)].concat());
    client.response()
}

/// Sends the header and the ClientHello after it, in two writes split at `cut`.
fn over_tls(server: &Secure, header: &[u8], cut: usize) -> Peer {
    let mut peer = Peer::begin(server.address, "a.test", &server.options());
    let mut bytes = header.to_vec();
    peer.session.write_tls(&mut bytes).unwrap();
    let (first, second) = bytes.split_at(cut);
    peer.socket.write_all(first).unwrap();
    peer.socket.write_all(second).unwrap();
    while peer.session.is_handshaking() {
        peer.session.complete_io(&mut peer.socket).unwrap();
    }
    peer
}

fn request(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n").into()
}

/// Reads everything that the server sends before it closes or resets a connection.
fn last_words(mut stream: impl Read) -> Vec<u8> {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(e) if e.kind() != std::io::ErrorKind::ConnectionReset => panic!("not closed: {e}"),
        _ => said,
    }
}

#[test]
fn the_header_gives_the_clients_address() {
    let server = server(|_, _| ());
    let inet6 = [&[0x20, 1, 0x0d, 0xb8], &[0; 11][..], &[9], &[0; 16], &[0; 4]].concat();
    let remark: &[u8] = &[0xEA, 0, 3, 1, 2, 3];
    let table: [(&str, Vec<u8>, &str); 10] = [
        ("version 1, IPv4", V1_LINE.into(), "203.0.113.9"),
        ("version 1, IPv6", b"PROXY TCP6 2001:db8::9 ::1 4711 443\r\n".into(), "2001:db8::9"),
        ("version 1, unknown", b"PROXY UNKNOWN\r\n".into(), "127.0.0.1"),
        ("version 1, unknown, with more", b"PROXY UNKNOWN ff 1\r\n".into(), "127.0.0.1"),
        ("version 2, IPv4", v2_inet(&[]), "198.51.100.7"),
        ("version 2, IPv4, with a remark", v2_inet(&[remark]), "198.51.100.7"),
        ("version 2, IPv6", v2(0x21, 0x21, &[&inet6]), "2001:db8::9"),
        ("version 2, a unix socket", v2(0x21, 0x31, &[&[b'/'; 216]]), "nobody"),
        ("version 2, unspecified", v2(0x21, 0x00, &[remark]), "127.0.0.1"),
        ("version 2, LOCAL", v2(0x20, 0x11, &[&[9; 12]]), "127.0.0.1"),
    ];
    for (sentence, header, expected) in table {
        assert_eq!(in_clear(server.clear, &header, "/who").text(), expected, "{sentence}");
        let mut peer = over_tls(&server, &header, header.len());
        assert_eq!(peer.get("/who").body, expected.as_bytes(), "{sentence}, over TLS");
        assert_eq!(peer.get("/who").body, expected.as_bytes(), "{sentence}, again");
    }
}

#[test]
fn the_header_names_the_peer_of_conditions() {
    let server = server(|config, dir| {
        let text = "[[site]]\n[[site.mount]]\nmatch = { path = \"/from\", peer = \"203.0.113.0/24\" }\n\
                    respond = \"named\"\n[[site.mount]]\nrespond = \"other\"\n";
        let checked = check(text, &dir.path("hurtle.toml")).unwrap();
        config.sites[0].mounts = checked.sites[0].mounts.clone();
    });
    for (header, expected) in [(V1_LINE.to_vec(), "named"), (v2_inet(&[]), "other")] {
        assert_eq!(in_clear(server.clear, &header, "/from").text(), expected);
        let mut peer = over_tls(&server, &header, header.len());
        assert_eq!(peer.get("/from").body, expected.as_bytes(), "over TLS");
    }
}

#[test]
fn headers_can_be_split_anywhere() {
    let server = server(|_, _| ());
    for (header, expected) in [(V1_LINE.to_vec(), "203.0.113.9"), (v2_inet(&[]), "198.51.100.7")] {
        let bytes = [&header[..], &request("/who"), &request("/a.txt")].concat();
        for cut in 0..bytes.len() {
            let mut client = Client::connect(server.clear);
            client.send_split(&bytes, [cut]);
            assert_eq!(client.response().text(), expected, "cut at {cut}");
            assert_eq!(client.response().text(), "hello\n", "cut at {cut}");
        }
        for cut in 0..header.len() + 8 {
            assert_eq!(over_tls(&server, &header, cut).get("/who").body, expected.as_bytes());
        }
        let mut client = Client::connect(server.clear);
        client.send_split(&bytes, vec![1; bytes.len()]);
        assert_eq!(client.response().text(), expected, "a byte at a time");
    }
}

#[test]
fn limits_apply_to_the_request_after_a_header() {
    let server = server(|config, _| config.limits.head_bytes = 1 << 10);
    let long = format!("/a.txt?{}", "x".repeat(8 << 10));
    assert_eq!(in_clear(server.clear, V1_LINE, &long).status, 431);
    let plain = [V1_LINE, &request("/a.txt")].concat();
    let mut client = Client::connect(server.address);
    client.send(&plain);
    assert_eq!(client.response().status, 400, "clear text on the TLS port");
}

#[test]
fn a_connection_without_a_valid_header_is_closed() {
    let server = server(|_, _| ());
    let mut hello = Vec::new();
    let mut peer = Peer::begin(server.address, "a.test", &server.options());
    peer.session.write_tls(&mut hello).unwrap();
    let huge = [V2, &[0x21, 0x11, 0xff, 0xff]].concat();
    let sum = v2_inet(&[&[3, 0, 4, 1, 2, 3, 4]]);
    let table: [(&str, Vec<u8>); 12] = [
        ("a request", request("/who")),
        ("a request that speaks of a proxy", b"PROXY / HTTP/1.1\r\nHost: a\r\n\r\n".into()),
        ("a client's hello", hello),
        ("an empty line", b"\r\n".repeat(8)),
        ("a broken line", b"PROXY TCP4 203.0.113.9 192.0.2.1 4711\r\n".into()),
        ("a line without end", [b"PROXY TCP4 ".to_vec(), vec![b'1'; 200]].concat()),
        ("an unknown command", v2(0x22, 0x11, &[&[9; 12]])),
        ("an unknown version", v2(0x31, 0x11, &[&[9; 12]])),
        ("an unknown family", v2(0x21, 0x51, &[&[9; 12]])),
        ("addresses that are not there", v2(0x21, 0x21, &[&[9; 12]])),
        ("a size that would be too large", huge),
        ("a wrong checksum", sum),
    ];
    for (sentence, bytes) in table {
        for (port, address) in [("in clear", server.clear), ("with TLS", server.address)] {
            let mut client = Client::connect(address);
            let began = Instant::now();
            client.send(&bytes);
            assert_eq!(last_words(&client.stream), b"", "{sentence}, {port}");
            assert!(began.elapsed() < HEADER_TIME, "{sentence}, {port}: at once");
        }
    }
    let whole = v2_inet(&[]);
    for part in [&V1_LINE[..V1_LINE.len() - 1], &whole[..whole.len() - 1], b""] {
        let mut client = Client::connect(server.clear);
        client.send(part);
        client.half_close();
        assert_eq!(last_words(&client.stream), b"", "a header cut short");
    }
    assert_eq!(in_clear(server.clear, V1_LINE, "/a.txt").status, 200, "others are served");
}

#[test]
fn a_late_header_closes_the_connection() {
    let server = server(|_, _| ());
    let began = Instant::now();
    let mut clients = Vec::new();
    for address in [server.clear, server.address] {
        for bytes in [&b""[..], &V1_LINE[..9], &v2_inet(&[])[..20]] {
            let mut client = Client::connect(address);
            client.send(bytes);
            clients.push(client);
        }
    }
    for mut client in clients {
        client.expect_end();
    }
    // Deadlines are checked a few times a second.
    assert!(began.elapsed() + Duration::from_millis(100) > HEADER_TIME, "{:?}", began.elapsed());
}

#[test]
fn the_error_log_has_the_address_and_the_reason() {
    let dir = Dir::new(&[]);
    let config = dir.path("../proxied.toml");
    let root = dir.root();
    for (from, complaint) in [
        ("10.0.0.0/8", "from 127.0.0.1: it is not in proxy_protocol.from"),
        ("127.0.0.1", "from 127.0.0.1: no header: is the peer set to send one?"),
    ] {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\nroot = {root:?}\n[proxy_protocol]\n\
             from = \"{from}\"\n"
        );
        fs::write(&config, text).unwrap();
        let child = Child::start(hurtle().arg("--config").arg(&config));
        for _ in 0..3 {
            let mut client = Client::connect(child.address());
            client.send(request("/"));
            assert_eq!(last_words(&client.stream), b"");
        }
        eventually("it is told", || child.stderr().contains(complaint));
        assert_eq!(child.stderr().matches(complaint).count(), 1, "but not each time");
    }
}

#[test]
fn only_configured_addresses_can_send_headers() {
    let server = server(|config, _| {
        let from = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        config.proxy_protocol = Some(ProxyProtocol { on: vec![], from });
    });
    for address in [server.clear, server.address] {
        for bytes in [&[V1_LINE, &request("/who")].concat(), &v2(0x20, 0, &[]), &request("/who")] {
            let mut client = Client::connect(address);
            client.send(bytes);
            assert_eq!(last_words(&client.stream), b"");
        }
    }
}

#[test]
fn other_listeners_refuse_a_header() {
    let server = server(|config, _| {
        config.listen_tls = vec![Listen::Tcp(SocketAddr::from(([0, 0, 0, 0], 0)))];
        let proxied = config.proxy_protocol.as_mut().unwrap();
        proxied.on.clone_from(&config.listen);
    });
    let to = SocketAddr::from(([127, 0, 0, 1], server.address.port()));
    let mut peer = Peer::connect(to, "a.test", &server.options()).unwrap();
    assert_eq!(peer.get("/who").body, b"127.0.0.1");
    let mut client = Client::connect(to);
    client.send(v2_inet(&[]));
    assert!(!last_words(&client.stream).starts_with(b"HTTP/1.1 200"));
    assert_eq!(in_clear(server.clear, V1_LINE, "/who").text(), "203.0.113.9", "and there it is");
    let mut client = Client::connect(server.clear);
    client.send(request("/who"));
    assert_eq!(last_words(&client.stream), b"");
}

#[test]
fn every_peer_of_a_unix_socket_can_send_headers() {
    let mut path = None;
    let server = server(|config, dir| {
        let socket = dir.path("../h.sock");
        config.listen.push(Listen::Unix(socket.clone()));
        config.proxy_protocol.as_mut().unwrap().on = vec![Listen::Unix(socket.clone())];
        path = Some(socket);
    });
    let path = path.unwrap();
    for (header, expected) in [(V1_LINE, "203.0.113.9"), (b"PROXY UNKNOWN\r\n", "nobody")] {
        let mut stream = UnixStream::connect(&path).unwrap();
        let close = b"GET /who HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        stream.write_all(&[header, close].concat()).unwrap();
        let said = String::from_utf8(last_words(&stream)).unwrap();
        assert!(said.ends_with(&format!("\r\n\r\n{expected}")), "{said}");
    }
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(&request("/who")).unwrap();
    assert_eq!(last_words(&stream), b"");
    drop(server);
}

#[test]
fn rules_and_limits_apply_to_the_clients_address() {
    let server = server(|config, _| {
        config.sites[0].access.deny = vec!["198.51.100.0/24".parse().unwrap()];
        config.limits.connections_per_address = Some(1);
    });
    assert_eq!(in_clear(server.clear, &v2_inet(&[]), "/a.txt").status, 403);
    assert_eq!(over_tls(&server, &v2_inet(&[]), 1).get("/a.txt").status, 403);
    let header = |n: u8| format!("PROXY TCP4 203.0.113.{n} 192.0.2.1 1 1\r\n").into_bytes();
    let mut open = Vec::new();
    for n in 1..=5 {
        let mut client = Client::connect(server.clear);
        client.send([header(n), request("/a.txt")].concat());
        assert_eq!(client.response().status, 200, "each has a place");
        open.push(client);
    }
    assert_eq!(in_clear(server.clear, &header(3), "/a.txt").status, 503, "and one alone");
    let mut client = Client::connect(server.address);
    client.send(header(3));
    assert_eq!(last_words(&client.stream), b"", "in clear there is nothing to say to TLS");
    open[3].expect_open();
}

#[test]
fn only_a_trusted_proxy_behind_a_balancer_can_send_forwarded_headers() {
    let server = server(|config, _| {
        config.trusted_proxies =
            vec!["10.0.0.0/8".parse().unwrap(), "127.0.0.1/32".parse().unwrap()];
    });
    let request = b"GET /who HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 203.0.113.77\r\n\r\n";
    for (by, expected) in [("10.1.2.3", "203.0.113.77"), ("192.0.2.5", "192.0.2.5")] {
        let mut client = Client::connect(server.clear);
        client.send(format!("PROXY TCP4 {by} 192.0.2.1 1 1\r\n"));
        client.send(request);
        assert_eq!(client.response().text(), expected, "{by}");
    }
}

#[test]
fn the_access_log_has_the_clients_address() {
    let mut log = None;
    let server = server(|config, dir| {
        let file = dir.path("../access.log");
        let format = LogFormat::Json(vec![LogField::Client, LogField::Status]);
        config.access_log =
            Some(AccessLog { format, to: LogTarget::File(file.clone()), ..AccessLog::default() });
        log = Some(file);
    });
    assert_eq!(in_clear(server.clear, V1_LINE, "/a.txt").status, 200);
    assert_eq!(over_tls(&server, &v2_inet(&[]), 0).get("/a.txt").status, 200);
    assert_eq!(in_clear(server.clear, &v2(0x20, 0, &[]), "/a.txt").status, 200);
    let dir = server.stop();
    let written = fs::read_to_string(log.unwrap()).unwrap();
    let line = |client: &str| format!("{{\"client\":\"{client}\",\"status\":200}}\n");
    let expected: String = ["203.0.113.9", "198.51.100.7", "127.0.0.1"].map(line).concat();
    assert_eq!(written, expected);
    drop(dir);
}
