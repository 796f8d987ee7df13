//! The handover to the process that replaces this one: listening sockets and facts about them, sent
//! over a pair of unix sockets that is the standard input of the new process. `upgrade` starts the
//! new process and decides what its answer means.

use std::env;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::accept::BoundListener;
use super::cached::CachedResponses;
use super::quic::QuicListener;
use super::reload::Listening;
use super::starter::Starter;
use crate::config::Listen;
use crate::sockets::descriptors::{receive_descriptor, send_descriptor, take_stdin};
use crate::sockets::{Listener, activation};
use crate::tls::TicketKeys;
use crate::transport::quic::QuicSecret;

/// Environment variable of a process that replaces another one.
pub(super) const VARIABLE: &str = "HURTLE_UPGRADE";

/// Maximum size of the description.
const DESCRIPTION_BYTES_MAX: u32 = 16 << 20;

/// The message of a new process whose workers accept connections.
pub(super) const READY: &[u8] = b"ready\n";

/// Duplicates of the listening sockets of a server.
#[derive(Debug, Default)]
pub(super) struct HeldSockets {
    sockets: Vec<(Listen, Listener)>,
    admin: Option<(PathBuf, UnixListener)>,
    /// Listeners for metrics.
    monitored: Vec<(Listen, Listener)>,
    /// UDP sockets of HTTP/3, in the order of each address.
    datagrams: Vec<(Listen, UdpSocket)>,
    /// Tells when the endpoints of this process have ended.
    lease: Option<OwnedFd>,
}

/// The description of all that is handed over. Versions of hurtle may differ in it: unknown fields
/// are ignored, and new ones need a default.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Description {
    /// The process that hands over.
    pub(super) process: u32,
    /// `true`: the service manager holds the listeners too.
    pub(super) inherited: bool,
    /// The sockets, in the order of their descriptors.
    sockets: Vec<SocketRecord>,
    /// Site and path of each application that accepts requests.
    #[serde(default)]
    pub(super) apps: Vec<(String, String)>,
    /// The keys of session tickets.
    #[serde(default)]
    pub(super) tickets: Vec<TicketKeys>,
    /// The secret of HTTP/3 endpoints.
    #[serde(default)]
    pub(super) quic_secret: Option<QuicSecret>,
    /// The position in the feed of purges, up to which the stored responses are purged.
    #[serde(default)]
    pub(super) purges: Option<String>,
    /// `true`: a name leads to what the sandbox of the process before refuses.
    #[serde(default)]
    pub(super) because_of_names: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SocketRecord {
    role: Role,
    /// The address as configured; `None`: a unix socket.
    tcp: Option<SocketAddr>,
    /// Path of a unix socket; empty: it has no name.
    unix: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Clear,
    Tls,
    Admin,
    Metrics,
    Quic,
    #[serde(rename = "quic-lease")]
    QuicLease,
    /// Sends the stored responses.
    Cached,
    /// The channel to the supervisor.
    Supervisor,
    /// A role of another version; the socket is closed.
    #[serde(other)]
    Unknown,
}

/// The end of the process that hands over.
#[derive(Debug)]
pub(super) struct Handover {
    pub(super) description: Description,
    sockets: Vec<OwnedFd>,
}

/// All that this process has received from the one that it replaces.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) description: Description,
    sockets: Vec<(Role, Listen, Listener)>,
    datagrams: Vec<(Listen, UdpSocket)>,
    /// Tells when the other process reads the UDP sockets no more.
    pub(super) lease: Option<OwnedFd>,
    /// Standard error of the process before; until this process is ready, its own is a pipe to it.
    stderr: OwnedFd,
    channel: UnixStream,
}

impl HeldSockets {
    /// Duplicates the listeners of every worker, the admin socket and the listeners for metrics.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn of<'a>(
        listeners: impl IntoIterator<Item = &'a BoundListener>,
        admin: Option<(PathBuf, &UnixListener)>,
        monitored: impl Iterator<Item = (&'a Listen, &'a Listener)>,
    ) -> io::Result<HeldSockets> {
        let mut held = HeldSockets::default();
        held.add(listeners)?;
        let admin = admin.map(|(path, socket)| Ok((path, socket.try_clone()?)));
        held.admin = admin.transpose().map_err(|e: io::Error| e)?;
        for (listen, listener) in monitored {
            held.monitored.push((listen.clone(), listener.try_clone()?));
        }
        Ok(held)
    }

    /// Duplicates further listeners. All workers have the same unix socket, so one is enough.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn add<'a>(
        &mut self,
        listeners: impl IntoIterator<Item = &'a BoundListener>,
    ) -> io::Result<()> {
        for BoundListener { listener, configured, .. } in listeners {
            let is_unix = matches!(listener, Listener::Unix(_));
            if !is_unix || !self.sockets.iter().any(|(held, _)| held == configured) {
                self.sockets.push((configured.clone(), listener.try_clone()?));
            }
        }
        Ok(())
    }

    /// Duplicates UDP sockets.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn add_datagrams<'a>(
        &mut self,
        listeners: impl IntoIterator<Item = &'a QuicListener>,
    ) -> io::Result<()> {
        for QuicListener { socket, configured, .. } in listeners {
            self.datagrams.push((configured.clone(), socket.try_clone()?));
        }
        Ok(())
    }

    pub(super) fn set_lease(&mut self, lease: OwnedFd) {
        self.lease = Some(lease);
    }

    /// Closes the duplicates of UDP sockets of other addresses.
    pub(super) fn retain_datagrams(&mut self, kept: &[Listen]) {
        self.datagrams.retain(|(held, _)| kept.contains(held));
    }

    /// Closes the duplicates of listeners that are not in `listening`, also those in the service
    /// manager's store.
    pub(super) fn retain(&mut self, listening: &[Listening]) {
        let stays = |held: &Listen| listening.iter().any(|open| open.configured == *held);
        if activation::keeps_listeners() {
            let gone = self.sockets.iter().map(|(held, _)| held).filter(|held| !stays(held));
            gone.for_each(activation::forget);
        }
        self.sockets.retain(|(held, _)| stays(held));
    }

    /// Has the service manager keep duplicates of the listeners for requests, if it does so.
    pub(super) fn store(&self) {
        if activation::keeps_listeners() {
            self.sockets.iter().for_each(|(held, listener)| activation::keep(held, listener));
        }
    }

    /// Prepares the handover of these sockets; `listening` are their addresses.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn hand_over(
        &self,
        listening: &[Listening],
        mut description: Description,
    ) -> io::Result<Handover> {
        let mut sockets = Vec::new();
        for (configured, listener) in &self.sockets {
            let tls = listening.iter().any(|open| open.tls && open.configured == *configured);
            let role = if tls { Role::Tls } else { Role::Clear };
            description.sockets.push(SocketRecord::new(role, configured));
            sockets.push(listener.as_fd().try_clone_to_owned()?);
        }
        if let Some((path, socket)) = &self.admin {
            let listen = Listen::Unix(path.clone());
            description.sockets.push(SocketRecord::new(Role::Admin, &listen));
            sockets.push(socket.as_fd().try_clone_to_owned()?);
        }
        for (listen, listener) in &self.monitored {
            description.sockets.push(SocketRecord::new(Role::Metrics, listen));
            sockets.push(listener.as_fd().try_clone_to_owned()?);
        }
        for (listen, socket) in &self.datagrams {
            description.sockets.push(SocketRecord::new(Role::Quic, listen));
            sockets.push(socket.as_fd().try_clone_to_owned()?);
        }
        if let Some(lease) = &self.lease {
            description.sockets.push(SocketRecord { role: Role::QuicLease, tcp: None, unix: None });
            sockets.push(lease.try_clone()?);
        }
        Ok(Handover { description, sockets })
    }
}

impl Handover {
    /// Adds the socket that sends the stored responses.
    pub(super) fn add_cached(&mut self, socket: OwnedFd) {
        self.add(Role::Cached, socket);
    }

    /// Adds the channel to the supervisor.
    pub(super) fn add_supervisor(&mut self, channel: OwnedFd) {
        self.add(Role::Supervisor, channel);
    }

    fn add(&mut self, role: Role, socket: OwnedFd) {
        self.description.sockets.push(SocketRecord { role, tcp: None, unix: None });
        self.sockets.push(socket);
    }

    /// The number of sockets that are sent.
    pub(super) fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// Sends everything: the length of the description (4 bytes, big-endian) and the description as
    /// JSON; then one byte for each socket, which carries its descriptor; then one with standard
    /// error.
    ///
    /// # Errors
    /// The new process does not read, or the description is too large.
    pub(super) fn send(&self, mut channel: &UnixStream) -> io::Result<()> {
        let text = serde_json::to_vec(&self.description)?;
        let len = u32::try_from(text.len()).map_err(io::Error::other)?;
        channel.write_all(&len.to_be_bytes())?;
        channel.write_all(&text)?;
        for socket in &self.sockets {
            send_descriptor(channel, socket.as_fd())?;
        }
        send_descriptor(channel, io::stderr().as_fd())
    }
}

impl Received {
    /// Receives what another process hands over; `None`: this process replaces none.
    ///
    /// # Errors
    /// The other process has ended before everything was sent.
    pub(super) fn receive() -> io::Result<Option<Received>> {
        if env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let Some(channel) = take_stdin()? else { return Ok(None) };
        let incomplete = |e: io::Error| {
            let what = format!("the process to replace has not handed over everything: {e}");
            io::Error::new(e.kind(), what)
        };
        Received::read(channel).map(Some).map_err(incomplete)
    }

    fn read(mut channel: UnixStream) -> io::Result<Received> {
        let mut len = [0; 4];
        channel.read_exact(&mut len)?;
        let len = u32::from_be_bytes(len);
        if len > DESCRIPTION_BYTES_MAX {
            return Err(io::Error::other(format!("a description of {len} bytes")));
        }
        let mut text = vec![0; len as usize];
        channel.read_exact(&mut text)?;
        let description: Description = serde_json::from_slice(&text)?;
        let mut sockets = Vec::with_capacity(description.sockets.len());
        let (mut datagrams, mut lease) = (Vec::new(), None);
        for record in &description.sockets {
            let socket = receive_descriptor(&channel)?;
            if record.role == Role::QuicLease {
                lease = Some(socket);
                continue;
            }
            if let (Role::Quic, Some(address)) = (record.role, record.tcp) {
                datagrams.push((Listen::Tcp(address), socket.into()));
                continue;
            }
            sockets.push(match (record.tcp, &record.unix) {
                (Some(address), _) => {
                    (record.role, Listen::Tcp(address), Listener::Tcp(socket.into()))
                }
                (None, path) => {
                    let path = path.clone().unwrap_or_default();
                    (record.role, Listen::Unix(path), Listener::Unix(socket.into()))
                }
            });
        }
        let stderr = receive_descriptor(&channel)?;
        Ok(Received { description, sockets, datagrams, lease, stderr, channel })
    }

    /// Addresses in clear, or with TLS.
    pub(super) fn addresses(&self, tls: bool) -> Vec<Listen> {
        let role = if tls { Role::Tls } else { Role::Clear };
        let mut addresses: Vec<Listen> = Vec::new();
        for (_, listen, _) in self.sockets.iter().filter(|(of, ..)| *of == role) {
            if !addresses.contains(listen) {
                addresses.push(listen.clone());
            }
        }
        addresses
    }

    /// Takes the listeners of an address.
    pub(super) fn take(&mut self, configured: &Listen) -> Vec<Listener> {
        self.take_if(|role, listen| role.is_of_requests() && listen == configured)
    }

    /// Takes all listeners for requests.
    pub(super) fn take_all(&mut self) -> Vec<Listener> {
        self.take_if(|role, _| role.is_of_requests())
    }

    /// Takes the UDP sockets of an address.
    pub(super) fn take_datagrams(&mut self, configured: &Listen) -> Vec<UdpSocket> {
        let of = |(listen, _): &mut (Listen, UdpSocket)| listen == configured;
        self.datagrams.extract_if(.., of).map(|(_, socket)| socket).collect()
    }

    /// The secret of HTTP/3 endpoints.
    pub(super) fn quic_secret(&self) -> Option<QuicSecret> {
        self.description.quic_secret.clone()
    }

    /// Takes the listener for metrics at an address.
    pub(super) fn take_metrics(&mut self, configured: &Listen) -> Option<Listener> {
        let taken = self.take_if(|role, listen| role == Role::Metrics && listen == configured);
        taken.into_iter().next()
    }

    /// Takes the stored responses.
    pub(super) fn take_cached(&mut self) -> Option<CachedResponses> {
        self.take_unix(Role::Cached).map(|socket| CachedResponses::new(socket.into()))
    }

    /// Takes the channel to the supervisor.
    pub(super) fn take_supervisor(&mut self) -> Option<Starter> {
        self.take_unix(Role::Supervisor).map(|socket| Starter::new(OwnedFd::from(socket).into()))
    }

    fn take_unix(&mut self, wanted: Role) -> Option<UnixListener> {
        let taken = self.take_if(|role, _| role == wanted);
        taken.into_iter().find_map(Listener::into_unix)
    }

    /// Takes the admin socket if it has this path.
    pub(super) fn take_admin(&mut self, path: &std::path::Path) -> Option<UnixListener> {
        let is_it = |listen: &Listen| matches!(listen, Listen::Unix(other) if other == path);
        let taken = self.take_if(|role, listen| role == Role::Admin && is_it(listen));
        taken.into_iter().find_map(Listener::into_unix)
    }

    fn take_if(&mut self, is_wanted: impl Fn(Role, &Listen) -> bool) -> Vec<Listener> {
        let sockets = std::mem::take(&mut self.sockets);
        let (taken, rest): (Vec<_>, _) =
            sockets.into_iter().partition(|(role, listen, _)| is_wanted(*role, listen));
        self.sockets = rest;
        taken.into_iter().map(|(_, _, listener)| listener).collect()
    }

    /// Makes the standard error of the process before that of this one.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn take_stderr(&self) -> io::Result<()> {
        Ok(rustix::stdio::dup2_stderr(&self.stderr)?)
    }

    /// Tells the other process that this one accepts connections. If the other one is gone already,
    /// this one serves alone. Sockets that the configuration no longer names are closed, and their
    /// files removed. The channel, which is returned, must stay open: its end is that of this
    /// process.
    pub(super) fn announce(mut self) -> UnixStream {
        for (_, listen, _) in &self.sockets {
            if let Listen::Unix(path) = listen {
                // The directory may be another user's.
                let _ = std::fs::remove_file(path);
            }
        }
        let _ = self.channel.write_all(READY);
        self.channel
    }
}

impl Role {
    fn is_of_requests(self) -> bool {
        matches!(self, Role::Clear | Role::Tls)
    }
}

impl SocketRecord {
    fn new(role: Role, listen: &Listen) -> SocketRecord {
        match listen {
            Listen::Tcp(address) => SocketRecord { role, tcp: Some(*address), unix: None },
            Listen::Unix(path) => SocketRecord { role, tcp: None, unix: Some(path.clone()) },
        }
    }
}
