//! The framing of an upstream's response on both sides (RFC 9112 section 6).

use http::StatusCode;
use hurtle_http::message::response::Delimiter;
use hurtle_http::message::response_head::{Length, ResponseHead};
use hurtle_http::request::fields::pairs;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};

use crate::answer::is_bodiless;
use crate::protocol::reading::Reading;

/// The framing of a body on both sides.
pub(crate) struct Framing {
    /// The delimiter towards the client.
    pub delimiter: Delimiter,
    /// The state of reading from the upstream. `None`: the body ends with the upstream's
    /// connection.
    pub reading: Option<Reading>,
    /// `true` if the upstream's connection can be reused after the body.
    pub(super) may_keep_alive: bool,
    len: Option<u64>,
}

/// Returns whether a connection may have another request after a response whose end is known.
pub(super) fn is_reusable(reply: &ResponseHead<'_>) -> bool {
    reply.keep_alive && !may_have_stray_body(reply)
}

/// Returns whether a faulty upstream may send a body behind a head that has none (RFC 9112 section
/// 6.3). It would be read as the next response.
fn may_have_stray_body(reply: &ResponseHead<'_>) -> bool {
    match (reply.status, reply.length) {
        (StatusCode::NO_CONTENT, Length::Framed(length)) => length != BodyLength::None,
        (StatusCode::NOT_MODIFIED, Length::Framed(length)) => length == BodyLength::Chunked,
        _ => false,
    }
}

impl Framing {
    /// Computes the framing of the response to this request.
    pub(super) fn of(request: &RequestHead<'_>, reply: &ResponseHead<'_>) -> Framing {
        if request.method == Method::Head || is_bodiless(reply.status) {
            // RFC 9110 section 8.6: a response without a body may have a Content-Length, but not
            // 204.
            let declared = match reply.status {
                StatusCode::NO_CONTENT => None,
                _ => reply.content_length,
            };
            let delimiter = declared.map_or(Delimiter::Given, Delimiter::Length);
            let mut framing = Framing::none(delimiter);
            framing.may_keep_alive = !may_have_stray_body(reply);
            return framing;
        }
        let unknown = if request.http10 { Delimiter::Close } else { Delimiter::Chunked };
        match reply.length {
            Length::Framed(BodyLength::None) => Framing::none(Delimiter::Length(0)),
            Length::Framed(length @ BodyLength::Exactly(len)) => {
                Framing::new(Delimiter::Length(len), Some(length))
            }
            Length::Framed(length @ BodyLength::Chunked) => Framing::new(unknown, Some(length)),
            Length::UntilClose => Framing::new(unknown, None),
            Length::Frames => Framing::of_stream(unknown, request, reply),
        }
    }

    /// Frames the body for the client as one of unknown length, because it is encoded on the way.
    /// An empty one stays empty.
    /// `http10`: the client's version.
    pub(super) fn encode(&mut self, http10: bool) {
        self.delimiter = match (&self.reading, self.delimiter) {
            (Some(Reading::Done), Delimiter::Length(0)) => Delimiter::Length(0),
            (Some(Reading::Done), _) => Delimiter::Given,
            // That version knows no chunks.
            _ if http10 => Delimiter::Close,
            _ => Delimiter::Chunked,
        };
    }

    /// Creates the framing of a response without a body.
    fn none(delimiter: Delimiter) -> Framing {
        Framing { delimiter, reading: Some(Reading::Done), may_keep_alive: true, len: Some(0) }
    }

    /// Creates the framing of a body. `None`: it ends with the connection.
    fn new(delimiter: Delimiter, length: Option<BodyLength>) -> Framing {
        let len = match length {
            Some(BodyLength::Exactly(len)) => Some(len),
            _ => None,
        };
        let may_keep_alive = length.is_some();
        Framing { delimiter, reading: length.map(Reading::new), may_keep_alive, len }
    }

    /// Creates the framing of a body that arrives on a stream. Trailers follow a body of any
    /// length, but not a body of a length that the client knows. A gRPC call has some without
    /// an announcement by Trailer.
    fn of_stream(
        unknown: Delimiter,
        request: &RequestHead<'_>,
        reply: &ResponseHead<'_>,
    ) -> Framing {
        let is_announced = || pairs(reply.field_lines).any(|(name, _)| name == b"trailer");
        let has_trailers = || request.call_type().is_some() || is_announced();
        let len = reply.content_length.filter(|_| !has_trailers());
        let delimiter = len.map_or(unknown, Delimiter::Length);
        Framing { delimiter, reading: Some(Reading::Frames), may_keep_alive: true, len }
    }

    /// Returns the body's length if it is known and fits in memory.
    pub(crate) fn known_len(&self) -> Option<usize> {
        self.len.and_then(|len| usize::try_from(len).ok())
    }
}
