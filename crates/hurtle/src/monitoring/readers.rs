//! Listeners of their own for metrics and health checks.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::command::{self, Reply};
use super::{metrics, readiness};
use crate::config::{Listen, Metrics};
use crate::rt::{self, First};
use crate::services::Services;
use crate::sockets::{self, Listener};

/// Connections of readers at a time; more wait. One that sends nothing is closed after `TIME_MAX`.
const CONNECTIONS_MAX: usize = 256;

/// Snapshots of metrics that are made at a time; more wait.
const SNAPSHOTS_MAX: usize = 8;

/// Readers that the kernel may queue.
const BACKLOG: u32 = 64;

/// Pause of accepting when descriptors are exhausted.
const PAUSE: Duration = Duration::from_secs(1);

/// Binds the listeners of the metrics that `take` does not have: it takes the sockets of the
/// process before.
///
/// # Errors
/// An address that cannot be bound.
pub(crate) fn bind(
    metrics: Option<&Metrics>,
    mut take: impl FnMut(&Listen) -> Option<Listener>,
) -> io::Result<Vec<Listener>> {
    let bound = metrics.iter().flat_map(|metrics| &metrics.listen).map(|listen| {
        if let Some(listener) = take(listen) {
            return Ok(listener);
        }
        let bound = sockets::bind(listen, BACKLOG, 1, false).map_err(|e| {
            let what = format!("metrics.listen: cannot listen on {listen}: {e}");
            io::Error::new(e.kind(), what)
        });
        bound.map(|mut sockets| sockets.remove(0))
    });
    bound.collect()
}

/// Serves metrics and health checks on a listener of its own, as long as the worker runs, or until
/// another process accepts connections on the socket.
pub(super) async fn serve(listener: Listener, services: Arc<Services>) {
    let (readers, snapshots) = (Semaphore::new(CONNECTIONS_MAX), Semaphore::new(SNAPSHOTS_MAX));
    let (readers, snapshots) = (Arc::new(readers), Arc::new(snapshots));
    let registered = match listener {
        Listener::Tcp(socket) => TcpListener::from_std(socket).map(Registered::Tcp),
        Listener::Unix(socket) => UnixListener::from_std(socket).map(Registered::Unix),
    };
    let listener = match registered {
        Ok(listener) => listener,
        Err(e) => return tracing::error!("a listener for metrics is off: {e}"),
    };
    let mut handed_over = pin!(services.handed_over());
    loop {
        let accept = async {
            let permit = Arc::clone(&readers).acquire_owned().await.map_err(io::Error::other)?;
            let answers = Answers {
                services: Arc::clone(&services),
                snapshots: Arc::clone(&snapshots),
                _permit: permit,
            };
            match &listener {
                Registered::Tcp(socket) => spawn_reader(socket.accept().await?.0, answers),
                Registered::Unix(socket) => spawn_reader(socket.accept().await?.0, answers),
            }
            io::Result::Ok(())
        };
        match rt::race(handed_over.as_mut(), accept).await {
            First::A(()) => break,
            First::B(Ok(())) => {}
            // Descriptors are exhausted; try again later.
            First::B(Err(_)) => rt::sleep(PAUSE).await,
        }
    }
    // Waits for the readers that are being served.
    let _ = readers.acquire_many(CONNECTIONS_MAX as u32).await;
}

fn spawn_reader(peer: impl AsyncRead + AsyncWrite + Unpin + 'static, answers: Answers) {
    rt::spawn(async move {
        command::exchange(peer, async |head: &[u8]| answers.answer(head).await).await;
    });
}

/// Responses to one reader.
struct Answers {
    services: Arc<Services>,
    snapshots: Arc<Semaphore>,
    _permit: OwnedSemaphorePermit,
}

enum Registered {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Answers {
    /// Answers a request on a listener for metrics.
    async fn answer(&self, head: &[u8]) -> Reply {
        match command::target(head) {
            (b"GET" | b"HEAD", b"/metrics") => {
                // Never closed.
                let _permit = self.snapshots.acquire().await;
                metrics(&self.services, head).await
            }
            (b"GET" | b"HEAD", b"/ready") => readiness(&self.services),
            // The event loop that answers is a worker's.
            (b"GET" | b"HEAD", b"/live") => Reply::ok("live\n"),
            (b"GET" | b"HEAD", _) => {
                Reply::not_found("only /metrics, /ready and /live are served here\n")
            }
            _ => Reply::method_not_allowed("GET, HEAD", "use GET\n"),
        }
    }
}
