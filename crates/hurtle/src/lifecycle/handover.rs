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

use super::starter::Starter;
use crate::config::Listen;
use crate::server::Server;
use crate::server::accept::BoundListener;
use crate::server::cached::CachedResponses;
use crate::server::listening::Listening;
use crate::server::predecessor::Predecessor;
use crate::server::quic::QuicListener;
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
#[derive(Debug)]
pub(super) struct HeldSockets {
    sockets: Vec<(Listen, Listener)>,
    admin: Option<(PathBuf, UnixListener)>,
    /// Listeners for metrics.
    monitored: Vec<(Listen, Listener)>,
    /// UDP sockets of HTTP/3, in the order of each address.
    datagrams: Vec<(Listen, UdpSocket)>,
    /// Tells when the endpoints of this process have ended.
    lease: OwnedFd,
    /// The secret of those endpoints.
    quic_secret: QuicSecret,
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
    quic_secret: Option<QuicSecret>,
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
    /// The sockets and the state for the server.
    pub(super) predecessor: Predecessor,
    /// The channel to the supervisor.
    pub(super) supervisor: Option<Starter>,
    /// Sockets of roles of another version, open as long as the handover lasts.
    unknown: Vec<(Listen, OwnedFd)>,
    /// Standard error of the process before; until this process is ready, its own is a pipe to it.
    stderr: OwnedFd,
    channel: UnixStream,
}

impl HeldSockets {
    /// Duplicates the listeners of every worker, the admin socket and the listeners for metrics.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn of(server: &Server) -> io::Result<HeldSockets> {
        let config = &server.settings.config;
        let admin = config.admin.clone().zip(server.monitoring.admin.as_ref());
        let admin = admin.map(|(path, socket)| io::Result::Ok((path, socket.try_clone()?)));
        let mut held = HeldSockets {
            sockets: Vec::new(),
            admin: admin.transpose()?,
            monitored: Vec::new(),
            datagrams: Vec::new(),
            lease: server.quic.released.try_clone()?,
            quic_secret: server.quic.secret.clone(),
        };
        // The workers have the same inherited listeners.
        let workers = if server.inherited { 1 } else { server.listeners.len() };
        held.add(server.listeners.iter().take(workers).flatten())?;
        let metrics = config.metrics.iter().flat_map(|metrics| &metrics.listen);
        for (listen, listener) in metrics.zip(&server.monitoring.metrics) {
            held.monitored.push((listen.clone(), listener.try_clone()?));
        }
        held.add_datagrams(server.quic.listeners.iter().flatten())?;
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
        description.sockets.push(SocketRecord { role: Role::QuicLease, tcp: None, unix: None });
        sockets.push(self.lease.try_clone()?);
        description.quic_secret = Some(self.quic_secret.clone());
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
        let mut description: Description = serde_json::from_slice(&text)?;
        let mut predecessor = Predecessor {
            quic_secret: description.quic_secret.take(),
            tickets: std::mem::take(&mut description.tickets),
            purges: description.purges.take(),
            ..Predecessor::default()
        };
        let (mut supervisor, mut unknown) = (None, Vec::new());
        for record in &description.sockets {
            let socket = receive_descriptor(&channel)?;
            let listen = record.address();
            match record.role {
                Role::Clear | Role::Tls => {
                    predecessor.listeners.push((listen.clone(), listener(&listen, socket)));
                }
                Role::Metrics => {
                    predecessor.metrics.push((listen.clone(), listener(&listen, socket)));
                }
                Role::Admin => {
                    let path = record.unix.clone().unwrap_or_default();
                    predecessor.admin = Some((path, socket.into()));
                }
                Role::Quic => predecessor.datagrams.push((listen, socket.into())),
                Role::QuicLease => predecessor.lease = Some(socket),
                Role::Cached => predecessor.cached = Some(CachedResponses::new(socket)),
                Role::Supervisor => supervisor = Some(Starter::new(socket.into())),
                Role::Unknown => unknown.push((listen, socket)),
            }
        }
        let stderr = receive_descriptor(&channel)?;
        Ok(Received { description, predecessor, supervisor, unknown, stderr, channel })
    }

    /// Addresses in clear, or with TLS.
    pub(super) fn addresses(&self, tls: bool) -> Vec<Listen> {
        let role = if tls { Role::Tls } else { Role::Clear };
        let mut addresses: Vec<Listen> = Vec::new();
        for record in self.description.sockets.iter().filter(|record| record.role == role) {
            let listen = record.address();
            if !addresses.contains(&listen) {
                addresses.push(listen);
            }
        }
        addresses
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
        let unknown = self.unknown.iter().filter_map(|(listen, _)| match listen {
            Listen::Unix(path) => Some(path.as_path()),
            Listen::Tcp(_) => None,
        });
        for path in self.predecessor.socket_files().chain(unknown) {
            // The directory may be another user's.
            let _ = std::fs::remove_file(path);
        }
        let _ = self.channel.write_all(READY);
        self.channel
    }
}

/// Returns the listener of an address.
fn listener(listen: &Listen, socket: OwnedFd) -> Listener {
    match listen {
        Listen::Tcp(_) => Listener::Tcp(socket.into()),
        Listen::Unix(_) => Listener::Unix(socket.into()),
    }
}

impl SocketRecord {
    fn new(role: Role, listen: &Listen) -> SocketRecord {
        match listen {
            Listen::Tcp(address) => SocketRecord { role, tcp: Some(*address), unix: None },
            Listen::Unix(path) => SocketRecord { role, tcp: None, unix: Some(path.clone()) },
        }
    }

    /// Returns the address; a socket without one has an empty path.
    fn address(&self) -> Listen {
        match self.tcp {
            Some(address) => Listen::Tcp(address),
            None => Listen::Unix(self.unix.clone().unwrap_or_default()),
        }
    }
}
