//! The external stat helper, with requests like lighttpd's; the contenders' tests run it with
//! lighttpd.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod scripted;

use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use scripted::folder;

const STAT: &str = env!("CARGO_BIN_EXE_deathmatch-stat");

/// Longer than any response takes.
const SILENCE_MAX: Duration = Duration::from_secs(10);

struct Helper(Child);

impl Helper {
    fn on(listener: OwnedFd) -> Helper {
        Helper(Command::new(STAT).stdin(Stdio::from(listener)).spawn().unwrap())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn existing_files_are_allowed_and_others_are_404_over_tcp_and_unix() {
    let root = folder("stat");
    let long = "n".repeat(200); // lengths above 127 have four bytes
    std::fs::write(root.join("here.bin"), "1").unwrap();
    std::fs::write(root.join(&long), "1").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(root.join("socket")).unwrap();
    let address = tcp.local_addr().unwrap();
    let _helpers = [Helper::on(tcp.into()), Helper::on(unix.into())];
    for (sentence, name, status) in [
        ("a file", "/here.bin", "200"),
        ("none", "/gone.bin", "404"),
        ("a long name", &*format!("/{long}"), "200"),
        ("a folder is there too", "/", "200"),
    ] {
        for pieces in [1, 7, usize::MAX] {
            let file = format!("{}{name}", root.display());
            let request = request(&[("QUERY_STRING", ""), ("SCRIPT_FILENAME", &file)]);
            let over_tcp = TcpStream::connect(address).unwrap();
            over_tcp.set_read_timeout(Some(SILENCE_MAX)).unwrap();
            assert_eq!(ask(&over_tcp, &request, pieces), right(status), "{sentence}, over TCP");
            let over_unix = UnixStream::connect(root.join("socket")).unwrap();
            over_unix.set_read_timeout(Some(SILENCE_MAX)).unwrap();
            assert_eq!(ask(&over_unix, &request, pieces), right(status), "{sentence}, over unix");
        }
    }
    std::fs::remove_dir_all(root).unwrap();
}

fn ask<S>(mut stream: &S, request: &[u8], pieces: usize) -> Vec<u8>
where
    for<'s> &'s S: std::io::Read + Write,
{
    request.chunks(pieces).for_each(|piece| stream.write_all(piece).unwrap());
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap_or_else(|e| panic!("after {answer:?}: {e}"));
    answer
}

/// An authorizer's request (FastCGI 1.0, 5.1 and 6.3), and an empty body, as lighttpd adds it.
fn request(params: &[(&str, &str)]) -> Vec<u8> {
    let length = |text: &str| match text.len() {
        short @ ..128 => vec![short as u8],
        long => (long as u32 | 1 << 31).to_be_bytes().to_vec(),
    };
    let pair = |(name, value): &(&str, &str)| {
        [length(name), length(value), name.as_bytes().to_vec(), value.as_bytes().to_vec()].concat()
    };
    let params: Vec<u8> = params.iter().flat_map(pair).collect();
    let begin = record(1, &[0, 2, 0, 0, 0, 0, 0, 0]);
    [begin, record(4, &params), record(4, b""), record(5, b"")].concat()
}

fn right(status: &str) -> Vec<u8> {
    let head = format!("Status: {status}\r\n\r\n");
    [record(6, head.as_bytes()), record(6, b""), record(3, &[0; 8])].concat()
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}
