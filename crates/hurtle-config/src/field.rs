//! Parses field names, field values and media types (RFC 9110 sections 5.1, 5.5 and 8.3.1).

use http::{HeaderName, HeaderValue};

use super::error::{ValueError, shown};

/// Fields that frame or date a message or belong to the connection (RFC 9110 sections 6.4, 6.5,
/// 6.6.1, 7.6.1 and 14.4; RFC 9112 section 6). A rule that changed them would make the message
/// invalid, so only the server sets them.
const SERVERS_OWN: [&str; 9] = [
    "connection",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Parses the name of a field.
pub(super) fn any_field_name(text: &str) -> Result<HeaderName, ValueError> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        ValueError::new(format!("{} is not a field name", shown(text)))
            .hint("letters, digits and -, such as Cache-Control")
    })
}

/// Parses the name of a field that a rule may set or remove.
pub(super) fn field_name(text: &str) -> Result<HeaderName, ValueError> {
    let name = any_field_name(text)?;
    if SERVERS_OWN.contains(&name.as_str()) {
        return Err(
            ValueError::new(format!("{} is set by the server only", shown(text))).hint("remove it")
        );
    }
    Ok(name)
}

/// Parses the name of a cookie. It has the characters of a token, as field names do (RFC 6265
/// section 4.1.1).
pub(super) fn cookie_name(text: &str) -> Result<String, ValueError> {
    match HeaderName::from_bytes(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(ValueError::new(format!("{} is not a cookie's name", shown(text)))
            .hint("letters, digits, - and _, such as \"server\"")),
    }
}

/// Parses a field value.
pub(super) fn field_value(text: &str) -> Result<HeaderValue, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    // Recipients strip surrounding whitespace (RFC 9110 section 5.5), so it would be lost.
    if text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']) {
        // The value may be a secret, which a part of it would show.
        return Err(wrong("begins or ends with a space").hint("remove the space"));
    }
    // RFC 9110 section 5.5: recipients treat other bytes than ASCII as opaque data.
    let value = HeaderValue::from_str(text).ok().filter(|_| text.is_ascii());
    value.ok_or_else(|| {
        wrong("is not a field value").hint("write one line of printable ASCII characters")
    })
}

/// Parses a media type with or without parameters.
pub(super) fn media_type(text: &str) -> Result<HeaderValue, ValueError> {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let token = |part: &str| {
        let mark = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        !part.is_empty() && part.bytes().all(mark)
    };
    match essence.split_once('/') {
        Some((kind, subtype)) if token(kind) && token(subtype) => field_value(text),
        _ => Err(ValueError::new(format!("{} is not a media type", shown(text)))
            .hint("write one such as \"text/plain; charset=utf-8\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_frame_a_message_are_refused_with_the_invalid_ones() {
        let table = [
            ("a field", "Cache-Control", true),
            ("one of the operator's own", "X-Whatever_1", true),
            ("framing", "Content-Length", false),
            ("framing, in another case", "TRANSFER-encoding", false),
            ("the connection's", "Connection", false),
            ("the clock's", "Date", false),
            ("a space", "Cache Control", false),
            ("a colon", "Cache-Control:", false),
            ("a line break", "a\r\nb", false),
            ("empty", "", false),
        ];
        for (sentence, text, good) in table {
            assert_eq!(field_name(text).is_ok(), good, "{sentence}");
        }
    }

    #[test]
    fn values_are_one_line_of_ascii() {
        let table = [
            ("a value", "max-age=3600", true),
            ("empty", "", true),
            ("a tab inside", "a\tb", true),
            ("a line break", "a\r\nSet-Cookie: b", false),
            ("a NUL", "a\0", false),
            ("not ASCII", "é", false),
            ("a space in front", " a", false),
        ];
        for (sentence, text, good) in table {
            assert_eq!(field_value(text).is_ok(), good, "{sentence}");
        }
    }

    #[test]
    fn media_types_have_two_parts() {
        let table = [
            ("plain", "text/html", true),
            ("with a parameter", "text/html; charset=utf-8", true),
            ("one part", "html", false),
            ("three parts", "a/b/c", false),
            ("empty", "", false),
            ("a line break in a parameter", "a/b; c=\n", false),
        ];
        for (sentence, text, good) in table {
            assert_eq!(media_type(text).is_ok(), good, "{sentence}");
        }
    }
}
