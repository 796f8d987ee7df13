//! A TLS client: rustls on a blocking socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use crate::server::Pair;
use crate::support::client::PATIENCE;

#[derive(Clone)]
pub(crate) struct Options(Arc<ClientConfig>);

/// Parts of the configuration that tests change.
pub(crate) struct Choices<'a> {
    pub(crate) versions: &'a [&'static SupportedProtocolVersion],
    pub(crate) alpn: &'a [&'a str],
    pub(crate) certificate: Option<&'a Pair>,
    /// Signature schemes that it supports; `None`: all.
    pub(crate) schemes: Option<&'a [SignatureScheme]>,
    /// Reverses the order of its cipher suites.
    pub(crate) reversed_suites: bool,
}

impl Default for Choices<'_> {
    fn default() -> Self {
        Choices {
            versions: rustls::ALL_VERSIONS,
            alpn: &[],
            certificate: None,
            schemes: None,
            reversed_suites: false,
        }
    }
}

impl Options {
    pub(crate) fn trusting(roots: RootCertStore) -> Options {
        Options::of(roots, &Choices::default())
    }

    pub(crate) fn of(roots: RootCertStore, choices: &Choices<'_>) -> Options {
        let mut provider = aws_lc_rs::default_provider();
        if let Some(schemes) = choices.schemes {
            let mapping = provider.signature_verification_algorithms.mapping;
            let kept: Vec<_> =
                mapping.iter().filter(|(scheme, _)| schemes.contains(scheme)).copied().collect();
            provider.signature_verification_algorithms.mapping = Box::leak(kept.into_boxed_slice());
        }
        if choices.reversed_suites {
            provider.cipher_suites.reverse();
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(choices.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match choices.certificate {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let (chain, key) = pair.der();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = choices.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Options(Arc::new(config))
    }
}

impl Options {
    /// A client that offers the newest ticket (TLS 1.3) to every server.
    pub(crate) fn offering_every_ticket_to_everybody(&self) -> Options {
        let mut config = (*self.0).clone();
        config.resumption = Resumption::store(Arc::new(Tickets::default()));
        Options(Arc::new(config))
    }

    /// A client that sends early data (RFC 8446 section 4.2.10), up to `early_bytes_max` with each
    /// ticket; `None`: as many as the ticket allows. Its key share is for `group`; `None`: for the
    /// group that it prefers.
    pub(crate) fn sending_early_data(
        &self,
        early_bytes_max: Option<u32>,
        group: Option<NamedGroup>,
    ) -> Options {
        let mut config = (*self.0).clone();
        config.enable_early_data = true;
        let tickets = Tickets { group, early_bytes_max, ..Tickets::default() };
        config.resumption = Resumption::store(Arc::new(tickets));
        Options(Arc::new(config))
    }
}

#[derive(Debug, Default)]
struct Tickets {
    tickets: Mutex<Vec<Tls13ClientSessionValue>>,
    group: Option<NamedGroup>,
    early_bytes_max: Option<u32>,
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, mut ticket: Tls13ClientSessionValue) {
        if let Some(max) = self.early_bytes_max {
            ticket._private_set_max_early_data_size(max);
        }
        self.tickets.lock().unwrap().push(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tickets.lock().unwrap().pop()
    }
}

pub(crate) struct Peer {
    pub(crate) session: ClientConnection,
    pub(crate) socket: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Peer {
    /// Connects and completes the handshake.
    pub(crate) fn connect(to: SocketAddr, name: &str, options: &Options) -> io::Result<Peer> {
        let mut peer = Peer::begin(to, name, options);
        while peer.session.is_handshaking() {
            peer.session.complete_io(&mut peer.socket)?;
        }
        Ok(peer)
    }

    /// Connects without sending anything.
    pub(crate) fn begin(to: SocketAddr, name: &str, options: &Options) -> Peer {
        let socket = TcpStream::connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::clone(&options.0), name).unwrap();
        session.set_buffer_limit(None);
        Peer { session, socket, unread: Vec::new() }
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.session.writer().write_all(bytes.as_ref()).unwrap();
        while self.session.wants_write() {
            // A later read reports a closed connection.
            if self.session.write_tls(&mut self.socket).is_err() {
                return;
            }
        }
    }

    /// Reads some bytes: 0 after close_notify; `UnexpectedEof` if the connection ends without it.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.session.read_tls(&mut self.socket)?;
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Sends a GET and reads the response. Field lines can follow the target, one a line.
    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.get_of("a.test", target)
    }

    /// Like `get`, for another host.
    #[track_caller]
    pub(crate) fn get_of(&mut self, host: &str, target: &str) -> Answer {
        let (target, fields) = target.split_once('\n').unwrap_or((target, ""));
        let fields: String = fields.lines().map(|line| format!("{line}\r\n")).collect();
        self.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        self.answer()
    }

    /// Reads a response with Content-Length.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        let end = loop {
            match self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.more(),
            }
        };
        let head = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let status = head[9..12].parse().unwrap();
        let length = field(&head, "Content-Length").map_or(0, |value| value.parse().unwrap());
        while self.unread.len() < length {
            self.more();
        }
        Answer { status, body: self.unread.drain(..length).collect(), head }
    }

    #[track_caller]
    fn more(&mut self) {
        let mut some = vec![0; 64 << 10];
        let n = loop {
            match self.read(&mut some) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                n => break n.unwrap(),
            }
        };
        assert!(n > 0, "it ended after {:?}", String::from_utf8_lossy(&self.unread));
        self.unread.extend_from_slice(&some[..n]);
    }

    /// Reads to the end; returns the bytes, and whether there was a close_notify.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut all = std::mem::take(&mut self.unread);
        let mut some = [0; 4 << 10];
        loop {
            match self.read(&mut some) {
                Ok(0) => return (all, true),
                Ok(n) => all.extend_from_slice(&some[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return (all, false),
            }
        }
    }

    /// Tells whether the handshake resumed a session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The server's end-entity certificate, in DER.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.session.peer_certificates().unwrap()[0].to_vec()
    }
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Peer::read(self, into)
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds a field's value in a head.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
}
