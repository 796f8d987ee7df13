//! The client's control stream (RFC 9114 sections 6.2.1 and 7.2): SETTINGS, GOAWAY, MAX_PUSH_ID,
//! CANCEL_PUSH and PRIORITY_UPDATE.

use bytes::{Buf, Bytes};

use super::connection::{Connection, Event};
use super::error::{Code, Error};
use super::flood::Kind;
use super::frame::{self, Head, Prefix};
use super::varint;
use crate::semantics::priority::Priority;

/// Maximum payload of a frame on the control stream, in bytes. Frames of unknown types have no
/// limit, because their payload is not kept.
const PAYLOAD_BYTES_MAX: u64 = 4 << 10;

/// The state of the control stream.
#[derive(Debug, Default)]
pub(super) struct Control {
    state: ControlState,
    prefix: Prefix,
    /// The received part of an incomplete payload.
    payload: Vec<u8>,
    is_established: bool,
    /// The IDs of the last GOAWAY and MAX_PUSH_ID.
    goaway: Option<u64>,
    push_id_max: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
enum ControlState {
    #[default]
    Head,
    /// Within a payload; the number of its bytes is at most `PAYLOAD_BYTES_MAX`.
    Payload(u64, usize),
    /// Within an ignored payload, with this number of bytes to come.
    Skip(u64),
}

impl Control {
    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }
}

impl Connection {
    /// Handles bytes of the control stream.
    pub(super) fn receive_control(&mut self, mut input: Bytes) -> Result<(), Error> {
        loop {
            match self.control.state {
                ControlState::Head => match self.control.prefix.head(&mut input) {
                    Some(head) => self.begin_control(head)?,
                    None => return Ok(()),
                },
                ControlState::Payload(kind, len) => {
                    let missing = len - self.control.payload.len();
                    let piece = input.split_to(missing.min(input.len()));
                    if piece.len() == len {
                        self.control.state = ControlState::Head;
                        self.dispatch_control(kind, &piece)?;
                        continue;
                    }
                    self.control.payload.extend_from_slice(&piece);
                    if piece.len() < missing {
                        return Ok(());
                    }
                    self.control.state = ControlState::Head;
                    let payload = std::mem::take(&mut self.control.payload);
                    self.dispatch_control(kind, &payload)?;
                }
                ControlState::Skip(left) => {
                    let some = left.min(input.len() as u64);
                    input.advance(some as usize);
                    if some < left {
                        self.control.state = ControlState::Skip(left - some);
                        return Ok(());
                    }
                    self.control.state = ControlState::Head;
                }
            }
        }
    }

    /// Validates a frame's header and enters the state for its payload.
    fn begin_control(&mut self, head: Head) -> Result<(), Error> {
        // RFC 9114 section 6.2.1.
        if !self.control.is_established && head.kind != frame::SETTINGS {
            return Err(Error::connection(
                Code::MISSING_SETTINGS,
                "the control stream does not begin with SETTINGS",
            ));
        }
        let len_max = match head.kind {
            frame::SETTINGS if self.control.is_established => {
                return Err(unexpected("a second SETTINGS"));
            }
            frame::SETTINGS => PAYLOAD_BYTES_MAX,
            frame::DATA | frame::HEADERS => {
                return Err(unexpected("DATA and HEADERS belong to requests"));
            }
            frame::PUSH_PROMISE => return Err(unexpected("a client cannot push")),
            kind if frame::is_of_http2(kind) => return Err(unexpected("a frame of HTTP/2")),
            frame::GOAWAY | frame::MAX_PUSH_ID | frame::CANCEL_PUSH => varint::BYTES_MAX as u64,
            frame::PRIORITY_UPDATE | frame::PRIORITY_UPDATE_PUSH => PAYLOAD_BYTES_MAX,
            _ => {
                self.flood.count(Kind::Chatter, 1, self.now_ms)?;
                self.control.state = ControlState::Skip(head.len);
                return Ok(());
            }
        };
        self.flood.count(Kind::Chatter, 1, self.now_ms)?;
        if head.len > len_max {
            return Err(match len_max {
                PAYLOAD_BYTES_MAX => {
                    Error::connection(Code::EXCESSIVE_LOAD, "a control frame is too large")
                }
                _ => Error::connection(Code::FRAME_ERROR, "a control frame is too long"),
            });
        }
        self.control.state = ControlState::Payload(head.kind, head.len as usize);
        Ok(())
    }

    fn dispatch_control(&mut self, kind: u64, payload: &[u8]) -> Result<(), Error> {
        match kind {
            frame::SETTINGS => settings(payload).map(|()| self.control.is_established = true),
            frame::GOAWAY => self.goaway(payload),
            frame::MAX_PUSH_ID => self.max_push_id(payload),
            // RFC 9114 section 7.2.3: this server promises nothing that could be cancelled.
            frame::CANCEL_PUSH => {
                id(payload)?;
                Err(Error::connection(Code::ID_ERROR, "CANCEL_PUSH of an unknown push"))
            }
            frame::PRIORITY_UPDATE => self.priority_update(payload),
            // RFC 9218 section 7.2.
            _ => Err(Error::connection(Code::ID_ERROR, "PRIORITY_UPDATE of an unknown push")),
        }
    }

    /// GOAWAY with a push ID, which must not increase (RFC 9114 section 5.2).
    fn goaway(&mut self, payload: &[u8]) -> Result<(), Error> {
        let id = id(payload)?;
        if self.control.goaway.is_some_and(|last| id > last) {
            return Err(Error::connection(Code::ID_ERROR, "the ID of GOAWAY increases"));
        }
        if self.control.goaway.replace(id).is_none() {
            self.events.push_back(Event::GoAway);
        }
        Ok(())
    }

    /// MAX_PUSH_ID, which must not decrease (section 7.2.7).
    fn max_push_id(&mut self, payload: &[u8]) -> Result<(), Error> {
        let id = id(payload)?;
        if self.control.push_id_max.replace(id).is_some_and(|last| id < last) {
            return Err(Error::connection(Code::ID_ERROR, "MAX_PUSH_ID decreases"));
        }
        Ok(())
    }

    /// PRIORITY_UPDATE of a request (RFC 9218 section 7.2).
    fn priority_update(&mut self, mut payload: &[u8]) -> Result<(), Error> {
        let id = varint::read(&mut payload)
            .ok_or(Error::connection(Code::FRAME_ERROR, "PRIORITY_UPDATE without an ID"))?;
        let number_max = self.streams.opened + u64::from(self.limits.streams_max);
        if id % 4 != 0 || id / 4 >= number_max {
            return Err(Error::connection(
                Code::ID_ERROR,
                "PRIORITY_UPDATE of a stream that cannot be a request",
            ));
        }
        let priority = Priority::read(payload);
        if id / 4 >= self.streams.opened {
            self.early.put(id, priority);
        } else if let Some(stream) = self.streams.get(id) {
            stream.priority = Some(priority);
            if stream.is_announced {
                self.events.push_back(Event::Priority(id, priority));
            }
        }
        Ok(())
    }
}

/// Validates SETTINGS (RFC 9114 section 7.2.4). No setting of the client changes this server: its
/// encoder uses no dynamic table, and it sends no datagrams.
fn settings(mut payload: &[u8]) -> Result<(), Error> {
    let error = |reason| Err(Error::connection(Code::SETTINGS_ERROR, reason));
    let cut = Error::connection(Code::FRAME_ERROR, "SETTINGS ends within a setting");
    let mut ids = Vec::new();
    while !payload.is_empty() {
        let id = varint::read(&mut payload).ok_or(cut)?;
        let value = varint::read(&mut payload).ok_or(cut)?;
        if frame::is_setting_of_http2(id) {
            return error("a setting of HTTP/2");
        }
        let is_flag = matches!(id, frame::ENABLE_CONNECT_PROTOCOL | frame::H3_DATAGRAM);
        if is_flag && value > 1 {
            return error("a setting that is neither 0 nor 1");
        }
        ids.push(id);
    }
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return error("a setting occurs twice");
    }
    Ok(())
}

/// The only integer of a payload.
fn id(payload: &[u8]) -> Result<u64, Error> {
    frame::single(payload)
        .ok_or(Error::connection(Code::FRAME_ERROR, "a control frame is not one integer"))
}

fn unexpected(reason: &'static str) -> Error {
    Error::connection(Code::FRAME_UNEXPECTED, reason)
}
