//! An application with one synchronous worker, as an upstream: it reads a request whole, writes the
//! response whole, and only then takes the next connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::client::PATIENCE;

pub(crate) struct OneWorker {
    pub(crate) address: SocketAddr,
    /// The request line and the body of each request that was answered.
    pub(crate) answered: UnboundedReceiver<(String, Vec<u8>)>,
}

impl OneWorker {
    /// Answers requests for `/large` with `large`, others with "ok".
    pub(crate) fn start(large: Vec<u8>) -> OneWorker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, answered) = unbounded_channel();
        thread::spawn(move || {
            for client in listener.incoming() {
                // The test's end is the server's end, which closes connections.
                if serve(client.unwrap(), &large, &sender).is_none() {
                    return;
                }
            }
        });
        OneWorker { address, answered }
    }
}

fn serve(
    mut client: TcpStream,
    large: &[u8],
    answered: &UnboundedSender<(String, Vec<u8>)>,
) -> Option<()> {
    client.set_read_timeout(Some(PATIENCE)).ok()?;
    client.set_write_timeout(Some(PATIENCE)).ok()?;
    let (mut came, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    let (head, len) = loop {
        let n = client.read(&mut piece).ok().filter(|n| *n > 0)?;
        came.extend_from_slice(&piece[..n]);
        if let Some(at) = came.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let body = came.split_off(at + 4);
            let head = String::from_utf8(std::mem::replace(&mut came, body)).ok()?;
            let fields = head.to_ascii_lowercase();
            let len = fields.lines().find_map(|line| line.strip_prefix("content-length: "));
            break (head, len.map_or(0, |len| len.parse().unwrap()));
        }
    };
    while came.len() < len {
        let n = client.read(&mut piece).ok().filter(|n| *n > 0)?;
        came.extend_from_slice(&piece[..n]);
    }
    let body = if head.contains(" /large ") { large } else { b"ok" };
    let answer =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write_all(&[answer.as_bytes(), body].concat()).ok()?;
    answered.send((head.lines().next()?.to_owned(), came)).ok()
}
