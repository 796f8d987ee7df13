//! Calls of gRPC-Web on their way to an upstream that speaks gRPC (`grpc_web`): the heads of both
//! directions, and bodies in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header;
use hurtle_http::message::field_lines::field;
use hurtle_http::message::forward::edit_lines;
use hurtle_http::message::response_head::ResponseHead;
use hurtle_http::request::fields::pairs;
use hurtle_http::request::grpc_web::WebFormat;
use hurtle_http::request::{BodyLength, RequestFields, RequestHead};
use hurtle_http::semantics::grpc;

/// Characters of base64 that encode three bytes.
const QUANTUM: usize = 4;

/// A call of gRPC-Web, as a request of gRPC.
pub(super) struct WebCall {
    pub(super) format: WebFormat,
    /// The field lines of the request.
    lines: Vec<u8>,
}

/// Decodes base64 that arrives in pieces. Padding may also occur between them.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Characters of an incomplete quantum.
    rest: Vec<u8>,
}

impl WebCall {
    /// `None`: the request is no call of gRPC-Web.
    pub(super) fn of(request: &RequestHead<'_>) -> Option<WebCall> {
        let media_type = request.call_type()?;
        let format = WebFormat::of(media_type)?;
        let mut lines = Vec::new();
        for (name, value) in request.fields.iter() {
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            if !is(b"content-type") && !is(b"accept") && !is(b"x-grpc-web") {
                [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
            }
        }
        field(&mut lines, "Content-Type", &format.to_grpc(media_type));
        Some(WebCall { format, lines })
    }

    /// Returns the head of the call over gRPC.
    pub(super) fn head<'a>(&'a self, request: &RequestHead<'a>) -> RequestHead<'a> {
        RequestHead {
            te_trailers: true,
            fields: RequestFields::Lines(&self.lines),
            field_count: pairs(&self.lines).count(),
            section: None,
            body: match (self.format, request.body) {
                // Its length is that of the text.
                (WebFormat::Text, BodyLength::Exactly(_)) => BodyLength::Chunked,
                (_, length) => length,
            },
            ..request.clone()
        }
    }
}

/// Returns whether a response is one of gRPC.
pub(super) fn is_answer(reply: &ResponseHead<'_>) -> bool {
    media_type(reply).is_some()
}

/// Returns the field lines of a response of gRPC for a client of gRPC-Web.
pub(super) fn edited(format: WebFormat, reply: &ResponseHead<'_>, lines: Vec<u8>) -> Vec<u8> {
    let Some(media_type) = media_type(reply) else { return lines };
    let mut set = Vec::new();
    field(&mut set, "Content-Type", &format.from_grpc(media_type));
    edit_lines(&lines, b"", &[header::CONTENT_TYPE], &set)
}

/// Returns the media type of a response of gRPC.
fn media_type<'a>(reply: &ResponseHead<'a>) -> Option<&'a [u8]> {
    let mut fields = pairs(reply.field_lines);
    let media_type = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
    media_type.map(|(_, value)| value).filter(|value| grpc::is_grpc(value))
}

impl Decoder {
    /// `true` if a quantum is incomplete.
    pub(super) fn is_within(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Decodes all complete quanta. `is_end`: nothing follows.
    ///
    /// # Errors
    /// The text is no base64.
    pub(super) fn decode(
        &mut self,
        text: &[u8],
        is_end: bool,
    ) -> Result<Bytes, base64::DecodeError> {
        self.rest.extend_from_slice(text);
        let whole = match is_end {
            true => self.rest.len(),
            false => self.rest.len() - self.rest.len() % QUANTUM,
        };
        let quanta: Vec<u8> = self.rest.drain(..whole).collect();
        let mut data = Vec::with_capacity(whole / QUANTUM * 3);
        let mut left = &quanta[..];
        while !left.is_empty() {
            // A quantum with padding ends a run, which is decoded by itself.
            let padded = left.iter().position(|byte| *byte == b'=');
            let end = padded.map_or(left.len(), |at| (at / QUANTUM + 1) * QUANTUM);
            let (run, behind) = left.split_at(end.min(left.len()));
            STANDARD.decode_vec(run, &mut data)?;
            left = behind;
        }
        Ok(data.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_wherever_it_is_split() {
        for text in ["", "AAAA", "AAECAw==", "AAECAw==BAUG", "AA==AAE=AAEC", "AAECAwQFBgcICQ=="] {
            let mut whole = Decoder::default();
            let expected = whole.decode(text.as_bytes(), true).unwrap();
            for at in 0..=text.len() {
                let mut decoder = Decoder::default();
                let (a, b) = text.as_bytes().split_at(at);
                let parts = [decoder.decode(a, false).unwrap(), decoder.decode(b, true).unwrap()];
                assert_eq!(parts.concat(), expected, "{text} at {at}");
            }
        }
        for text in ["A", "AAA", "AA=A", "A===", "!AAA"] {
            assert!(Decoder::default().decode(text.as_bytes(), true).is_err(), "{text}");
        }
    }
}
