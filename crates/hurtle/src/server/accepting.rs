//! The listeners of one worker, each with a task that accepts its connections.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use tokio::task::{JoinHandle, spawn_local};

use super::DRAIN_GRACE;
use super::accept::{BoundListener, WorkerListener, accept, accept_rest};
use super::admission::Admission;
use super::handshakes::Handshakes;
use super::protocols::Protocols;
use super::quic::{Lease, QuicEndpoints, QuicListener};
use crate::config::Listen;
use crate::pipeline::worker::WorkerThread;
use crate::rt;
use crate::transport::quic::QuicSecret;

/// The open listeners of a worker.
pub(super) struct Accepting {
    thread: Rc<WorkerThread>,
    admission: Rc<Admission>,
    /// `true`: another process holds the listeners too.
    shared: bool,
    open: Vec<OpenListener>,
    quic: QuicEndpoints,
}

struct OpenListener {
    configured: Listen,
    listener: Rc<WorkerListener>,
    task: JoinHandle<()>,
}

/// The changes of a reload to the listeners of one worker.
#[derive(Debug, Default)]
pub(crate) struct ListenerChanges {
    /// Listeners that stay, with their protocols. All others are closed.
    pub(crate) kept: Vec<(Listen, Protocols)>,
    pub(crate) opened: Vec<BoundListener>,
    /// Addresses whose UDP sockets stay, and whether they serve HTTP/3. All others are closed.
    pub(crate) kept_quic: Vec<(Listen, bool)>,
    /// UDP sockets to open.
    pub(crate) opened_quic: Vec<QuicListener>,
}

impl Accepting {
    pub(super) fn new(
        thread: Rc<WorkerThread>,
        admission: Rc<Admission>,
        handshakes: Handshakes,
        shared: bool,
        secret: QuicSecret,
        lease: Lease,
    ) -> Accepting {
        let (served, counted) = (Rc::clone(&thread), Rc::clone(&admission));
        let quic = QuicEndpoints::new(served, counted, handshakes, secret, lease);
        Accepting { thread, admission, shared, open: Vec::new(), quic }
    }

    /// Accepts the connections of a listener.
    ///
    /// # Errors
    /// The event loop does not take the listener.
    pub(super) fn open(&mut self, bound: BoundListener) -> io::Result<()> {
        let configured = bound.configured.clone();
        let listener = Rc::new(WorkerListener::new(bound)?);
        let (accepted, thread, admission) =
            (Rc::clone(&listener), Rc::clone(&self.thread), Rc::clone(&self.admission));
        let task = spawn_local(async move { accept(&accepted, &thread, &admission).await });
        self.open.push(OpenListener { configured, listener, task });
        Ok(())
    }

    /// Accepts the connections of a UDP socket, once the `previous` process has released it.
    ///
    /// # Errors
    /// The event loop does not take the socket.
    pub(super) fn open_quic(
        &mut self,
        listener: QuicListener,
        previous: Option<OwnedFd>,
    ) -> io::Result<()> {
        self.quic.open(listener, previous)
    }

    /// Opens and closes listeners after a reload.
    pub(super) async fn change(&mut self, changes: ListenerChanges) {
        let mut closed = Vec::new();
        for open in std::mem::take(&mut self.open) {
            match changes.kept.iter().find(|(listen, _)| *listen == open.configured) {
                Some((_, protocols)) => {
                    open.listener.protocols.set(*protocols);
                    self.open.push(open);
                }
                None => closed.push(open),
            }
        }
        for bound in changes.opened {
            let address = bound.configured.clone();
            if let Err(e) = self.open(bound) {
                tracing::error!("cannot accept connections on {address}: {e}");
            }
        }
        self.quic.retain(&changes.kept_quic);
        for listener in changes.opened_quic {
            let address = listener.configured.clone();
            if let Err(e) = self.open_quic(listener, None) {
                tracing::error!("cannot serve HTTP/3 on {address}: {e}");
            }
        }
        self.close(closed).await;
    }

    /// Notes that another process holds the listeners too.
    pub(super) fn note_shared(&mut self) {
        self.shared = true;
    }

    pub(super) async fn close_all(&mut self) {
        self.quic.close_all(self.shared);
        let all = std::mem::take(&mut self.open);
        self.close(all).await;
    }

    /// Waits until the HTTP/3 connections of all workers have ended, after `close_all`.
    pub(super) async fn all_quic_ended(&self) {
        self.quic.all_ended().await;
    }

    /// Closes listeners after accepting the connections that are in their queues.
    async fn close(&self, listeners: Vec<OpenListener>) {
        // The last handshakes may take a round trip to complete.
        let waits =
            listeners.iter().filter(|open| !self.shared && open.listener.end_handshakes()).count();
        if waits > 0 {
            rt::sleep(DRAIN_GRACE).await;
        }
        for OpenListener { listener, task, .. } in listeners {
            task.abort();
            // Only an ended task has released its listener, which is closed once its queue is
            // empty.
            let _ = task.await;
            accept_rest(&listener, &self.thread, &self.admission).await;
        }
    }
}
