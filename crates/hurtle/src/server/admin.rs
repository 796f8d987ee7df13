//! Administration commands by a unix socket that only the server's user may connect to. `PURGE`
//! removes responses from the cache; `POST /reload` puts the configuration file in force; `POST
//! /upgrade` replaces the process by one of the program's file as it is now; `POST /log-level` changes
//! the level of the error log; `GET /metrics` and `GET /status` return the counters. A
//! connection carries one HTTP/1.1 request, as of `curl --unix-socket`, and connections are served
//! one at a time.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use http::StatusCode;
use hurtle_http::h1::request;
use hurtle_http::request::Joined;
use hurtle_http::semantics::target::{self, Target, encode_path};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

use super::accept::bind_unix;
use super::command;
use super::monitoring::Monitor;
use super::upgrade::READY_TIME_MAX;
use crate::cache::Caches;
use crate::config::LogLevel;
use crate::observe;
use crate::rt::{self, First};

/// Mode of the socket: only its owner may connect.
const MODE: u32 = 0o600;

/// Connections that the kernel may queue.
const BACKLOG: u32 = 16;

/// Longest wait for a reload.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest wait for an upgrade.
const UPGRADE_TIME_MAX: Duration = READY_TIME_MAX.saturating_add(command::TIME_MAX);

/// The methods of the commands.
const ALLOW: &str = "GET, POST, PURGE";

/// The commands, for those who send another one.
const HINT: &str = "write GET /metrics, GET /status, POST /reload, POST /upgrade, \
                    POST /log-level?level=LEVEL, \
                    PURGE http://HOST/PATH, or PURGE http://HOST/PREFIX*\n";

/// A command that the process executes.
#[derive(Debug)]
pub(super) enum Request {
    Reload(Reply),
    Upgrade(Reply),
}

/// The sender of a command's result: what to tell the operator, or all problems.
pub(super) type Reply = oneshot::Sender<Result<String, Vec<String>>>;

/// Binds the socket.
///
/// # Errors
/// The path and the reason.
pub(super) fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let bound = bind_unix(path, BACKLOG, Some(MODE));
    let bound = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound.map_err(|e| {
        io::Error::new(e.kind(), format!("cannot listen for commands on {}: {e}", path.display()))
    })
}

/// Serves commands as long as the worker runs, or until `handed_over`: then another process accepts
/// connections on the socket.
pub(super) async fn serve(
    socket: std::os::unix::net::UnixListener,
    monitor: Monitor,
    requests: mpsc::UnboundedSender<Request>,
    handed_over: impl Future<Output = ()>,
) {
    let listener = match UnixListener::from_std(socket) {
        Ok(listener) => listener,
        Err(e) => return tracing::error!("the admin socket is off: {e}"),
    };
    let mut handed_over = pin!(handed_over);
    loop {
        let accepted = match rt::race(handed_over.as_mut(), listener.accept()).await {
            First::A(()) => return,
            First::B(accepted) => accepted,
        };
        let Ok((peer, _)) = accepted else {
            // Descriptors are exhausted; try again later.
            rt::sleep(command::TIME_MAX).await;
            continue;
        };
        command::exchange(peer, async |head: &[u8]| answer(head, &monitor, &requests).await).await;
    }
}

/// Executes a command.
async fn answer(
    head: &[u8],
    monitor: &Monitor,
    requests: &mpsc::UnboundedSender<Request>,
) -> command::Reply {
    let executed = match command::target(head) {
        (b"GET", b"/metrics") => return monitor.metrics(head).await,
        (b"GET", b"/status") => return monitor.status().await,
        (b"POST", b"/reload") => ask(requests, Request::Reload, RELOAD_TIME_MAX).await,
        (b"POST", b"/upgrade") => ask(requests, Request::Upgrade, UPGRADE_TIME_MAX).await,
        (b"POST", b"/log-level") => set_log_level(head),
        _ => execute(head, &monitor.caches),
    };
    match executed {
        Ok(text) => command::Reply::ok(text),
        Err((StatusCode::METHOD_NOT_ALLOWED, hint)) => {
            command::Reply::method_not_allowed(ALLOW, &hint)
        }
        Err((status, text)) => command::Reply::new(status, text),
    }
}

/// Has the process execute a command. 422: it has failed, and nothing has changed.
async fn ask(
    requests: &mpsc::UnboundedSender<Request>,
    request: impl FnOnce(Reply) -> Request,
    time_max: Duration,
) -> Result<String, (StatusCode, String)> {
    let (reply, result) = oneshot::channel();
    let stopping = || (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n".to_owned());
    requests.send(request(reply)).map_err(|_| stopping())?;
    match rt::timeout(time_max, result).await {
        Some(Ok(Ok(text))) => Ok(text + "\n"),
        Some(Ok(Err(problems))) => {
            Err((StatusCode::UNPROCESSABLE_ENTITY, problems.join("\n") + "\n"))
        }
        Some(Err(_)) => Err(stopping()),
        None => Err((StatusCode::GATEWAY_TIMEOUT, "the command takes too long\n".to_owned())),
    }
}

/// Changes the level of the error log, up to the next reload that changes it.
fn set_log_level(head: &[u8]) -> Result<String, (StatusCode, String)> {
    let name = command::query(head).and_then(|query| query.strip_prefix(b"level="));
    let name = name.map(String::from_utf8_lossy).unwrap_or_default();
    let Some(level) = LogLevel::named(&name) else {
        let hint = "write POST /log-level?level=LEVEL: error, warn, info, debug or trace\n";
        return Err((StatusCode::BAD_REQUEST, hint.to_owned()));
    };
    observe::set_level(level);
    tracing::info!("the log level is {name}");
    Ok(format!("the log level is {name}\n"))
}

/// Removes responses from the caches; returns the text of the response.
fn execute(head: &[u8], caches: &Caches) -> Result<String, (StatusCode, String)> {
    let joined = Joined::default();
    let request = request::parse(head, &joined, &command::LIMITS)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")))?;
    if request.method.as_bytes() != b"PURGE" {
        return Err((StatusCode::METHOD_NOT_ALLOWED, HINT.to_owned()));
    }
    let (Target::Origin { path, query } | Target::Absolute { path, query, .. }) = request.target
    else {
        return Err((StatusCode::BAD_REQUEST, "the path is missing\n".to_owned()));
    };
    let host = request.host.map(|host| (host.name.to_ascii_lowercase(), host.port));
    let Some((name, port)) = host else {
        return Err((StatusCode::BAD_REQUEST, "the host is missing\n".to_owned()));
    };
    let pattern = KeyPattern::new(name, port, path, query)
        .ok_or((StatusCode::BAD_REQUEST, "the path is malformed\n".to_owned()))?;
    let count = caches.purge(|key| pattern.matches(key));
    tracing::info!("purged {count} cached responses");
    Ok(format!("purged {count}\n"))
}

/// The cache keys that a command selects.
struct KeyPattern {
    name: Vec<u8>,
    /// `None`: every port.
    port: Option<u16>,
    /// Path as it is forwarded, with the query.
    target: Vec<u8>,
    /// `true`: selects every target that begins with `target`.
    is_prefix: bool,
}

impl KeyPattern {
    fn new(
        name: Vec<u8>,
        port: Option<u16>,
        path: &[u8],
        query: Option<&[u8]>,
    ) -> Option<KeyPattern> {
        let beginning = path.strip_suffix(b"*").filter(|_| query.is_none());
        let mut decoded = Vec::new();
        target::decode_keeping_slashes(beginning.unwrap_or(path), &mut decoded).ok()?;
        let mut target = encode_path(&decoded).into_owned().into_bytes();
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        Some(KeyPattern { name, port, target, is_prefix: beginning.is_some() })
    }

    /// `true` if it selects this key of `h1::forward::identity`: `scheme://host/path?query`, maybe
    /// followed by further lines.
    fn matches(&self, key: &[u8]) -> bool {
        let line = key.split(|&b| b == b'\n').next().unwrap_or(key);
        let rest = line.strip_prefix(b"https://").or_else(|| line.strip_prefix(b"http://"));
        let Some(rest) = rest else { return false };
        let Some(slash) = rest.iter().position(|&b| b == b'/') else { return false };
        let (host, target) = rest.split_at(slash);
        let host = hurtle_http::semantics::host::parse(host).ok();
        let same_host = host.is_some_and(|host| {
            let same_port = self.port.is_none() || self.port == host.port;
            host.name.eq_ignore_ascii_case(&self.name) && same_port
        });
        let same_target = match self.is_prefix {
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
    fn a_command_selects_keys_by_host_and_path() {
        let key = b"http://Example.org:81/a%20b/c?q";
        #[rustfmt::skip]
        let rows: [(&str, &str, Option<u16>, &str, Option<&str>, bool); 9] = [
            ("the whole target", "example.org", Some(81), "/a%20b/c", Some("q"), true),
            ("any port", "example.org", None, "/a%20b/c", Some("q"), true),
            ("another port", "example.org", Some(80), "/a%20b/c", Some("q"), false),
            ("another host", "example.com", None, "/a%20b/c", Some("q"), false),
            ("a target without the query",  "example.org", None, "/a%20b/c", None, false),
            ("a prefix",  "example.org", None, "/a%20b/*", None, true),
            ("an encoded prefix",  "example.org", None, "/%61%20b/*", None, true),
            ("everything of a host", "example.org", None, "/*", None, true),
            ("another prefix",  "example.org", None, "/b*", None, false),
        ];
        for (sentence, name, port, path, query, expected) in rows {
            let query = query.map(str::as_bytes);
            let pattern = KeyPattern::new(name.into(), port, path.as_bytes(), query).unwrap();
            assert_eq!(pattern.matches(key), expected, "{sentence}");
        }
    }
}
