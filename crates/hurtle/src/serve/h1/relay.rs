//! A response's body on its way from an upstream to the client: as it comes, no faster than the
//! client takes it.

use std::fmt::Display;
use std::io::IoSlice;

use http::{HeaderName, StatusCode};

use super::duplex::{Broken, Duplex};
use super::is_bodiless;
use super::reading::{Piece, Reading};
use crate::h1::chunked::encode_size;
use crate::h1::fields;
use crate::h1::framing::BodyLength;
use crate::h1::reply::{Length, Reply};
use crate::h1::request::{Method, Request};
use crate::h1::response::{Delimiter, encode_trailers};
use crate::handler::proxy::{Source, Waits};
use crate::rt;
use crate::transport::{Input, Output, Transport};

/// What is this small is copied behind what goes before it: one buffer is cheaper than three.
const COPY_BYTES_MAX: usize = 8 << 10;

/// What one connection passes on before the others have their turn, if nothing makes it wait.
const TURN_BYTES: usize = 256 << 10;

/// How a body is told apart.
pub(super) struct Framing {
    /// To the client.
    pub(super) delimiter: Delimiter,
    /// From the upstream; `None`: by the end of its connection.
    reading: Option<Reading>,
    /// Whether the upstream's connection outlives the body.
    pub(super) may_keep_alive: bool,
    len: Option<u64>,
}

/// How a body ends before it is over.
pub(super) enum Cut {
    /// The client's doing.
    Client(Broken),
    /// The upstream's: why, and the status if nothing was sent yet.
    Upstream(String, StatusCode),
}

impl From<Broken> for Cut {
    fn from(broken: Broken) -> Cut {
        Cut::Client(broken)
    }
}

/// A body under way.
pub(super) struct Relay<'a, T> {
    pub(super) duplex: &'a Duplex<'a, T>,
    /// What waits to go with the next bytes: the head, at first.
    pub(super) out: Output,
    pub(super) framing: Framing,
    /// Whether the client wants trailers.
    pub(super) te_trailers: bool,
    pub(super) waits: &'a Waits,
    /// How long the upstream may pause.
    pub(super) within_ms: u64,
}

impl Framing {
    /// Of a response to this request.
    pub(super) fn of(request: &Request<'_>, reply: &Reply<'_>) -> Framing {
        if request.method == Method::Head || is_bodiless(reply.status) {
            // RFC 9110 8.6: a length may be said of a body that is not sent, but not with 204.
            let said = match reply.status {
                StatusCode::NO_CONTENT => None,
                _ => reply.content_length,
            };
            let delimiter = said.map_or(Delimiter::Given, Delimiter::Length);
            // RFC 9112 6.3: what frames a body that cannot be there may be followed by one all the
            // same, and that would be the next request's answer.
            let odd = match (reply.status, reply.length) {
                (StatusCode::NO_CONTENT, Length::Framed(length)) => length != BodyLength::None,
                (StatusCode::NOT_MODIFIED, Length::Framed(length)) => length == BodyLength::Chunked,
                _ => false,
            };
            let mut framing = Framing::none(delimiter);
            framing.may_keep_alive = !odd;
            return framing;
        }
        let unknown = if request.http10 { Delimiter::Close } else { Delimiter::Chunked };
        match reply.length {
            Length::Framed(BodyLength::None) => Framing::none(Delimiter::Length(0)),
            Length::Framed(length @ BodyLength::Exactly(len)) => {
                Framing::new(Delimiter::Length(len), Some(length))
            }
            Length::Framed(length @ BodyLength::Chunked) => Framing::new(unknown, Some(length)),
            Length::UntilClose => Framing::new(unknown, None),
        }
    }

    /// Of a body that is not there.
    fn none(delimiter: Delimiter) -> Framing {
        Framing { delimiter, reading: Some(Reading::Done), may_keep_alive: true, len: Some(0) }
    }

    /// Of one; `None`: its end is the connection's.
    fn new(delimiter: Delimiter, length: Option<BodyLength>) -> Framing {
        let len = match length {
            Some(BodyLength::Exactly(len)) => Some(len),
            _ => None,
        };
        let may_keep_alive = length.is_some();
        Framing { delimiter, reading: length.map(Reading::new), may_keep_alive, len }
    }

    /// Its length, if that is known and can be in memory.
    pub(super) fn known_len(&self) -> Option<usize> {
        self.len.and_then(|len| usize::try_from(len).ok())
    }
}

impl<T: Transport> Relay<'_, T> {
    /// Passes all of it on.
    pub(super) async fn run(
        mut self,
        mut source: Source<'_>,
        input: &mut Input,
    ) -> Result<(), Cut> {
        let mut turn_bytes = 0;
        loop {
            let piece = match &mut self.framing.reading {
                Some(reading) => reading.next(input).map_err(|sin| broke(&sin))?,
                None if input.bytes().is_empty() => Piece::More,
                None => Piece::Data(input.bytes().len()),
            };
            match piece {
                Piece::Data(len) => {
                    self.data(&input.bytes()[..len]).await?;
                    input.consume(len);
                    turn_bytes += len;
                    if turn_bytes >= TURN_BYTES {
                        turn_bytes = 0;
                        rt::give_way().await;
                    }
                }
                Piece::End(lines) => return self.finish(&lines).await,
                Piece::More => {
                    // What is here does not wait for what is not.
                    self.flush().await?;
                    let filled = source.fill(input, self.waits, Some(self.within_ms)).await;
                    match filled {
                        Ok(0) if self.framing.reading.is_none() => return self.finish(b"").await,
                        Ok(0) => return Err(broke(&"the connection ended before it")),
                        Ok(_) => {}
                        Err(e) => return Err(broke(&e)),
                    }
                }
            }
        }
    }

    async fn data(&mut self, data: &[u8]) -> Result<(), Cut> {
        let mut tail: &[u8] = b"";
        if self.framing.delimiter == Delimiter::Chunked {
            encode_size(data.len(), self.out.vec());
            tail = b"\r\n";
        }
        if data.len() <= COPY_BYTES_MAX {
            self.out.vec().extend_from_slice(data);
            self.out.vec().extend_from_slice(tail);
            if self.out.len() > COPY_BYTES_MAX {
                self.flush().await?;
            }
            return Ok(());
        }
        self.duplex.write(&mut [&self.out, data, tail].map(IoSlice::new)).await?;
        self.out = Output::default();
        Ok(())
    }

    async fn finish(mut self, lines: &[u8]) -> Result<(), Cut> {
        if self.framing.delimiter == Delimiter::Chunked {
            self.out.vec().extend_from_slice(b"0\r\n");
            if self.te_trailers {
                let mut trailers = fields::map(lines);
                for name in PRIVATE {
                    trailers.remove(name);
                }
                encode_trailers(&trailers, self.out.vec());
            }
            self.out.vec().extend_from_slice(b"\r\n");
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Cut> {
        if !self.out.is_empty() {
            self.duplex.write(&mut [IoSlice::new(&self.out)]).await?;
            // While the upstream is waited for, no buffer is held.
            self.out = Output::default();
        }
        Ok(())
    }
}

/// What is between the upstream and this server, also behind a body.
const PRIVATE: [HeaderName; 4] = [
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-sendfile"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
];

/// The client learns it from the missing end; the operator, from the log.
fn broke(error: &dyn Display) -> Cut {
    Cut::Upstream(format!("its answer broke off: {error}"), StatusCode::BAD_GATEWAY)
}
