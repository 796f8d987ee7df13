//! Answers requests on one HTTP/2 connection in memory, to count instructions. Run it under
//! `valgrind --tool=callgrind` with two different numbers of requests and subtract the counts.
//!
//! `cargo run --release -p hurtle-http --example h2_requests -- 1000`

use std::hint::black_box;

use bytes::Bytes;
use hurtle_http::h2::{Connection, Event, Limits};

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_u32);
    let mut connection = Connection::new(&Limits::default(), 0);
    connection.receive(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 0);
    let body = Bytes::from(vec![7; 10 << 10]);
    // The first request adds its fields to the table. The others use indices, except for the path.
    let (first, mut bytes) = (request(true), request(false));
    for n in 0..count {
        let stream = 2 * n + 1;
        bytes[STREAM_AT..STREAM_AT + 4].copy_from_slice(&stream.to_be_bytes());
        connection.receive(if n == 0 { &first } else { &bytes }, u64::from(n));
        while let Some(event) = connection.next_event() {
            let Event::Request { id, head, .. } = event else { continue };
            black_box(head.path());
            black_box(head.iter().count());
            answer(&mut connection, id, &body);
        }
        black_box(connection.output().map(<[u8]>::len).sum::<usize>());
        connection.consume(connection.queued());
    }
}

fn answer(connection: &mut Connection, id: u32, body: &Bytes) {
    let fields: [(&[u8], &[u8]); 8] = [
        (b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (b"Server", b"hurtle"),
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Content-Length", b"10240"),
        (b"ETag", b"\"0123456789abcdef\""),
        (b"Last-Modified", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (b"Cache-Control", b"max-age=3600"),
        (b"Accept-Ranges", b"bytes"),
    ];
    let _ = connection.send_head(id, 200, fields, false);
    if connection.capacity(id, body.len()) == Ok(body.len()) {
        let _ = connection.send_data(id, body.clone(), true);
    }
}

/// Offset of the stream identifier in a request: after WINDOW_UPDATE and the start of a header.
const STREAM_AT: usize = 13 + 5;

/// A window update for the previous response, and a request on stream 1.
fn request(is_first: bool) -> Vec<u8> {
    let fields = [
        (":authority", "www.example.com"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("accept-language", "en-US,en;q=0.5"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("referer", "https://www.example.com/"),
        ("cookie", "session=0123456789abcdef0123456789abcdef"),
        ("priority", "u=0, i"),
    ];
    let mut block = vec![0x82, 0x87, 0x04, 12];
    block.extend(b"/static/10k/");
    for (n, (name, value)) in fields.into_iter().enumerate() {
        if is_first {
            block.push(0x40);
            for text in [name, value] {
                block.push(text.len() as u8);
                block.extend(text.as_bytes());
            }
        } else {
            block.push(0x80 | (62 + fields.len() - 1 - n) as u8);
        }
    }
    let mut bytes = Vec::new();
    if !is_first {
        bytes.extend([0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0x28, 0]);
    }
    bytes.extend([0, (block.len() >> 8) as u8, block.len() as u8, 1, 5]);
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(block);
    bytes
}
