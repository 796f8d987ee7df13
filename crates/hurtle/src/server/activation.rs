//! systemd: listeners it has opened (sd_listen_fds(3)), and telling it how the server is doing
//! (sd_notify(3)).

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::Listener;

/// The listeners handed over; `None`: the server was not started with any.
///
/// # Errors
/// When one of them is no stream socket.
pub(super) fn listeners() -> io::Result<Option<Vec<Listener>>> {
    let mut inherited = listenfd::ListenFd::from_env();
    if inherited.len() == 0 {
        return Ok(None);
    }
    let mut listeners = Vec::with_capacity(inherited.len());
    for index in 0..inherited.len() {
        let listener = match inherited.take_tcp_listener(index) {
            Ok(Some(socket)) => Listener::Tcp(socket),
            _ => match inherited.take_unix_listener(index)? {
                Some(socket) => Listener::Unix(socket),
                None => continue,
            },
        };
        listener.set_nonblocking()?;
        listeners.push(listener);
    }
    Ok(Some(listeners))
}

/// Sends a state, if there is anybody to send it to. Whether it arrives changes nothing here.
pub(super) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.to_str().and_then(|p| p.strip_prefix('@')) {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(e) = sent {
        tracing::warn!("cannot tell the service manager {state}: {e}");
    }
}
