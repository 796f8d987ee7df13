//! Keeps a worker connected to the store: resolves its name, connects, authenticates, loads the
//! scripts, and begins again after a pause when the connection has ended.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::time::Duration;

use hurtle_http::resp::Reply;

use super::connection::{Connection, StoreError};
use super::{Settings, State};
use crate::config::Upstream;
use crate::rt::{self, Bell, First};
use crate::transport::{ConnectError, UpstreamSocket};

/// Time limit of connecting, up to the store's reply to the last command of the preparation.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Pause before another connection.
const PAUSE: Duration = Duration::from_secs(1);

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
pub(super) async fn keep_connected(store: Rc<State>) {
    loop {
        let connected = rt::timeout(CONNECT_TIME_MAX, connect(&store)).await;
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
async fn run(store: &State, ready: Rc<Ready>) {
    store.late.set(0);
    *store.ready.borrow_mut() = Some(Rc::clone(&ready));
    store.metrics.store.connected.set(1);
    tracing::info!("store {}: connected", store.settings.config.url());
    let ended = rt::race(ready.connection.ended(), ready.given_up.wait(None)).await;
    store.metrics.store.connected.set(0);
    store.ready.take();
    if let First::A(why) = ended {
        *store.fault.borrow_mut() = why;
    }
}

/// Makes a connection ready.
async fn connect(store: &State) -> Result<Ready, String> {
    let mut failed = "it has no address".to_owned();
    for address in addresses(store).await? {
        match open(store, address).await {
            Ok(socket) => {
                let connection = Connection::new(socket);
                return prepare(&store.settings, connection).await.map_err(|e| e.to_string());
            }
            Err(ConnectError::Refused(e)) => failed = format!("{address}: {e}"),
            Err(ConnectError::Handshake(e)) => failed = format!("{address}: {e}"),
        }
    }
    Err(failed)
}

async fn addresses(store: &State) -> Result<Vec<SocketAddr>, String> {
    match &store.settings.config.server {
        Upstream::Address(address) => Ok(vec![*address]),
        Upstream::Name(name, port) => {
            let (name, port) = (name.clone(), *port);
            let look_up = move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
            match store.disk.run(store.lane, look_up).await {
                Ok(found) => found.map_err(|e| e.to_string()),
                Err(_) => Err("the look-up of its name takes too long".to_owned()),
            }
        }
        Upstream::Unix(_) => Ok(Vec::new()),
    }
}

async fn open(store: &State, address: SocketAddr) -> Result<UpstreamSocket, ConnectError> {
    let Some(tls) = &store.tls else { return UpstreamSocket::connect(address).await };
    let host = match &store.settings.config.server {
        Upstream::Name(name, _) => name.clone(),
        _ => address.ip().to_string(),
    };
    let name = tls.server_name(&host).map_err(ConnectError::Handshake)?;
    UpstreamSocket::connect_tls(address, (tls.client(false), false), &name).await
}

/// Authenticates, selects the database and loads the scripts.
async fn prepare(settings: &Settings, connection: Connection) -> Result<Ready, StoreError> {
    let Settings { config, password } = settings;
    if let Some(password) = password {
        let user = config.user.as_deref().map(str::as_bytes);
        let command: Vec<&[u8]> =
            [&b"AUTH"[..]].into_iter().chain(user).chain([&password[..]]).collect();
        connection.ask(&command).await?;
    }
    if config.database != 0 {
        connection.ask(&[b"SELECT", config.database.to_string().as_bytes()]).await?;
    }
    let Reply::Bulk(take) = connection.ask(&[b"SCRIPT", b"LOAD", TAKE.as_bytes()]).await? else {
        return Err(StoreError::Unexpected);
    };
    Ok(Ready { connection, take, given_up: Bell::default() })
}
