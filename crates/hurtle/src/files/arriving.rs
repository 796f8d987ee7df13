//! Sends objects of which not all bytes have arrived: as a file if the requested ones have, else
//! frame by frame. A body that does not arrive whole ends early, never as a complete one.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Frame, SizeHint};
use hurtle_http::message::response::Fields;
use hurtle_objects::{Arrival, Failure};

use super::objects::Arriving;
use super::store::LookupError;
use super::{Entry, FileQuery, answer};
use crate::answer::Answer;
use crate::body::{Body, BoxError, FileSlice, Part, Stream};

/// A future of the next bytes.
type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Failure>> + Send>>;

/// Answers with a file of which some bytes may not have arrived. `sends`: the body will be sent.
///
/// # Errors
/// The first bytes do not arrive.
pub(crate) async fn respond(
    entry: &Entry,
    status: StatusCode,
    query: &FileQuery<'_>,
    sends: bool,
) -> Result<Answer, LookupError> {
    let answer = answer(entry, status, query);
    if sends && entry.is_arriving() { send_arriving(entry, answer).await } else { Ok(answer) }
}

/// Replaces parts of files that have not arrived by a stream, once its first bytes are here.
async fn send_arriving(entry: &Entry, mut answer: Answer) -> Result<Answer, LookupError> {
    let parts = match std::mem::take(&mut answer.body) {
        Body::File(slice) => vec![Part::File(slice)],
        Body::Parts(parts) => parts,
        other => return Ok(Answer { body: other, ..answer }),
    };
    let mut pieces = VecDeque::with_capacity(parts.len());
    let mut has_arrived = true;
    for part in &parts {
        pieces.push_back(match part {
            Part::Bytes(bytes) => Piece::Bytes(bytes.clone()),
            Part::File(slice) => match arrival(entry, slice) {
                // The entry has no other files.
                None => return Ok(Answer { body: whole(parts), ..answer }),
                Some(arrival) => {
                    let range = slice.offset..slice.offset + slice.len;
                    has_arrived &= arrival.has_file && arrival.bytes.has(range.clone());
                    Piece::Range(arrival.bytes.clone(), range)
                }
            },
        });
    }
    if has_arrived {
        return Ok(Answer { body: whole(parts), ..answer });
    }
    let left = parts.iter().map(Part::len).sum();
    let mut body = ArrivingBody { pieces, reading: None, left };
    // Until the first bytes are here, the response may still be an error.
    body.begin().await.map_err(LookupError::Origin)?;
    Ok(match body.whole() {
        Some(whole) => Answer { body: Body::Bytes(whole), ..answer },
        None => {
            let fields = without_length(answer.fields);
            Answer { body: Body::Stream(Stream::new(body)), fields, ..answer }
        }
    })
}

fn arrival<'e>(entry: &'e Entry, slice: &FileSlice) -> Option<&'e Arriving> {
    let of = entry.representations.iter().find(|r| Arc::ptr_eq(&r.file, &slice.file))?;
    of.arrival.as_ref()
}

fn whole(mut parts: Vec<Part>) -> Body {
    match (parts.len(), parts.pop()) {
        (1, Some(Part::File(slice))) => Body::File(slice),
        (_, last) => {
            parts.extend(last);
            Body::Parts(parts)
        }
    }
}

/// Removes Content-Length from prepared lines: the protocol writes that of a stream.
fn without_length(fields: Fields) -> Fields {
    let Fields::Ready(lines) = fields else { return fields };
    let mut kept = Vec::with_capacity(lines.len());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if !line.starts_with(b"Content-Length:") {
            kept.extend_from_slice(line);
        }
    }
    Fields::Ready(kept.into())
}

enum Piece {
    Bytes(Bytes),
    /// Bytes of an object; never empty.
    Range(Arrival, Range<u64>),
}

/// The body of a response while its bytes arrive.
struct ArrivingBody {
    pieces: VecDeque<Piece>,
    reading: Option<Reading>,
    left: u64,
}

impl ArrivingBody {
    /// Reads the first bytes of the first range, and puts them in its place.
    async fn begin(&mut self) -> Result<(), Failure> {
        let is_range = |piece: &Piece| matches!(piece, Piece::Range(..));
        let Some(at) = self.pieces.iter().position(is_range) else { return Ok(()) };
        let Some(Piece::Range(arrival, range)) = self.pieces.get_mut(at) else { return Ok(()) };
        if range.is_empty() {
            return Ok(());
        }
        let bytes = arrival.read(range.clone()).await?;
        range.start += bytes.len() as u64;
        self.pieces.insert(at, Piece::Bytes(bytes));
        Ok(())
    }
}

impl ArrivingBody {
    /// The bytes, if all are here.
    fn whole(&self) -> Option<Bytes> {
        match self.pieces.front() {
            Some(Piece::Bytes(bytes)) if bytes.len() as u64 == self.left => Some(bytes.clone()),
            None => Some(Bytes::new()),
            Some(Piece::Range(_, range)) if range.is_empty() && self.left == 0 => {
                Some(Bytes::new())
            }
            _ => None,
        }
    }
}

impl http_body::Body for ArrivingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        loop {
            if let Some(reading) = &mut this.reading {
                let bytes = match ready!(reading.as_mut().poll(cx)) {
                    Ok(bytes) => bytes,
                    Err(failure) => return Poll::Ready(Some(Err(failure.into()))),
                };
                this.reading = None;
                if let Some(Piece::Range(_, range)) = this.pieces.front_mut() {
                    range.start += bytes.len() as u64;
                }
                this.left = this.left.saturating_sub(bytes.len() as u64);
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match this.pieces.front() {
                None => return Poll::Ready(None),
                Some(Piece::Range(_, range)) if range.is_empty() => {
                    this.pieces.pop_front();
                }
                Some(Piece::Range(arrival, range)) => {
                    let (arrival, range) = (arrival.clone(), range.clone());
                    this.reading = Some(Box::pin(async move { arrival.read(range).await }));
                }
                Some(Piece::Bytes(_)) => {
                    let Some(Piece::Bytes(bytes)) = this.pieces.pop_front() else { continue };
                    this.left = this.left.saturating_sub(bytes.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
