//! Structured fields (RFC 9651), as far as HTTP fields here need them: an Item that is an Integer
//! or a Boolean, and a Dictionary. Parameters are checked and dropped. `None` means malformed: the
//! caller must ignore the field.

/// Maximum Integer: fifteen digits (RFC 9651 section 3.3.1).
pub const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The value of a Dictionary member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A Boolean, `true` for a member without a value.
    Boolean(bool),
    /// An Integer (RFC 9651 section 3.3.1).
    Integer(i64),
    /// A String; its text is dropped.
    String,
    /// A value of any other type.
    Other,
}

/// Parses a non-negative Integer (RFC 9651 section 3.3.1).
pub fn integer(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let len = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = value.split_at(len);
    // RFC 9651 section 4.2.4: at most fifteen digits, which a `u64` can hold.
    if !(1..=15).contains(&len) || !are_parameters(rest) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// Parses a Boolean (RFC 9651 section 3.3.6).
pub fn boolean(value: &[u8]) -> Option<bool> {
    let (flag, rest) = value.trim_ascii().split_at_checked(2)?;
    let flag = match flag {
        b"?0" => false,
        b"?1" => true,
        _ => return None,
    };
    are_parameters(rest).then_some(flag)
}

/// Parses a Dictionary (RFC 9651 section 4.2.2) and returns its members in order. A key can occur
/// twice; the last one counts. The caller joins several field lines with commas.
pub fn dictionary(field: &[u8]) -> Option<Vec<(&[u8], Value)>> {
    let mut rest = trim_spaces(field);
    let mut members = Vec::new();
    while !rest.is_empty() {
        let (name, after) = key(rest)?;
        let (value, after) = match after.strip_prefix(b"=") {
            Some(value) => item_or_list(value)?,
            None => (Value::Boolean(true), after),
        };
        members.push((name, value));
        rest = trim_ows_start(parameters(after)?);
        if rest.is_empty() {
            break;
        }
        rest = trim_ows_start(rest.strip_prefix(b",")?);
        // A comma at the end is an error.
        rest.first()?;
    }
    Some(members)
}

/// Parses an Item or an Inner List (RFC 9651 section 4.2.1.1) without its parameters; also returns
/// the rest.
fn item_or_list(value: &[u8]) -> Option<(Value, &[u8])> {
    let Some(mut rest) = value.strip_prefix(b"(") else { return bare_item(value) };
    loop {
        rest = skip(rest, |b| b == b' ');
        if let Some(after) = rest.strip_prefix(b")") {
            return Some((Value::Other, after));
        }
        rest = parameters(bare_item(rest)?.1)?;
        if !matches!(rest.first(), Some(b' ' | b')')) {
            return None;
        }
    }
}

/// Parses a bare Item (RFC 9651 section 4.2.3.1); also returns the rest.
fn bare_item(value: &[u8]) -> Option<(Value, &[u8])> {
    match value {
        [b'?', flag @ (b'0' | b'1'), rest @ ..] => Some((Value::Boolean(*flag == b'1'), rest)),
        [b'"', text @ ..] => Some((Value::String, string_end(text)?)),
        [b'-' | b'0'..=b'9', ..] => number(value),
        [b'@', date @ ..] => match number(date)? {
            (Value::Integer(_), rest) => Some((Value::Other, rest)),
            _ => None,
        },
        [b':', bytes @ ..] => {
            let rest = skip(bytes, |b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
            Some((Value::Other, rest.strip_prefix(b":")?))
        }
        [b'%', b'"', text @ ..] => {
            let rest = skip(text, |b| matches!(b, b' '..=b'~') && b != b'"');
            Some((Value::Other, rest.strip_prefix(b"\"")?))
        }
        [b'*' | b'a'..=b'z' | b'A'..=b'Z', ..] => {
            let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b);
            Some((Value::Other, skip(value, is_token)))
        }
        _ => None,
    }
}

/// Parses an Integer or a Decimal (RFC 9651 section 4.2.4); also returns the rest.
fn number(value: &[u8]) -> Option<(Value, &[u8])> {
    let unsigned = value.strip_prefix(b"-").unwrap_or(value);
    let rest = skip(unsigned, |b| b.is_ascii_digit());
    let digits = &unsigned[..unsigned.len() - rest.len()];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let rest = skip(fraction, |b| b.is_ascii_digit());
        let is_decimal =
            (1..=12).contains(&digits.len()) && (1..=3).contains(&(fraction.len() - rest.len()));
        return is_decimal.then_some((Value::Other, rest));
    }
    if !(1..=15).contains(&digits.len()) {
        return None;
    }
    let number = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let number = if unsigned.len() < value.len() { -number } else { number };
    Some((Value::Integer(number), rest))
}

/// Skips the rest of a String after its opening quote (RFC 9651 section 4.2.5).
fn string_end(mut text: &[u8]) -> Option<&[u8]> {
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

/// True if `rest` is empty or holds only parameters (RFC 9651 section 3.1.2).
fn are_parameters(rest: &[u8]) -> bool {
    parameters(rest).is_some_and(<[u8]>::is_empty)
}

/// Skips parameters (RFC 9651 section 4.2.3.2), if there are any.
fn parameters(mut rest: &[u8]) -> Option<&[u8]> {
    while let Some(after) = rest.strip_prefix(b";") {
        let (_, after) = key(skip(after, |b| b == b' '))?;
        rest = match after.strip_prefix(b"=") {
            Some(value) => bare_item(value)?.1,
            None => after,
        };
    }
    Some(rest)
}

/// Parses a key (RFC 9651 section 4.2.3.3); also returns the rest.
fn key(value: &[u8]) -> Option<(&[u8], &[u8])> {
    if !value.first().is_some_and(|b| b.is_ascii_lowercase() || *b == b'*') {
        return None;
    }
    let is_key = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b);
    let rest = skip(value, is_key);
    Some((&value[..value.len() - rest.len()], rest))
}

fn trim_ows_start(bytes: &[u8]) -> &[u8] {
    skip(bytes, |b| matches!(b, b' ' | b'\t'))
}

fn trim_spaces(bytes: &[u8]) -> &[u8] {
    let bytes = skip(bytes, |b| b == b' ');
    let len = bytes.iter().rposition(|b| *b != b' ').map_or(0, |last| last + 1);
    &bytes[..len]
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

    #[test]
    fn dictionaries() {
        use Value::{Boolean, Integer, Other, String};
        type Members = &'static [(&'static str, Value)];
        let rows: [(&str, &str, Option<Members>); 22] = [
            ("nothing", "", Some(&[])),
            ("a key alone is true", "a", Some(&[("a", Boolean(true))])),
            (
                "of each type",
                "a=1, b=-2,c=?0 ,\td=\"x, y\"",
                Some(&[
                    ("a", Integer(1)),
                    ("b", Integer(-2)),
                    ("c", Boolean(false)),
                    ("d", String),
                ]),
            ),
            ("a token, a decimal", "a=b/c:d, b=1.5", Some(&[("a", Other), ("b", Other)])),
            ("bytes, a date", "a=:YQ==:, b=@1659578233", Some(&[("a", Other), ("b", Other)])),
            ("a display string", "a=%\"f%c3%bc\"", Some(&[("a", Other)])),
            ("inner lists", "a=(), b=( 1 \"x\";q  c );p=1", Some(&[("a", Other), ("b", Other)])),
            (
                "parameters are dropped",
                "a;p=?1, b=1;p;q=x",
                Some(&[("a", Boolean(true)), ("b", Integer(1))]),
            ),
            ("a key twice", "a=1, a=2", Some(&[("a", Integer(1)), ("a", Integer(2))])),
            ("fifteen digits", "a=999999999999999", Some(&[("a", Integer(999_999_999_999_999))])),
            ("sixteen digits", "a=1000000000000000", None),
            ("an upper-case key", "A=1", None),
            ("not a key", "a=1, &&&&&", None),
            ("a comma at the end", "a=1,", None),
            ("no comma", "a=1 b=2", None),
            ("a space before `=`", "a =1", None),
            ("a space after `=`", "a= 1", None),
            ("no value", "a=", None),
            ("a string without its end", "a=\"b", None),
            ("a list without its end", "a=(1 2", None),
            ("a list without spaces", "a=(1\"x\")", None),
            ("a decimal without digits", "a=1.", None),
        ];
        for (sentence, field, expected) in rows {
            let found = dictionary(field.as_bytes());
            let expected: Option<Vec<_>> = expected
                .map(|all| all.iter().map(|(key, value)| (key.as_bytes(), *value)).collect());
            assert_eq!(found, expected, "{sentence}: {field}");
        }
    }

    proptest! {
        #[test]
        fn formatted_integers_parse_back(n in 0..=INTEGER_MAX, key in "[a-z*][a-z0-9_.*-]{0,5}") {
            let line = format!("{n};{key};{key}=1");
            prop_assert_eq!(integer(line.as_bytes()), Some(n));
        }

        #[test]
        fn no_bytes_make_it_panic(value: Vec<u8>) {
            integer(&value);
            boolean(&value);
            integer(&[b"5;", &value[..]].concat());
            boolean(&[b"?1;a=\"", &value[..]].concat());
            dictionary(&value);
            dictionary(&[b"a=(1 b);c=", &value[..]].concat());
        }
    }
}
