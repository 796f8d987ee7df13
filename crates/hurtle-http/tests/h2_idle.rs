//! Measures the memory of an idle HTTP/2 connection, including the allocator's overhead. It is the
//! only test of its process, so that nothing else is measured.

use bytes::Bytes;
use hurtle_http::h2::{Connection, Event, Limits};

const CONNECTIONS: usize = 4_000;

/// Maximum memory of an idle connection, in bytes.
const BYTES_MAX: usize = 3 << 10;

/// A browser's request, as the `h2` crate or a browser would compress it: names and values go into
/// the dynamic table.
fn request() -> Vec<u8> {
    let fields = [
        (":authority", "www.example.com"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("accept-language", "en-US,en;q=0.5"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("cookie", "session=0123456789abcdef0123456789abcdef"),
        ("referer", "https://www.example.com/"),
        ("priority", "u=0, i"),
    ];
    // GET, https, /.
    let mut block = vec![0x82, 0x87, 0x84];
    for (name, value) in fields {
        block.push(0x40);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(text.len() as u8);
            block.extend(text.as_bytes());
        }
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend([0, (block.len() >> 8) as u8, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    bytes
}

/// A connection that has answered one request.
fn idle(request: &[u8]) -> Connection {
    let mut connection = Connection::new(&Limits::default(), 0);
    connection.receive(request, 0);
    let Some(Event::Request { id, .. }) = connection.next_event() else { panic!("no request") };
    let fields: [(&[u8], &[u8]); 7] = [
        (b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (b"Server", b"hurtle"),
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Content-Length", b"10240"),
        (b"ETag", b"\"0123456789abcdef\""),
        (b"Last-Modified", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        (b"Cache-Control", b"max-age=3600"),
    ];
    assert_eq!(connection.send_head(id, 200, fields, false), Ok(()));
    assert_eq!(connection.capacity(id, 10_240), Ok(10_240));
    assert_eq!(connection.send_data(id, Bytes::from(vec![7; 10_240]), true), Ok(()));
    connection.consume(connection.queued());
    assert_eq!((connection.next_event(), connection.open_streams()), (None, 0));
    connection
}

/// Resident memory of this process in bytes; `None` if the system is not Linux.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<usize>().ok()? * 4_096)
}

#[test]
fn an_idle_connection_is_small() {
    let request = request();
    let mut connections = Vec::with_capacity(CONNECTIONS);
    // The first connections also pay for memory that later ones share.
    connections.extend((0..CONNECTIONS / 8).map(|_| idle(&request)));
    let Some(before) = resident() else { return };
    let first = connections.len();
    connections.extend((first..CONNECTIONS).map(|_| idle(&request)));
    let Some(after) = resident() else { return };
    let each = after.saturating_sub(before) / (CONNECTIONS - first);
    println!("{each} bytes, {} of them in the struct itself", size_of::<Connection>());
    assert!(each <= BYTES_MAX, "{each} bytes");
}
