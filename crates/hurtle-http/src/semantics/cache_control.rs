//! Cache directives of a request or a response: Cache-Control (RFC 9111 5.2, RFC 5861), Pragma, and
//! CDN-Cache-Control (RFC 9213).

use super::fields::{list, trim_ows};
use super::structured::{self, Value};

/// Replaces numbers that are larger, in seconds (RFC 9111 1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

/// Cache directives. Times are in seconds, at most [`SECONDS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Directives {
    pub no_store: bool,
    pub no_cache: bool,
    pub private: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub only_if_cached: bool,
    pub max_age: Option<u64>,
    pub s_maxage: Option<u64>,
    /// `SECONDS_MAX` without an argument: any staleness.
    pub max_stale: Option<u64>,
    pub min_fresh: Option<u64>,
    pub stale_while_revalidate: Option<u64>,
    pub stale_if_error: Option<u64>,
}

impl Directives {
    /// Reads the directives of a request from all its fields, given as names and values.
    pub fn of_request<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Directives {
        let mut directives = Directives::default();
        let (mut has_cache_control, mut pragma) = (false, false);
        for (name, value) in fields {
            if name.eq_ignore_ascii_case(b"cache-control") {
                has_cache_control = true;
                directives.read(value);
            } else if name.eq_ignore_ascii_case(b"pragma") {
                pragma |= list(value).any(|element| element.eq_ignore_ascii_case(b"no-cache"));
            }
        }
        // RFC 9111 5.4: Pragma counts only without Cache-Control.
        directives.no_cache |= pragma && !has_cache_control;
        directives
    }

    /// Adds the directives of a Cache-Control line. Unknown directives are ignored (RFC 9111
    /// 5.2.3). The smaller of two times counts, and an invalid time is 0: stale (RFC 9111 4.2.1).
    pub fn read(&mut self, line: &[u8]) {
        for element in elements(line) {
            let (name, argument) = match memchr::memchr(b'=', element) {
                Some(at) => (&element[..at], Some(&element[at + 1..])),
                None => (element, None),
            };
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            let time = || argument.map_or(0, seconds);
            match name.len() {
                6 if is("public") => self.public = true,
                // RFC 9111 5.2.2.4 and 5.2.2.7: with field names, `private` and `no-cache` may be
                // taken for the whole response.
                7 if is("private") => self.private = true,
                7 if is("max-age") => least(&mut self.max_age, time()),
                8 if is("no-store") => self.no_store = true,
                8 if is("no-cache") => self.no_cache = true,
                8 if is("s-maxage") => least(&mut self.s_maxage, time()),
                9 if is("max-stale") => {
                    least(&mut self.max_stale, argument.map_or(SECONDS_MAX, seconds));
                }
                9 if is("min-fresh") => least(&mut self.min_fresh, time()),
                14 if is("only-if-cached") => self.only_if_cached = true,
                14 if is("stale-if-error") => least(&mut self.stale_if_error, time()),
                15 if is("must-revalidate") => self.must_revalidate = true,
                15 if is("must-understand") => self.must_understand = true,
                16 if is("proxy-revalidate") => self.proxy_revalidate = true,
                22 if is("stale-while-revalidate") => {
                    least(&mut self.stale_while_revalidate, time());
                }
                _ => {}
            }
        }
    }

    /// Reads a targeted field such as CDN-Cache-Control, its lines joined with commas. `None`: it
    /// is empty, is no Dictionary, or gives a known directive a value of the wrong type, and is to
    /// be ignored (RFC 9213 2.1).
    pub fn targeted(field: &[u8]) -> Option<Directives> {
        let members = structured::dictionary(field)?;
        let mut directives = Directives::default();
        for (name, value) in &members {
            let d = &mut directives;
            match *name {
                b"max-age" => d.max_age = Some(time(*value)?),
                b"s-maxage" => d.s_maxage = Some(time(*value)?),
                b"stale-while-revalidate" => d.stale_while_revalidate = Some(time(*value)?),
                b"stale-if-error" => d.stale_if_error = Some(time(*value)?),
                b"no-store" => d.no_store = flag(*value)?,
                b"must-revalidate" => d.must_revalidate = flag(*value)?,
                b"proxy-revalidate" => d.proxy_revalidate = flag(*value)?,
                b"must-understand" => d.must_understand = flag(*value)?,
                b"public" => d.public = flag(*value)?,
                // A String lists field names.
                b"private" => d.private = *value == Value::String || flag(*value)?,
                b"no-cache" => d.no_cache = *value == Value::String || flag(*value)?,
                _ => {}
            }
        }
        (!members.is_empty()).then_some(directives)
    }
}

/// delta-seconds as an Integer; a negative one is invalid, thus stale.
fn time(value: Value) -> Option<u64> {
    match value {
        Value::Integer(number) => Some(u64::try_from(number).unwrap_or(0).min(SECONDS_MAX)),
        _ => None,
    }
}

fn flag(value: Value) -> Option<bool> {
    match value {
        Value::Boolean(flag) => Some(flag),
        _ => None,
    }
}

/// The elements of a list whose values may be quoted strings with commas in them.
fn elements(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (mut quoted, mut escaped) = (false, false);
            let end = rest.iter().position(|&b| {
                let special = !std::mem::take(&mut escaped);
                match b {
                    b'\\' if quoted && special => escaped = true,
                    b'"' if special => quoted = !quoted,
                    b',' if !quoted => return true,
                    _ => {}
                }
                false
            });
            let end = end.unwrap_or(rest.len());
            let element = trim_ows(&rest[..end]);
            rest = rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    })
}

/// delta-seconds (RFC 9111 1.2.2), in quotes or not; 0 for anything else.
pub(super) fn seconds(argument: &[u8]) -> u64 {
    let bare = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let digits = bare.unwrap_or(argument);
    let number = digits.iter().try_fold(0_u64, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some((value * 10 + u64::from(digit)).min(SECONDS_MAX))
    });
    number.unwrap_or(0)
}

fn least(slot: &mut Option<u64>, value: u64) {
    *slot = Some(slot.map_or(value, |other| other.min(value)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn targeted_fields() {
        let max_age = |seconds| Directives { max_age: Some(seconds), ..Directives::default() };
        let private = Directives { private: true, ..Directives::default() };
        let no_cache = Directives { no_cache: true, ..max_age(60) };
        #[rustfmt::skip]
        let rows = [
            ("a time", "max-age=60", Some(max_age(60))),
            ("the last of two", "max-age=60, max-age=90", Some(max_age(90))),
            ("a parameter is ignored", "max-age=60;a=b", Some(max_age(60))),
            ("an unknown directive", "foo, max-age=60", Some(max_age(60))),
            ("a time that is too large", "max-age=99999999999", Some(max_age(SECONDS_MAX))),
            ("a negative time", "max-age=-1", Some(max_age(0))),
            ("a flag", "private", Some(private)),
            ("a flag with field names", "max-age=60, no-cache=\"a, b\"", Some(no_cache)),
            ("a flag that is false", "max-age=60, no-store=?0", Some(max_age(60))),
            ("only an unknown directive", "none", Some(Directives::default())),
            ("empty", "", None),
            ("no Dictionary", "max-age=60, &&&&&", None),
            ("a String for a time", "max-age=\"60\"", None),
            ("a Decimal for a time", "max-age=60.0", None),
            ("no value for a time", "max-age", None),
            ("a number for a flag", "max-age=60, no-store=1", None),
            ("an upper-case name", "Max-Age=60", None),
        ];
        for (sentence, field, expected) in rows {
            assert_eq!(Directives::targeted(field.as_bytes()), expected, "{sentence}: {field}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_and_two_halves_of_a_list_are_the_whole(
            parts in prop::collection::vec("[a-z-]{0,10}(=(\"[ -~]{0,5}\"|[0-9a-z]{0,4}))?", 0..6),
            any: Vec<u8>,
        ) {
            Directives::default().read(&any);
            Directives::targeted(&any);
            let mut whole = Directives::default();
            whole.read(parts.join(",").as_bytes());
            let balanced = parts.iter().all(|p| p.matches('"').count() % 2 == 0 && !p.contains('\\'));
            if balanced {
                let mut pieces = Directives::default();
                parts.iter().for_each(|part| pieces.read(part.as_bytes()));
                prop_assert_eq!(whole, pieces);
            }
        }
    }
}
