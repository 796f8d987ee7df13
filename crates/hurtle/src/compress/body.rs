//! A body that encodes another one frame by frame. It flushes the encoder whenever the next frame
//! is not there yet, so that events arrive when they are made, and gives way after a bounded amount
//! of work.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{Encoder, TURN_BYTES};
use crate::body::{BoxError, Stream, TruncatedError};

/// Encoded bytes that are sent together.
const FRAME_BYTES: usize = 16 << 10;

pub(super) struct EncodedBody {
    source: Source,
    /// `None`: the end was encoded.
    encoder: Option<Encoder<'static>>,
    /// Bytes that the source still has to have; `None`: its length is unknown.
    left: Option<u64>,
    /// Bytes of the source that are not encoded yet.
    input: Bytes,
    /// Encoded bytes of the next frame.
    out: Vec<u8>,
    /// The encoder holds bytes that were not flushed.
    has_unflushed: bool,
    /// Bytes encoded in this turn.
    turn_bytes: usize,
    /// The end of the source: trailers, or an error.
    end: Option<Result<HeaderMap, BoxError>>,
}

pub(super) enum Source {
    /// `Bytes` has given all of them to `input`.
    Done,
    Stream(Stream),
}

impl EncodedBody {
    pub(super) fn of_bytes(bytes: Bytes, encoder: Encoder<'static>) -> EncodedBody {
        EncodedBody::new(Source::Done, bytes, encoder)
    }

    /// `len`: the length of the stream, if it is declared. One of another length is truncated.
    pub(super) fn of_stream(
        stream: Stream,
        len: Option<u64>,
        encoder: Encoder<'static>,
    ) -> EncodedBody {
        let body = EncodedBody::new(Source::Stream(stream), Bytes::new(), encoder);
        EncodedBody { left: len, ..body }
    }

    fn new(source: Source, input: Bytes, encoder: Encoder<'static>) -> EncodedBody {
        EncodedBody {
            source,
            encoder: Some(encoder),
            left: None,
            input,
            out: Vec::new(),
            has_unflushed: false,
            turn_bytes: 0,
            end: None,
        }
    }

    /// Encodes a piece of the input.
    fn encode(&mut self) -> Result<(), BoxError> {
        let piece = self.input.split_to(self.input.len().min(TURN_BYTES));
        self.turn_bytes += piece.len();
        self.has_unflushed = true;
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        Ok(encoder.write(&piece, &mut self.out)?)
    }

    fn flush(&mut self) -> Result<(), BoxError> {
        self.has_unflushed = false;
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        Ok(encoder.flush(&mut self.out)?)
    }

    /// Encodes the end of the source.
    fn finish(&mut self) -> Result<(), BoxError> {
        self.source = Source::Done;
        self.has_unflushed = false;
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        Ok(encoder.finish(&mut self.out)?)
    }

    /// Ends the body with an error. The client gets what came before, and sees that it has no end.
    fn fail(&mut self, error: BoxError) -> Result<(), BoxError> {
        self.flush()?;
        self.encoder = None;
        self.source = Source::Done;
        self.end = Some(Err(error));
        Ok(())
    }

    /// Takes data of the source.
    fn take(&mut self, data: Bytes) -> Result<(), BoxError> {
        if let Some(left) = &mut self.left {
            match left.checked_sub(data.len() as u64) {
                Some(rest) => *left = rest,
                None => return self.fail(TruncatedError::default().into()),
            }
        }
        self.input = data;
        Ok(())
    }

    /// Takes the end of the source, and its trailers.
    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), BoxError> {
        if self.left.is_some_and(|left| left > 0) {
            return self.fail(TruncatedError::default().into());
        }
        self.end = trailers.map(Ok);
        self.finish()
    }

    fn take_out(&mut self) -> Frame<Bytes> {
        Frame::data(std::mem::take(&mut self.out).into())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, BoxError>> {
        loop {
            if self.out.len() >= FRAME_BYTES || (self.encoder.is_none() && !self.out.is_empty()) {
                return Poll::Ready(Ok(Some(self.take_out())));
            }
            if self.turn_bytes >= TURN_BYTES {
                // Other connections of the worker run before the next piece is encoded.
                self.turn_bytes = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !self.input.is_empty() {
                self.encode()?;
                continue;
            }
            let Source::Stream(stream) = &mut self.source else {
                if self.encoder.is_some() {
                    self.finish()?;
                    continue;
                }
                return Poll::Ready(match self.end.take() {
                    None => Ok(None),
                    Some(Ok(trailers)) => Ok(Some(Frame::trailers(trailers))),
                    Some(Err(error)) => Err(error),
                });
            };
            match Pin::new(stream).poll_frame(cx) {
                Poll::Pending => {
                    if self.has_unflushed {
                        self.flush()?;
                    }
                    if !self.out.is_empty() {
                        return Poll::Ready(Ok(Some(self.take_out())));
                    }
                    self.turn_bytes = 0;
                    return Poll::Pending;
                }
                Poll::Ready(None) => self.end(None)?,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.take(data)?,
                    Err(frame) => self.end(frame.into_trailers().ok())?,
                },
                Poll::Ready(Some(Err(error))) => self.fail(error)?,
            }
        }
    }
}

impl HttpBody for EncodedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match this.poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(frame)) => Poll::Ready(frame.map(Ok)),
            Poll::Ready(Err(error)) => {
                this.source = Source::Done;
                this.encoder = None;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none() && self.out.is_empty() && self.end.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::io::Read;
    use std::task::Waker;

    use hurtle_http::semantics::accept::Coding;

    use super::super::Effort;
    use super::*;

    /// A body of these steps; `None` is a frame that is not there yet.
    struct Steps(VecDeque<Option<Result<Frame<Bytes>, BoxError>>>);

    impl HttpBody for Steps {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            match self.0.pop_front() {
                None => Poll::Ready(None),
                Some(None) => Poll::Pending,
                Some(Some(frame)) => Poll::Ready(Some(frame)),
            }
        }
    }

    fn encoded(steps: Vec<Option<Result<Frame<Bytes>, BoxError>>>) -> EncodedBody {
        let encoder = Encoder::new(Coding::Gzip, Effort::Live).unwrap();
        EncodedBody::of_stream(Stream::new(Steps(steps.into())), None, encoder)
    }

    fn data(text: &'static str) -> Option<Result<Frame<Bytes>, BoxError>> {
        Some(Ok(Frame::data(Bytes::from_static(text.as_bytes()))))
    }

    /// All that a decoder finds in a part of the coded bytes.
    fn decoded(coded: &[u8]) -> String {
        let mut text = Vec::new();
        let _ = flate2::read::GzDecoder::new(coded).read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    fn next(body: &mut EncodedBody) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn each_frame_leaves_before_the_next_is_there() {
        let mut body = encoded(vec![data("one "), None, data("two "), data("three"), None, None]);
        let mut coded = Vec::new();
        for expected in ["one ", "one two three"] {
            let Poll::Ready(Some(Ok(frame))) = next(&mut body) else { panic!("{expected}") };
            coded.extend_from_slice(frame.data_ref().unwrap());
            assert_eq!(decoded(&coded), expected);
        }
    }

    #[test]
    fn what_came_before_an_error_is_sent_and_has_no_end() {
        let mut body = encoded(vec![data("some"), Some(Err("broken".into()))]);
        let Poll::Ready(Some(Ok(frame))) = next(&mut body) else { panic!() };
        let coded = frame.into_data().unwrap();
        assert_eq!(decoded(&coded), "some");
        let whole = flate2::read::GzDecoder::new(&coded[..]).read_to_end(&mut Vec::new());
        assert!(whole.is_err(), "a decoder notices");
        assert!(matches!(next(&mut body), Poll::Ready(Some(Err(_)))));
    }

    /// Regression: such a body looked complete.
    #[test]
    fn a_body_of_another_length_than_declared_has_no_end() {
        for (len, is_whole) in [(8, true), (9, false), (7, false)] {
            let encoder = Encoder::new(Coding::Gzip, Effort::Live).unwrap();
            let steps = Steps([data("some"), data("body")].into());
            let mut body = EncodedBody::of_stream(Stream::new(steps), Some(len), encoder);
            let mut coded = Vec::new();
            let end = loop {
                match next(&mut body) {
                    Poll::Ready(Some(Ok(frame))) => coded.extend(frame.into_data().unwrap()),
                    Poll::Ready(end) => break end,
                    Poll::Pending => {}
                }
            };
            let whole = flate2::read::GzDecoder::new(&coded[..]).read_to_end(&mut Vec::new());
            assert_eq!((end.is_none(), whole.is_ok()), (is_whole, is_whole), "{len}");
        }
    }

    #[test]
    fn trailers_follow_the_end() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let mut body = encoded(vec![data("some"), Some(Ok(Frame::trailers(trailers)))]);
        let Poll::Ready(Some(Ok(frame))) = next(&mut body) else { panic!() };
        assert_eq!(decoded(frame.data_ref().unwrap()), "some");
        let Poll::Ready(Some(Ok(frame))) = next(&mut body) else { panic!() };
        assert_eq!(frame.trailers_ref().unwrap()["x-sum"], "1");
        assert!(body.is_end_stream());
        assert!(matches!(next(&mut body), Poll::Ready(None)));
    }

    #[test]
    fn a_huge_frame_is_encoded_in_turns() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let encoder = Encoder::new(Coding::Gzip, Effort::Live).unwrap();
            let mut body = EncodedBody::of_bytes(vec![b'x'; 40 * TURN_BYTES].into(), encoder);
            let (mut pauses, mut coded) = (0, Vec::new());
            while let Some(frame) = poll_fn(|cx| {
                let polled = Pin::new(&mut body).poll_frame(cx);
                pauses += usize::from(polled.is_pending());
                polled
            })
            .await
            {
                coded.extend_from_slice(frame.unwrap().data_ref().unwrap());
            }
            assert!(pauses >= 39, "{pauses} pauses");
            assert_eq!(decoded(&coded).len(), 40 * TURN_BYTES);
        });
    }
}
