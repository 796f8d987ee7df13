//! gRPC over HTTP/2 ("PROTOCOL-HTTP2" of the gRPC project): its requests, and errors of this server
//! as its statuses. The names of the statuses are those of the project's "statuscodes".

use std::time::Duration;

use http::StatusCode;

/// A status of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatus(pub u8);

impl GrpcStatus {
    /// An upstream or the call itself is too slow.
    pub const DEADLINE_EXCEEDED: GrpcStatus = GrpcStatus(4);

    /// The status of a call whose stream was reset with this error code of HTTP/2 ("Errors" of
    /// PROTOCOL-HTTP2).
    pub fn of_reset(code: u32) -> GrpcStatus {
        match code {
            7 => GrpcStatus(14), // REFUSED_STREAM: UNAVAILABLE
            8 => GrpcStatus(1),  // CANCEL: CANCELLED
            11 => GrpcStatus(8), // ENHANCE_YOUR_CALM: RESOURCE_EXHAUSTED
            12 => GrpcStatus(7), // INADEQUATE_SECURITY: PERMISSION_DENIED
            _ => GrpcStatus(13), // INTERNAL
        }
    }

    /// The status that a client infers from this HTTP status ("http-grpc-status-mapping"), but
    /// DEADLINE_EXCEEDED if an upstream is too slow, and RESOURCE_EXHAUSTED for what is too large
    /// or too frequent.
    pub fn of(status: StatusCode) -> GrpcStatus {
        GrpcStatus(match status.as_u16() {
            400 => 13,       // INTERNAL
            401 => 16,       // UNAUTHENTICATED
            403 => 7,        // PERMISSION_DENIED
            404 => 12,       // UNIMPLEMENTED
            413 | 429 => 8,  // RESOURCE_EXHAUSTED
            408 | 504 => 4,  // DEADLINE_EXCEEDED
            502 | 503 => 14, // UNAVAILABLE
            _ => 2,          // UNKNOWN
        })
    }
}

/// Parses `grpc-timeout`: at most 8 digits and a unit.
pub fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0, |count, digit| count * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(count * 3_600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Returns whether a media type is that of gRPC, of messages in any format.
pub fn is_grpc(media_type: &[u8]) -> bool {
    let rest = media_type.split_at_checked(GRPC.len());
    rest.is_some_and(|(begin, rest)| {
        begin.eq_ignore_ascii_case(GRPC) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
    })
}

const GRPC: &[u8] = b"application/grpc";

/// Returns a text as the value of `grpc-message`: percent-encoded.
pub fn message(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' => encoded.push_str("%25"),
            b' '..=b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types() {
        for (media_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/gRPC; charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/grp", false),
            ("", false),
        ] {
            assert_eq!(is_grpc(media_type.as_bytes()), expected, "{media_type}");
        }
    }

    #[test]
    fn timeouts() {
        for (value, expected) in [
            ("5S", Some(Duration::from_secs(5))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("1u", Some(Duration::from_micros(1))),
            ("100000000S", None),
            ("S", None),
            ("1s", None),
            ("-1S", None),
            ("", None),
        ] {
            assert_eq!(timeout(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(message("50 %: caf\u{e9}\n"), "50 %25: caf%C3%A9%0A");
    }
}
