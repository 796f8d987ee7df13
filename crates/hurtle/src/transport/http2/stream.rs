//! One stream of an HTTP/2 connection as a channel of its own: what comes is the body that its
//! request's head announces in HTTP/1.1's words, and the answer written to it is taken apart into
//! frames again. So whatever answers on a socket answers here, and is held back by windows as it is
//! by a socket's buffer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response, StatusCode};

use super::super::Transport;
use super::Channel;
use super::heads::{self, Said};
use super::incoming::Body;
use super::outlet::Outlet;
use crate::h1::chunked::{Decoder, Step};
use crate::h1::fields;
use crate::h1::restate::Ends;
use crate::semantics::priority::Priority;
use crate::tls::ClientCertificate;

/// A request as the library hands it over.
pub(super) type Arrived = (Request<RecvStream>, SendResponse<Bytes>);

/// A stream.
pub struct Stream {
    channel: Rc<Channel>,
    body: RefCell<Body>,
    answer: RefCell<Answer>,
}

/// The answer on its way out.
struct Answer {
    respond: SendResponse<Bytes>,
    /// The request is a HEAD.
    bodiless: bool,
    state: State,
    outlet: Outlet,
}

enum State {
    /// What there is of a head.
    Head(Vec<u8>),
    /// This many bytes are due.
    Exactly(SendStream<Bytes>, u64),
    Chunks(SendStream<Bytes>, Box<Decoder>),
    Open(SendStream<Bytes>),
    Over,
}

impl Stream {
    pub(super) fn new(
        respond: SendResponse<Bytes>,
        frames: RecvStream,
        chunked: bool,
        bodiless: bool,
        priority: Priority,
        channel: Rc<Channel>,
    ) -> Stream {
        channel.pulse.stream_begins();
        let body = Body::new(frames, chunked);
        let outlet = Outlet::new(respond.stream_id().as_u32(), priority, Rc::clone(&channel));
        let answer = Answer { respond, bodiless, state: State::Head(Vec::new()), outlet };
        Stream { channel, body: RefCell::new(body), answer: RefCell::new(answer) }
    }

    fn write(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut answer = self.answer.borrow_mut();
        let mut taken = 0;
        for buf in bufs {
            let mut rest = &buf[..];
            while !rest.is_empty() {
                match answer.take(cx, rest) {
                    Poll::Ready(Ok(n)) => (taken, rest) = (taken + n, &rest[n..]),
                    waits if taken == 0 => return waits,
                    _ => return Poll::Ready(Ok(taken)),
                }
            }
        }
        Poll::Ready(Ok(taken))
    }
}

impl Answer {
    /// Takes some of these bytes, which are not none.
    fn take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Head(held) => {
                let before = held.len();
                // Usually it comes whole.
                if before == 0
                    && let Some((said, end)) = heads::read(bytes)?
                {
                    return Poll::Ready(self.head(said).map(|()| end));
                }
                held.extend_from_slice(bytes);
                let Some((said, end)) = heads::read(held)? else {
                    return Poll::Ready(Ok(bytes.len()));
                };
                held.clear();
                Poll::Ready(self.head(said).map(|()| end - before))
            }
            State::Exactly(..) => {
                self.part(cx, bytes.len(), |n| Bytes::copy_from_slice(&bytes[..n]))
            }
            State::Chunks(frames, decoder) => {
                let n = match usize::try_from(decoder.data_left()).unwrap_or(usize::MAX) {
                    // Framing needs no room; a line of it at a time, so that no data is met.
                    0 => memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1),
                    left => ready!(self.outlet.room(frames, cx, left.min(bytes.len())))?,
                };
                match decoder.decode(&bytes[..n]).map_err(io::Error::other)? {
                    Step::NeedMore => Poll::Ready(Ok(n)),
                    Step::Data { skip, len } => {
                        let data = Bytes::copy_from_slice(&bytes[skip..skip + len]);
                        self.outlet.send(frames, data, false)?;
                        Poll::Ready(Ok(skip + len))
                    }
                    Step::End(n) => {
                        let trailers = fields::map(decoder.trailers());
                        match trailers.is_empty() {
                            true => self.outlet.send(frames, Bytes::new(), true)?,
                            false => frames.send_trailers(trailers).map_err(io::Error::other)?,
                        }
                        self.state = State::Over;
                        Poll::Ready(Ok(n))
                    }
                }
            }
            State::Open(frames) => {
                let n = ready!(self.outlet.room(frames, cx, bytes.len()))?;
                self.outlet.send(frames, Bytes::copy_from_slice(&bytes[..n]), false)?;
                Poll::Ready(Ok(n))
            }
            State::Over => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Sends a part of a body of known length: of `most` bytes as many as there is room for, which
    /// `take` gives.
    fn part(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        take: impl FnOnce(usize) -> Bytes,
    ) -> Poll<io::Result<usize>> {
        let State::Exactly(frames, left) = &mut self.state else { return Poll::Ready(Ok(0)) };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(most);
        let n = ready!(self.outlet.room_in_turn(frames, cx, most))?;
        *left -= n as u64;
        let last = *left == 0;
        self.outlet.send_in_turn(frames, take(n), last)?;
        if last {
            self.state = State::Over;
        }
        Poll::Ready(Ok(n))
    }

    /// Waits until some of a body would be taken; how much.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Exactly(frames, left) => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                self.outlet.room_in_turn(frames, cx, most)
            }
            _ => Poll::Ready(Ok(usize::MAX)),
        }
    }

    /// Sends a head; an interim one may be followed by another.
    fn head(&mut self, (status, fields, ends): Said) -> io::Result<()> {
        let response = response(status, fields);
        if status.is_informational() {
            return self.respond.send_informational(response).map_err(io::Error::other);
        }
        let silent = self.bodiless
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED
            || ends == Ends::After(0);
        let frames = self.respond.send_response(response, silent).map_err(io::Error::other)?;
        self.state = match ends {
            _ if silent => State::Over,
            Ends::After(len) => State::Exactly(frames, len),
            Ends::Chunked => State::Chunks(frames, Box::default()),
            Ends::Open => State::Open(frames),
        };
        Ok(())
    }

    /// Ends an answer that only its writer could end.
    fn finish(&mut self) {
        if let State::Open(frames) = &mut self.state {
            // The peer may be gone.
            let _ = self.outlet.send(frames, Bytes::new(), true);
            self.state = State::Over;
        }
    }

    /// Ends it so that it cannot be taken for whole.
    fn reset(&mut self, reason: Reason) {
        self.outlet.leave();
        match mem::replace(&mut self.state, State::Over) {
            State::Head(_) => self.respond.send_reset(reason),
            State::Exactly(mut frames, _)
            | State::Chunks(mut frames, _)
            | State::Open(mut frames) => frames.send_reset(reason),
            State::Over => {}
        }
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::Head(_) => self.respond.poll_reset(cx).map(drop),
            State::Exactly(frames, _) | State::Chunks(frames, _) | State::Open(frames) => {
                frames.poll_reset(cx).map(drop)
            }
            State::Over => Poll::Pending,
        }
    }
}

fn response(status: StatusCode, fields: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

impl Transport for Stream {
    const IS_HTTP2: bool = true;

    fn is_secure(&self) -> bool {
        self.channel.secure
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_read_shared(cx, into)
    }

    fn poll_read_shared(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        // RFC 9113 8.1: once it is answered, nobody needs the rest of a request.
        if matches!(self.answer.borrow().state, State::Over) {
            return Poll::Ready(Ok(0));
        }
        self.body.borrow_mut().read(cx, into)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, bufs)
    }

    fn poll_write_shared(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, bufs)
    }

    fn write_anyway(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, bufs)
    }

    fn poll_write_shareable(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        let answer = self.answer.get_mut();
        match answer.state {
            State::Exactly(..) => answer.part(cx, bytes.len(), |n| match n < bytes.len() / 2 {
                // A small part is not to hold the whole for as long as it waits.
                true => Bytes::copy_from_slice(&bytes[..n]),
                false => bytes.slice(..n),
            }),
            _ => self.write(cx, &[IoSlice::new(bytes)]),
        }
    }

    fn taken_of_waiting(&self) -> u64 {
        self.answer.borrow().outlet.sent_by_others()
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.answer.get_mut().poll_room(cx)
    }

    async fn reset(&self) {
        poll_fn(|cx| self.answer.borrow_mut().poll_reset(cx)).await;
    }

    fn finish(&self) {
        self.answer.borrow_mut().finish();
    }

    fn close(&mut self) {
        self.finish();
    }

    fn abort(&self) {
        self.answer.borrow_mut().reset(Reason::CANCEL);
    }

    fn policy(&self) -> u32 {
        self.channel.policy
    }

    fn server_name(&self) -> Option<String> {
        self.channel.server_name.clone()
    }

    fn client(&self) -> Option<ClientCertificate> {
        self.channel.client.clone()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.answer.borrow_mut().reset(Reason::INTERNAL_ERROR);
        self.channel.pulse.stream_ends();
    }
}
