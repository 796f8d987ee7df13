//! Administration commands by a unix socket that only the server's user may connect to. `PURGE`
//! removes responses from the cache, also on the servers that share a store; `POST /reload` puts
//! the configuration file in force; `POST /upgrade` replaces the process by one of the program's
//! file as it is now; `POST /log-level` changes the level of the error log; `POST /upstream` drains
//! an upstream or restores it; `GET /metrics` and `GET /status` return the counters. A connection
//! carries one HTTP/1.1 request, as of `curl --unix-socket`, and connections are served one at a
//! time.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hurtle_http::h1::request;
use hurtle_http::request::Joined;
use hurtle_http::semantics::target::Target;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

use super::{command, metrics, status};
use crate::cache::KeyPattern;
use crate::config::LogLevel;
use crate::handler::proxy::{UnknownUpstreamError, set_drained};
use crate::observe;
use crate::pipeline::worker::WorkerThread;
use crate::rt::{self, First};
use crate::services::Services;
use crate::sockets::bind_unix;

/// Mode of the socket: only its owner may connect.
const MODE: u32 = 0o600;

/// Connections that the kernel may queue.
const BACKLOG: u32 = 16;

/// Longest time in which the process of an upgrade must accept connections.
pub(crate) const READY_TIME_MAX: Duration = Duration::from_secs(30);

/// Longest wait for an upgrade, or for a reload, which becomes one if it needs a new process.
const ASKED_TIME_MAX: Duration = READY_TIME_MAX.saturating_mul(2).saturating_add(command::TIME_MAX);

/// The methods of the commands.
const ALLOW: &str = "GET, POST, PURGE";

/// The commands, for those who send another one.
const HINT: &str = "write GET /metrics, GET /status, POST /reload, POST /upgrade, \
                    POST /log-level?level=LEVEL, POST /upstream?drain=NAME, \
                    POST /upstream?restore=NAME, \
                    PURGE http://HOST/PATH, or PURGE http://HOST/PREFIX*\n";

/// A command that the process executes.
#[derive(Debug)]
pub(crate) enum Request {
    Reload(Reply),
    Upgrade(Reply),
}

/// The sender of a command's result: what to tell the operator, or all problems.
pub(crate) type Reply = oneshot::Sender<Result<String, Vec<String>>>;

/// Binds the socket.
///
/// # Errors
/// The path and the reason.
pub(crate) fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let bound = bind_unix(path, BACKLOG, Some(MODE));
    let bound = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound.map_err(|e| {
        io::Error::new(e.kind(), format!("cannot listen for commands on {}: {e}", path.display()))
    })
}

/// The parts of the server that commands use.
pub(super) struct Admin {
    pub(super) services: Arc<Services>,
    /// Commands for the process.
    pub(super) requests: mpsc::UnboundedSender<Request>,
    /// The worker that serves the socket.
    pub(super) thread: Rc<WorkerThread>,
}

/// Serves commands as long as the worker runs, or until another process accepts connections on the
/// socket.
pub(super) async fn serve(socket: std::os::unix::net::UnixListener, admin: Admin) {
    let listener = match UnixListener::from_std(socket) {
        Ok(listener) => listener,
        Err(e) => return tracing::error!("the admin socket is off: {e}"),
    };
    let mut handed_over = pin!(admin.services.handed_over());
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
        command::exchange(peer, async |head: &[u8]| answer(head, &admin).await).await;
    }
}

/// Executes the command that the head of a request names, such as `POST /reload`.
async fn answer(head: &[u8], admin: &Admin) -> command::Reply {
    let Admin { services, requests, .. } = admin;
    let executed = match command::target(head) {
        (b"GET", b"/metrics") => return metrics(services, head).await,
        (b"GET", b"/status") => return status(services).await,
        (b"POST", b"/reload") => ask(requests, Request::Reload).await,
        (b"POST", b"/upgrade") => ask(requests, Request::Upgrade).await,
        (b"POST", b"/log-level") => set_log_level(head),
        (b"POST", b"/upstream") => change_upstream(head),
        _ => purge(head, admin).await,
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
) -> Result<String, (StatusCode, String)> {
    let (reply, result) = oneshot::channel();
    let stopping = || (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n".to_owned());
    requests.send(request(reply)).map_err(|_| stopping())?;
    match rt::timeout(ASKED_TIME_MAX, result).await {
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

/// Drains an upstream or restores it, in all workers.
fn change_upstream(head: &[u8]) -> Result<String, (StatusCode, String)> {
    let query = command::query(head).map(String::from_utf8_lossy).unwrap_or_default();
    let (name, drained) = match query.split_once('=') {
        Some(("drain", name)) => (name, true),
        Some(("restore", name)) => (name, false),
        _ => {
            let hint = "write POST /upstream?drain=NAME or POST /upstream?restore=NAME\n";
            return Err((StatusCode::BAD_REQUEST, hint.to_owned()));
        }
    };
    let state = match drained {
        true => "is drained and gets no new requests",
        false => "gets requests",
    };
    match set_drained(name, drained) {
        Ok(is_changed) => {
            if is_changed {
                tracing::info!("upstream {name} {state}");
            }
            Ok(format!("{name} {state}\n"))
        }
        Err(UnknownUpstreamError { known }) => {
            let known = known.join(", ");
            let text = format!("no mount has the upstream {name}; there are: {known}\n");
            Err((StatusCode::NOT_FOUND, text))
        }
    }
}

/// Removes responses from the caches, here and, with a store, on the servers that share it. Returns
/// the text of the response; 502: the other servers were not told.
async fn purge(head: &[u8], admin: &Admin) -> Result<String, (StatusCode, String)> {
    let (host, target) = selected(head)?;
    let pattern = KeyPattern::parse(&host, &target)
        .ok_or((StatusCode::BAD_REQUEST, "the path is malformed\n".to_owned()))?;
    let count = admin.services.handlers.caches.purge(|key| pattern.matches(key));
    tracing::info!("purged {count} cached responses");
    let store = admin.thread.worker().shared_store.clone();
    let Some(store) = store else { return Ok(format!("purged {count}\n")) };
    match admin.services.purges.publish(&store, &host, &target).await {
        Ok(()) => Ok(format!("purged {count}\n")),
        Err(why) => {
            let text = format!("purged {count} here; other servers were not told: {why}\n");
            Err((StatusCode::BAD_GATEWAY, text))
        }
    }
}

/// Returns the host and the target that a PURGE names.
fn selected(head: &[u8]) -> Result<(Vec<u8>, Vec<u8>), (StatusCode, String)> {
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
    let Some(host) = request.host.filter(|host| !host.name.is_empty()) else {
        return Err((StatusCode::BAD_REQUEST, "the host is missing\n".to_owned()));
    };
    let port = host.port.map(|port| format!(":{port}")).unwrap_or_default();
    let query = query.map(|query| [&b"?"[..], query].concat()).unwrap_or_default();
    Ok(([host.name, port.as_bytes()].concat(), [path, &query].concat()))
}
