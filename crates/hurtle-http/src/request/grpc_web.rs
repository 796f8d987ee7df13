//! gRPC-Web ("PROTOCOL-WEB" of the gRPC project): media types, and trailers as a frame of the body.
//! Browsers use it, because they can neither read trailers nor send HTTP/2 frames of their choice.

use super::fields::pairs;

/// The form of a gRPC-Web call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebFormat {
    /// Frames as they are.
    Binary,
    /// Frames in base64.
    Text,
}

const GRPC: &[u8] = b"application/grpc";
const BINARY: &[u8] = b"application/grpc-web";
const TEXT: &[u8] = b"application/grpc-web-text";

/// The flag of a frame that holds trailers.
const TRAILERS: u8 = 0x80;

impl WebFormat {
    /// Returns the form of a call with this media type; `None`: it is no gRPC-Web.
    pub fn of(media_type: &[u8]) -> Option<WebFormat> {
        [(TEXT, WebFormat::Text), (BINARY, WebFormat::Binary)]
            .into_iter()
            .find(|(known, _)| rest(media_type, known).is_some())
            .map(|(_, format)| format)
    }

    /// Returns the media type of gRPC in place of that of gRPC-Web: `application/grpc+proto` for
    /// `application/grpc-web+proto`.
    pub fn to_grpc(self, media_type: &[u8]) -> Vec<u8> {
        [GRPC, rest(media_type, self.name()).unwrap_or_default()].concat()
    }

    /// Returns the media type of gRPC-Web in place of that of gRPC; another one as it is.
    pub fn from_grpc(self, media_type: &[u8]) -> Vec<u8> {
        match rest(media_type, GRPC) {
            Some(rest) => [self.name(), rest].concat(),
            None => media_type.to_vec(),
        }
    }

    fn name(self) -> &'static [u8] {
        match self {
            WebFormat::Binary => BINARY,
            WebFormat::Text => TEXT,
        }
    }
}

/// Returns what follows a media type: a format such as `+proto`, or parameters.
fn rest<'a>(media_type: &'a [u8], known: &[u8]) -> Option<&'a [u8]> {
    let (begin, rest) = media_type.split_at_checked(known.len())?;
    let is_end = matches!(rest.first(), None | Some(b'+' | b';' | b' '));
    (begin.eq_ignore_ascii_case(known) && is_end).then_some(rest)
}

/// Returns the frame that ends a response: its trailers as lines. `lines` are field lines, each
/// ended by CRLF, with names in any case.
pub fn trailer_frame(lines: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(lines.len());
    for (name, value) in pairs(lines) {
        payload.extend(name.to_ascii_lowercase());
        payload.extend_from_slice(b": ");
        payload.extend_from_slice(value);
        payload.extend_from_slice(b"\r\n");
    }
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[TRAILERS][..], &len, &payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_translated() {
        for (web, format, grpc) in [
            ("application/grpc-web", Some(WebFormat::Binary), "application/grpc"),
            ("application/grpc-web+proto", Some(WebFormat::Binary), "application/grpc+proto"),
            ("application/grpc-web-text", Some(WebFormat::Text), "application/grpc"),
            ("application/grpc-web-text+proto", Some(WebFormat::Text), "application/grpc+proto"),
            ("application/grpc", None, ""),
            ("application/grpc-website", None, ""),
        ] {
            let found = WebFormat::of(web.as_bytes());
            assert_eq!(found, format, "{web}");
            if let Some(format) = found {
                assert_eq!(format.to_grpc(web.as_bytes()), grpc.as_bytes(), "{web}");
                assert_eq!(format.from_grpc(grpc.as_bytes()), web.as_bytes(), "{web}");
            }
        }
        assert_eq!(WebFormat::Text.from_grpc(b"text/html"), b"text/html");
    }

    #[test]
    fn trailers_become_a_frame() {
        let frame = trailer_frame(b"Grpc-Status: 0\r\ngrpc-message: \r\n\r\n");
        assert_eq!(frame, b"\x80\0\0\0\x20grpc-status: 0\r\ngrpc-message: \r\n");
    }
}
