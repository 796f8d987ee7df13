//! systemd: inherited listeners (sd_listen_fds(3)) and state notifications (sd_notify(3)).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, SockAddr, Socket, Type};

use super::Listener;

/// Inherited listeners; `None`: the server was started without any.
///
/// # Errors
/// A descriptor is not a stream socket.
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
        // The descriptors of the service manager would stay open in programs of this server.
        fcntl_setfd(listener.as_fd(), FdFlags::CLOEXEC)?;
        listeners.push(listener);
    }
    Ok(Some(listeners))
}

/// Notifies the service manager of the begin of a reload (`Type=notify-reload`, systemd.service(5)).
pub(super) fn notify_reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
}

/// Notifies the service manager of a state, if there is one. A failure is only logged.
pub(super) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    // A leading `@` stands for the NUL of an abstract socket name (unix(7)).
    let mut name = path.into_encoded_bytes();
    if let Some(first @ b'@') = name.first_mut() {
        *first = 0;
    }
    let sent = Socket::new(Domain::UNIX, Type::DGRAM, None).and_then(|socket| {
        socket.send_to(state.as_bytes(), &SockAddr::unix(OsStr::from_bytes(&name))?)
    });
    if let Err(e) = sent {
        tracing::warn!("cannot notify the service manager of {state}: {e}");
    }
}
