//! nginx or Caddy, and hurtle with the imported configuration, on free ports of this machine, with
//! the same files and the same upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hurtle::config;
use hurtle::import::nginx_file;

use crate::reserved::reserved_address;

/// Longest wait for a response, or for nginx's start.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of the largest response.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;

const FILES: &[(&str, &str)] = &[
    ("index.html", "home\n"),
    ("a.txt", "text\n"),
    ("about.html", "about\n"),
    ("style.css", "css\n"),
    ("dir/index.html", "dir\n"),
    ("bare/x.txt", "x\n"),
    ("404.html", "no such page\n"),
    ("docs/guide.txt", "guide\n"),
    ("docs/style.css", "css\n"),
    ("docs/x.php", "php\n"),
    ("docs/secret/key.txt", "key\n"),
    ("x.php", "php\n"),
    (".hidden", "hidden\n"),
    (".well-known/a.txt", "known\n"),
    ("bare/.well-known/a.txt", "known\n"),
];

/// A response's parts that are compared.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) status: String,
    pub(super) location: Option<String>,
    fields: Vec<String>,
    /// Empty for errors: the error pages of the two servers differ.
    pub(super) body: String,
}

pub(super) fn ask(port: u16, request: &str) -> Seen {
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
    let mut host = "localhost";
    for field in words {
        let (name, value) = field.split_once('=').expect("a field");
        match name {
            "Host" => host = value,
            // `~` is a space.
            _ => head += &format!("{name}: {}\r\n", value.replace('~', " ")),
        }
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    write!(stream, "{head}Host: {host}\r\n\r\n").expect("the request is sent");
    let mut bytes = Vec::new();
    let read = stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut bytes);
    // nginx closes a connection without a response, and hurtle resets it.
    let is_end = |error: &Error| error.kind() == ErrorKind::ConnectionReset && bytes.is_empty();
    assert!(read.is_ok() || read.as_ref().is_err_and(is_end), "{read:?}");
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("").to_owned();
    let mut seen = Seen { status, location: None, fields: Vec::new(), body: String::new() };
    let mut is_chunked = false;
    let own = format!("http://{host}:{port}/");
    let other = format!("http://{host}/");
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        // Recipients take spaces around a value off.
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            // nginx makes its own paths absolute.
            "location" => {
                let value = value.replacen(&own, "/", 1).replacen(&other, "/", 1);
                // An empty path is `/` (RFC 3986 section 6.2.3).
                let is_origin = value.matches('/').count() == 2;
                seen.location = Some(if is_origin { value + "/" } else { value });
            }
            "cache-control" | "content-range" | "x-all" | "x-docs" | "x-seen" => {
                seen.fields.push(format!("{name}: {value}"));
            }
            // A slow application has its body sent in chunks, a fast one with a length.
            "transfer-encoding" => is_chunked = value == "chunked",
            _ => {}
        }
    }
    // nginx writes the two values of Cache-Control on two lines.
    let controls: Vec<String> =
        seen.fields.extract_if(.., |field| field.starts_with("cache-control")).collect();
    if !controls.is_empty() {
        let values: Vec<&str> =
            controls.iter().filter_map(|c| c.split_once(": ")).map(|c| c.1).collect();
        seen.fields.push(format!("cache-control: {}", values.join(", ")));
    }
    seen.fields.sort();
    let whole = if is_chunked { unchunked(body) } else { None };
    let body = whole.as_deref().unwrap_or(body);
    // A server's own text of an error.
    let is_own = body.contains("<center>nginx")
        || body.starts_with("<!DOCTYPE HTML PUBLIC")
        || body.starts_with("<a href=")
        || body.starts_with(&format!("{} ", seen.status));
    let is_error = seen.status.starts_with(['3', '4', '5']);
    if !(is_error && is_own) {
        seen.body = body.to_owned();
    }
    seen
}

/// The body of chunks; `None`: it has none (RFC 9112 section 7.1).
fn unchunked(body: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), body);
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(out);
        }
        out.push_str(after.get(..size)?);
        rest = after.get(size..)?.strip_prefix("\r\n")?;
    }
}

/// An application that tells what it got.
pub(super) fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

/// Answers one request; the connection then closes.
fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    if let Some(response) = counted(&head) {
        let _ = stream.write_all(response.as_bytes());
        return;
    }
    let line = head.lines().next().unwrap_or("").split(" HTTP").next().unwrap_or("").to_owned();
    let host = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(String::from));
    // Fields that only the configuration can have set.
    let own = head.lines().map(str::to_ascii_lowercase).filter(|line| line.starts_with("x-own-"));
    let own: BTreeSet<String> = own.collect();
    let body = format!("{line} at {} {own:?}\n", host.unwrap_or_default());
    let status = if line.contains("/deny") { "403 Forbidden" } else { "200 OK" };
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nX-Seen: yes\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// Returns the response for a path such as `/count/404?Vary:A`: a status, a field, and the number
/// of requests for it from this server so far. The two servers speak different versions of HTTP
/// here.
fn counted(head: &str) -> Option<String> {
    static COUNTS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
    let line = head.lines().next()?;
    let target = line.split(' ').nth(1)?.strip_prefix("/count/")?;
    let (status, field) = target.split_once('?').unwrap_or((target, ""));
    let field = field.split_once(':').map(|(name, value)| format!("{name}: {value}\r\n"));
    let mut counts = COUNTS.lock().expect("no test panics here");
    let count = counts.entry(line.to_owned()).or_default();
    *count += 1;
    let (field, body) = (field.unwrap_or_default(), format!("request {count}\n"));
    let body = if line.starts_with("HEAD ") { String::new() } else { body };
    let location = if status.starts_with('3') { "Location: /a.txt\r\n" } else { "" };
    Some(format!(
        "HTTP/1.1 {status} x\r\n{field}{location}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ))
}

pub(super) fn import(file: &Path) -> Result<String, Vec<String>> {
    let directory = file.parent().expect("a directory");
    nginx_file(file, directory, false).map(|imported| imported.text)
}

/// Imports what can be of a configuration.
pub(super) fn import_partially(file: &Path) -> Result<String, Vec<String>> {
    let directory = file.parent().expect("a directory");
    nginx_file(file, directory, true).map(|imported| imported.text)
}

/// hurtle in this process, with the imported configuration.
pub(super) struct Ours {
    running: Option<hurtle::Running>,
    pub(super) port: u16,
}

impl Ours {
    /// Starts hurtle with the imported configuration `text`, at another port than nginx's.
    pub(super) fn start(text: &str, theirs: u16) -> Ours {
        Ours::start_in(text, theirs, Path::new("/"))
    }

    /// Like `start`, with a configuration in the directory `dir`.
    pub(super) fn start_in(text: &str, theirs: u16, dir: &Path) -> Ours {
        // Any free port, in place of nginx's.
        let text = text.replace(&format!("127.0.0.1:{theirs}\""), "127.0.0.1:0\"");
        let config = config::check(&text, &dir.join("hurtle.toml"))
            .unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
        let server = hurtle::Server::bind(config).expect("it binds");
        let port = server.addresses()[0].port().expect("a port");
        Ours { running: Some(server.start().expect("it starts")), port }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().end();
            let _ = running.join();
        }
    }
}

pub(super) struct Nginx(Child);

impl Nginx {
    pub(super) fn start(program: &Path, file: &Path, dir: &Path, port: u16) -> Nginx {
        let dir = dir.display();
        // Workers of the user who runs the test may read its directory.
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let globals = format!("{user} daemon off; master_process off; pid {dir}/pid;");
        let child = Command::new(program)
            .args(["-p", &dir.to_string(), "-e", "stderr", "-g", &globals, "-c"])
            .arg(file)
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "nginx does not listen");
            thread::yield_now();
        }
        Nginx(child)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Path of nginx's program; `None`: it is not installed.
pub(super) fn program() -> Option<PathBuf> {
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
    places.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// A port for a server, which nothing else gets.
pub(super) fn free_port() -> u16 {
    reserved_address().port()
}

/// A directory with the files of the site, removed when dropped.
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("hurtle-import-{}-{number}", std::process::id()));
        for (name, content) in FILES {
            let file = dir.join("www").join(name);
            fs::create_dir_all(file.parent().expect("a directory")).expect("it is made");
            fs::write(file, content).expect("it is written");
        }
        // The hash of no password that a test sends, and that of `secret`.
        let users = "anna:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n\
                     bert:$2y$04$m5tcAvnake.l7crPF.HAgeO99f6djKOo.JDtigwMNn1X8Ium0VuCm\n";
        fs::write(dir.join("ht"), users).expect("it is written");
        Dir(dir)
    }

    /// Writes a configuration with this inside of `http`, where `{port}`, `{root}` and
    /// `{upstream}` are replaced. Returns its name.
    pub(super) fn configure(&self, http: &str, port: u16, upstream: SocketAddr) -> PathBuf {
        let text = http.replace("{root}", &self.0.join("www").display().to_string());
        let text = text.replace("{dir}", &self.0.display().to_string());
        let text = text.replace("{upstream}", &upstream.to_string());
        let text = text.replace("{port}", &port.to_string());
        let file = self.0.join("nginx.conf");
        fs::write(&file, format!("events {{}}\nhttp {{ {text}\n}}\n"))
            .expect("the configuration is written");
        file
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
