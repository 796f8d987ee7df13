//! How far a request's body has been read, whoever reads it.

use std::mem;

use crate::h1::Sin;
use crate::h1::chunked::{Decoder, Step};
use crate::h1::framing::BodyLength;
use crate::transport::Input;

/// What is still to be read of a body.
pub(super) enum Reading {
    Done,
    /// This many bytes; not 0.
    Exactly(u64),
    Chunked(Box<Decoder>),
}

/// What the input holds of it.
pub(super) enum Piece {
    /// This many bytes of data, not 0, are the next in the input; the caller consumes them.
    Data(usize),
    /// Nothing; more must be read.
    More,
    /// The body is over; its trailer lines.
    End(Vec<u8>),
}

impl Reading {
    pub(super) fn new(length: BodyLength) -> Reading {
        match length {
            BodyLength::None => Reading::Done,
            BodyLength::Exactly(len) => Reading::Exactly(len),
            BodyLength::Chunked => Reading::Chunked(Box::default()),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Reading::Done)
    }

    /// Looks at the next bytes of the body; framing is consumed.
    pub(super) fn next(&mut self, input: &mut Input) -> Result<Piece, Sin> {
        let here = input.bytes().len();
        match self {
            Reading::Done => Ok(Piece::End(Vec::new())),
            Reading::Exactly(_) if here == 0 => Ok(Piece::More),
            Reading::Exactly(left) => {
                let len = here.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= len as u64;
                if *left == 0 {
                    *self = Reading::Done;
                }
                Ok(Piece::Data(len))
            }
            Reading::Chunked(decoder) => match decoder.decode(input.bytes())? {
                Step::Data { skip, len } => {
                    input.consume(skip);
                    Ok(Piece::Data(len))
                }
                Step::NeedMore => {
                    input.consume(here);
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
