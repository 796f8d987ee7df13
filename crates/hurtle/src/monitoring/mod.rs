//! Monitoring and administration of a running server: its counters as OpenMetrics text and as JSON,
//! health checks, and the commands of the admin socket. A thread beside the workers makes the text.
//! `readers` has the listeners for metrics, `measure` what each worker publishes, `log_files` the
//! logs of a server that gives up root.

pub(crate) mod admin;
mod command;
pub(crate) mod log_files;
mod measure;
pub(crate) mod readers;

use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};

use self::admin::{Admin, Request};
use self::command::Reply;
use crate::metrics::Snapshot;
use crate::metrics::exposition::{self, Format};
use crate::pipeline::worker::WorkerThread;
use crate::services::Services;
use crate::sockets::Listener;

pub(crate) use self::measure::measure;

/// The sockets for commands and for readers of metrics.
#[derive(Debug)]
pub(crate) struct MonitoringSockets {
    /// The socket for administration commands; `None`: it is off.
    pub(crate) admin: Option<UnixListener>,
    pub(crate) metrics: Vec<Listener>,
}

/// Serves commands and metrics on this worker until another process takes over. `requests`:
/// commands for the process.
pub(crate) fn serve(
    sockets: MonitoringSockets,
    services: &Arc<Services>,
    thread: &Rc<WorkerThread>,
    requests: mpsc::UnboundedSender<Request>,
) -> Vec<JoinHandle<()>> {
    let admin = sockets.admin.map(|socket| {
        let (services, thread) = (Arc::clone(services), Rc::clone(thread));
        spawn_local(admin::serve(socket, Admin { services, requests, thread }))
    });
    let read = |listener| spawn_local(readers::serve(listener, Arc::clone(services)));
    admin.into_iter().chain(sockets.metrics.into_iter().map(read)).collect()
}

/// Returns the metrics in the format that the request's head accepts.
async fn metrics(services: &Arc<Services>, head: &[u8]) -> Reply {
    let format = Format::accepted(command::field(head, b"accept").unwrap_or_default());
    let text = make(services, move |snapshot| exposition::encode(snapshot, format)).await;
    text.typed(format.content_type())
}

/// Returns the snapshot as JSON.
async fn status(services: &Arc<Services>) -> Reply {
    let text = |snapshot: &Snapshot| {
        // A snapshot has only text keys and numbers.
        (serde_json::to_string_pretty(snapshot).unwrap_or_default() + "\n").into_bytes()
    };
    make(services, text).await.typed("application/json")
}

/// Returns whether load balancers should send new requests: 200, or 503 from a signal to stop on.
fn readiness(services: &Services) -> Reply {
    match services.orders.borrow().is_ready() {
        true => Reply::ok("ready\n"),
        false => Reply::unavailable("stopping\n"),
    }
}

/// Makes a text of a snapshot on a thread of its own.
async fn make(
    services: &Arc<Services>,
    text: impl FnOnce(&Snapshot) -> Vec<u8> + Send + 'static,
) -> Reply {
    let services = Arc::clone(services);
    match spawn_blocking(move || text(&services.snapshot())).await {
        Ok(text) => Reply::ok(text),
        Err(_) => Reply::unavailable("the snapshot failed\n"),
    }
}
