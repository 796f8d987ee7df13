//! The decoding half of a connection's compression state: the dynamic table, the instructions for
//! the peer on the decoder stream, and the peer's decoder stream.

use super::QpackError;
use super::encoder_stream;
use crate::compression::table::Table;
use crate::compression::{CodingError, FIELD_OVERHEAD_BYTES, Verdict, integer};

/// The decoder of one connection. It knows no streams: the caller keeps sections that wait for
/// entries, and limits their number and length.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: Table<Verdict>,
    /// The capacity that the settings allow, in bytes.
    pub(super) capacity_max: usize,
    /// Number of entries inserted so far.
    pub(super) inserted: u64,
    /// The part of `inserted` that the peer knows of (RFC 9204 section 2.1.4).
    known: u64,
    /// The received part of an instruction of the encoder stream.
    partial: Vec<u8>,
    /// Instructions for the peer that were not taken.
    output: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder. `capacity_max`: the maximum size of the table in bytes, sent as
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    pub fn new(capacity_max: usize) -> Decoder {
        Decoder {
            table: Table::new(0),
            capacity_max,
            inserted: 0,
            known: 0,
            partial: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Number of entries inserted so far. A section can be decoded once its Required Insert Count
    /// is not above.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Maximum number of entries of the table (RFC 9204 section 4.5.1.1).
    pub(super) fn entries_max(&self) -> u64 {
        (self.capacity_max / FIELD_OVERHEAD_BYTES) as u64
    }

    /// Handles bytes of the peer's encoder stream. Returns the number of complete instructions.
    ///
    /// # Errors
    /// A connection error with QPACK_ENCODER_STREAM_ERROR.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<u32, QpackError> {
        if self.partial.is_empty() {
            let (used, count) = encoder_stream::run(self, bytes)?;
            self.partial.extend_from_slice(&bytes[used..]);
            return Ok(count);
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(bytes);
        let (used, count) = encoder_stream::run(self, &partial)?;
        if used < partial.len() {
            partial.drain(..used);
            self.partial = partial;
        }
        Ok(count)
    }

    /// Queues a Section Acknowledgment for a decoded section with a Required Insert Count above 0
    /// (section 4.4.1).
    pub fn acknowledge(&mut self, stream: u64, required: u64) {
        self.known = self.known.max(required);
        integer::encode(&mut self.output, 0x80, 7, stream as usize);
    }

    /// Queues a Stream Cancellation for a stream whose sections will not all be decoded (section
    /// 4.4.2). A table without capacity needs none.
    pub fn cancel(&mut self, stream: u64) {
        if self.capacity_max > 0 {
            integer::encode(&mut self.output, 0x40, 6, stream as usize);
        }
    }

    /// Number of queued bytes, without the Insert Count Increment.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Takes the bytes for the decoder stream. An Insert Count Increment (section 4.4.3) tells the
    /// insertions that no acknowledgment has told.
    pub fn take_output(&mut self) -> Vec<u8> {
        if self.inserted > self.known {
            integer::encode(&mut self.output, 0, 6, (self.inserted - self.known) as usize);
            self.known = self.inserted;
        }
        std::mem::take(&mut self.output)
    }
}

/// Reads the peer's decoder stream: acknowledgments for an encoder without dynamic table. Only Stream
/// Cancellation is valid.
#[derive(Debug, Default)]
pub(in crate::h3) struct Acknowledgments {
    /// The received part of an instruction, at most one integer.
    partial: Vec<u8>,
}

impl Acknowledgments {
    /// Handles received bytes.
    ///
    /// # Errors
    /// A connection error with QPACK_DECODER_STREAM_ERROR.
    pub(in crate::h3) fn receive(&mut self, bytes: &[u8]) -> Result<(), QpackError> {
        self.partial.extend_from_slice(bytes);
        let mut rest = &self.partial[..];
        while let Some(&first) = rest.first() {
            // Section Acknowledgment has the first bit, Stream Cancellation the second, and Insert
            // Count Increment neither (RFC 9204 section 4.4).
            if first & 0xc0 != 0x40 {
                return Err(QpackError::Acknowledgment);
            }
            match integer::decode_long(&mut rest, 6) {
                Ok(_) => {}
                Err(CodingError::Truncated) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let used = self.partial.len() - rest.len();
        self.partial.drain(..used);
        Ok(())
    }
}
