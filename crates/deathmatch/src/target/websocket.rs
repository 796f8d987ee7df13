//! The handshake of the WebSocket protocol with a server, before a load: a server that does not
//! speak it is named at once.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use http::Request as Head;
use tungstenite::handshake::HandshakeError;
use tungstenite::{Error, client};

use super::{CONNECT_WITHIN, Reached, Request, Url};

/// A connection of any kind.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Url {
    /// Opens one connection to a server that was reached, upgrades it with this request (RFC 6455,
    /// section 4), and closes it.
    ///
    /// # Errors
    /// The connection's, or the reason for which the server's response is none to an upgrade.
    pub fn upgrade(&self, reached: &Reached, request: &Request) -> io::Result<()> {
        let failed = |why: String| io::Error::other(format!("{self}: {why}"));
        let mut stream: Box<dyn Stream> = match &self.route.socket {
            Some(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(CONNECT_WITHIN))?;
                Box::new(stream)
            }
            None => {
                let stream = TcpStream::connect_timeout(&reached.address, CONNECT_WITHIN)?;
                stream.set_read_timeout(Some(CONNECT_WITHIN))?;
                Box::new(stream)
            }
        };
        if let Some(tls) = &reached.tls {
            stream = Box::new(tls.stream(stream).map_err(|e| failed(e.to_string()))?);
        }
        let mut head = Head::builder().uri(self.to_string());
        for (name, value) in request.all(self) {
            head = head.header(name, value);
        }
        let head = head.body(()).map_err(|e| failed(e.to_string()))?;
        match client(head, stream) {
            Ok((mut socket, _)) => {
                // The server may not wait for it.
                let _ = socket.close(None).and_then(|()| socket.flush());
                Ok(())
            }
            Err(HandshakeError::Interrupted(_)) => {
                Err(failed(format!("no answer within {} s", CONNECT_WITHIN.as_secs())))
            }
            Err(HandshakeError::Failure(Error::Http(response))) => {
                let status = response.status();
                Err(failed(format!("the server answers {status}, so no WebSocket is opened there")))
            }
            Err(HandshakeError::Failure(e)) => Err(failed(format!("no WebSocket: {e}"))),
        }
    }
}
