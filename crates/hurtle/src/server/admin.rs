//! Orders to a running server, by a unix socket that only its user may connect to: so far, to forget
//! what is kept of upstreams' answers. One connection at a time, one order each, in as much of HTTP
//! as `curl --unix-socket` speaks.

use std::io;
use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::accept::bind_unix;
use crate::cache::Caches;
use crate::h1::head::HeadLimits;
use crate::h1::request::{self, Joined};
use crate::rt;
use crate::semantics::target::{self, Target, encode_path};

/// The socket's mode: nobody but its owner may connect.
const MODE: u32 = 0o600;

/// Orders that may wait.
const BACKLOG: u32 = 16;

/// What an order may take, in bytes and time.
const LIMITS: HeadLimits = HeadLimits { head_bytes: 16 << 10, target_bytes: 8 << 10, fields: 50 };
const TIME_MAX: Duration = Duration::from_secs(5);

/// Binds it.
///
/// # Errors
/// With its path, and why not.
pub(super) fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let bound = bind_unix(path, BACKLOG, Some(MODE));
    let bound = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound.map_err(|e| {
        io::Error::new(e.kind(), format!("cannot take orders on {}: {e}", path.display()))
    })
}

/// Obeys for as long as the worker lives.
pub(super) async fn obey(socket: std::os::unix::net::UnixListener, caches: Caches) {
    let listener = match UnixListener::from_std(socket) {
        Ok(listener) => listener,
        Err(e) => return tracing::error!("no orders are taken: {e}"),
    };
    loop {
        let Ok((peer, _)) = listener.accept().await else {
            // Out of descriptors, for a while.
            rt::sleep(TIME_MAX).await;
            continue;
        };
        let _ = rt::timeout(TIME_MAX, exchange(peer, &caches)).await;
    }
}

async fn exchange(mut peer: UnixStream, caches: &Caches) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < LIMITS.head_bytes {
        if peer.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let (status, text) = match obeyed(&head, caches) {
        Ok(text) => (StatusCode::OK, text),
        Err(refused) => refused,
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    );
    peer.write_all(answer.as_bytes()).await
}

/// Does what a request says; what is answered.
fn obeyed(head: &[u8], caches: &Caches) -> Result<String, (StatusCode, String)> {
    let joined = Joined::default();
    let request = request::parse(head, &joined, &LIMITS)
        .map_err(|sin| (StatusCode::BAD_REQUEST, format!("{sin}\n")))?;
    if request.method.as_bytes() != b"PURGE" {
        let hint = "write PURGE http://HOST/PATH, or PURGE http://HOST/BEGINNING*\n";
        return Err((StatusCode::METHOD_NOT_ALLOWED, hint.to_owned()));
    }
    let (Target::Origin { path, query } | Target::Absolute { path, query, .. }) = request.target
    else {
        return Err((StatusCode::BAD_REQUEST, "there is no path\n".to_owned()));
    };
    let host = request.host.map(|host| (host.name.to_ascii_lowercase(), host.port));
    let Some((name, port)) = host else {
        return Err((StatusCode::BAD_REQUEST, "there is no host\n".to_owned()));
    };
    let chosen = Chosen::new(name, port, path, query)
        .ok_or((StatusCode::BAD_REQUEST, "the path is malformed\n".to_owned()))?;
    let count = caches.purge(|key| chosen.holds(key));
    tracing::info!("purged {count} kept answers");
    Ok(format!("purged {count}\n"))
}

/// Which keys are meant.
struct Chosen {
    name: Vec<u8>,
    /// `None`: any.
    port: Option<u16>,
    /// The path as it is forwarded, with the query.
    target: Vec<u8>,
    /// Whatever begins so is.
    begins: bool,
}

impl Chosen {
    fn new(name: Vec<u8>, port: Option<u16>, path: &[u8], query: Option<&[u8]>) -> Option<Chosen> {
        let beginning = path.strip_suffix(b"*").filter(|_| query.is_none());
        let mut decoded = Vec::new();
        target::decode_keeping_slashes(beginning.unwrap_or(path), &mut decoded).ok()?;
        let mut target = encode_path(&decoded).into_owned().into_bytes();
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        Some(Chosen { name, port, target, begins: beginning.is_some() })
    }

    /// Whether it is the key of `h1::forward::identity`: `scheme://host/path?query`, and maybe lines.
    fn holds(&self, key: &[u8]) -> bool {
        let line = key.split(|&b| b == b'\n').next().unwrap_or(key);
        let rest = line.strip_prefix(b"https://").or_else(|| line.strip_prefix(b"http://"));
        let Some(rest) = rest else { return false };
        let Some(slash) = rest.iter().position(|&b| b == b'/') else { return false };
        let (host, target) = rest.split_at(slash);
        let host = crate::semantics::host::parse(host).ok();
        let same_host = host.is_some_and(|host| {
            let same_port = self.port.is_none() || self.port == host.port;
            host.name.eq_ignore_ascii_case(&self.name) && same_port
        });
        let same_target = match self.begins {
            true => target.starts_with(&self.target),
            false => target == self.target,
        };
        same_host && same_target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_order_means() {
        let key = b"http://Example.org:81/a%20b/c?q";
        #[rustfmt::skip]
        let rows: [(&str, &str, Option<u16>, &str, Option<&str>, bool); 9] = [
            ("the whole target", "example.org", Some(81), "/a%20b/c", Some("q"), true),
            ("any port", "example.org", None, "/a%20b/c", Some("q"), true),
            ("another port", "example.org", Some(80), "/a%20b/c", Some("q"), false),
            ("another host", "example.com", None, "/a%20b/c", Some("q"), false),
            ("without the query it is another", "example.org", None, "/a%20b/c", None, false),
            ("what begins so", "example.org", None, "/a%20b/*", None, true),
            ("the same, spelt otherwise", "example.org", None, "/%61%20b/*", None, true),
            ("everything of a host", "example.org", None, "/*", None, true),
            ("another beginning", "example.org", None, "/b*", None, false),
        ];
        for (sentence, name, port, path, query, expected) in rows {
            let query = query.map(str::as_bytes);
            let chosen = Chosen::new(name.into(), port, path.as_bytes(), query).unwrap();
            assert_eq!(chosen.holds(key), expected, "{sentence}");
        }
    }
}
