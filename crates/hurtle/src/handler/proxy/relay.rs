//! Yields the body of an upstream's response frame by frame, encoded if it gets a coding. A body
//! that ends early says what the client gets instead of its rest.

use std::cell::Cell;
use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use http::{HeaderMap, HeaderName, StatusCode};
use hurtle_http::message::field_lines::field;
use hurtle_http::request::RequestHead;
use hurtle_http::request::fields;
use hurtle_http::semantics::grpc::GrpcStatus;

use super::super::client::{Data, ExchangeError, Frame};
use super::super::spool::{SpoolError, Spooled, Tasks, spool};
use super::super::wait::Waits;
use super::body_encoder::BodyEncoder;
use super::framing::Framing;
use super::link::{MalformedBody, Source};
use super::phase::Phase;
use super::upstream_body::UpstreamBody;
use super::upstream_request::UpstreamRequest;
use crate::answer::grpc_fields;
use crate::protocol::h2::StreamError;
use crate::protocol::reading::{Piece, Reading};
use crate::rt::{self, First};
use crate::transport::Input;

/// Pieces that are read and written before other connections run: an upstream and a client that are
/// both fast would let none of them wait.
const ROUNDS_MAX: usize = 4;

/// The error that ends a body early.
pub(crate) enum RelayError {
    /// The exchange with the client failed.
    Client(ExchangeError),
    Upstream(Box<Failure>),
}

/// The failure of an upstream.
pub(crate) struct Failure {
    /// The reason, for the log.
    pub(super) reason: String,
    /// The status of the response if nothing was sent yet.
    pub(super) status: StatusCode,
    /// The end of the upstream's stream.
    ended: Option<StreamError>,
    /// `true` if the body ends with the status of the failed call.
    pub(super) is_reported: bool,
}

impl UpstreamBody {
    /// Writes the whole body. `waits` gets the upstream's deadlines, and `has_sent` returns whether
    /// the client may have the head.
    ///
    /// # Errors
    /// The exchange with the client, or the upstream, has failed.
    pub(crate) async fn each_frame(
        &mut self,
        waits: &Waits,
        request: &RequestHead<'_>,
        has_sent: impl Fn() -> bool,
        write: impl AsyncFnMut(Frame<'_>) -> Result<(), ExchangeError>,
    ) -> Result<(), RelayError> {
        match self.is_kept {
            false => self.read(waits, request, has_sent, write).await,
            true => self.each_kept(waits, request, has_sent, write).await,
        }
    }

    /// Writes the whole body while it is read from the upstream, no faster than the client takes
    /// it.
    async fn read(
        &mut self,
        waits: &Waits,
        request: &RequestHead<'_>,
        has_sent: impl Fn() -> bool,
        write: impl AsyncFnMut(Frame<'_>) -> Result<(), ExchangeError>,
    ) -> Result<(), RelayError> {
        let UpstreamBody { upstream, framing, coding, .. } = self;
        // A response without a body has no coded bytes either.
        let coding = coding.filter(|_| framing.known_len() != Some(0));
        let encoder = coding.map(BodyEncoder::new).transpose()?;
        let within_ms = upstream.read_timeout_ms();
        let te_trailers = request.te_trailers;
        let mut relay = Relay { framing, encoder, te_trailers, waits, within_ms, write };
        let relayed = upstream.beside(waits, async |source, input| relay.run(source, input).await);
        match relayed.await {
            Some(Err(RelayError::Upstream(failure))) => {
                let fields = || failure.grpc_fields(upstream, request);
                let is_reported = has_sent() && relay.end_call(fields).await?;
                Err(RelayError::Upstream(Box::new(Failure { is_reported, ..*failure })))
            }
            Some(relayed) => relayed,
            None => Err(RelayError::Client(ExchangeError::ResponseBody)),
        }
    }

    /// Writes the whole body, and takes it from the upstream as fast as that gives it. Calls of
    /// gRPC-Web, whose end the client is told in the body, are not kept.
    async fn each_kept(
        &mut self,
        waits: &Waits,
        request: &RequestHead<'_>,
        has_sent: impl Fn() -> bool,
        write: impl AsyncFnMut(Frame<'_>) -> Result<(), ExchangeError>,
    ) -> Result<(), RelayError> {
        let upstream = &self.upstream;
        let buffer = upstream.proxy.bodies.counting(upstream.buffered.clone());
        let (spool, spooled) = spool(Some(buffer), Tasks::One);
        let keeps_upstream = self.keeps_upstream;
        waits.go_on();
        let (mut is_read, is_late) = (false, Cell::new(false));
        let late = || poll_fn(|_| if is_late.get() { Poll::Ready(()) } else { Poll::Pending });
        let mut reading = pin!(async {
            let put = async |frame: Frame<'_>| match frame {
                Frame::Data(data, _) => {
                    spool.put(data.into_bytes()).await.then_some(()).ok_or(ExchangeError::Gone)
                }
                Frame::Flush => Ok(()),
                Frame::End(trailers) => {
                    spool.end(Ok(trailers));
                    Ok(())
                }
            };
            // The upstream is free for others while the client reads what is kept.
            let read = match rt::race(self.read(waits, request, has_sent, put), late()).await {
                First::A(read) => read,
                First::B(()) => Err(RelayError::from(ExchangeError::UpstreamTimeout)),
            };
            self.upstream.leave(keeps_upstream && read.is_ok());
            read.unwrap_or_else(|error| spool.end(Err(error)));
        });
        let mut writing = pin!(write_kept(spooled, write));
        poll_fn(|cx| {
            if !is_read && waits.is_late() && !spool.is_writing() {
                is_late.set(true);
            }
            for _ in 0..ROUNDS_MAX {
                is_read = is_read || reading.as_mut().poll(cx).is_ready();
                let written = writing.as_mut().poll(cx);
                if written.is_ready() || is_read || !spool.is_due() {
                    return written;
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

/// Writes the frames of a body that is read meanwhile.
async fn write_kept(
    mut spooled: Spooled<RelayError>,
    mut write: impl AsyncFnMut(Frame<'_>) -> Result<(), ExchangeError>,
) -> Result<(), RelayError> {
    let mut has_written = false;
    loop {
        let at_once = poll_fn(|cx| match spooled.poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            Poll::Pending => Poll::Ready(None),
        });
        let frame = match at_once.await {
            Some(frame) => frame,
            None => {
                write(Frame::Flush).await?;
                poll_fn(|cx| spooled.poll_frame(cx)).await
            }
        };
        match frame.transpose() {
            Ok(None) => return Ok(write(Frame::End(None)).await?),
            Ok(Some(frame)) => match frame.into_data() {
                Ok(data) => {
                    has_written = true;
                    write(Frame::Data(Data::Bytes(data), spooled.is_end())).await?;
                }
                Err(frame) => return Ok(write(Frame::End(frame.into_trailers().ok())).await?),
            },
            Err(error) => {
                let error = match error {
                    SpoolError::Source(error) => error,
                    SpoolError::Lost(error) => lost(&error),
                };
                if has_written {
                    write(Frame::Flush).await?;
                }
                return Err(error);
            }
        }
    }
}

/// A body that is being relayed.
struct Relay<'a, W> {
    framing: &'a mut Framing,
    /// The encoder of the body; `None`: it is relayed as it is.
    encoder: Option<BodyEncoder>,
    /// `true` if the client accepts trailers.
    te_trailers: bool,
    waits: &'a Waits,
    /// Maximum time between two reads from the upstream, in milliseconds.
    within_ms: u64,
    /// Writes a frame to the client.
    write: W,
}

impl<W: AsyncFnMut(Frame<'_>) -> Result<(), ExchangeError>> Relay<'_, W> {
    /// Relays the whole body.
    async fn run(&mut self, mut source: Source<'_>, input: &mut Input) -> Result<(), RelayError> {
        loop {
            let reading = &mut self.framing.reading;
            let piece = match reading {
                Some(reading) => reading.next(input).map_err(|error| truncated(&error))?,
                None if input.bytes().is_empty() => Piece::More,
                None => Piece::Data(input.bytes().len()),
            };
            match piece {
                Piece::Data(len) => self.data(input, len).await?,
                Piece::End(lines) => return self.end(lines).await,
                Piece::More => {
                    self.flush().await?;
                    let (reading, waits) = (self.framing.reading.as_mut(), self.waits);
                    match source.fill(input, reading, waits, Some(self.within_ms)).await {
                        Ok(0) => match self.framing.reading {
                            None => return self.end(Vec::new()).await,
                            Some(Reading::Ended(_)) => {}
                            Some(_) => return Err(truncated(&"the connection ended early")),
                        },
                        Ok(_) => {}
                        Err(e) => return Err(RelayError::of_read(&e)),
                    }
                }
            }
        }
    }

    /// Writes the first `len` bytes of the input.
    async fn data(&mut self, input: &mut Input, mut len: usize) -> Result<(), RelayError> {
        let Some(encoder) = &mut self.encoder else {
            return Ok((self.write)(Frame::Data(Data::Input(input, len), false)).await?);
        };
        while len > 0 {
            let piece = encoder.piece_bytes(len);
            let data = match encoder.encode(input, piece)? {
                Some(coded) => Data::Bytes(coded),
                None => Data::Input(input, piece),
            };
            (self.write)(Frame::Data(data, false)).await?;
            len -= piece;
            if encoder.ends_turn() {
                rt::give_way().await;
            }
        }
        Ok(())
    }

    /// Sends all that was written, before a wait.
    async fn flush(&mut self) -> Result<(), RelayError> {
        if let Some(encoder) = &mut self.encoder {
            let coded = encoder.flush()?;
            (self.write)(Frame::Data(Data::Bytes(coded), false)).await?;
        }
        Ok((self.write)(Frame::Flush).await?)
    }

    /// Ends the body with the upstream's trailers.
    async fn end(&mut self, mut lines: Vec<u8>) -> Result<(), RelayError> {
        if let Some(encoder) = self.encoder.take() {
            let data;
            (data, lines) = encoder.end(lines)?;
            (self.write)(Frame::Data(Data::Bytes(data), true)).await?;
        }
        let mut trailers = None;
        if self.te_trailers && !lines.is_empty() {
            let trailers: &mut HeaderMap = trailers.insert(fields::map(&lines));
            for name in PRIVATE {
                trailers.remove(name);
            }
        }
        Ok((self.write)(Frame::End(trailers)).await?)
    }

    /// Ends the body of a gRPC-Web call that has failed after its head was sent. Returns `false` if
    /// it is another response.
    async fn end_call(&mut self, fields: impl FnOnce() -> HeaderMap) -> Result<bool, RelayError> {
        let is_call = matches!(self.encoder, Some(BodyEncoder::Web(_)));
        let Some(encoder) = self.encoder.take_if(|_| is_call) else { return Ok(false) };
        let mut lines = Vec::new();
        for (name, value) in &fields() {
            field(&mut lines, name.as_str(), value.as_bytes());
        }
        let (data, _) = encoder.end(lines)?;
        (self.write)(Frame::Data(Data::Bytes(data), true)).await?;
        (self.write)(Frame::End(None)).await?;
        Ok(true)
    }
}

impl Failure {
    /// Returns the trailers of the failed call.
    pub(super) fn grpc_fields(
        &self,
        upstream: &UpstreamRequest,
        call: &RequestHead<'_>,
    ) -> HeaderMap {
        let ended = self.ended.and_then(|error| upstream.grpc_status(call, &error));
        grpc_fields(ended.unwrap_or(GrpcStatus::of(self.status)), &self.reason)
    }
}

impl RelayError {
    pub(super) fn upstream(reason: String, status: StatusCode) -> RelayError {
        RelayError::Upstream(Box::new(Failure { reason, status, ended: None, is_reported: false }))
    }

    /// The upstream's channel failed within the body, or the request did.
    fn of_read(error: &io::Error) -> RelayError {
        let inner = error.get_ref();
        if inner.and_then(|error| error.downcast_ref::<MalformedBody>()).is_some() {
            return RelayError::upstream(error.to_string(), StatusCode::BAD_REQUEST);
        }
        let mut failed = truncated(error);
        let stream_error = inner.and_then(|error| error.downcast_ref::<StreamError>());
        if let RelayError::Upstream(failure) = &mut failed {
            failure.ended = stream_error.copied();
        }
        failed
    }
}

impl From<ExchangeError> for RelayError {
    fn from(error: ExchangeError) -> RelayError {
        match error {
            ExchangeError::UpstreamTimeout => {
                RelayError::upstream(Phase::Reading.to_string(), StatusCode::GATEWAY_TIMEOUT)
            }
            error => RelayError::Client(error),
        }
    }
}

/// Fields for this server only, also in trailers.
const PRIVATE: [HeaderName; 4] = [
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-sendfile"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
];

/// The file that kept a part of the body cannot be read.
fn lost(error: &io::Error) -> RelayError {
    let reason = format!("the response cannot be read back from its file: {error} (`buffer`)");
    RelayError::upstream(reason, StatusCode::INTERNAL_SERVER_ERROR)
}

/// The client notices the truncated body; the operator gets a log line.
fn truncated(error: &dyn Display) -> RelayError {
    RelayError::upstream(format!("truncated response: {error}"), StatusCode::BAD_GATEWAY)
}
