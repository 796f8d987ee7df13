//! The reader shows the speed of a disk for a program that only reads files and sends them. It is
//! no server: a thread for each connection uses the path as written, opens the file, reads it and
//! sends it, so that no connection waits for another one's disk access.
//!
//! `deathmatch-reader PORT DIRECTORY [MILLISECONDS [FIELD [WORKERS]]]`, on 127.0.0.1. It prints the
//! address at which it listens; port 0 is one that the system chooses. With a delay it is a slow
//! upstream: each response begins so much later, with this field in its head, and `/requests`
//! returns the number of files requested so far, at once. With a number of workers it is an
//! application server whose workers each take one connection at a time, read one request whole,
//! respond and close.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes read and sent at once.
const PIECE_BYTES: usize = 128 * 1024;
/// A longer head ends its connection.
const HEAD_BYTES_MAX: u64 = 8 * 1024;
/// Path of the number of requests.
const REQUESTS: &str = "requests";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let served = match words[..] {
        ["--version"] => writeln!(io::stdout(), "deathmatch-reader {}", env!("CARGO_PKG_VERSION")),
        [port, root] => begin(port, root, "0", "", "0"),
        [port, root, delay] => begin(port, root, delay, "", "0"),
        [port, root, delay, field] => begin(port, root, delay, field, "0"),
        [port, root, delay, field, workers] => begin(port, root, delay, field, workers),
        _ => Err(io::Error::other(
            "usage: deathmatch-reader PORT DIRECTORY [MILLISECONDS [FIELD [WORKERS]]]",
        )),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "deathmatch-reader: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Settings and counts of all connections.
struct Served {
    root: PathBuf,
    delay: Duration,
    /// A field with its line end; or empty.
    field: String,
    /// Threads that each serve one request at a time; 0: one for each connection.
    workers: usize,
    /// Files requested so far.
    requests: AtomicU64,
}

fn begin(port: &str, root: &str, delay: &str, field: &str, workers: &str) -> io::Result<()> {
    let (Ok(port), Ok(milliseconds), Ok(workers)) = (port.parse(), delay.parse(), workers.parse())
    else {
        return Err(io::Error::other("PORT, MILLISECONDS and WORKERS are numbers"));
    };
    let mut field = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
    if workers > 0 {
        field.push_str("Connection: close\r\n");
    }
    let delay = Duration::from_millis(milliseconds);
    let requests = AtomicU64::new(0);
    serve(port, Served { root: root.into(), delay, field, workers, requests })
}

fn serve(port: u16, served: Served) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    // It serves also if its output is closed.
    let _ = writeln!(io::stdout(), "{}", listener.local_addr()?);
    let served = Arc::new(served);
    if served.workers > 0 {
        thread::scope(|scope| {
            (0..served.workers).for_each(|_| drop(scope.spawn(|| work(&listener, &served))));
        });
        return Ok(());
    }
    for stream in listener.incoming() {
        let (stream, served) = (stream?, served.clone());
        // The thread ends when its client is gone.
        thread::spawn(move || converse(&stream, &served));
    }
    Ok(())
}

/// Serves one connection after the other.
fn work(listener: &TcpListener, served: &Served) {
    // A client that is gone takes nothing with it.
    listener.incoming().flatten().for_each(|stream| drop(converse(&stream, served)));
}

fn converse(mut stream: &TcpStream, served: &Served) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream);
    let mut piece = vec![0; PIECE_BYTES];
    while let Some(path) = read_request(&mut requests)? {
        if path.as_deref() == Some(Path::new(REQUESTS)) {
            let count = format!("{}\n", served.requests.load(Ordering::SeqCst));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", count.len());
            stream.write_all(format!("{head}{count}").as_bytes())?;
            continue;
        }
        served.requests.fetch_add(1, Ordering::SeqCst);
        if !served.delay.is_zero() {
            thread::sleep(served.delay);
        }
        let opened = path.and_then(|path| Some((File::open(served.root.join(&path)).ok()?, path)));
        match opened {
            Some((file, path)) => send(stream, file, kind(&path), &served.field, &mut piece)?,
            None => stream.write_all(NOT_FOUND)?,
        }
        if served.workers > 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// The path of the next request, as written, without its query, once its body was read;
/// `Some(None)` for a path that leads elsewhere, `None` at the connection's end.
fn read_request(requests: &mut BufReader<&TcpStream>) -> io::Result<Option<Option<PathBuf>>> {
    let mut head = requests.take(HEAD_BYTES_MAX);
    let mut first = String::new();
    head.read_line(&mut first)?;
    let (mut line, mut body_bytes) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            body_bytes = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    if io::copy(&mut requests.take(body_bytes), &mut io::sink())? < body_bytes {
        return Ok(None);
    }
    let path = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let path = path.split('?').next().unwrap_or_default();
    let is_beneath = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
    Ok(Some(is_beneath.then(|| path.into())))
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()) {
        Some("html") => "text/html",
        Some("txt") => "text/plain",
        Some("css") => "text/css",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

/// The head leaves with the first piece.
fn send(
    mut stream: &TcpStream,
    file: File,
    kind: &str,
    field: &str,
    piece: &mut [u8],
) -> io::Result<()> {
    let length = file.metadata()?.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{field}\r\n"
    );
    piece[..head.len()].copy_from_slice(head.as_bytes());
    let (mut held, mut left) = (head.len(), length);
    let mut file = file.take(length);
    loop {
        let count = file.read(&mut piece[held..])?;
        left -= count as u64;
        held += count;
        // The file has become shorter since it was opened.
        if count == 0 && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if left == 0 || held == piece.len() {
            stream.write_all(&piece[..held])?;
            held = 0;
        }
        if left == 0 {
            return Ok(());
        }
    }
}
