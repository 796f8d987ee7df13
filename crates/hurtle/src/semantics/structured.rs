//! Structured fields (RFC 9651) as far as they are needed: an Item that is an Integer or a Boolean,
//! its parameters read and dropped. What does not parse is no value: whoever asks ignores the field.

/// The largest Integer (RFC 9651 3.3.1): fifteen digits.
pub const INTEGER_MAX: u64 = 999_999_999_999_999;

/// A non-negative Integer.
pub fn integer(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let len = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = value.split_at(len);
    // RFC 9651 4.2.4: at most fifteen digits, which `u64` holds.
    if !(1..=15).contains(&len) || !are_parameters(rest) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// A Boolean (RFC 9651 3.3.6).
pub fn boolean(value: &[u8]) -> Option<bool> {
    let (flag, rest) = value.trim_ascii().split_at_checked(2)?;
    let flag = match flag {
        b"?0" => false,
        b"?1" => true,
        _ => return None,
    };
    are_parameters(rest).then_some(flag)
}

/// Whether this is nothing but parameters (RFC 9651 3.1.2), or nothing at all.
fn are_parameters(mut rest: &[u8]) -> bool {
    while let Some(after) = rest.strip_prefix(b";") {
        let after = skip(after, |b| b == b' ');
        let begins = after.first().is_some_and(|b| b.is_ascii_lowercase() || *b == b'*');
        let after =
            skip(after, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b));
        let read = match after.strip_prefix(b"=") {
            Some(value) => skip_value(value),
            None => Some(after),
        };
        match read.filter(|_| begins) {
            Some(left) => rest = left,
            None => return false,
        }
    }
    rest.is_empty()
}

/// What follows a bare item; `None`: there is none.
fn skip_value(value: &[u8]) -> Option<&[u8]> {
    if let Some(mut text) = value.strip_prefix(b"\"") {
        loop {
            match text {
                [b'"', rest @ ..] => return Some(rest),
                [b'\\', b'"' | b'\\', rest @ ..] => text = rest,
                [b'\\', ..] | [] => return None,
                [b' '..=b'~', rest @ ..] => text = rest,
                _ => return None,
            }
        }
    }
    // Numbers, tokens, byte sequences, booleans, dates: which of them is all the same here.
    let rest = skip(value, |b| b.is_ascii_graphic() && !b";,\"".contains(&b));
    (rest.len() < value.len()).then_some(rest)
}

fn skip(bytes: &[u8], is: impl Fn(u8) -> bool) -> &[u8] {
    let len = bytes.iter().take_while(|b| is(**b)).count();
    &bytes[len..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_and_booleans() {
        let rows: [(&str, &str, Option<u64>, Option<bool>); 17] = [
            ("an integer", "0", Some(0), None),
            ("leading zeros", "007", Some(7), None),
            ("the largest", "999999999999999", Some(INTEGER_MAX), None),
            ("a digit more", "1000000000000000", None, None),
            ("negative", "-1", None, None),
            ("a decimal", "1.0", None, None),
            ("spaces around", " 5 ", Some(5), None),
            ("nothing", "", None, None),
            ("two lines of the field", "1, 1", None, None),
            ("a parameter", "5;a", Some(5), None),
            ("parameters of every kind", "5; a=1;*b=?0;c=\"x;\\\"\";d=:YQ==:", Some(5), None),
            ("a parameter without a name", "5;", None, None),
            ("a parameter without its value", "5;a=", None, None),
            ("a string without its end", "5;a=\"b", None, None),
            ("true", "?1", None, Some(true)),
            ("false, with a parameter", "?0;a=b", None, Some(false)),
            ("neither", "?2", None, None),
        ];
        for (sentence, value, int, flag) in rows {
            assert_eq!(integer(value.as_bytes()), int, "{sentence}");
            assert_eq!(boolean(value.as_bytes()), flag, "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(n in 0..=INTEGER_MAX, key in "[a-z*][a-z0-9_.*-]{0,5}") {
            let line = format!("{n};{key};{key}=1");
            prop_assert_eq!(integer(line.as_bytes()), Some(n));
        }

        #[test]
        fn no_bytes_make_it_panic(value: Vec<u8>) {
            integer(&value);
            boolean(&value);
            integer(&[b"5;", &value[..]].concat());
            boolean(&[b"?1;a=\"", &value[..]].concat());
        }
    }
}
