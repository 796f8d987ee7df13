//! Rules of RFC 9111 for a shared cache: whether a response may be stored, how long it is fresh,
//! and whether it may answer a request. There is no clock and no store here: ages are arguments.

use http::StatusCode;

pub use super::cache_control::{Directives, SECONDS_MAX};
pub use super::heuristics::{HEURISTIC_SECONDS_MAX, Heuristics, StatusLifetimes};

use super::cache_control::seconds;
use super::date;
use super::etag::{self, EntityTag};
use super::fields::list;
use super::heuristics::is_heuristically_cacheable;

/// The fields of a response that matter to a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described<'a> {
    /// CDN-Cache-Control if it is valid, else Cache-Control.
    pub directives: Directives,
    /// Date, in seconds since 1970.
    pub date: Option<u64>,
    /// Age, in seconds; `None` if it is absent. An invalid one is 0 (RFC 9111 5.1).
    pub age: Option<u64>,
    /// Expires, in seconds since 1970; an invalid date is long past (RFC 9111 5.3).
    pub expires: Option<u64>,
    /// Names in Vary, as written, `*` among them.
    pub vary: Vec<&'a [u8]>,
    /// `true` if Set-Cookie is present.
    pub sets_cookie: bool,
    /// ETag as sent, with its quotes.
    pub etag: Option<&'a [u8]>,
    /// Last-Modified as sent, not parsed.
    pub last_modified: Option<&'a [u8]>,
}

/// Reads a response's fields, given as names and values.
pub fn of_response<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Described<'a> {
    let mut found = Described::default();
    let mut targeted = Vec::new();
    for (name, value) in fields {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            // RFC 9111 5.1: of several values, whether in one line or in several, the first counts.
            3 if is("age") && found.age.is_none() => found.age = list(value).next().map(seconds),
            4 if is("date") => found.date = date::parse(value),
            4 if is("etag") => found.etag = Some(value),
            4 if is("vary") => found.vary.extend(list(value)),
            // RFC 9111 4.2: a cache should read dates in any case.
            7 if is("expires") => found.expires = Some(date::parse_leniently(value).unwrap_or(0)),
            10 if is("set-cookie") => found.sets_cookie = true,
            13 if is("cache-control") => found.directives.read(value),
            13 if is("last-modified") => found.last_modified = Some(value),
            17 if is("cdn-cache-control") => {
                // RFC 9651 4.2: the lines of a structured field are joined.
                if !targeted.is_empty() {
                    targeted.push(b',');
                }
                targeted.extend_from_slice(value);
            }
            _ => {}
        }
    }
    // RFC 9213 2.2: it replaces Cache-Control and Expires.
    if let Some(directives) = Directives::targeted(&targeted) {
        found.directives = directives;
        found.expires = None;
    }
    found
}

impl Described<'_> {
    /// Its entity-tag, if it is one.
    pub fn entity_tag(&self) -> Option<EntityTag<'_>> {
        self.etag.and_then(etag::parse)
    }
}

/// A validator that changes with every change of the bytes (RFC 9110 section 8.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrongValidator<'a> {
    /// The entity-tag without its quotes.
    EntityTag(&'a [u8]),
    /// Last-Modified, in seconds since 1970.
    LastModified(u64),
}

/// Least time between Last-Modified and Date that makes Last-Modified strong, in seconds. RFC 9110
/// section 8.8.2.2 asks for one second on one clock; RFC 7232 had 60 for clocks that differ.
const STRONG_DATE_SECONDS: u64 = 60;

impl<'a> Described<'a> {
    /// Returns the strong validator, which parts must share to be combined (RFC 9111 section 3.4).
    /// With ETag, even a weak one, Last-Modified does not count.
    pub fn strong_validator(&self) -> Option<StrongValidator<'a>> {
        if let Some(etag) = self.etag {
            let tag = etag::parse(etag).filter(|tag| !tag.weak)?;
            return Some(StrongValidator::EntityTag(tag.opaque));
        }
        self.strong_date().map(StrongValidator::LastModified)
    }

    /// Returns Last-Modified in seconds since 1970, if it is a strong validator by RFC 9110 section
    /// 8.8.2.2: long enough before Date.
    pub fn strong_date(&self) -> Option<u64> {
        let modified = self.last_modified.and_then(date::parse)?;
        let is_strong = self.date?.checked_sub(modified)? >= STRONG_DATE_SECONDS;
        is_strong.then_some(modified)
    }
}

/// Limits on a stored response's age, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Fresh below this age (RFC 9111 4.2.1).
    pub lifetime: u64,
    /// For so long after that it may be sent while it is validated (RFC 5861 3).
    pub while_revalidating: u64,
    /// For so long after that it may be sent when the origin fails (RFC 5861 4).
    pub if_error: u64,
    /// Never sent stale, even to a client that accepts it (RFC 9111 4.2.4).
    pub strict: bool,
}

/// Why a response is not stored: a token for Cache-Status (RFC 9211 section 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The response forbids it or has no lifetime: the next request's response will be alike.
    Response(&'static str),
    /// The request forbids it: another request's response may be stored.
    Request(&'static str),
}

/// Statuses whose caching requirements are implemented here (RFC 9111 5.2.2.3).
fn is_understood(status: StatusCode) -> bool {
    is_heuristically_cacheable(status) || matches!(status.as_u16(), 302 | 303 | 307 | 451)
}

/// Final statuses that are never stored, however long the response says it is fresh: 206 and 304
/// are not whole; 401, 407, 412 and 416 depend on fields that select no variant (credentials,
/// conditions, ranges); 421 on the connection. RFC 6585 forbids to store 428, 429, 431 and 511.
pub fn is_never_stored(status: StatusCode) -> bool {
    status.is_informational()
        || matches!(
            status.as_u16(),
            206 | 304 | 401 | 407 | 412 | 416 | 421 | 428 | 429 | 431 | 511
        )
}

/// Decides whether a shared cache may store a response to a GET (RFC 9111 3), and how long it is
/// fresh. `authorized`: the request had Authorization. `received`: when the response arrived, in
/// seconds since 1970. `heuristics`: lifetimes of responses that give none.
///
/// It is stricter than RFC 9111: a response that must be validated at each use is not stored, and
/// one with Set-Cookie only with `public` or `s-maxage`.
///
/// # Errors
/// The reason why not.
pub fn may_store(
    status: StatusCode,
    response: &Described<'_>,
    request: &Directives,
    authorized: bool,
    received: u64,
    heuristics: &Heuristics,
) -> Result<Freshness, Refused> {
    let d = &response.directives;
    let refused = |why| Err(Refused::Response(why));
    if is_never_stored(status) {
        return refused("status");
    }
    // RFC 9111 5.2.2.3: `must-understand` replaces `no-store` where the status is understood.
    let understood = d.must_understand && is_understood(status);
    if d.must_understand != understood {
        return refused("must-understand");
    }
    if d.no_store && !understood {
        return refused("no-store");
    }
    if d.private {
        return refused("private");
    }
    if d.no_cache {
        return refused("no-cache");
    }
    if response.vary.contains(&b"*".as_slice()) {
        return refused("vary");
    }
    // RFC 9111 7.3 leaves Set-Cookie to origins, many of which do not think of caches.
    let meant_for_all = d.public || d.s_maxage.is_some();
    if response.sets_cookie && !meant_for_all {
        return refused("set-cookie");
    }
    let lifetime = response
        .explicit_lifetime(received)
        .or_else(|| heuristics.lifetime(status, response, received))
        .filter(|lifetime| *lifetime > 0)
        .ok_or(Refused::Response("no-lifetime"))?;
    // RFC 9111 3.5.
    if request.no_store {
        return Err(Refused::Request("request-no-store"));
    }
    if authorized && !meant_for_all && !d.must_revalidate {
        return Err(Refused::Request("authorization"));
    }
    // RFC 9111 5.2.2.10: s-maxage implies proxy-revalidate. An origin that says beside it how long
    // a stale response may be used means both.
    let strict = d.must_revalidate || d.proxy_revalidate;
    let bounded = |time: Option<u64>| if strict { 0 } else { time.unwrap_or(0) };
    Ok(Freshness {
        lifetime,
        while_revalidating: bounded(d.stale_while_revalidate),
        if_error: bounded(d.stale_if_error),
        strict: strict || d.s_maxage.is_some(),
    })
}

impl Described<'_> {
    /// Its freshness lifetime in a shared cache, in seconds, if it is given (RFC 9111 4.2.1).
    fn explicit_lifetime(&self, received: u64) -> Option<u64> {
        let expires = || self.expires.map(|at| at.saturating_sub(self.date.unwrap_or(received)));
        self.directives.s_maxage.or(self.directives.max_age).or_else(expires)
    }
}

/// The age of a response when it arrived, in milliseconds (RFC 9111 4.2.3). `delay_ms`: the time
/// from the request to the response, in milliseconds. `received`: when the response arrived, in
/// seconds since 1970.
pub fn age_on_arrival(response: &Described<'_>, delay_ms: u64, received: u64) -> u64 {
    let apparent = response.date.map_or(0, |date| received.saturating_sub(date));
    let corrected = response.age.unwrap_or(0).saturating_mul(1_000).saturating_add(delay_ms);
    apparent.saturating_mul(1_000).max(corrected)
}

/// Permitted use of a stored response for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is fresh: it is sent.
    Fresh,
    /// It is stale and sent, because the client accepts that (`max-stale`).
    Stale,
    /// It is stale and sent, and validated at the same time (`stale-while-revalidate`).
    Meanwhile,
    /// It is not sent before the origin has validated it.
    Validate,
}

/// Decides if a stored response of this age, in seconds, may answer a request (RFC 9111 4.2,
/// 5.2.1).
pub fn usable(freshness: &Freshness, age: u64, request: &Directives) -> Use {
    if request.no_cache || request.max_age.is_some_and(|max| age > max) {
        return Use::Validate;
    }
    if age.saturating_add(request.min_fresh.unwrap_or(0)) < freshness.lifetime {
        return Use::Fresh;
    }
    // A request for a fresh response gets no stale one.
    if request.min_fresh.is_some() {
        return Use::Validate;
    }
    let stale = age.saturating_sub(freshness.lifetime);
    if stale < freshness.while_revalidating {
        return Use::Meanwhile;
    }
    if !freshness.strict && request.max_stale.is_some_and(|max| stale <= max) {
        return Use::Stale;
    }
    Use::Validate
}

/// `true` if a stored response of this age, in seconds, may be sent when the origin fails
/// (RFC 5861 4).
pub fn usable_on_error(freshness: &Freshness, age: u64, request: &Directives) -> bool {
    !request.no_cache && age.saturating_sub(freshness.lifetime) < freshness.if_error
}

/// `true` if a method may have changed its target (RFC 9111 4.4, RFC 9110 9.2.1).
pub fn is_unsafe(method: &[u8]) -> bool {
    !matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE")
}

/// `true` if a field of a stored response is kept although a 304 has another value for it (RFC 9111
/// 3.2). Fields that describe the content are kept, because the content is.
pub fn survives_update(name: &[u8]) -> bool {
    is_digest_of_content(name)
        || ["content-length", "content-encoding", "content-type", "content-range"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// `true` for a digest of the content of one message, and not of the representation (RFC 9530
/// section 2; RFC 2616 section 14.15).
pub fn is_digest_of_content(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-digest") || name.eq_ignore_ascii_case(b"content-md5")
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

    /// The side that forbids to store a response.
    #[derive(Debug, PartialEq, Eq)]
    enum By {
        Response,
        Request,
    }

    fn stored(status: u16, text: &str, request: &str, authorized: bool) -> Result<u64, By> {
        let response = fields(text);
        let response = of_response(response.into_iter());
        let request_directives = fields(request);
        let status = StatusCode::from_u16(status).unwrap();
        may_store(
            status,
            &response,
            &Directives::of_request(request_directives.into_iter()),
            authorized,
            NOW,
            &Heuristics::default(),
        )
        .map(|freshness| freshness.lifetime)
        .map_err(|refused| match refused {
            Refused::Response(_) => By::Response,
            Refused::Request(_) => By::Request,
        })
    }

    #[test]
    fn storability_and_lifetimes() {
        use By::{Request, Response};
        #[rustfmt::skip]
        let rows = [
            ("3: no lifetime, and no heuristic (4.2.2)", 200, "ETag: \"a\"", Err(Response)),
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
            ("5.3: asctime", 200, "Expires: Sun Nov  6 08:50:37 1994", Ok(60)),
            ("5.3: asctime with a wrong weekday", 200, "Expires: Tue Nov  6 08:50:37 1994", Ok(60)),
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
            ("a failure that says how long", 500, "Cache-Control: max-age=60", Ok(60)),
            ("3: an unknown status that says how long", 599, "Cache-Control: max-age=60", Ok(60)),
            ("an interim response", 103, "Cache-Control: max-age=60", Err(Response)),
            ("a question for credentials", 401, "Cache-Control: max-age=60", Err(Response)),
            ("RFC 6585 4: too many requests", 429, "Cache-Control: max-age=60", Err(Response)),
            ("5.2.2.3: understood", 200, "Cache-Control: max-age=60, no-store, must-understand", Ok(60)),
            ("5.2.2.3: not understood", 599, "Cache-Control: max-age=60, no-store, must-understand", Err(Response)),
            ("5.2.2.3: not understood, without no-store", 599, "Cache-Control: max-age=60, must-understand", Err(Response)),
            ("4.2: Expires in another case", 200, "Expires: SUN, 06 nov 1994 08:50:37 gmt", Ok(60)),
            ("RFC 9213 2.2: for this cache", 200, "Cache-Control: max-age=5\nCDN-Cache-Control: max-age=60", Ok(60)),
            ("RFC 9213 2.2: against no-store", 200, "Cache-Control: no-store\nCDN-Cache-Control: max-age=60", Ok(60)),
            ("RFC 9213 2.2: against a past Expires", 200, "CDN-Cache-Control: max-age=60\nExpires: 0", Ok(60)),
            ("RFC 9213 2.2: Expires does not count", 200, "CDN-Cache-Control: none\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", Err(Response)),
            ("RFC 9213 2.2: forbidden here", 200, "CDN-Cache-Control: private\nCache-Control: max-age=60", Err(Response)),
            ("RFC 9213 2.1: invalid", 200, "CDN-Cache-Control: max-age=60, &\nCache-Control: max-age=5", Ok(5)),
            ("RFC 9213 2.1: in two lines", 200, "CDN-Cache-Control: max-age=60\nCDN-Cache-Control: no-store", Err(Response)),
        ];
        for (sentence, status, text, expected) in rows {
            assert_eq!(stored(status, text, "", false), expected, "{sentence}");
        }
        #[rustfmt::skip]
        let authorized = [
            ("3.5: a request with Authorization", "max-age=60", Err(Request)),
            ("3.5: public", "max-age=60, public", Ok(60)),
            ("3.5: s-maxage", "s-maxage=60", Ok(60)),
            ("3.5: must-revalidate", "max-age=60, must-revalidate", Ok(60)),
            ("3.5: no-store is the response's refusal", "no-store", Err(Response)),
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
    fn heuristic_lifetimes() {
        const UNTIL: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\n";
        // 1,000 seconds before that.
        const SINCE: &str = "Last-Modified: Sun, 06 Nov 1994 08:32:57 GMT";
        #[rustfmt::skip]
        let rows = [
            ("4.2.2: a part of the time since the last change", 200, "", SINCE, 10, Some(100)),
            ("all of it", 200, "", SINCE, 100, Some(1_000)),
            ("not asked for", 200, "", SINCE, 0, None),
            ("not longer than a day", 200, "", "Last-Modified: Sun, 06 Nov 1988 08:49:37 GMT", 10, Some(HEURISTIC_SECONDS_MAX)),
            ("without Last-Modified", 200, "", "ETag: \"a\"", 10, None),
            ("changed in the future", 200, "", "Last-Modified: Sun, 06 Nov 1994 08:59:37 GMT", 10, None),
            ("4.2.2: not beside an explicit lifetime", 200, "Cache-Control: max-age=5\n", SINCE, 10, Some(5)),
            ("5.3: nor beside an invalid Expires", 200, "Expires: 0\n", SINCE, 10, None),
            ("4.2.2: a status that is not cacheable by default", 302, "", SINCE, 10, None),
            ("5.2.2.9: with `public`", 302, "Cache-Control: public\n", SINCE, 10, Some(100)),
            ("a failure", 503, "", SINCE, 10, None),
            ("a part", 206, "Cache-Control: public\n", SINCE, 10, None),
            ("what must not be stored", 200, "Cache-Control: no-store\n", SINCE, 10, None),
        ];
        for (sentence, status, cache, modified, percent, expected) in rows {
            let text = format!("{UNTIL}{cache}{modified}");
            let text = fields(&text);
            let response = of_response(text.into_iter());
            let status = StatusCode::from_u16(status).unwrap();
            let heuristics = Heuristics { percent, ..Heuristics::default() };
            let found =
                may_store(status, &response, &Directives::default(), false, NOW, &heuristics);
            assert_eq!(found.ok().map(|f| f.lifetime), expected, "{sentence}");
        }
    }

    #[test]
    fn lifetimes_by_status() {
        // 1,000 seconds before Date.
        const SINCE: &str =
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\nLast-Modified: Sun, 06 Nov 1994 08:32:57 GMT";
        #[rustfmt::skip]
        let rows = [
            ("4.2.2: a status that has one", 200, "ETag: \"a\"", Some(600)),
            ("another", 404, "ETag: \"a\"", Some(60)),
            ("one without, by `any`", 302, "ETag: \"a\"", Some(30)),
            ("a failure, too", 503, "ETag: \"a\"", Some(30)),
            ("0 means that it is not stored", 410, "ETag: \"a\"", None),
            ("0 precedes the time since Last-Modified", 410, SINCE, None),
            ("so does any other", 200, SINCE, Some(600)),
            ("4.2.1: an explicit lifetime precedes it", 200, "Cache-Control: max-age=5", Some(5)),
            ("4.2.1: also one of 0", 200, "Cache-Control: max-age=0", None),
            ("5.3: also an invalid Expires", 200, "Expires: 0", None),
            ("5.2.2.9: `public` gives no lifetime", 200, "Cache-Control: public", Some(600)),
            ("5.2.2.5: no-store", 200, "Cache-Control: no-store", None),
            ("5.2.2.7: private", 200, "Cache-Control: private", None),
            ("5.2.2.4: no-cache", 200, "Cache-Control: no-cache", None),
            ("4.1: Vary: *", 200, "Vary: *", None),
            ("7.3: Set-Cookie", 200, "Set-Cookie: a=b", None),
            ("a status that is never stored", 401, "ETag: \"a\"", None),
        ];
        let of = |status| StatusCode::from_u16(status).unwrap();
        let by_status = [(of(200), 600), (of(404), 60), (of(410), 0)].into();
        let lifetimes = StatusLifetimes { by_status, any: Some(30) };
        let heuristics = Heuristics { lifetimes, percent: 10 };
        for (sentence, status, text, expected) in rows {
            let text = fields(text);
            let response = of_response(text.into_iter());
            let request = Directives::default();
            let found = may_store(of(status), &response, &request, false, NOW, &heuristics);
            assert_eq!(found.ok().map(|f| f.lifetime), expected, "{sentence}");
        }
        let request = Directives::default();
        let found = may_store(of(200), &Described::default(), &request, true, NOW, &heuristics);
        assert_eq!(found, Err(Refused::Request("authorization")), "3.5");
    }

    #[test]
    fn permitted_uses_of_stored_responses() {
        use Use::{Fresh, Meanwhile, Stale, Validate};
        #[rustfmt::skip]
        let rows = [
            ("4.2: younger than its lifetime", "max-age=60", 59, "", Fresh),
            ("4.2: as old as its lifetime", "max-age=60", 60, "", Validate),
            ("5.2.1.4: no-cache", "max-age=60", 0, "Cache-Control: no-cache", Validate),
            ("5.4: Pragma", "max-age=60", 0, "Pragma: no-cache", Validate),
            ("5.4: not beside Cache-Control", "max-age=60", 0, "Pragma: no-cache\nCache-Control: x", Fresh),
            ("5.2.1.1: older than max-age", "max-age=60", 11, "Cache-Control: max-age=10", Validate),
            ("5.2.1.1: as old as max-age", "max-age=60", 10, "Cache-Control: max-age=10", Fresh),
            ("5.2.1.3: not fresh for long enough", "max-age=60", 51, "Cache-Control: min-fresh=10", Validate),
            ("5.2.1.3: fresh for long enough", "max-age=60", 49, "Cache-Control: min-fresh=10", Fresh),
            ("5.2.1.2: stale, but not too much", "max-age=60", 70, "Cache-Control: max-stale=10", Stale),
            ("5.2.1.2: too much", "max-age=60", 71, "Cache-Control: max-stale=10", Validate),
            ("5.2.1.2: however much", "max-age=60", 9999, "Cache-Control: max-stale", Stale),
            ("5.2.2.2: never stale", "max-age=60, must-revalidate", 61, "Cache-Control: max-stale", Validate),
            ("5.2.2.8: never stale, of shared caches", "max-age=60, proxy-revalidate", 61, "Cache-Control: max-stale", Validate),
            ("5.2.2.10: s-maxage says so too", "s-maxage=60", 61, "Cache-Control: max-stale", Validate),
            ("RFC 5861 3", "max-age=60, stale-while-revalidate=10", 69, "", Meanwhile),
            ("RFC 5861 3: too late", "max-age=60, stale-while-revalidate=10", 70, "", Validate),
            ("RFC 5861 3: beside s-maxage it is meant", "s-maxage=60, stale-while-revalidate=10", 69, "", Meanwhile),
            ("RFC 5861 3: not against must-revalidate", "max-age=60, must-revalidate, stale-while-revalidate=10", 69, "", Validate),
            ("RFC 5861 3: the client wants it fresh", "max-age=60, stale-while-revalidate=10", 61, "Cache-Control: no-cache", Validate),
        ];
        for (sentence, value, age, request, expected) in rows {
            let mut response = Described::default();
            response.directives.read(value.as_bytes());
            let request = Directives::of_request(fields(request).into_iter());
            let freshness = may_store(
                StatusCode::OK,
                &response,
                &Directives::default(),
                false,
                NOW,
                &Heuristics::default(),
            )
            .unwrap();
            assert_eq!(usable(&freshness, age, &request), expected, "{sentence}");
        }
    }

    #[test]
    fn ages() {
        #[rustfmt::skip]
        let rows = [
            ("4.2.3: neither Age nor Date", "", 0, 0),
            ("4.2.3: by Age", "Age: 5", 0, 5_000),
            ("4.2.3: and the time the response took", "Age: 5", 3_000, 8_000),
            ("4.2.3: which may be a part of a second", "Age: 5", 20, 5_020),
            ("4.2.3: by Date", "Date: Sun, 06 Nov 1994 08:49:30 GMT", 0, 7_000),
            ("4.2.3: the greater", "Date: Sun, 06 Nov 1994 08:49:30 GMT\nAge: 9", 0, 9_000),
            ("a clock that is ahead", "Date: Sun, 06 Nov 1994 08:49:50 GMT", 0, 0),
            ("5.1: no number", "Age: old", 0, 0),
            ("5.1: of two lines the first", "Age: 7\nAge: 0", 0, 7_000),
            ("5.1: though it is the smaller", "Age: 0\nAge: 7", 0, 0),
            ("5.1: of a list the first", "Age: 7, 0", 0, 7_000),
            ("5.1: the first is no number", "Age: old\nAge: 7", 0, 0),
        ];
        for (sentence, text, delay_ms, expected) in rows {
            let response = of_response(fields(text).into_iter());
            assert_eq!(age_on_arrival(&response, delay_ms, NOW), expected, "{sentence}");
        }
    }

    #[test]
    fn stale_responses_when_the_origin_fails() {
        let mut response = Described::default();
        response.directives.read(b"max-age=60, stale-if-error=10");
        let none = Directives::default();
        let freshness =
            may_store(StatusCode::OK, &response, &none, false, NOW, &Heuristics::default())
                .unwrap();
        assert!(usable_on_error(&freshness, 69, &none));
        assert!(!usable_on_error(&freshness, 70, &none));
        assert!(!usable_on_error(&freshness, 69, &Directives { no_cache: true, ..none }));
        response.directives.read(b"must-revalidate");
        let freshness =
            may_store(StatusCode::OK, &response, &none, false, NOW, &Heuristics::default())
                .unwrap();
        assert!(!usable_on_error(&freshness, 61, &none), "5.2.2.2");
    }

    proptest! {
        #[test]
        fn a_fresh_response_was_fresh_at_every_smaller_age(lifetime in 1..1000_u64, age in 1..2000_u64, min in 0..50_u64) {
            let freshness = Freshness { lifetime, while_revalidating: 0, if_error: 0, strict: false };
            let request = Directives { min_fresh: Some(min), ..Directives::default() };
            if usable(&freshness, age, &request) == Use::Fresh {
                prop_assert_eq!(usable(&freshness, age - 1, &request), Use::Fresh);
                prop_assert!(age < lifetime);
            }
        }
    }
}
