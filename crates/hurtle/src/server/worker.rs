//! One worker: a thread with an event loop of its own, its sites, its cache, its connections.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use super::accept::{Accepting, Room, accept, accept_rest};
use super::{DRAIN_GRACE, Listener, Order, share};
use crate::config::Config;
use crate::disk::Disk;
use crate::files::{Cache, Store};
use crate::h1::head::HeadLimits;
use crate::rt;
use crate::serve::Worker;
use crate::serve::deadline::Deadlines;
use crate::site::Sites;
use crate::transport::Sender;

/// Of the process's descriptors, the part that cached files may have.
const CACHED_FILES_SHARE: usize = 4;

/// Descriptors kept for listeners, logs, disk jobs and the event loops.
const DESCRIPTORS_RESERVED: usize = 64;

/// A worker's life.
pub(super) fn run(
    config: &Config,
    listeners: Vec<Listener>,
    disk: Disk,
    orders: watch::Receiver<Order>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(serve(config, listeners, disk, orders))
}

async fn serve(
    config: &Config,
    listeners: Vec<Listener>,
    disk: Disk,
    mut orders: watch::Receiver<Order>,
) -> io::Result<()> {
    let (worker, room) = make(config, disk);
    let deadlines = Rc::clone(&worker.deadlines);
    rt::spawn(async move { deadlines.sweep().await });
    let mut accepting = Vec::new();
    for listener in listeners {
        let listener = Rc::new(Accepting::new(listener)?);
        let (l, w, r) = (Rc::clone(&listener), Rc::clone(&worker), Rc::clone(&room));
        let task = tokio::task::spawn_local(async move { accept(&l, &w, &r).await });
        accepting.push((listener, task));
    }
    // The sender lives as long as the server; if it is gone, so is everybody who could wait.
    let _ = orders.wait_for(|order| *order != Order::Serve).await;
    for (listener, task) in accepting {
        task.abort();
        accept_rest(&listener, &worker, &room).await;
    }
    worker.deadlines.drain(DRAIN_GRACE);
    let ended = orders.wait_for(|order| *order == Order::End);
    let drained = async {
        let finished = async {
            while worker.open.get() > 0 {
                worker.closed.wait(None).await;
            }
        };
        if rt::timeout(config.drain, finished).await.is_none() {
            tracing::warn!("{} connections cut after the drain time", worker.open.get());
        }
    };
    tokio::select! { _ = ended => {}, () = drained => {} }
    Ok(())
}

fn make(config: &Config, disk: Disk) -> (Rc<Worker>, Rc<Room>) {
    let descriptors = usize::try_from(super::descriptor_limit()).unwrap_or(usize::MAX);
    let cached = descriptors / CACHED_FILES_SHARE;
    let connections = config
        .limits
        .connections
        .unwrap_or(descriptors.saturating_sub(cached).saturating_sub(DESCRIPTORS_RESERVED).max(1));
    let cache = Cache::new(share(config.cache_bytes, config.workers), cached / config.workers);
    let revalidate_ms = config.revalidate.as_millis() as u64;
    let limits = config.limits.clone();
    let worker = Worker {
        sites: Sites::new(&config.sites, &disk),
        store: Store::new(cache, disk.clone(), revalidate_ms),
        sender: Sender { disk, sendfile: config.sendfile },
        head_limits: HeadLimits {
            head_bytes: limits.head_bytes,
            target_bytes: limits.target_bytes,
            fields: limits.head_fields,
        },
        limits,
        deadlines: Deadlines::new(),
        open: Cell::new(0),
        closed: rt::Bell::default(),
    };
    let room = Room::new(share(connections, config.workers), config.limits.connections_per_address);
    (Rc::new(worker), room)
}
