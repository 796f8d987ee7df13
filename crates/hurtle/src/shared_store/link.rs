//! Keeps a worker connected to the store: loads the script of rate limits, and begins again after a
//! pause when the connection has ended.

use std::rc::Rc;

use hurtle_http::resp::Reply;

use super::connection::{Connection, StoreError};
use super::endpoint::{CONNECT_TIME_MAX, Endpoint, PAUSE};
use super::{Counted, StoreState};
use crate::rt::{self, Bell, First};

/// The script that takes from allowances.
const TAKE: &str = include_str!("take.lua");

/// A connection that is ready for use.
pub(super) struct Ready {
    pub(super) connection: Connection,
    /// The digest by which the store knows `TAKE`.
    pub(super) take: Vec<u8>,
    /// Rung to give the connection up.
    pub(super) given_up: Bell,
}

/// Connects again and again.
pub(super) async fn keep_connected(store: Rc<StoreState>) {
    loop {
        let connected = rt::timeout(CONNECT_TIME_MAX, connect(&store.endpoint)).await;
        let late = || Err("it does not respond".to_owned());
        match connected.unwrap_or_else(late) {
            Ok(ready) => run(&store, Rc::new(ready)).await,
            Err(why) => *store.fault.borrow_mut() = why,
        }
        store.metrics.store.failures.add(1);
        rt::sleep(PAUSE).await;
    }
}

/// Offers a connection to requests until it ends.
async fn run(store: &StoreState, ready: Rc<Ready>) {
    store.late.set(0);
    *store.ready.borrow_mut() = Some(Rc::clone(&ready));
    let _connected = Counted::new(&store.metrics.store.connected);
    tracing::info!("store {}: connected", store.endpoint.settings.config.url());
    let ended = rt::race(ready.connection.ended(), ready.given_up.wait(None)).await;
    store.ready.take();
    if let First::A(why) = ended {
        *store.fault.borrow_mut() = why;
    }
}

/// Makes a connection ready.
async fn connect(endpoint: &Endpoint) -> Result<Ready, String> {
    let connection = endpoint.connect().await?;
    match connection.ask(&[b"SCRIPT", b"LOAD", TAKE.as_bytes()]).await {
        Ok(Reply::Bulk(take)) => Ok(Ready { connection, take, given_up: Bell::default() }),
        Ok(_) => Err(StoreError::Unexpected.to_string()),
        Err(e) => Err(e.to_string()),
    }
}
