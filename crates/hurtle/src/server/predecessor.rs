//! The sockets and the state that a server takes over from the process before, in place of new
//! ones. `lifecycle::handover` and the service manager's store have them from another process.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::cached::CachedResponses;
use crate::config::Listen;
use crate::sockets::Listener;
use crate::tls::TicketKeys;
use crate::transport::quic::QuicSecret;

/// The parts of the process before; all are absent if there was none.
#[derive(Debug, Default)]
pub(crate) struct Predecessor {
    /// Listeners for requests, by their addresses as configured.
    pub(crate) listeners: Vec<(Listen, Listener)>,
    /// UDP sockets of HTTP/3, by the addresses of their TLS listeners.
    pub(crate) datagrams: Vec<(Listen, UdpSocket)>,
    pub(crate) metrics: Vec<(Listen, Listener)>,
    /// The socket for administration commands.
    pub(crate) admin: Option<(PathBuf, UnixListener)>,
    /// Tells when that process reads the UDP sockets no more.
    pub(crate) lease: Option<OwnedFd>,
    /// The secret of HTTP/3 endpoints.
    pub(crate) quic_secret: Option<QuicSecret>,
    /// The keys of session tickets.
    pub(crate) tickets: Vec<TicketKeys>,
    /// The position in the feed of purges, up to which the stored responses are purged.
    pub(crate) purges: Option<String>,
    pub(crate) cached: Option<CachedResponses>,
}

impl Predecessor {
    /// Takes the listeners of an address.
    pub(super) fn take(&mut self, configured: &Listen) -> Vec<Listener> {
        let of = |(listen, _): &mut (Listen, Listener)| listen == configured;
        self.listeners.extract_if(.., of).map(|(_, listener)| listener).collect()
    }

    /// Takes all listeners for requests.
    pub(crate) fn take_all(&mut self) -> Vec<Listener> {
        self.listeners.drain(..).map(|(_, listener)| listener).collect()
    }

    /// Takes the UDP sockets of an address.
    pub(super) fn take_datagrams(&mut self, configured: &Listen) -> Vec<UdpSocket> {
        let of = |(listen, _): &mut (Listen, UdpSocket)| listen == configured;
        self.datagrams.extract_if(.., of).map(|(_, socket)| socket).collect()
    }

    /// Takes the listener for metrics at an address.
    pub(super) fn take_metrics(&mut self, configured: &Listen) -> Option<Listener> {
        let at = self.metrics.iter().position(|(listen, _)| listen == configured)?;
        Some(self.metrics.remove(at).1)
    }

    /// Takes the admin socket if it has this path.
    pub(super) fn take_admin(&mut self, path: &Path) -> Option<UnixListener> {
        self.admin.take_if(|(other, _)| other == path).map(|(_, socket)| socket)
    }

    /// Returns the files of the sockets that were not taken.
    pub(crate) fn socket_files(&self) -> impl Iterator<Item = &Path> {
        let listening = self.listeners.iter().chain(&self.metrics);
        let files = listening.filter_map(|(listen, _)| match listen {
            Listen::Unix(path) => Some(path.as_path()),
            Listen::Tcp(_) => None,
        });
        files.chain(self.admin.iter().map(|(path, _)| path.as_path()))
    }
}
