//! Responses that are taken from an upstream as fast as it sends them, so that clients that read
//! slowly, or not at all, hold no upstream.

use std::io::{self, ErrorKind, Write as _};
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::{Client, PATIENCE};
use crate::support::{GET, LAST_OK, OK, Proxy, Upstream};

/// More than the sockets' buffers between upstream and client hold.
const LARGE: usize = 20 << 20;

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn head(len: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n")
}

/// Writes to a peer until it takes nothing for half a second; returns the bytes it took, at most
/// `most`.
fn push(peer: &mut Client, most: usize) -> usize {
    peer.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut taken = 0;
    while taken < most {
        match peer.stream.write(&[b'x'; 64 << 10]) {
            Ok(n) => taken += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    taken
}

/// Reads a chunk; `false`: it is the last one.
fn extend(taken: &mut Vec<u8>, client: &mut Client) -> bool {
    let len = usize::from_str_radix(&client.line(), 16).unwrap();
    taken.extend(client.take(len));
    len > 0 && client.line().is_empty()
}

/// Sends a whole response.
#[track_caller]
fn respond(peer: &mut Client, head: &str, body: &[u8]) {
    peer.send(head);
    peer.stream.set_write_timeout(Some(PATIENCE)).unwrap();
    peer.stream.write_all(body).unwrap();
}

#[test]
fn clients_that_do_not_read_do_not_occupy_an_upstream() {
    let upstream = Upstream::new();
    let url = format!("{{ url = \"http://{}\", max_connections = 2 }}", upstream.address);
    let proxy = Proxy::of("", &format!("proxy = [{url}]"));
    let body = noise(LARGE);
    let mut slow: Vec<Client> = (0..2).map(|_| proxy.send(GET)).collect();
    let peers: Vec<Client> = slow.iter().map(|_| upstream.next_request().0).collect();
    for mut peer in peers {
        let head = head(body.len()).replace("200 OK", "200 OK\r\nConnection: close");
        respond(&mut peer, &head, &body);
    }
    // They wait until a place is free.
    let mut others: Vec<Client> = (0..2).map(|_| proxy.send(GET)).collect();
    let peers: Vec<Client> = others.iter().map(|_| upstream.next_request().0).collect();
    for (client, mut peer) in others.iter_mut().zip(peers) {
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
    for client in &mut slow {
        client.head();
        assert!(client.take(body.len()) == body);
    }
}

/// Regression: such a response could hold its worker as long as both ends were fast.
#[test]
fn a_response_without_end_starves_no_other_client() {
    let upstream = Upstream::new();
    let other = "[[site.mount]]\npath = \"/other\"\nrespond = \"other\"";
    let proxy = Proxy::of("", &format!("proxy = \"http://{}\"\n{other}", upstream.address));
    let client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    let (mut reading, mut writing) = (&client.stream, &peer.stream);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || io::copy(&mut reading, &mut io::sink()));
        scope.spawn(|| {
            let many = vec![b'x'; 1 << 20];
            while !done.load(Ordering::Relaxed) {
                if writing.write_all(&many).is_err() {
                    break;
                }
            }
            let _ = writing.shutdown(Shutdown::Both);
        });
        // Without a turn a read would time out.
        let asked = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..50 {
                let mut other = proxy.send("GET /other HTTP/1.1\r\nHost: a\r\n\r\n");
                assert_eq!(other.answer().1, "other");
            }
        }));
        done.store(true, Ordering::Relaxed);
        assert!(asked.is_ok());
    });
}

/// Regression: the place was free when the client had read all that was kept.
#[test]
fn an_upstream_that_stops_is_free_before_its_slow_client_has_read() {
    let upstream = Upstream::new();
    let url = format!("{{ url = \"http://{}\", max_connections = 1 }}", upstream.address);
    let proxy = Proxy::of("", &format!("proxy = [{url}]\nread_timeout = \"300ms\""));
    let mut slow = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    let body = noise(LARGE);
    respond(&mut peer, &head(2 * LARGE), &body);
    let mut other = proxy.send(GET);
    let (mut second, _) = upstream.next_request();
    second.send(LAST_OK);
    assert_eq!(other.answer().1, "ok");
    slow.head();
    assert!(slow.take(body.len()) == body, "what was kept arrives");
    assert_eq!(slow.rest().len(), 0, "the rest does not");
    drop(peer);
}

/// Regression: the connection was reset, since the next request was unread (RFC 9112 9.6).
#[test]
fn the_last_response_arrives_whole_though_another_request_has_been_sent() {
    let upstream = Upstream::new();
    let mount = format!("proxy = \"http://{}\"", upstream.address);
    let proxy = Proxy::of("limits = { requests_per_connection = 1 }", &mount);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    client.send(GET);
    let body = noise(LARGE);
    respond(&mut peer, &head(LARGE), &body);
    assert!(client.head().contains("Connection: close"));
    assert!(client.take(LARGE) == body);
    upstream.expect_no_connection();
}

#[test]
fn bodies_arrive_as_they_were_sent_and_the_connection_is_used_again() {
    let upstream = Upstream::new();
    let url = format!("{{ url = \"http://{}\", max_connections = 1 }}", upstream.address);
    let proxy = Proxy::of("", &format!("proxy = [{url}]"));
    let (body, mut peer) = (noise(LARGE), None::<Client>);
    let chunked = |trailer: &str| {
        let pieces = body.chunks(99_991).flat_map(|piece| {
            [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
        });
        pieces.chain(format!("0\r\n{trailer}\r\n").into_bytes()).collect::<Vec<_>>()
    };
    let in_chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    let table = [
        ("a known length", head(body.len()), body.clone()),
        ("chunks", in_chunks.clone(), chunked("")),
        ("chunks and trailers", in_chunks, chunked("X-Sum: 1\r\n")),
    ];
    for (sentence, head, bytes) in table {
        let mut client =
            proxy.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
        let mut other = proxy.connect();
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.head();
        respond(peer, &head, &bytes);
        other.send(GET);
        assert!(peer.head().starts_with("GET / "), "{sentence}: before the client has read any");
        peer.send(OK);
        assert_eq!(other.answer().1, "ok", "{sentence}");
        let mut taken = Vec::new();
        match client.head().contains("\nContent-Length: ") {
            true => taken = client.take(body.len()),
            false => while extend(&mut taken, &mut client) {},
        }
        assert!(taken == body, "{sentence}");
        if sentence == "chunks and trailers" {
            assert_eq!(client.line(), "X-Sum: 1", "{sentence}");
        }
    }
}

#[test]
fn an_upstream_waits_for_the_client_if_it_or_the_mount_asks_for_it() {
    let table = [
        ("the upstream asks", "", "X-Accel-Buffering: no\r\n"),
        ("the mount keeps requests only", "buffer = \"request\"", ""),
        ("the mount keeps nothing", "buffer = \"off\"", ""),
        ("the mount keeps less", "buffer_bytes = \"1 MiB\"", ""),
        ("the mount keeps what fits in memory", "buffer_bytes = 0", ""),
        ("the mount keeps less in all", "buffer_total_bytes = \"1 MiB\"", ""),
    ];
    for (sentence, keys, field) in table {
        let upstream = Upstream::new();
        let proxy = Proxy::with(&[upstream.address], keys);
        let client = proxy.send(GET);
        let (mut peer, _) = upstream.next_request();
        peer.send(format!("HTTP/1.1 200 OK\r\n{field}\r\n"));
        let taken = push(&mut peer, 256 << 20);
        assert!(taken < 64 << 20, "{sentence}: {taken} bytes were taken");
        drop(client);
    }
}

#[test]
fn the_client_gets_what_came_before_the_upstream_failed() {
    let body = noise(LARGE);
    for (sentence, keys) in [("it closes", ""), ("it stops", "read_timeout = \"300ms\"")] {
        let upstream = Upstream::new();
        let proxy = Proxy::with(&[upstream.address], keys);
        let mut client = proxy.send(GET);
        let (mut peer, _) = upstream.next_request();
        respond(&mut peer, &head(2 * body.len()), &body);
        let _open = Some(peer).filter(|_| !keys.is_empty());
        client.head();
        assert!(client.take(body.len()) == body, "{sentence}");
        client.expect_early_end(1, sentence);
    }
}

#[test]
fn bodies_pass_as_they_arrive_if_the_directory_is_gone() {
    let directory = std::env::temp_dir().join(format!("hurtle-gone-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let upstream = Upstream::new();
    let keys = format!("buffer_directory = {directory:?}");
    let proxy = Proxy::with(&[upstream.address], &keys);
    std::fs::remove_dir(&directory).unwrap();
    let (sent, body) = (noise(300_000), noise(LARGE));
    let mut client = proxy.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len()));
    client.send(&sent);
    let (mut peer, _) = upstream.next_request();
    assert!(peer.take(sent.len()) == sent);
    let answering = thread::spawn({
        let body = body.clone();
        move || respond(&mut peer, &head(body.len()), &body)
    });
    client.head();
    assert!(client.take(body.len()) == body);
    answering.join().unwrap();
}

#[test]
fn nothing_is_left_of_a_client_that_leaves() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    respond(&mut peer, "HTTP/1.1 200 OK\r\n\r\n", &noise(LARGE));
    client.reset();
    // The request is cancelled: the connection ends.
    peer.stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let cancelled = loop {
        match peer.stream.write(&[0; 64 << 10]) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => break e.kind(),
        }
    };
    assert!(matches!(cancelled, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{cancelled}");
}

#[test]
fn pieces_arrive_at_once_before_and_after_the_client_was_slow() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.head();
    let body = noise(LARGE);
    for turn in 0..3 {
        for event in ["data: a\n\n", "data: b\n\n"] {
            peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
            assert_eq!(client.chunk(), event, "{turn}");
        }
        respond(&mut peer, &format!("{:x}\r\n", body.len()), &body);
        peer.send("\r\n");
        let mut taken = Vec::new();
        while taken.len() < body.len() && extend(&mut taken, &mut client) {}
        assert!(taken == body, "{turn}");
    }
}

#[test]
fn the_time_of_an_upstream_that_was_too_slow_is_not_that_of_the_next() {
    // Nobody answers the handshake of the first one.
    let (silent, upstream) = (Upstream::new(), Upstream::new());
    let urls = format!("['https://{}', 'http://{}']", silent.address, upstream.address);
    let keys = "connect_timeout = '100ms'\nupstream_tls = { insecure_skip_verify = true }";
    let proxy = Proxy::of("", &format!("proxy = {urls}\n{keys}"));
    let body = noise(300_000);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send(head(body.len()));
    for half in body.chunks(150_000) {
        peer.send(half);
        if half[0] == body[0] {
            client.head();
        }
        assert!(client.take(half.len()) == half);
    }
}
