//! systemd: listeners it has opened (sd_listen_fds(3)), and telling it how the server is doing
//! (sd_notify(3)).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use socket2::{Domain, SockAddr, Socket, Type};

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
    // `@` stands for the NUL that begins an abstract name (unix(7)).
    let mut name = path.into_encoded_bytes();
    if let Some(first @ b'@') = name.first_mut() {
        *first = 0;
    }
    let sent = Socket::new(Domain::UNIX, Type::DGRAM, None).and_then(|socket| {
        socket.send_to(state.as_bytes(), &SockAddr::unix(OsStr::from_bytes(&name))?)
    });
    if let Err(e) = sent {
        tracing::warn!("cannot tell the service manager {state}: {e}");
    }
}
