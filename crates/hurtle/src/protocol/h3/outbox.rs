//! The bytes of a response that flow control has not admitted yet.

use bytes::Bytes;

/// The rest of a response's bytes, which the connection's task sends when it may. A response adds a
/// piece of its body only when this is empty.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) pieces: Vec<Bytes>,
    /// `true` if the response ends with these bytes.
    pub(super) is_last: bool,
    /// The bytes that the connection had written when QUIC last admitted bytes of this stream: the
    /// client reads it, also if other responses go first.
    pub(super) admitted: u64,
}

impl Outbox {
    /// Keeps the pieces that are left.
    pub(super) fn new(pieces: &mut [Bytes], is_last: bool, written: u64) -> Outbox {
        let mut outbox = Outbox { pieces: Vec::new(), is_last, admitted: written };
        outbox.add(pieces, is_last);
        outbox
    }

    pub(super) fn add(&mut self, pieces: &mut [Bytes], is_last: bool) {
        let left = pieces.iter_mut().map(std::mem::take).filter(|piece| !piece.is_empty());
        self.pieces.extend(left);
        self.is_last |= is_last;
    }
}
