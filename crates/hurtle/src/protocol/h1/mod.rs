//! HTTP/1.1 on a byte stream (RFC 9112): heads as text, bodies delimited by length, by chunks, or
//! by the end of the connection. `client` has the requests to upstreams.

mod client;

use std::io;
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode, Version};
use hurtle_http::h1::chunked::encode_size;
use hurtle_http::h1::forward;
use hurtle_http::h1::response;
use hurtle_http::message::field_lines::encode_trailers;
use hurtle_http::message::response::Delimiter;
use hurtle_http::request::framing::BodyLength;

pub(crate) use self::client::{HeadError, RequestWriter, encode_request, parse_head, read_head};
use super::reading::Reading;
use super::{Head, InterimFields, Protocol};
use crate::body::Body;
use crate::tls::ClientCertificate;
use crate::transport::{
    Attempt, Fill, Input, Output, Progress, SendQueue, Sender, Transport, outgoing,
};

/// Appends the last chunk and the trailers (RFC 9112 section 7.1).
fn end_chunks(out: &mut Vec<u8>, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        encode_trailers(trailers, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// HTTP/1.1 on this byte stream.
pub(crate) struct H1<T>(pub T);

impl<T: Transport> Protocol for H1<T> {
    type Raw = T;

    fn version(&self) -> Version {
        Version::HTTP_11
    }

    fn is_secure(&self) -> bool {
        self.0.is_secure()
    }

    fn policy(&self) -> u32 {
        self.0.policy()
    }

    fn server_name(&self) -> Option<String> {
        self.0.server_name()
    }

    fn cipher(&self) -> Option<(&'static str, &'static str)> {
        self.0.cipher()
    }

    fn client(&self) -> Option<ClientCertificate> {
        self.0.client()
    }

    fn carries_more(&self) -> bool {
        true
    }

    fn encode_head(&self, out: &mut Vec<u8>, head: &Head<'_>) {
        let Head { status, fields, delimiter, persistence, date } = head;
        response::encode(out, *status, date, fields, *delimiter, *persistence);
    }

    fn encode_interim(&self, out: &mut Vec<u8>, status: StatusCode, fields: InterimFields<'_>) {
        match fields {
            InterimFields::Empty => response::encode_interim(status, &HeaderMap::new(), out),
            InterimFields::Made(fields) => response::encode_interim(status, fields, out),
            InterimFields::Forwarded(reply) => forward::interim(out, reply),
        }
    }

    async fn send(
        &mut self,
        sender: &Sender,
        head: Output,
        body: &Body,
        sent: &Progress,
    ) -> io::Result<()> {
        sender.send(&self.0, head, body, sent).await
    }

    /// Does not move the body: the head is written over the upstream's head if there is room.
    async fn send_from(
        &mut self,
        head: Output,
        input: &mut Input,
        len: usize,
        sent: &Progress,
    ) -> io::Result<()> {
        let mut queue = SendQueue::default();
        if input.precede(&head) {
            queue.push(input.take(head.len() + len));
            drop(head);
        } else {
            queue.push(head);
            queue.push(input.take(len));
        }
        outgoing::send(&self.0, &mut queue, sent).await
    }

    fn begin(&self, _head: &mut Output) -> io::Result<()> {
        Ok(())
    }

    fn frame(&self, out: &mut Output, delimiter: Delimiter, len: usize) -> &'static [u8] {
        if delimiter != Delimiter::Chunked {
            return b"";
        }
        encode_size(len, out.vec());
        b"\r\n"
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, queue, attempt)
    }

    fn poll_flush(&self, cx: &mut Context<'_>, attempt: Attempt) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx, attempt)
    }

    fn end(
        &self,
        out: &mut Output,
        delimiter: Delimiter,
        trailers: Option<&HeaderMap>,
    ) -> io::Result<bool> {
        if delimiter == Delimiter::Chunked {
            end_chunks(out.vec(), trailers);
        }
        Ok(true)
    }

    fn flushed_bytes(&self) -> u64 {
        self.0.flushed_bytes()
    }

    fn reading(&self, length: BodyLength) -> Reading {
        Reading::new(length)
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        _reading: &mut Reading,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_fill(cx, input, Fill::Body)
    }

    async fn reset(&self) {
        self.0.reset().await;
    }

    fn raw(&self) -> Option<&T> {
        Some(&self.0)
    }
}
