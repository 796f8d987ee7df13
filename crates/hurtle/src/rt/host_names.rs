//! Addresses of hosts' names: by the system's resolver in this process, or as `lifecycle::resolver`
//! decides for a process that is confined. Everything that connects to a configured name looks it
//! up here, except the clients of object stores and of WebAssembly applications.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// Looks up a name and a port.
pub(crate) type LookUp = Box<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The look-up of this process; unset: the system's.
static LOOK_UP: OnceLock<LookUp> = OnceLock::new();

/// Sets the look-up of this process, once.
pub(crate) fn set_look_up(look_up: LookUp) {
    // A second server in this process has the same one.
    let _ = LOOK_UP.set(look_up);
}

/// Returns the addresses of a name; blocks.
///
/// # Errors
/// The resolver's.
pub(crate) fn addresses(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match LOOK_UP.get() {
        Some(look_up) => look_up(name, port),
        None => system_addresses(name, port),
    }
}

/// Returns the addresses of a name by the system's resolver in this process; blocks.
///
/// # Errors
/// The resolver's.
pub(crate) fn system_addresses(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((name, port).to_socket_addrs()?.collect())
}

/// Returns a connector of hyper's client that connects to names, also for TLS.
pub(crate) fn connector() -> HttpConnector<HostNames> {
    let mut connector = HttpConnector::new_with_resolver(HostNames);
    // Otherwise it would refuse `https`.
    connector.enforce_http(false);
    connector
}

/// The look-up of a client of hyper, which replaces the port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostNames;

impl Service<Name> for HostNames {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(async move {
            let look_up = move || addresses(name.as_str(), 0);
            let found = tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)??;
            Ok(found.into_iter())
        })
    }
}
