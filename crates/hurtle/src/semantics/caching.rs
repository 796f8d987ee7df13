//! What RFC 9111 lets a shared cache do: whether a response may be stored, how long it is fresh, and
//! whether a request may have it. No clock and no store: ages come as arguments.

use http::StatusCode;

use super::date;
use super::etag::{self, EntityTag};
use super::fields::{list, trim_ows};

/// RFC 9111 1.2.2: what a number too large to hold is taken for, in seconds.
pub const SECONDS_MAX: u64 = 1 << 31;

/// Directives of Cache-Control (RFC 9111 5.2, RFC 5861), of a request or a response. Times are in
/// seconds, at most [`SECONDS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Directives {
    pub no_store: bool,
    pub no_cache: bool,
    pub private: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub only_if_cached: bool,
    pub max_age: Option<u64>,
    pub s_maxage: Option<u64>,
    /// `SECONDS_MAX` where it has no argument: any staleness.
    pub max_stale: Option<u64>,
    pub min_fresh: Option<u64>,
    pub stale_while_revalidate: Option<u64>,
    pub stale_if_error: Option<u64>,
}

impl Directives {
    /// Reads one field line; lines add up. What is not understood is ignored (5.2.3); of two values
    /// the smaller counts, and one that is no number is 0: stale (4.2.1).
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
                // With field names too (5.2.2.4, 5.2.2.7): all of it is what they say of a part.
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
                16 if is("proxy-revalidate") => self.proxy_revalidate = true,
                22 if is("stale-while-revalidate") => {
                    least(&mut self.stale_while_revalidate, time());
                }
                _ => {}
            }
        }
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

/// delta-seconds (RFC 9111 1.2.2), in quotes or not; 0 if it is none.
fn seconds(argument: &[u8]) -> u64 {
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

/// What a request says to caches. `fields`: its names and values.
pub fn of_request<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Directives {
    let mut directives = Directives::default();
    let (mut said, mut pragma) = (false, false);
    for (name, value) in fields {
        if name.eq_ignore_ascii_case(b"cache-control") {
            said = true;
            directives.read(value);
        } else if name.eq_ignore_ascii_case(b"pragma") {
            pragma |= list(value).any(|element| element.eq_ignore_ascii_case(b"no-cache"));
        }
    }
    // RFC 9111 5.4: only where Cache-Control says nothing.
    directives.no_cache |= pragma && !said;
    directives
}

/// What a response says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described<'a> {
    /// Cache-Control.
    pub directives: Directives,
    /// Date, in seconds since 1970.
    pub date: Option<u64>,
    /// Age, in seconds; 0 if it is not there or no number (RFC 9111 5.1).
    pub age: u64,
    /// Expires, in seconds since 1970; a date that cannot be read is long past (5.3).
    pub expires: Option<u64>,
    /// Names in Vary, as written; `*` among them.
    pub vary: Vec<&'a [u8]>,
    /// It sets a cookie.
    pub sets_cookie: bool,
    /// ETag, as sent.
    pub etag: Option<&'a [u8]>,
    /// Last-Modified, as sent.
    pub last_modified: Option<&'a [u8]>,
}

/// Reads a response's fields.
pub fn of_response<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Described<'a> {
    let mut said = Described::default();
    for (name, value) in fields {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            3 if is("age") => said.age = list(value).next().map_or(0, seconds),
            4 if is("date") => said.date = date::parse(value),
            4 if is("etag") => said.etag = Some(value),
            4 if is("vary") => said.vary.extend(list(value)),
            7 if is("expires") => said.expires = Some(date::parse(value).unwrap_or(0)),
            10 if is("set-cookie") => said.sets_cookie = true,
            13 if is("cache-control") => said.directives.read(value),
            13 if is("last-modified") => said.last_modified = Some(value),
            _ => {}
        }
    }
    said
}

impl Described<'_> {
    /// Its entity-tag, if it is one.
    pub fn entity_tag(&self) -> Option<EntityTag<'_>> {
        self.etag.and_then(etag::parse)
    }
}

/// How long a stored response may be used, in seconds of its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Fresh until this age (RFC 9111 4.2.1).
    pub lifetime: u64,
    /// So long after that it may be sent while it is asked anew (RFC 5861 3).
    pub while_revalidating: u64,
    /// So long after that it may be sent where asking fails (RFC 5861 4).
    pub if_error: u64,
    /// Never to be sent stale, whatever a client would take (RFC 9111 4.2.4).
    pub strict: bool,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It says so itself, or does not say how long it is good: another request's will be the same.
    Response,
    /// Of the request it answers: another request's answer may be stored.
    Request,
}

/// Statuses whose responses are understood well enough to be stored, where they say how long.
/// 206 and 304 are answers to other questions than a GET for the whole.
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 404 | 405 | 410 | 414 | 451 | 501
    )
}

/// Whether a shared cache may store a response to a GET (RFC 9111 3), and how long it is good.
/// `authorized`: the request had Authorization; `received`: when the response came, in seconds since
/// 1970.
///
/// Stricter than it must be: no lifetime is guessed (4.2.2), what is to be asked about at each use is
/// not stored, and a response that sets a cookie is stored only if it says `public` or `s-maxage`.
///
/// # Errors
/// Whose doing it is.
pub fn may_store(
    status: StatusCode,
    said: &Described<'_>,
    request: &Directives,
    authorized: bool,
    received: u64,
) -> Result<Freshness, Refused> {
    let d = &said.directives;
    if !is_understood(status) || d.no_store || d.private || d.no_cache {
        return Err(Refused::Response);
    }
    if said.vary.contains(&b"*".as_slice()) {
        return Err(Refused::Response);
    }
    // RFC 9111 7.3 leaves it to whoever sets cookies; many forget.
    let meant_for_all = d.public || d.s_maxage.is_some();
    if said.sets_cookie && !meant_for_all {
        return Err(Refused::Response);
    }
    let lifetime = lifetime(said, received).ok_or(Refused::Response)?;
    if lifetime == 0 {
        return Err(Refused::Response);
    }
    // RFC 9111 3.5.
    if request.no_store || (authorized && !meant_for_all && !d.must_revalidate) {
        return Err(Refused::Request);
    }
    // RFC 9111 5.2.2.10: s-maxage implies proxy-revalidate; who says beside it how long stale ones
    // may be used means both.
    let strict = d.must_revalidate || d.proxy_revalidate;
    let bounded = |time: Option<u64>| if strict { 0 } else { time.unwrap_or(0) };
    Ok(Freshness {
        lifetime,
        while_revalidating: bounded(d.stale_while_revalidate),
        if_error: bounded(d.stale_if_error),
        strict: strict || d.s_maxage.is_some(),
    })
}

/// RFC 9111 4.2.1, for a shared cache; `None`: nothing was said.
fn lifetime(said: &Described<'_>, received: u64) -> Option<u64> {
    let expires = || said.expires.map(|at| at.saturating_sub(said.date.unwrap_or(received)));
    said.directives.s_maxage.or(said.directives.max_age).or_else(expires)
}

/// The age of a response when it came, in seconds (RFC 9111 4.2.3). `asked` and `received`: when
/// the request was sent and the response came, in seconds since 1970.
pub fn age_on_arrival(said: &Described<'_>, asked: u64, received: u64) -> u64 {
    let apparent = said.date.map_or(0, |date| received.saturating_sub(date));
    apparent.max(said.age.saturating_add(received.saturating_sub(asked)))
}

/// What may be done with a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is sent.
    Fresh,
    /// It is sent, stale as it is: the client takes it so.
    Stale,
    /// It is sent, and asked about anew meanwhile.
    Meanwhile,
    /// It is not sent before the origin has said that it is good.
    Ask,
}

/// Whether a stored response of this age may answer a request (RFC 9111 4.2, 5.2.1).
pub fn usable(freshness: &Freshness, age: u64, request: &Directives) -> Use {
    if request.no_cache || request.max_age.is_some_and(|max| age > max) {
        return Use::Ask;
    }
    if age.saturating_add(request.min_fresh.unwrap_or(0)) < freshness.lifetime {
        return Use::Fresh;
    }
    // What was asked to be fresh is not sent stale.
    if request.min_fresh.is_some() {
        return Use::Ask;
    }
    let stale = age.saturating_sub(freshness.lifetime);
    if stale < freshness.while_revalidating {
        return Use::Meanwhile;
    }
    if !freshness.strict && request.max_stale.is_some_and(|max| stale <= max) {
        return Use::Stale;
    }
    Use::Ask
}

/// Whether it may be sent where the origin cannot be asked (RFC 5861 4).
pub fn usable_on_error(freshness: &Freshness, age: u64, request: &Directives) -> bool {
    !request.no_cache && age.saturating_sub(freshness.lifetime) < freshness.if_error
}

/// Whether a method may have changed what its target is (RFC 9111 4.4, RFC 9110 9.2.1).
pub fn is_unsafe(method: &[u8]) -> bool {
    !matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE")
}

/// Whether a field of a stored response is kept when a 304 brings others (RFC 9111 3.2): what
/// describes the content stays that of the content there is.
pub fn survives_update(name: &[u8]) -> bool {
    ["content-length", "content-encoding", "content-type", "content-range"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    const NOW: u64 = 784_111_777;

    fn fields(text: &str) -> Vec<(&[u8], &[u8])> {
        let lines = text.lines().map(|line| line.split_once(": ").unwrap());
        lines.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
    }

    fn stored(status: u16, text: &str, request: &str, authorized: bool) -> Result<u64, Refused> {
        let said = fields(text);
        let said = of_response(said.into_iter());
        let asked = fields(request);
        let status = StatusCode::from_u16(status).unwrap();
        may_store(status, &said, &of_request(asked.into_iter()), authorized, NOW)
            .map(|freshness| freshness.lifetime)
    }

    #[test]
    fn what_is_stored_and_how_long() {
        use Refused::{Request, Response};
        #[rustfmt::skip]
        let rows = [
            ("3: nothing is said, and nothing is guessed (4.2.2)", 200, "ETag: \"a\"", Err(Response)),
            ("5.2.2.1 max-age", 200, "Cache-Control: max-age=60", Ok(60)),
            ("5.2: names have no case", 200, "cache-control: Max-Age=60", Ok(60)),
            ("5.2: an argument may be quoted", 200, "Cache-Control: max-age=\"60\"", Ok(60)),
            ("5.2: a comma within quotes is none", 200, "Cache-Control: x=\"a, no-store\", max-age=9", Ok(9)),
            ("4.2.1: a number that is none is stale", 200, "Cache-Control: max-age=-1", Err(Response)),
            ("4.2.1: of two, the smaller", 200, "Cache-Control: max-age=60, max-age=5", Ok(5)),
            ("1.2.2: a number too large", 200, "Cache-Control: max-age=99999999999999999999", Ok(SECONDS_MAX)),
            ("5.2.2.10: s-maxage beats max-age", 200, "Cache-Control: max-age=1, s-maxage=60", Ok(60)),
            ("5.2.2.10: also downward", 200, "Cache-Control: max-age=60, s-maxage=0", Err(Response)),
            ("5.3 Expires", 200, "Expires: Sun, 06 Nov 1994 08:50:37 GMT", Ok(60)),
            ("5.3: from Date on", 200, "Date: Sun, 06 Nov 1994 08:50:27 GMT\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", Ok(10)),
            ("5.3: max-age beats it", 200, "Cache-Control: max-age=5\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", Ok(5)),
            ("5.3: `0` is past", 200, "Expires: 0", Err(Response)),
            ("5.2.2.5 no-store", 200, "Cache-Control: max-age=60, no-store", Err(Response)),
            ("5.2.2.7 private", 200, "Cache-Control: max-age=60, private", Err(Response)),
            ("5.2.2.7: of a field", 200, "Cache-Control: max-age=60, private=\"x\"", Err(Response)),
            ("5.2.2.4 no-cache", 200, "Cache-Control: max-age=60, no-cache", Err(Response)),
            ("in a second line", 200, "Cache-Control: max-age=60\nCache-Control: no-store", Err(Response)),
            ("4.1: Vary: *", 200, "Cache-Control: max-age=60\nVary: *", Err(Response)),
            ("4.1: Vary of names", 200, "Cache-Control: max-age=60\nVary: Accept", Ok(60)),
            ("7.3: a cookie", 200, "Cache-Control: max-age=60\nSet-Cookie: a=b", Err(Response)),
            ("7.3: a cookie for all", 200, "Cache-Control: max-age=60, public\nSet-Cookie: a=b", Ok(60)),
            ("3.3: a part", 206, "Cache-Control: max-age=60", Err(Response)),
            ("a redirect that says how long", 302, "Cache-Control: max-age=60", Ok(60)),
            ("nothing found", 404, "Cache-Control: max-age=60", Ok(60)),
            ("a failure", 500, "Cache-Control: max-age=60", Err(Response)),
        ];
        for (sentence, status, text, expected) in rows {
            assert_eq!(stored(status, text, "", false), expected, "{sentence}");
        }
        #[rustfmt::skip]
        let authorized = [
            ("3.5: of one who has shown who he is", "max-age=60", Err(Request)),
            ("3.5: public", "max-age=60, public", Ok(60)),
            ("3.5: s-maxage", "s-maxage=60", Ok(60)),
            ("3.5: must-revalidate", "max-age=60, must-revalidate", Ok(60)),
            ("3.5: what nobody may store is the response's doing", "no-store", Err(Response)),
        ];
        for (sentence, value, expected) in authorized {
            let text = format!("Cache-Control: {value}");
            assert_eq!(stored(200, &text, "", true), expected, "{sentence}");
        }
        let no_store = "Cache-Control: no-store";
        let found = stored(200, "Cache-Control: max-age=60", no_store, false);
        assert_eq!(found, Err(Request), "5.2.1.5: the request's no-store");
    }

    #[test]
    fn what_is_used() {
        use Use::{Ask, Fresh, Meanwhile, Stale};
        #[rustfmt::skip]
        let rows = [
            ("4.2: younger than its lifetime", "max-age=60", 59, "", Fresh),
            ("4.2: as old as its lifetime", "max-age=60", 60, "", Ask),
            ("5.2.1.4: no-cache", "max-age=60", 0, "Cache-Control: no-cache", Ask),
            ("5.4: Pragma", "max-age=60", 0, "Pragma: no-cache", Ask),
            ("5.4: not beside Cache-Control", "max-age=60", 0, "Pragma: no-cache\nCache-Control: x", Fresh),
            ("5.2.1.1: older than max-age", "max-age=60", 11, "Cache-Control: max-age=10", Ask),
            ("5.2.1.1: as old as max-age", "max-age=60", 10, "Cache-Control: max-age=10", Fresh),
            ("5.2.1.3: not fresh for long enough", "max-age=60", 51, "Cache-Control: min-fresh=10", Ask),
            ("5.2.1.3: fresh for long enough", "max-age=60", 49, "Cache-Control: min-fresh=10", Fresh),
            ("5.2.1.2: stale, but not too much", "max-age=60", 70, "Cache-Control: max-stale=10", Stale),
            ("5.2.1.2: too much", "max-age=60", 71, "Cache-Control: max-stale=10", Ask),
            ("5.2.1.2: however much", "max-age=60", 9999, "Cache-Control: max-stale", Stale),
            ("5.2.2.2: never stale", "max-age=60, must-revalidate", 61, "Cache-Control: max-stale", Ask),
            ("5.2.2.8: never stale, of shared caches", "max-age=60, proxy-revalidate", 61, "Cache-Control: max-stale", Ask),
            ("5.2.2.10: s-maxage says so too", "s-maxage=60", 61, "Cache-Control: max-stale", Ask),
            ("RFC 5861 3", "max-age=60, stale-while-revalidate=10", 69, "", Meanwhile),
            ("RFC 5861 3: too late", "max-age=60, stale-while-revalidate=10", 70, "", Ask),
            ("RFC 5861 3: beside s-maxage it is meant", "s-maxage=60, stale-while-revalidate=10", 69, "", Meanwhile),
            ("RFC 5861 3: not against must-revalidate", "max-age=60, must-revalidate, stale-while-revalidate=10", 69, "", Ask),
            ("RFC 5861 3: the client wants it fresh", "max-age=60, stale-while-revalidate=10", 61, "Cache-Control: no-cache", Ask),
        ];
        for (sentence, value, age, request, expected) in rows {
            let mut said = Described::default();
            said.directives.read(value.as_bytes());
            let request = of_request(fields(request).into_iter());
            let freshness =
                may_store(StatusCode::OK, &said, &Directives::default(), false, NOW).unwrap();
            assert_eq!(usable(&freshness, age, &request), expected, "{sentence}");
        }
    }

    #[test]
    fn ages() {
        #[rustfmt::skip]
        let rows = [
            ("4.2.3: nothing is said", "", 0, 0),
            ("4.2.3: by Age", "Age: 5", 0, 5),
            ("4.2.3: and the time the answer took", "Age: 5", 3, 8),
            ("4.2.3: by Date", "Date: Sun, 06 Nov 1994 08:49:30 GMT", 0, 7),
            ("4.2.3: the greater", "Date: Sun, 06 Nov 1994 08:49:30 GMT\nAge: 9", 0, 9),
            ("a clock that is ahead", "Date: Sun, 06 Nov 1994 08:49:50 GMT", 0, 0),
            ("5.1: no number", "Age: old", 0, 0),
        ];
        for (sentence, text, took, expected) in rows {
            let said = of_response(fields(text).into_iter());
            assert_eq!(age_on_arrival(&said, NOW - took, NOW), expected, "{sentence}");
        }
    }

    #[test]
    fn stale_where_asking_fails() {
        let mut said = Described::default();
        said.directives.read(b"max-age=60, stale-if-error=10");
        let none = Directives::default();
        let freshness = may_store(StatusCode::OK, &said, &none, false, NOW).unwrap();
        assert!(usable_on_error(&freshness, 69, &none));
        assert!(!usable_on_error(&freshness, 70, &none));
        assert!(!usable_on_error(&freshness, 69, &Directives { no_cache: true, ..none }));
        said.directives.read(b"must-revalidate");
        let freshness = may_store(StatusCode::OK, &said, &none, false, NOW).unwrap();
        assert!(!usable_on_error(&freshness, 61, &none), "5.2.2.2");
    }

    proptest! {
        #[test]
        fn any_line_is_read_and_two_halves_of_a_list_are_the_whole(
            parts in prop::collection::vec("[a-z-]{0,10}(=(\"[ -~]{0,5}\"|[0-9a-z]{0,4}))?", 0..6),
            any: Vec<u8>,
        ) {
            Directives::default().read(&any);
            let mut whole = Directives::default();
            whole.read(parts.join(",").as_bytes());
            let balanced = parts.iter().all(|p| p.matches('"').count() % 2 == 0 && !p.contains('\\'));
            if balanced {
                let mut pieces = Directives::default();
                parts.iter().for_each(|part| pieces.read(part.as_bytes()));
                prop_assert_eq!(whole, pieces);
            }
        }

        #[test]
        fn what_is_fresh_was_fresh_before(lifetime in 1..1000_u64, age in 1..2000_u64, min in 0..50_u64) {
            let freshness = Freshness { lifetime, while_revalidating: 0, if_error: 0, strict: false };
            let request = Directives { min_fresh: Some(min), ..Directives::default() };
            if usable(&freshness, age, &request) == Use::Fresh {
                prop_assert_eq!(usable(&freshness, age - 1, &request), Use::Fresh);
                prop_assert!(age < lifetime);
            }
        }
    }
}
