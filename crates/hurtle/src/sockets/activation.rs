//! systemd: inherited listeners (sd_listen_fds(3)), state notifications (sd_notify(3)), and
//! listeners in its file descriptor store.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, SockAddr, Socket, Type};
use xxhash_rust::xxh3::xxh3_64;

use super::{Listener, descriptors, is_socket};
use crate::config::Listen;

/// Longest wait for the service manager.
const BARRIER_TIME_MAX: Duration = Duration::from_secs(5);

/// Prefix of the names of sockets in the file descriptor store.
const STORED_PREFIX: &str = "hurtle-";

/// The listeners that the service manager passes.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Those of its socket units; `None`: there are none.
    pub(crate) activated: Option<Vec<Listener>>,
    /// Those of a process before, from the file descriptor store.
    pub(crate) stored: StoredListeners,
}

/// Listeners from the file descriptor store, with their names.
#[derive(Debug, Default)]
pub(crate) struct StoredListeners(Vec<(String, Listener)>);

impl StoredListeners {
    /// Takes the listeners of an address. Those of a unix socket whose file is gone are left,
    /// because no client reaches them.
    pub(crate) fn take(&mut self, configured: &Listen) -> Vec<Listener> {
        if let Listen::Unix(path) = configured
            && !is_socket(path)
        {
            return Vec::new();
        }
        let name = stored_name(configured);
        let (taken, rest): (Vec<_>, _) =
            std::mem::take(&mut self.0).into_iter().partition(|(stored, _)| *stored == name);
        self.0 = rest;
        taken.into_iter().map(|(_, listener)| listener).collect()
    }

    /// Closes the listeners that are left, which the configuration no longer names, and waits until
    /// the service manager has closed its own: others may be bound at their ports.
    pub(crate) fn discard(&mut self) {
        let left = std::mem::take(&mut self.0);
        let names: BTreeSet<String> = left.into_iter().map(|(name, _)| name).collect();
        if names.is_empty() {
            return;
        }
        names.iter().for_each(|name| notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}")));
        if let Err(e) = wait_for_manager() {
            tracing::warn!("the service manager does not say that it has closed listeners: {e}");
        }
    }
}

/// Takes the listeners that the service manager passes.
///
/// # Errors
/// A descriptor is not a stream socket.
pub(crate) fn listeners() -> io::Result<Passed> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut inherited = listenfd::ListenFd::from_env();
    let (mut activated, mut stored) = (Vec::with_capacity(inherited.len()), Vec::new());
    for index in 0..inherited.len() {
        let name = names.next().unwrap_or_default();
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
        match name.starts_with(STORED_PREFIX) {
            true => stored.push((name.to_owned(), listener)),
            false => activated.push(listener),
        }
    }
    let activated = Some(activated).filter(|listeners| !listeners.is_empty());
    Ok(Passed { activated, stored: StoredListeners(stored) })
}

/// Returns whether the service manager keeps listeners for the next process
/// (`FileDescriptorStoreMax=`, systemd.service(5)). systemd 254 and later say so.
pub(crate) fn keeps_listeners() -> bool {
    let max = env::var("FDSTORE").ok().and_then(|max| max.parse().ok()).unwrap_or(0_u32);
    max > 0 && env::var_os("NOTIFY_SOCKET").is_some()
}

/// Has the service manager keep a duplicate of a listener, so that a process after a crash or a
/// restart accepts the connections in its queue. A duplicate that it has already is ignored.
pub(crate) fn keep(configured: &Listen, listener: &Listener) {
    notify_with(&format!("FDSTORE=1\nFDNAME={}", stored_name(configured)), Some(listener.as_fd()));
}

/// Has the service manager close its duplicates of a listener.
pub(crate) fn forget(configured: &Listen) {
    notify(&format!("FDSTOREREMOVE=1\nFDNAME={}", stored_name(configured)));
}

/// The name of a listener in the store: of ASCII and without colons (sd_pid_notify_with_fds(3)).
fn stored_name(configured: &Listen) -> String {
    format!("{STORED_PREFIX}{:016x}", xxh3_64(configured.to_string().as_bytes()))
}

/// Notifies the service manager of the begin of a reload (`Type=notify-reload`,
/// systemd.service(5)).
pub(crate) fn notify_reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
}

/// Notifies the service manager of a state, if there is one. A failure is only logged.
pub(crate) fn notify(state: &str) {
    notify_with(state, None);
}

/// Waits until the service manager has handled all notifications: it then closes a pipe
/// (`BARRIER=1`, sd_notify_barrier(3)).
fn wait_for_manager() -> io::Result<()> {
    let (closed, writer) = io::pipe()?;
    notify_with("BARRIER=1", Some(writer.as_fd()));
    drop(writer);
    let most = Timespec::try_from(BARRIER_TIME_MAX).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&closed, PollFlags::IN)], Some(&most))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

fn notify_with(state: &str, descriptor: Option<BorrowedFd<'_>>) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    // A leading `@` stands for the NUL of an abstract socket name (unix(7)).
    let mut name = path.into_encoded_bytes();
    if let Some(first @ b'@') = name.first_mut() {
        *first = 0;
    }
    let sent = Socket::new(Domain::UNIX, Type::DGRAM, None).and_then(|socket| {
        socket.connect(&SockAddr::unix(OsStr::from_bytes(&name))?)?;
        match descriptor {
            None => socket.send(state.as_bytes()).map(drop),
            Some(descriptor) => descriptors::send_with(&socket, state.as_bytes(), descriptor),
        }
    });
    if let Err(e) = sent {
        tracing::warn!("cannot notify the service manager of {state}: {e}");
    }
}
