//! The progress of reading a message body.

use std::mem;

use hurtle_http::h1::chunked::{Decoder, Step};
use hurtle_http::request::ParseError;
use hurtle_http::request::framing::BodyLength;

use crate::transport::Input;

/// The part of a body that is still to be read.
pub(crate) enum Reading {
    /// The body has been read to its end.
    Done,
    /// A number of bytes, at least 1.
    Exactly(u64),
    /// Chunks (RFC 9112 section 7.1).
    Chunked(Box<Decoder>),
    /// Data without framing; the protocol announces the end.
    Frames,
    /// The bytes in the input, then these trailer lines.
    Ended(Vec<u8>),
}

/// The next piece of a body.
pub(crate) enum Piece {
    /// The number of data bytes at the front of the input, at least 1; the caller consumes them.
    Data(usize),
    /// The input is used up; the caller must read more.
    More,
    /// The end of the body, with its trailer lines.
    End(Vec<u8>),
}

impl Reading {
    /// Creates the state for a body in HTTP/1.1 framing.
    pub(crate) fn new(length: BodyLength) -> Reading {
        match length {
            BodyLength::None => Reading::Done,
            BodyLength::Exactly(len) => Reading::Exactly(len),
            BodyLength::Chunked => Reading::Chunked(Box::default()),
        }
    }

    /// Returns whether the body has been read to its end.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Reading::Done)
    }

    /// Ends a body whose last data was consumed, if it has no trailers. The caller then knows that
    /// no piece follows.
    pub(crate) fn settle(&mut self, input: &Input) {
        if matches!(self, Reading::Ended(lines) if lines.is_empty()) && input.bytes().is_empty() {
            *self = Reading::Done;
        }
    }

    /// Returns the announced data bytes: of the whole body, or of the current chunk.
    pub(crate) fn announced(&self) -> u64 {
        match self {
            Reading::Done | Reading::Frames | Reading::Ended(_) => 0,
            Reading::Exactly(left) => *left,
            Reading::Chunked(decoder) => decoder.data_left(),
        }
    }

    /// Returns the next piece of the body and consumes framing.
    ///
    /// # Errors
    /// The framing is malformed.
    pub(crate) fn next(&mut self, input: &mut Input) -> Result<Piece, ParseError> {
        let buffered = input.bytes().len();
        match self {
            Reading::Done => Ok(Piece::End(Vec::new())),
            Reading::Exactly(_) if buffered == 0 => Ok(Piece::More),
            Reading::Exactly(left) => {
                let len = buffered.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= len as u64;
                if *left == 0 {
                    *self = Reading::Done;
                }
                Ok(Piece::Data(len))
            }
            Reading::Frames if buffered == 0 => Ok(Piece::More),
            Reading::Ended(trailers) if buffered == 0 => {
                let trailers = mem::take(trailers);
                *self = Reading::Done;
                Ok(Piece::End(trailers))
            }
            Reading::Frames | Reading::Ended(_) => Ok(Piece::Data(buffered)),
            Reading::Chunked(decoder) => match decoder.decode(input.bytes())? {
                Step::Data { skip, len } => {
                    input.consume(skip);
                    Ok(Piece::Data(len))
                }
                Step::NeedMore => {
                    input.consume(buffered);
                    Ok(Piece::More)
                }
                Step::End(n) => {
                    input.consume(n);
                    let decoder = mem::take(decoder);
                    *self = Reading::Done;
                    Ok(Piece::End(decoder.trailers().to_vec()))
                }
            },
        }
    }
}
