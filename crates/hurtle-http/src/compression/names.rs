//! Classifies field names for the validation of requests and responses (RFC 9113 section 8.2, RFC
//! 9114 section 4.2). A name in a table is classified once per entry, not once per field.

/// Kinds of field names, by the rules for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:protocol` (RFC 8441 section 4)
    Protocol,
    /// `:status`
    Status,
    /// Another name that begins with a colon.
    UnknownPseudo,
    /// A connection-specific field of HTTP/1.1, which HTTP/2 and HTTP/3 forbid (section 8.2.2).
    Connection,
    /// `te`
    Te,
    /// `cookie`
    Cookie,
    /// `content-length`
    ContentLength,
    /// `priority` (RFC 9218 section 5)
    Priority,
    /// Any other field.
    Regular,
    /// Not a token, or with a capital (section 8.2.1).
    Invalid,
}

/// The result of checking a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The class of its name.
    pub class: Class,
    /// The value has no control character, and no white space at either end (section 8.2.1).
    pub is_value_valid: bool,
}

impl Verdict {
    pub(crate) fn of(name: &[u8], value: &[u8]) -> Verdict {
        Verdict::of_class(class(name), value)
    }

    pub(crate) fn of_class(class: Class, value: &[u8]) -> Verdict {
        Verdict { class, is_value_valid: is_value(value) }
    }
}

/// Bytes of a token (RFC 9110 section 5.6.2), except capitals.
const NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let b = byte as u8;
        table[byte] = b.is_ascii_lowercase()
            || b.is_ascii_digit()
            || matches!(
                b,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        byte += 1;
    }
    table
};

pub(crate) const fn class(name: &[u8]) -> Class {
    match name {
        b":method" => Class::Method,
        b":scheme" => Class::Scheme,
        b":authority" => Class::Authority,
        b":path" => Class::Path,
        b":protocol" => Class::Protocol,
        b":status" => Class::Status,
        [b':', ..] => Class::UnknownPseudo,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            Class::Connection
        }
        b"te" => Class::Te,
        b"cookie" => Class::Cookie,
        b"content-length" => Class::ContentLength,
        b"priority" => Class::Priority,
        [] => Class::Invalid,
        _ if is_name(name) => Class::Regular,
        _ => Class::Invalid,
    }
}

/// `true` if a field's value is a secret: intermediaries must not index it either (RFC 7541 section
/// 7.1.3, RFC 9204 section 7.1.3).
pub(crate) const fn is_secret(name: &[u8]) -> bool {
    matches!(
        name,
        b"set-cookie"
            | b"cookie"
            | b"authorization"
            | b"proxy-authorization"
            | b"www-authenticate"
            | b"proxy-authenticate"
    )
}

const fn is_name(name: &[u8]) -> bool {
    let mut at = 0;
    while at < name.len() && NAME_BYTES[name[at] as usize] {
        at += 1;
    }
    at == name.len()
}

/// RFC 9113 section 8.2.1, and RFC 9110 section 5.5 for the other control characters.
fn is_value(value: &[u8]) -> bool {
    let is_white = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_text = |&byte: &u8| byte >= b' ' && byte != 0x7f || byte == b'\t';
    !is_white(value.first()) && !is_white(value.last()) && value.iter().all(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let rows: [(&str, &[u8], bool); 9] = [
            ("text", b"a b\tc", true),
            ("nothing", b"", true),
            ("bytes beyond ASCII", b"\xc3\xa4", true),
            ("NUL", b"a\0", false),
            ("a line's end", b"a\r\nb: c", false),
            ("a control character", b"\x1b[0m", false),
            ("DEL", b"\x7f", false),
            ("white space in front", b" a", false),
            ("white space behind", b"a\t", false),
        ];
        for (why, value, valid) in rows {
            assert_eq!(is_value(value), valid, "{why}");
        }
    }

    #[test]
    fn names() {
        let rows: [(&str, Class); 10] = [
            (":protocol", Class::Protocol),
            ("x-custom_1", Class::Regular),
            ("", Class::Invalid),
            ("Accept", Class::Invalid),
            ("a b", Class::Invalid),
            ("a:b", Class::Invalid),
            (":", Class::UnknownPseudo),
            (":status", Class::Status),
            ("upgrade", Class::Connection),
            ("host", Class::Regular),
        ];
        for (name, expected) in rows {
            assert_eq!(class(name.as_bytes()), expected, "{name}");
        }
    }
}
