//! The client's unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2): their types,
//! and the streams that a connection needs.

use bytes::Bytes;

use super::connection::{Connection, Event};
use super::error::{Code, Error};
use super::flood::Kind;
use super::frame::{self, Prefix};
use super::qpack::{Acknowledgments, QpackError};

/// Maximum number of the client's unidirectional streams that may be open at the same time. The
/// client needs three; drivers send this limit in QUIC's transport parameters.
pub const UNIDIRECTIONAL_STREAMS_MAX: u32 = 16;

/// The open unidirectional streams of the client.
#[derive(Debug, Default)]
pub(super) struct Unidirectional {
    /// Number of unidirectional streams that the client has opened.
    opened: u64,
    /// Streams whose type has not arrived.
    untyped: Vec<(u64, Prefix)>,
    control: Option<u64>,
    encoder: Option<u64>,
    decoder: Option<u64>,
    acknowledgments: Acknowledgments,
}

/// The purpose of a stream.
enum Role {
    Untyped,
    Control,
    Encoder,
    Decoder,
    /// Bytes of the stream are not needed.
    Ignored,
}

impl Unidirectional {
    /// Adds a stream, whose number is the highest so far.
    pub(super) fn open(&mut self, id: u64) -> Result<(), Error> {
        if id / 4 < self.opened {
            return Ok(());
        }
        self.opened = id / 4 + 1;
        if self.untyped.len() >= UNIDIRECTIONAL_STREAMS_MAX as usize {
            return Err(Error::connection(
                Code::EXCESSIVE_LOAD,
                "too many unidirectional streams without a type",
            ));
        }
        self.untyped.push((id, Prefix::default()));
        Ok(())
    }

    fn role(&self, id: u64) -> Role {
        match Some(id) {
            control if control == self.control => Role::Control,
            encoder if encoder == self.encoder => Role::Encoder,
            decoder if decoder == self.decoder => Role::Decoder,
            _ if self.untyped.iter().any(|(of, _)| *of == id) => Role::Untyped,
            _ => Role::Ignored,
        }
    }

    /// Handles the end of a stream, or its reset.
    ///
    /// # Errors
    /// The connection needs the stream (RFC 9114 section 6.2.1, RFC 9204 section 4.2).
    pub(super) fn end(&mut self, id: u64) -> Result<(), Error> {
        match self.role(id) {
            Role::Control | Role::Encoder | Role::Decoder => Err(Error::connection(
                Code::CLOSED_CRITICAL_STREAM,
                "the client closed a stream that the connection needs",
            )),
            Role::Untyped | Role::Ignored => {
                self.untyped.retain(|(of, _)| *of != id);
                Ok(())
            }
        }
    }

    /// Reads the type of a stream; `None` until it is complete.
    fn take_type(&mut self, id: u64, input: &mut Bytes) -> Option<u64> {
        let at = self.untyped.iter().position(|(of, _)| *of == id)?;
        let kind = self.untyped[at].1.integer(input)?;
        self.untyped.swap_remove(at);
        if self.untyped.is_empty() {
            self.untyped = Vec::new();
        }
        Some(kind)
    }
}

impl Connection {
    /// Handles bytes of a unidirectional stream.
    pub(super) fn receive_unidirectional(
        &mut self,
        id: u64,
        mut bytes: Bytes,
        is_end: bool,
    ) -> Result<(), Error> {
        if let Role::Untyped = self.unidirectional.role(id)
            && let Some(kind) = self.unidirectional.take_type(id, &mut bytes)
        {
            self.begin_unidirectional(id, kind)?;
        }
        match self.unidirectional.role(id) {
            Role::Untyped | Role::Ignored => {}
            Role::Control => self.receive_control(bytes)?,
            Role::Encoder => self.receive_instructions(&bytes)?,
            Role::Decoder => self
                .unidirectional
                .acknowledgments
                .receive(&bytes)
                .map_err(|error| qpack(Code::QPACK_DECODER_STREAM_ERROR, error))?,
        }
        if is_end { self.unidirectional.end(id) } else { Ok(()) }
    }

    /// Handles the type of a stream. Streams of unknown types are not read (RFC 9114 section 6.2).
    fn begin_unidirectional(&mut self, id: u64, kind: u64) -> Result<(), Error> {
        let slot = match kind {
            frame::CONTROL_STREAM => &mut self.unidirectional.control,
            frame::ENCODER_STREAM => &mut self.unidirectional.encoder,
            frame::DECODER_STREAM => &mut self.unidirectional.decoder,
            frame::PUSH_STREAM => {
                return Err(Error::connection(Code::STREAM_CREATION_ERROR, "a client cannot push"));
            }
            _ => {
                self.flood.count(Kind::Chatter, 1, self.now_ms)?;
                self.events.push_back(Event::Stop(id, Code::STREAM_CREATION_ERROR));
                return Ok(());
            }
        };
        match slot.replace(id) {
            Some(_) => Err(Error::connection(
                Code::STREAM_CREATION_ERROR,
                "a second stream of a type that exists once",
            )),
            None => Ok(()),
        }
    }

    /// Handles bytes of the encoder stream, and each section as soon as its entries are inserted.
    fn receive_instructions(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut bytes = bytes;
        loop {
            let until = self.streams.least_required();
            let count = self
                .decoder
                .receive(bytes, until)
                .map_err(|error| qpack(Code::QPACK_ENCODER_STREAM_ERROR, error))?;
            self.flood.count(Kind::Instruction, count, self.now_ms)?;
            bytes = &[];
            let Some(id) = self.streams.unblocked(self.decoder.inserted()) else { return Ok(()) };
            let resumed = self.resume(id);
            self.handle(id, resumed);
            if self.failure().is_some() {
                return Ok(());
            }
        }
    }
}

/// A connection error with one of QPACK's codes.
pub(super) fn qpack(code: Code, error: QpackError) -> Error {
    Error::connection(code, error.reason())
}
