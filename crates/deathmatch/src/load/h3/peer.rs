//! Responses of one HTTP/3 connection (RFC 9114, 4.1), each followed to its end, and the server's
//! control stream. A server's violation of the protocol ends the connection. Pure.

use super::frame::{self, Frames, Piece};
use super::qpack;
use crate::load::link::{End, EndedRequest, PeerError};
use crate::load::reader::ResponseFault;
use crate::load::{Expected, Status};

/// Largest section of fields.
const SECTION_BYTES_MAX: usize = 64 * 1024;

/// A response of which a part has arrived.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) slot: usize,
    frames: Frames,
    section: Vec<u8>,
    status: Option<u16>,
    has_ended: bool,
    body: u64,
    /// Bytes of its fields and body.
    bytes: u64,
    wrong: Option<ResponseFault>,
}

impl Answer {
    pub(super) fn new(slot: usize) -> Answer {
        Answer {
            slot,
            frames: Frames::default(),
            section: Vec::new(),
            status: None,
            has_ended: false,
            body: 0,
            bytes: 0,
            wrong: None,
        }
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8], expected: &Expected) -> Result<(), PeerError> {
        while let Some(piece) = self.frames.next(&mut bytes) {
            match piece.kind {
                frame::DATA => self.data(piece.bytes, expected)?,
                frame::HEADERS => self.fields(piece, expected)?,
                frame::CANCEL_PUSH
                | frame::SETTINGS
                | frame::PUSH_PROMISE
                | frame::GOAWAY
                | frame::MAX_PUSH_ID => return Err(PeerError),
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles a part of a section of fields: interim responses, the final one, and perhaps
    /// trailers.
    fn fields(&mut self, piece: Piece<'_>, expected: &Expected) -> Result<(), PeerError> {
        self.section.extend_from_slice(piece.bytes);
        if self.has_ended || self.section.len() > SECTION_BYTES_MAX {
            return Err(PeerError);
        }
        if !piece.is_last {
            return Ok(());
        }
        let section = std::mem::take(&mut self.section);
        self.bytes += section.len() as u64;
        let status = qpack::status(&section).map_err(|qpack::QpackError| PeerError)?;
        match (status, self.status) {
            (Some(status), None) if status < 200 => {}
            (Some(status), None) => {
                self.status = Some(status);
                if !expected.takes_status(status) {
                    self.wrong = Some(ResponseFault::Status);
                }
            }
            (None, Some(_)) => self.has_ended = true,
            _ => return Err(PeerError),
        }
        Ok(())
    }

    fn data(&mut self, body: &[u8], expected: &Expected) -> Result<(), PeerError> {
        if self.status.is_none() || self.has_ended {
            return Err(PeerError);
        }
        if let Some(whole) = &expected.body {
            let from = usize::try_from(self.body).unwrap_or(usize::MAX);
            let want = whole.get(from..).and_then(|rest| rest.get(..body.len()));
            if want != Some(body) {
                self.wrong = self.wrong.or(Some(ResponseFault::Bytes));
            }
        }
        self.body += body.len() as u64;
        self.bytes += body.len() as u64;
        Ok(())
    }

    /// Result at the end of the stream.
    pub(super) fn end(self, expected: &Expected) -> Result<EndedRequest, PeerError> {
        if self.status.is_none() || !self.frames.is_between() {
            return Err(PeerError);
        }
        let short = !expected.takes_length(self.body);
        let wrong = self.wrong.or(short.then_some(ResponseFault::Bytes));
        Ok(self.ended(End::Answer(wrong)))
    }

    pub(super) fn ended(&self, how: End) -> EndedRequest {
        let status = self.status.map(Status::Http);
        EndedRequest { slot: self.slot, how, bytes: self.bytes, status }
    }
}

/// A unidirectional stream of the server.
#[derive(Debug, Default)]
pub(super) struct Unidirectional {
    /// The stream's type, once it has arrived.
    kind: Option<u64>,
    /// The received part of the type.
    partial: Vec<u8>,
    frames: Frames,
    payload: Vec<u8>,
    has_settings: bool,
}

/// Type of the control stream (RFC 9114, 6.2.1).
const CONTROL: u64 = 0;

/// Largest payload of a frame on the control stream that is kept.
const PAYLOAD_BYTES_MAX: usize = 4 * 1024;

impl Unidirectional {
    /// Handles received bytes; returns the ID of a GOAWAY.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<u64>, PeerError> {
        while self.kind.is_none() {
            let Some((&byte, rest)) = bytes.split_first() else { return Ok(None) };
            bytes = rest;
            self.partial.push(byte);
            self.kind = frame::integer(&mut &self.partial[..]);
        }
        let mut goaway = None;
        while self.kind == Some(CONTROL) {
            let Some(piece) = self.frames.next(&mut bytes) else { break };
            if !self.has_settings && piece.kind != frame::SETTINGS {
                return Err(PeerError);
            }
            if piece.kind == frame::GOAWAY {
                self.payload.extend_from_slice(piece.bytes);
                if self.payload.len() > PAYLOAD_BYTES_MAX {
                    return Err(PeerError);
                }
            }
            if !piece.is_last {
                continue;
            }
            match piece.kind {
                frame::SETTINGS if self.has_settings => return Err(PeerError),
                frame::SETTINGS => self.has_settings = true,
                frame::GOAWAY => {
                    let payload = std::mem::take(&mut self.payload);
                    goaway = Some(frame::integer(&mut &payload[..]).ok_or(PeerError)?);
                }
                frame::DATA | frame::HEADERS | frame::PUSH_PROMISE => return Err(PeerError),
                _ => {}
            }
        }
        Ok(goaway)
    }

    /// `true` if the connection needs it.
    pub(super) fn is_critical(&self) -> bool {
        matches!(self.kind, Some(0 | 2 | 3))
    }
}
