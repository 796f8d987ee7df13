//! The subject of a certificate as text (RFC 4514), which nginx, Apache and Caddy give to
//! applications.

use std::fmt::Write as _;

use super::der::{
    Der, IA5_STRING, OBJECT_IDENTIFIER, PRINTABLE_STRING, SEQUENCE, SET, UTF8_STRING,
};

/// The DER of object identifiers with a short name (RFC 4514 section 3, RFC 2985).
const NAMES: [(&[u8], &str); 11] = [
    (&[0x55, 0x04, 0x03], "CN"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (&[0x55, 0x04, 0x0a], "O"),
    (&[0x55, 0x04, 0x0b], "OU"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x09], "STREET"),
    (&[0x55, 0x04, 0x05], "serialNumber"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01], "UID"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01], "emailAddress"),
];

/// Returns the text of the contents of a Name (RFC 5280 section 4.1.2.4): the last part first, such
/// as `CN=anna,O=Example,C=DE`. `None`: it is malformed, or has control characters.
pub(super) fn text(subject: &[u8]) -> Option<String> {
    let mut sets = Der(subject);
    let mut parts = Vec::new();
    while !sets.0.is_empty() {
        let mut attributes = sets.enter(SET)?;
        let mut values = Vec::new();
        while !attributes.0.is_empty() {
            values.push(attribute(attributes.enter(SEQUENCE)?)?);
        }
        parts.push(values.join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

/// The text of one attribute.
fn attribute(mut attribute: Der<'_>) -> Option<String> {
    let kind = attribute.take(OBJECT_IDENTIFIER)?;
    let whole = attribute.0;
    let known = NAMES.iter().find(|(oid, _)| *oid == kind).map(|(_, name)| *name);
    let written = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING];
    let value = written.into_iter().find_map(|tag| attribute.take(tag));
    match (known, value.and_then(|value| std::str::from_utf8(value).ok())) {
        (Some(name), Some(value)) if !value.chars().any(char::is_control) => {
            Some(format!("{name}={}", escaped(value)))
        }
        (_, Some(value)) if value.chars().any(char::is_control) => None,
        // RFC 4514 section 2.4: the encoding, in hexadecimal digits.
        _ => {
            let name = known.map_or_else(|| dotted(kind), |name| Some(name.to_owned()))?;
            let hex = whole.iter().fold(String::new(), |mut hex, byte| {
                // Writing into a String cannot fail.
                let _ = write!(hex, "{byte:02X}");
                hex
            });
            Some(format!("{name}=#{hex}"))
        }
    }
}

/// Escapes a value (RFC 4514 section 2.4).
fn escaped(value: &str) -> String {
    let mut out = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        let is_edge = c == ' ' && (at == 0 || at == last);
        if is_edge || (at == 0 && c == '#') || "\"+,;<>\\".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The numbers of an object identifier (X.690 section 8.19); `None`: it is malformed.
fn dotted(oid: &[u8]) -> Option<String> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number = 0_u64;
    for byte in oid {
        number = number.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            match numbers.is_empty() {
                true => {
                    let first = (number / 40).min(2);
                    numbers.extend([first, number - first * 40]);
                }
                false => numbers.push(number),
            }
            number = 0;
        }
    }
    let ends = oid.last().is_some_and(|byte| byte & 0x80 == 0);
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    ends.then(|| texts.join("."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A set of one attribute.
    fn set(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        let element = |tag: u8, contents: &[u8]| {
            [&[tag, u8::try_from(contents.len()).unwrap()][..], contents].concat()
        };
        let attribute = [element(0x06, oid), element(tag, value)].concat();
        element(0x31, &element(0x30, &attribute))
    }

    #[test]
    fn subjects_are_written_as_rfc_4514_has_it() {
        let (cn, org, country) = (NAMES[0].0, NAMES[3].0, NAMES[5].0);
        let rows: [(&str, Vec<u8>, Option<&str>); 8] = [
            (
                "the last part first",
                [
                    set(country, 0x13, b"DE"),
                    set(org, 0x0c, b"Example, Inc."),
                    set(cn, 0x0c, b"anna"),
                ]
                .concat(),
                Some("CN=anna,O=Example\\, Inc.,C=DE"),
            ),
            ("spaces at the ends", set(cn, 0x0c, b" a b "), Some("CN=\\ a b\\ ")),
            ("a number sign", set(cn, 0x0c, b"#a+b\"c"), Some("CN=\\#a\\+b\\\"c")),
            ("another alphabet", set(cn, 0x0c, "ж".as_bytes()), Some("CN=ж")),
            ("another string type", set(cn, 0x1e, b"\0a"), Some("CN=#1E020061")),
            (
                "another attribute",
                set(&[0x2a, 0x03, 0x81, 0x00], 0x0c, b"a"),
                Some("1.2.3.128=#0C0161"),
            ),
            ("a line break", set(cn, 0x0c, b"a\r\nX: y"), None),
            ("nothing", Vec::new(), Some("")),
        ];
        for (sentence, subject, expected) in rows {
            assert_eq!(text(&subject).as_deref(), expected, "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn no_subject_causes_a_panic(subject in prop::collection::vec(any::<u8>(), 0..64)) {
            text(&subject);
        }
    }
}
