//! The effect of each frame (RFC 9113 section 6): settings, pings, resets, windows, priorities.

use super::connection::{Connection, Event, Role, SHUTDOWN_PING, Shutdown};
use super::flow::WINDOW_BYTES_MAX;
use super::frame::{self, Head, PAYLOAD_BYTES_MAX, Reason};
use super::stream::Closure;
use crate::semantics::priority::Priority;

/// Maximum of SETTINGS_MAX_FRAME_SIZE (RFC 9113 section 6.5.2).
const FRAME_BYTES_MAX: usize = (1 << 24) - 1;

impl Connection {
    /// Handles a complete frame other than DATA.
    pub(super) fn dispatch(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        match head.kind {
            frame::HEADERS => self.headers(head, payload),
            frame::CONTINUATION => self.continuation(head, payload),
            frame::PRIORITY => self.priority(head, payload),
            frame::RST_STREAM => self.rst_stream(head, payload),
            frame::SETTINGS => self.settings(head, payload),
            frame::PING => self.ping(head, payload),
            frame::GOAWAY => self.goaway(head, payload),
            frame::WINDOW_UPDATE => self.window_update(head, payload),
            frame::PRIORITY_UPDATE => self.priority_update(head, payload),
            _ => Ok(()),
        }
    }

    /// `true` if the stream is idle (RFC 9113 section 5.1.1). A server opens none. Streams beyond
    /// the last one in a final GOAWAY do not count as idle: their frames are ignored (section 6.8).
    pub(super) fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id > self.last && self.shutdown != Shutdown::Final
    }

    /// PRIORITY (section 6.3), whose contents are ignored (section 5.3.2).
    fn priority(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        if head.stream == 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        match frame::number(payload) {
            Some((parent, [_weight])) if parent != head.stream => Ok(()),
            // RFC 7540 section 5.3.1.
            Some((_, [_weight])) => self.breach(head.stream, Reason::PROTOCOL_ERROR),
            // RST_STREAM must not be sent for an idle stream (section 6.4).
            _ if self.is_idle(head.stream) => Err(Reason::FRAME_SIZE_ERROR),
            _ => self.breach(head.stream, Reason::FRAME_SIZE_ERROR),
        }
    }

    /// RST_STREAM (section 6.4).
    fn rst_stream(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        let code = payload.try_into().map_err(|_| Reason::FRAME_SIZE_ERROR)?;
        if head.stream == 0 || self.is_idle(head.stream) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let reason = Reason(u32::from_be_bytes(code));
        match self.streams.get(head.stream) {
            // Section 8.1: the response is complete, and the rest of the request is not needed.
            Some(stream) if self.role == Role::Client && !stream.is_receiving => {
                stream.is_sending = false;
                self.events.push_back(Event::Readable(head.stream));
            }
            Some(_) => self.lose_stream(head.stream, Closure::ResetByPeer(reason)),
            None => {}
        }
        Ok(())
    }

    /// SETTINGS (section 6.5).
    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        if head.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if head.has(frame::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Reason::FRAME_SIZE_ERROR) };
        }
        if !payload.len().is_multiple_of(6) {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        for (id, value) in frame::settings(payload) {
            self.setting(id, value)?;
        }
        self.reply(|out| frame::write(out, frame::SETTINGS, frame::ACK, 0, &[]))
    }

    /// One setting (section 6.5.2).
    fn setting(&mut self, id: u16, value: u32) -> Result<(), Reason> {
        match id {
            // A server must not allow what only a client does.
            frame::ENABLE_PUSH if value > 0 && self.role == Role::Client => {
                return Err(Reason::PROTOCOL_ERROR);
            }
            frame::MAX_CONCURRENT_STREAMS => self.server.streams_max = value,
            frame::ENABLE_CONNECT_PROTOCOL => self.server.allows_connect = value == 1,
            frame::HEADER_TABLE_SIZE => self.encoder.set_table_bytes_max(value as usize),
            frame::ENABLE_PUSH | frame::NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(Reason::PROTOCOL_ERROR);
            }
            frame::INITIAL_WINDOW_SIZE => {
                if value > WINDOW_BYTES_MAX {
                    return Err(Reason::FLOW_CONTROL_ERROR);
                }
                let by = i64::from(value) - i64::from(self.initial_window);
                self.initial_window = value;
                for at in 0..self.streams.open.len() {
                    // Section 6.9.2.
                    self.streams.open[at].send_window.change(by)?;
                    self.streams.window_opened(at);
                }
            }
            frame::MAX_FRAME_SIZE => {
                let bytes = value as usize;
                if !(PAYLOAD_BYTES_MAX..=FRAME_BYTES_MAX).contains(&bytes) {
                    return Err(Reason::PROTOCOL_ERROR);
                }
                self.frame_bytes_max = bytes;
            }
            _ => {}
        }
        Ok(())
    }

    /// PING (section 6.7).
    fn ping(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        if head.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if payload.len() != 8 {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        if !head.has(frame::ACK) {
            return self.reply(|out| frame::write(out, frame::PING, frame::ACK, 0, payload));
        }
        if payload == SHUTDOWN_PING && self.shutdown == Shutdown::Announced {
            self.finish_shutdown();
        }
        Ok(())
    }

    /// GOAWAY (section 6.8). Earlier requests are answered.
    fn goaway(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        if head.stream != 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let (last, rest) = frame::number(payload).ok_or(Reason::FRAME_SIZE_ERROR)?;
        let code = rest.first_chunk().ok_or(Reason::FRAME_SIZE_ERROR)?;
        if self.role == Role::Client {
            self.left_by_server(last);
        }
        self.events.push_back(Event::GoAway(Reason(u32::from_be_bytes(*code))));
        Ok(())
    }

    /// WINDOW_UPDATE (section 6.9).
    fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        let Some((increment, [])) = frame::number(payload) else {
            return Err(Reason::FRAME_SIZE_ERROR);
        };
        if head.stream == 0 {
            if increment == 0 {
                return Err(Reason::PROTOCOL_ERROR);
            }
            return self.send_window.change(increment.into());
        }
        if self.is_idle(head.stream) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        // The stream may have been closed meanwhile.
        let Some(at) = self.streams.position(head.stream) else { return Ok(()) };
        if increment == 0 {
            return self.breach(head.stream, Reason::PROTOCOL_ERROR);
        }
        match self.streams.open[at].send_window.change(increment.into()) {
            Ok(()) => self.streams.window_opened(at),
            Err(reason) => return self.breach(head.stream, reason),
        }
        Ok(())
    }

    /// PRIORITY_UPDATE (RFC 9218 section 7.1).
    fn priority_update(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        // RFC 9218 section 7.1: only clients send it.
        if head.stream != 0 || self.role == Role::Client {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let (id, value) = frame::number(payload).ok_or(Reason::FRAME_SIZE_ERROR)?;
        if id == 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let priority = Priority::read(value);
        match self.streams.get(id) {
            Some(stream) => stream.priority = priority,
            None if id > self.last && id % 2 == 1 => self.early.put(id.into(), priority),
            None => {}
        }
        Ok(())
    }
}
