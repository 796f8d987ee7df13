//! A worker: a thread with an event loop that serves connections until it is stopped.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::accept::BoundListener;
use super::accepting::Accepting;
use super::admission::{Admission, connections_max};
use super::handshakes::Handshakes;
use super::mount::MountedApp;
use super::quic::QuicDuties;
use super::running::WorkerMessage;
use super::updating::{Update, Updating};
use super::worker_base::WorkerBase;
use super::{DRAIN_GRACE, HAND_OVER_GRACE, upkeep};
use crate::metrics::WorkerMetrics;
use crate::monitoring::admin::Request;
use crate::monitoring::{self, MonitoringSockets};
use crate::pipeline::worker::WorkerThread;
use crate::services::Services;
use crate::services::orders::Command;
use crate::{disk, rt};

/// The parts of a worker that are its own from the start.
pub(super) struct WorkerStart {
    pub(super) number: usize,
    pub(super) metrics: Arc<WorkerMetrics>,
    /// Applications that were mounted before the start.
    pub(super) apps: Vec<MountedApp>,
    pub(super) listeners: Vec<BoundListener>,
    /// UDP sockets for HTTP/3.
    pub(super) quic: QuicDuties,
    /// `true`: another process holds the listeners too.
    pub(super) inherited: bool,
    pub(super) updates: mpsc::UnboundedReceiver<Update>,
    /// Gets a message when the worker accepts connections, when it no longer does, and when it
    /// fails.
    pub(super) messages: mpsc::UnboundedSender<WorkerMessage>,
    /// The sockets for commands and metrics, and the way of commands to the process; `None`:
    /// another worker serves them.
    pub(super) monitoring: Option<(MonitoringSockets, mpsc::UnboundedSender<Request>)>,
}

/// Runs a worker until it is stopped.
pub(super) fn run(services: Arc<Services>, start: WorkerStart) -> io::Result<()> {
    let messages = start.messages.clone();
    let outcome = event_loop().and_then(|runtime| {
        let outcome = runtime.block_on(serve(services, start));
        // A blocking task of an application may never end.
        runtime.shutdown_background();
        outcome
    });
    if outcome.is_err() {
        // An error means that the process is ending.
        let _ = messages.send(WorkerMessage::Failed);
    }
    outcome
}

pub(super) fn event_loop() -> io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

async fn serve(services: Arc<Services>, start: WorkerStart) -> io::Result<()> {
    let WorkerStart { number, metrics, apps, listeners, quic, inherited, .. } = start;
    let WorkerStart { updates, messages, monitoring, .. } = start;
    rt::spawn(disk::deliver());
    let base = WorkerBase::new(Arc::clone(&services), metrics, apps);
    let settings = services.settings();
    let thread = WorkerThread::new(base.worker(&settings, None));
    let counts = settings.connections_by_address.clone();
    let admission = Admission::new(connections_max(&settings.config), counts);
    let handshakes = Handshakes::new(settings.config.workers.get());
    drop(settings);
    let monitoring = monitoring
        .map(|(sockets, requests)| monitoring::serve(sockets, &services, &thread, requests));
    upkeep::begin(&services, &thread);
    let QuicDuties { listeners: datagrams, secret, lease, previous } = quic;
    let (served, counted) = (Rc::clone(&thread), Rc::clone(&admission));
    let mut accepting = Accepting::new(served, counted, handshakes, inherited, secret, lease);
    for listener in listeners {
        accepting.open(listener)?;
    }
    for listener in datagrams {
        let previous = previous.as_ref().map(OwnedFd::try_clone).transpose()?;
        accepting.open_quic(listener, previous)?;
    }
    // An error means that the process is ending.
    let _ = messages.send(WorkerMessage::Accepts);
    let mut updating = Updating::new(number, base, Rc::clone(&thread), admission);
    let mut orders = services.orders.clone();
    tokio::select! {
        // An error means that the server is gone, which also ends the worker.
        _ = orders.wait_for(|order| !order.serves()) => {}
        () = updating.run(updates, &mut accepting) => {}
    }
    drain(&services, &thread, accepting, &messages, monitoring.unwrap_or_default()).await;
    if let Some(log) = &thread.worker().log {
        log.flush();
    }
    Ok(())
}

/// Finishes the requests in flight, for as long as the configuration allows. `monitoring`: the
/// tasks that serve commands and metrics.
async fn drain(
    services: &Services,
    thread: &WorkerThread,
    mut accepting: Accepting,
    messages: &mpsc::UnboundedSender<WorkerMessage>,
    monitoring: Vec<JoinHandle<()>>,
) {
    let mut orders = services.orders.clone();
    let drain = services.settings().config.drain;
    let is_hand_over = orders.borrow().is_hand_over();
    let grace = if is_hand_over { HAND_OVER_GRACE.min(drain / 2) } else { DRAIN_GRACE };
    thread.worker().deadlines.drain(grace);
    services.handlers.status.close();
    let ended = orders.wait_for(|order| *order == Command::End);
    let drained = async {
        let finished = async {
            if is_hand_over {
                accepting.note_shared();
            }
            accepting.close_all().await;
            let _ = messages.send(WorkerMessage::Closed);
            // The command that began the handover gets its response.
            for served in monitoring.into_iter().filter(|_| is_hand_over) {
                let _ = served.await;
            }
            while thread.open.get() > 0 {
                thread.closed.wait(None).await;
            }
            services.settings().wasm.idle().await;
            // This worker reads UDP sockets that nobody else reads as long as there are some.
            accepting.all_quic_ended().await;
        };
        let is_whole = rt::timeout(drain, finished).await.is_some();
        let cut = thread.open.get();
        if !is_whole && cut > 0 {
            tracing::warn!("{cut} connections cut after the drain time");
        }
    };
    tokio::select! { _ = ended => {}, () = drained => {} }
}
