//! Writes an upstream's response: its body goes to the client frame by frame, no faster than the client
//! reads it.

use hurtle_http::h1::response::Delimiter;
use hurtle_http::request::RequestHead;

use super::body_writer::BodyWriter;
use super::client::Incoming;
use super::duplex::Duplex;
use super::finish::finish_stream;
use super::respond::{cut_by, persistence};
use super::send::next_after;
use super::upload::Upload;
use super::worker::Worker;
use super::{Connection, Next};
use crate::answer::Answer;
use crate::clock;
use crate::handler::request::describe;
use crate::handler::{RelayEnd, UpstreamBody, UpstreamResponse};
use crate::protocol::Protocol;
use crate::site::Resolved;
use crate::transport::Output;

impl<T: Protocol> Connection<T> {
    /// Writes an upstream's response.
    pub(super) async fn relay(
        &mut self,
        request: &RequestHead<'_>,
        at: (&Worker, &Resolved<'_>),
        mut response: UpstreamResponse,
        mut incoming: Incoming,
    ) -> Next {
        let mut fields = finish_stream(&mut response, request, at.1, self.io.is_secure());
        let UpstreamResponse { status, mut body, .. } = response;
        let delimiter = body.delimiter();
        let body_allows_reuse = match &incoming {
            Incoming::Upload(upload) => upload.allows_reuse(),
            Incoming::Done => true,
            // The upstream responds to an error, and nothing reads the body.
            Incoming::Unread => false,
        };
        let is_reusable =
            self.count_request(request) && body_allows_reuse && delimiter != Delimiter::Close;
        let persistence = persistence(request, is_reusable);
        let out = self.encode_head(status, &fields, delimiter, persistence, clock::now_ms());
        self.worker.buffers.recycle(&mut fields);
        let head_bytes = out.len() as u64;
        self.note_upstream(|| body.log());
        self.begin_response();
        let has_upload = matches!(&incoming, Incoming::Upload(upload) if !upload.reading.is_done());
        let whole = if has_upload { None } else { body.whole() };
        if let Some((input, len)) = whole {
            if let Err(error) = self.send_from(out, input, len).await {
                self.observe(Some(request), status, head_bytes, Err(error));
                return next_after(error);
            }
        } else {
            let relaying = self.relay_body(request, &mut body, &mut incoming, (out, delimiter));
            let (error, next) = match Box::pin(relaying).await {
                Ok(()) => (None, Next::Request),
                Err(RelayEnd::Cut(error, trailers)) => {
                    if let Some(trailers) = trailers {
                        // The client may be gone.
                        let _ = self.io.end(&mut Output::default(), delimiter, Some(&trailers));
                    }
                    (Some(error), cut_by(error, delimiter))
                }
                Err(RelayEnd::Reported(error)) => (Some(error), Next::Linger),
                Err(RelayEnd::Unsent(status)) => {
                    drop(body);
                    let error =
                        self.write_error(request, at, Answer::error(status, None), incoming);
                    return Box::pin(error).await;
                }
            };
            if let Some(error) = error {
                self.observe(Some(request), status, head_bytes, Err(error));
                return next;
            }
        }
        self.observe(Some(request), status, head_bytes, Ok(()));
        body.finish();
        match incoming {
            Incoming::Upload(upload) if !upload.reading.is_done() => {
                drop(body);
                Box::pin(self.discard_rest(*upload, is_reusable)).await
            }
            Incoming::Unread => self.after(false, true),
            _ => self.after(is_reusable, false),
        }
    }

    /// Sends a response whose body has not arrived completely or is large; `out` holds its head.
    async fn relay_body(
        &mut self,
        request: &RequestHead<'_>,
        body: &mut UpstreamBody,
        incoming: &mut Incoming,
        (out, delimiter): (Output, Delimiter),
    ) -> Result<(), RelayEnd> {
        self.sent.moved.set(0);
        let mut none;
        let upload = match incoming {
            Incoming::Upload(upload) => &mut **upload,
            Incoming::Done | Incoming::Unread => {
                none = Upload::none();
                &mut none
            }
        };
        let (waits, relayed) = body.relayed();
        let streaming = async |duplex: &Duplex<'_, T>| {
            let mut writer = BodyWriter::new(duplex, out, delimiter);
            let has_sent = || duplex.sent_bytes() > 0;
            relayed.each_frame(request, has_sent, async |frame| writer.write(frame).await).await
        };
        let ended = self.beside(upload, waits, streaming).await;
        let Err(error) = ended.map_err(Into::into).flatten() else { return Ok(()) };
        let description = || {
            let path = request.target.path_and_query().map_or(&b"*"[..], |(path, _)| path);
            describe(request, path)
        };
        Err(body.end(error, request, description, self.sent.moved.get() > 0))
    }
}
