//! A scripted authority that refuses every account.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::pebble::Net;

/// Reads a head and a body of its Content-Length.
fn read_request(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    let mut some = [0; 4 << 10];
    loop {
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(request);
            }
        }
        match stream.read(&mut some) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Ok(n) if n > 0 => request.extend_from_slice(&some[..n]),
            _ => return None,
        }
    }
}

/// Starts the authority with this number, which refuses with this status until the test's process
/// ends.
pub(crate) fn refuse_all(net: &Net, number: u16, status: &str, retry_after_secs: u64) {
    let base = net.directory(number).trim_end_matches("/dir").to_owned();
    let directory = serde_json::json!({
        "newNonce": format!("{base}/nonce"),
        "newAccount": format!("{base}/account"),
        "newOrder": format!("{base}/order"),
    });
    let problem = serde_json::json!({
        "type": "urn:ietf:params:acme:error:rateLimited",
        "detail": "too many of this, come back later",
    });
    let answer = |status: &str, fields: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nReplay-Nonce: bm9uY2U\r\n\
             {fields}Connection: close\r\n\r\n{body}"
        )
    };
    let found = answer("200 OK", "", &directory.to_string());
    let nonce = answer("200 OK", "", "");
    let wait = format!("Retry-After: {retry_after_secs}\r\n");
    let refused = answer(status, &wait, &problem.to_string());
    let (chain, key) = net.authority.issue(&net.address.to_string()).der();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(chain, key).unwrap());
    let port = base.rsplit(':').next().unwrap().parse().unwrap();
    let listener = TcpListener::bind(net.at(port)).unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().map(Result::unwrap) {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, socket);
            let Some(request) = read_request(&mut stream) else { continue };
            let answer = match &request[..] {
                [b'G', ..] => &found,
                [b'H', ..] => &nonce,
                _ => &refused,
            };
            let _ = stream.write_all(answer.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
}
