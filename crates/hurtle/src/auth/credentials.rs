//! Parses the Authorization value of the Basic scheme (RFC 7617 section 2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The name and password that a client sent.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) name: String,
    pub(super) password: String,
}

impl Credentials {
    /// Parses a value; `None` for another scheme or a malformed value.
    pub(super) fn parse(value: &[u8]) -> Option<Credentials> {
        let (scheme, rest) = value.split_at_checked("Basic ".len())?;
        // RFC 9110 section 11.1: schemes are case-insensitive.
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        // A password may hold colons, a name may not. Neither may hold control characters.
        let (name, password) = text.split_once(':')?;
        if text.contains(char::is_control) {
            return None;
        }
        Some(Credentials { name: name.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_and_a_password() {
        let rows: [(&str, &[u8], Option<(&str, &str)>); 12] = [
            ("RFC 7617's", b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some(("Aladdin", "open sesame"))),
            ("RFC 7617's in UTF-8", b"Basic dGVzdDoxMjPCow==", Some(("test", "123£"))),
            ("schemes have no case", b"bAsIc YTpi", Some(("a", "b"))),
            ("a colon in the password", b"Basic YTpiOmM=", Some(("a", "b:c"))),
            ("several spaces", b"Basic   YTpi", Some(("a", "b"))),
            ("no password", b"Basic YTo=", Some(("a", ""))),
            ("no colon", b"Basic YQ==", None),
            ("another scheme", b"Bearer YTpi", None),
            ("no scheme", b"YTpi", None),
            ("a second value", b"Basic YTpi, Basic YTpi", None),
            ("not UTF-8", b"Basic YTr/", None),
            ("a line break", b"Basic YToKYg==", None),
        ];
        for (sentence, value, want) in rows {
            let got = Credentials::parse(value);
            let got = got.as_ref().map(|c| (c.name.as_str(), c.password.as_str()));
            assert_eq!(got, want, "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value: Vec<u8>) {
            Credentials::parse(&value);
            Credentials::parse(&[b"Basic ", &value[..]].concat());
        }
    }
}
