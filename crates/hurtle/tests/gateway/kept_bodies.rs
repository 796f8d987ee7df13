//! Request bodies of unknown length: buffered to their end, then sent with their length.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::cgi;
use crate::client::{Client, PATIENCE};
use crate::dir::{Dir, eventually};
use crate::peer::{STDOUT, end, read_input, receive, record};
use crate::support::{Proxy, Upstream};

const HEAD: &str = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const DOCUMENT: &str = "Content-Type: text/plain\r\n\r\nhello";

/// A server that forwards every path to the application.
fn server(upstream: &Upstream, top: &str) -> Proxy {
    Proxy::of(top, &format!("fastcgi = \"{}\"", upstream.address))
}

fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

fn noise(len: u32) -> Vec<u8> {
    (0..len).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// `true` if this process has an unnamed file with most of these bytes; the last ones may still be
/// in memory.
fn holds_unnamed(len: u64) -> bool {
    let entries = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let unnamed = entries.filter_map(|entry| {
        let gone = fs::read_link(entry.path()).ok()?.to_str()?.ends_with(" (deleted)");
        fs::metadata(entry.path()).ok().filter(|meta| gone && meta.is_file())
    });
    unnamed.map(|meta| meta.size()).any(|size| size <= len && size + 100_000 > len)
}

#[test]
fn buffered_bodies_arrive_whole_with_their_length() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let table: [(&str, &[u32]); 6] = [
        ("nothing", &[]),
        ("a word", &[5]),
        ("one short of what memory keeps", &[65_535]),
        ("what memory keeps", &[30_000, 35_536]),
        ("one more", &[65_537]),
        ("a large one in uneven pieces", &[1, 200_000, 65_536, 99_999]),
    ];
    let mut client = server.connect();
    for (sentence, pieces) in table {
        let pieces: Vec<_> = pieces.iter().map(|len| noise(*len)).collect();
        let body = pieces.concat();
        let sent: Vec<u8> = pieces.iter().flat_map(|piece| chunk(piece)).collect();
        // Trailers cannot be passed to a FastCGI application.
        client.send([HEAD.as_bytes(), &sent, b"0\r\nX-Trailer: 1\r\n\r\n"].concat());
        let mut app = receive(&upstream);
        assert_eq!(app.variables["CONTENT_LENGTH"], body.len().to_string(), "{sentence}");
        assert_eq!(app.variables.get("HTTP_TRANSFER_ENCODING"), None, "{sentence}");
        assert!(read_input(&mut app.client) == body, "{sentence}: the same bytes");
        app.client.send([record(STDOUT, DOCUMENT), end()].concat());
        assert_eq!(client.answer().1, "hello", "{sentence}");
    }
}

#[test]
fn a_request_is_sent_once_its_body_is_buffered_and_the_file_is_removed() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let (first, second) = (noise(250_000), noise(111));
    let mut client = server.send([HEAD.as_bytes(), &chunk(&first)].concat());
    eventually("it is on the disk", || holds_unnamed(250_000));
    upstream.expect_no_connection();
    client.send([&chunk(&second)[..], b"0\r\n\r\n"].concat());
    let app = receive(&upstream);
    assert_eq!(app.variables["CONTENT_LENGTH"], "250111");
    app.answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
    eventually("nothing is left", || !holds_unnamed(250_111));
}

#[test]
fn an_unfinished_body_leaves_no_file_and_sends_no_request() {
    let upstream = Upstream::new();
    let limits = "[limits]\nbody_rate = \"1 MiB\"\nbody_grace = \"300ms\"";
    let server = server(&upstream, limits);
    type End = fn(Client);
    let table: [(&str, End); 4] = [
        ("a reset", Client::reset),
        ("an end", |mut client| {
            client.half_close();
            assert!(client.head().starts_with("HTTP/1.1 400 "));
        }),
        ("a chunk that is none", |mut client| {
            client.send("x\r\n");
            assert!(client.head().starts_with("HTTP/1.1 400 "));
        }),
        ("nothing more", |mut client| {
            client.stream.set_read_timeout(Some(PATIENCE + Duration::from_secs(5))).unwrap();
            assert!(client.head().starts_with("HTTP/1.1 408 "));
        }),
    ];
    for (n, (sentence, end)) in table.into_iter().enumerate() {
        // A unique size identifies the file.
        let size = 400_000 + 200_000 * n as u32;
        let client = server.send([HEAD.as_bytes(), &chunk(&noise(size))].concat());
        eventually("it is on the disk", || holds_unnamed(size.into()));
        end(client);
        eventually(sentence, || !holds_unnamed(size.into()));
    }
    upstream.expect_no_connection();
}

#[test]
fn a_body_beyond_the_limit_is_refused_and_not_sent() {
    let upstream = Upstream::new();
    let server = server(&upstream, "[limits]\nbody_bytes = \"100 KiB\"");
    let body = chunk(&noise(102_401));
    let mut client = server.send([HEAD.as_bytes(), &body, b"0\r\n\r\n"].concat());
    assert!(client.answer().0.starts_with("HTTP/1.1 413 "));
    upstream.expect_no_connection();
    // A body of exactly the limit is accepted.
    let body = chunk(&noise(102_400));
    let mut client = server.send([HEAD.as_bytes(), &body, b"0\r\n\r\n"].concat());
    receive(&upstream).answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
}

#[test]
fn slow_clients_do_not_occupy_an_application() {
    let upstream = Upstream::new();
    // A body of known length may be longer than `body_bytes`.
    let server = server(&upstream, "[limits]\nbody_bytes = \"100 KiB\"");
    let body = noise(150_000);
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 150000\r\n\r\n";
    let mut slow: Vec<Client> = (0..2).map(|_| server.send(head)).collect();
    slow.iter_mut().for_each(|client| client.send(&body[..100_000]));
    for _ in 0..5 {
        let mut client = server.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
        let app = receive(&upstream);
        assert_eq!(app.variables["REQUEST_METHOD"], "GET");
        app.answer(DOCUMENT);
        assert_eq!(client.answer().1, "hello");
    }
    upstream.expect_no_connection();
    for client in &mut slow {
        client.send(&body[100_000..]);
        let mut app = receive(&upstream);
        assert_eq!(app.variables["CONTENT_LENGTH"], "150000");
        assert!(read_input(&mut app.client) == body, "the same bytes");
        app.client.send([record(STDOUT, DOCUMENT), end()].concat());
        assert_eq!(client.answer().1, "hello");
    }
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let mut client = server.send(HEAD.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    client.send("2\r\nok\r\n0\r\n\r\n");
    let app = receive(&upstream);
    assert_eq!(app.variables["CONTENT_LENGTH"], "2");
    app.answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
}

#[test]
fn a_program_gets_a_buffered_body_too() {
    let dir = Dir::new(&[]);
    let text =
        "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\n%s ' $CONTENT_LENGTH\nwc -c | tr -d ' \\n'\n";
    dir.program("bin/count.sh", text);
    let server = cgi::server(&dir, "");
    let head = HEAD.replace("/a", "/cgi-bin/count.sh");
    let mut client = server.send([head.as_bytes(), &chunk(&noise(200_001)), b"0\r\n\r\n"].concat());
    assert_eq!(client.answer().1, "200001 200001");
}

#[test]
fn clients_that_do_not_read_do_not_occupy_the_application() {
    use std::io::Write as _;
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    // More than the sockets' buffers hold.
    let body = noise(20 << 20);
    let mut slow = server.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut app = receive(&upstream);
    read_input(&mut app.client);
    let mut response = record(STDOUT, "Content-Type: text/plain\r\n\r\n");
    body.chunks(65_000).for_each(|piece| response.extend(record(STDOUT, piece)));
    response.extend(end());
    app.client.stream.set_write_timeout(Some(PATIENCE)).unwrap();
    app.client.stream.write_all(&response).unwrap();
    slow.head();
    let mut taken = Vec::new();
    loop {
        let len = usize::from_str_radix(&slow.line(), 16).unwrap();
        taken.extend(slow.take(len));
        if len == 0 || !slow.line().is_empty() {
            break;
        }
    }
    assert!(taken == body);
}

#[test]
fn a_request_takes_a_place_of_the_limit_once_its_body_is_here() {
    let upstream = Upstream::new();
    let keys = "concurrency = 1\nqueue = 1\nqueue_timeout = \"1h\"";
    let server = Proxy::of("", &format!("fastcgi = \"{}\"\n{keys}", upstream.address));
    let mut slow = server.send([HEAD.as_bytes(), &chunk(b"ab")].concat());
    for turn in 0..3 {
        let mut quick = server.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n");
        receive(&upstream).answer(DOCUMENT);
        assert_eq!(quick.answer().1, "hello", "{turn}");
    }
    slow.send("0\r\n\r\n");
    let app = receive(&upstream);
    assert_eq!(app.variables["CONTENT_LENGTH"], "2");
    app.answer(DOCUMENT);
    assert_eq!(slow.answer().1, "hello");
}
