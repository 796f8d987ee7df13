//! The simple server of a mail to web-devel ("Making throughput much better", 2013): it receives,
//! sends, and receives again at once, whether data has arrived or not; with `--yield` only after
//! every other ready connection had its turn. It answers with files from memory, by names used as
//! written, on one thread.
//!
//! `deathmatch-simple [--yield] PORT DIRECTORY`, on 127.0.0.1.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{spawn_local, yield_now};

/// A longer head ends its connection.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Bytes taken from the kernel at once.
const READ_BYTES: usize = 4 * 1024;
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// Complete responses by path.
type Answers = HashMap<Vec<u8>, Vec<u8>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let served = match words[..] {
        ["--version"] => writeln!(io::stdout(), "deathmatch-simple {}", env!("CARGO_PKG_VERSION")),
        ["--yield", port, root] => serve(port, Path::new(root), true),
        [port, root] => serve(port, Path::new(root), false),
        _ => Err(io::Error::other("usage: deathmatch-simple [--yield] PORT DIRECTORY")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "deathmatch-simple: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(port: &str, root: &Path, gives_way: bool) -> io::Result<()> {
    let port = port.parse().map_err(|_| io::Error::other("PORT is a number"))?;
    let answers = Rc::new(read_folder(root)?);
    let event_loop =
        Builder::new_current_thread().enable_io().build_local(LocalOptions::default())?;
    event_loop.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        loop {
            // The client is gone, or no descriptor is free: accepting continues.
            let Ok((stream, _)) = listener.accept().await else {
                yield_now().await;
                continue;
            };
            stream.set_nodelay(true)?;
            let answers = Rc::clone(&answers);
            spawn_local(async move { drop(converse(&stream, &answers, gives_way).await) });
        }
    })
}

fn read_folder(root: &Path) -> io::Result<Answers> {
    let mut answers = Answers::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !entry.file_type()?.is_file() {
            continue;
        }
        let kind = match Path::new(&name).extension().and_then(|end| end.to_str()) {
            Some("html") => "text/html",
            Some("txt") => "text/plain",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        };
        let body = fs::read(entry.path())?;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        answers.insert(format!("/{name}").into_bytes(), [head.into_bytes(), body].concat());
    }
    Ok(answers)
}

/// The loop of the mail.
async fn converse(stream: &TcpStream, answers: &Answers, gives_way: bool) -> io::Result<()> {
    let mut head = Vec::new();
    let mut buffer = [0; READ_BYTES];
    loop {
        let received = match stream.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                stream.readable().await?;
                continue;
            }
            Err(e) => return Err(e),
        };
        head.extend_from_slice(&buffer[..received]);
        while let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") {
            let path = head[..end].split(|&b| b == b' ').nth(1).unwrap_or_default();
            send(stream, answers.get(path).map_or(NOT_FOUND, Vec::as_slice)).await?;
            head.drain(..end + 4);
            if gives_way {
                yield_now().await;
            }
        }
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
