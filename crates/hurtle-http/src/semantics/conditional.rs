//! Evaluates the preconditions of a request (RFC 9110 section 13). The caller turns the verdict
//! into a response (304 or 412).

use super::date;
use super::etag::{self, Comparison, EntityTag};
use super::fields::trim_ows;

/// The values of a request's conditional fields, as sent. Several lines of one field are joined
/// with commas; where the grammar has no list, the joined value is malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preconditions<'a> {
    /// If-Match (RFC 9110 section 13.1.1).
    pub if_match: Option<&'a [u8]>,
    /// If-None-Match (RFC 9110 section 13.1.2).
    pub if_none_match: Option<&'a [u8]>,
    /// If-Modified-Since (RFC 9110 section 13.1.3).
    pub if_modified_since: Option<&'a [u8]>,
    /// If-Unmodified-Since (RFC 9110 section 13.1.4).
    pub if_unmodified_since: Option<&'a [u8]>,
    /// If-Range (RFC 9110 section 13.1.5), which [`range_applies`] evaluates, not [`evaluate`].
    pub if_range: Option<&'a [u8]>,
}

impl Preconditions<'_> {
    /// Returns whether there is nothing for [`evaluate`] to decide.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_unmodified_since.is_none()
    }
}

/// The validators of the current representation (RFC 9110 section 8.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Its entity-tag, if it has one.
    pub etag: Option<EntityTag<'a>>,
    /// Its Last-Modified in seconds since 1970, if known.
    pub last_modified: Option<u64>,
}

/// Result of evaluating the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Perform the method.
    Proceed,
    /// Answer 304: the client has the current representation.
    NotModified,
    /// Answer 412: a precondition is false.
    Failed,
}

/// Evaluates the preconditions of a request for an existing representation, in the order of RFC
/// 9110 section 13.2.2. `safe` means that the method is GET or HEAD. Malformed dates are ignored.
pub fn evaluate(
    safe: bool,
    preconditions: &Preconditions<'_>,
    validators: &Validators<'_>,
) -> Verdict {
    // Step 1. RFC 9110 section 13.1.1 requires the strong comparison.
    if let Some(field) = preconditions.if_match {
        if !etag::list_matches(field, validators.etag, Comparison::Strong) {
            return Verdict::Failed;
        }
    // Step 2, which applies only without If-Match.
    } else if let Some(since) = preconditions.if_unmodified_since.and_then(date::parse)
        && validators.last_modified.is_some_and(|modified| modified > since)
    {
        return Verdict::Failed;
    }

    // Step 3. RFC 9110 section 13.1.2 requires the weak comparison.
    if let Some(field) = preconditions.if_none_match {
        return match etag::list_matches(field, validators.etag, Comparison::Weak) {
            false => Verdict::Proceed,
            true if safe => Verdict::NotModified,
            true => Verdict::Failed,
        };
    }

    // Step 4, which applies only without If-None-Match, even a malformed one.
    if safe
        && let Some(since) = preconditions.if_modified_since.and_then(date::parse)
        && validators.last_modified.is_some_and(|modified| modified <= since)
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Evaluates the preconditions of a request whose target has no representation. Only If-Match fails
/// then (RFC 9110 section 13.1.1).
pub fn evaluate_absent(preconditions: &Preconditions<'_>) -> Verdict {
    match preconditions.if_match {
        Some(_) => Verdict::Failed,
        None => Verdict::Proceed,
    }
}

/// True if the server may honour Range (RFC 9110 section 13.1.5). If false it must send the whole
/// representation: the client could otherwise join parts of two representations.
pub fn range_applies(if_range: Option<&[u8]>, validators: &Validators<'_>) -> bool {
    let Some(value) = if_range.map(trim_ows) else { return true };
    // An entity-tag begins with a quote or `W/`; a date never does.
    if let [b'"', ..] | [b'W', b'/', ..] = value {
        let current = validators.etag;
        return etag::parse(value).is_some_and(|tag| {
            current.is_some_and(|current| tag.matches(current, Comparison::Strong))
        });
    }
    // RFC 9110 section 8.8.2.2: a date is a strong validator only if two changes within its second
    // are impossible. A weak entity-tag marks a representation that may have just changed.
    let date_is_strong = !validators.etag.is_some_and(|tag| tag.weak);
    date_is_strong
        && validators.last_modified.is_some()
        && date::parse(value) == validators.last_modified
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const MODIFIED: u64 = 784_111_777;
    const CURRENT: Validators<'_> = Validators {
        etag: Some(EntityTag { weak: false, opaque: b"v2" }),
        last_modified: Some(MODIFIED),
    };

    /// Parses request fields from lines of `name: value`.
    fn preconditions(text: &'static str) -> Preconditions<'static> {
        let mut out = Preconditions::default();
        for line in text.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            let value = Some(match value {
                "BEFORE" => BEFORE.as_bytes(),
                "SAME" => SAME.as_bytes(),
                "AFTER" => AFTER.as_bytes(),
                other => other.as_bytes(),
            });
            match name {
                "If-Match" => out.if_match = value,
                "If-None-Match" => out.if_none_match = value,
                "If-Modified-Since" => out.if_modified_since = value,
                "If-Unmodified-Since" => out.if_unmodified_since = value,
                _ => panic!("no conditional field: {name}"),
            }
        }
        out
    }

    #[test]
    fn verdicts() {
        use Verdict::{Failed, NotModified, Proceed};
        // (description, fields, verdict for GET and HEAD, verdict for other methods)
        let rows = [
            ("none", "", Proceed, Proceed),
            ("If-Match names it", "If-Match: \"v1\", \"v2\"", Proceed, Proceed),
            ("If-Match names another", "If-Match: \"v1\"", Failed, Failed),
            ("If-Match compares strongly", "If-Match: W/\"v2\"", Failed, Failed),
            ("If-Match of anything", "If-Match: *", Proceed, Proceed),
            ("If-Match malformed", "If-Match: v2", Failed, Failed),
            ("unmodified since then", "If-Unmodified-Since: SAME", Proceed, Proceed),
            ("modified since then", "If-Unmodified-Since: BEFORE", Failed, Failed),
            ("If-Unmodified-Since malformed", "If-Unmodified-Since: 1994", Proceed, Proceed),
            (
                "If-Match beats If-Unmodified-Since",
                "If-Match: \"v2\"\nIf-Unmodified-Since: BEFORE",
                Proceed,
                Proceed,
            ),
            ("If-None-Match names it", "If-None-Match: \"v1\", \"v2\"", NotModified, Failed),
            ("If-None-Match compares weakly", "If-None-Match: W/\"v2\"", NotModified, Failed),
            ("If-None-Match of anything", "If-None-Match: *", NotModified, Failed),
            ("If-None-Match names another", "If-None-Match: \"v1\"", Proceed, Proceed),
            ("If-None-Match malformed", "If-None-Match: v2", Proceed, Proceed),
            ("modified since", "If-Modified-Since: BEFORE", Proceed, Proceed),
            ("not modified since", "If-Modified-Since: SAME", NotModified, Proceed),
            ("not modified since a later date", "If-Modified-Since: AFTER", NotModified, Proceed),
            ("If-Modified-Since malformed", "If-Modified-Since: yesterday", Proceed, Proceed),
            (
                "If-None-Match beats If-Modified-Since",
                "If-None-Match: \"v1\"\nIf-Modified-Since: SAME",
                Proceed,
                Proceed,
            ),
            (
                "a matching If-None-Match beats it too",
                "If-None-Match: \"v2\"\nIf-Modified-Since: BEFORE",
                NotModified,
                Failed,
            ),
            (
                "even a malformed If-None-Match beats it",
                "If-None-Match: v2\nIf-Modified-Since: SAME",
                Proceed,
                Proceed,
            ),
            (
                "a failed If-Match comes before If-None-Match",
                "If-Match: \"v1\"\nIf-None-Match: \"v2\"",
                Failed,
                Failed,
            ),
            (
                "a held If-Match leaves If-None-Match to decide",
                "If-Match: \"v2\"\nIf-None-Match: \"v2\"",
                NotModified,
                Failed,
            ),
            (
                "a failed If-Unmodified-Since comes before If-None-Match",
                "If-Unmodified-Since: BEFORE\nIf-None-Match: \"v2\"",
                Failed,
                Failed,
            ),
        ];
        for (why, text, safe, other) in rows {
            let preconditions = preconditions(text);
            assert_eq!(evaluate(true, &preconditions, &CURRENT), safe, "GET, {why}");
            assert_eq!(evaluate(false, &preconditions, &CURRENT), other, "PUT, {why}");
        }
    }

    #[test]
    fn without_validators_dates_and_tags_decide_nothing() {
        let nothing = Validators::default();
        let rows = [
            ("If-Modified-Since: AFTER", Verdict::Proceed),
            ("If-Unmodified-Since: BEFORE", Verdict::Proceed),
            ("If-None-Match: \"v2\"", Verdict::Proceed),
            ("If-None-Match: *", Verdict::NotModified),
            ("If-Match: \"v2\"", Verdict::Failed),
            ("If-Match: *", Verdict::Proceed),
        ];
        for (text, expected) in rows {
            assert_eq!(evaluate(true, &preconditions(text), &nothing), expected, "{text}");
        }
    }

    #[test]
    fn without_a_representation_only_if_match_fails() {
        let rows = [
            ("If-Match: *", Verdict::Failed),
            ("If-Match: \"v2\"", Verdict::Failed),
            ("If-None-Match: *", Verdict::Proceed),
            ("If-None-Match: \"v2\"", Verdict::Proceed),
            ("If-Unmodified-Since: BEFORE", Verdict::Proceed),
        ];
        for (text, expected) in rows {
            assert_eq!(evaluate_absent(&preconditions(text)), expected, "{text}");
        }
    }

    #[test]
    fn if_range() {
        let weak = Validators { etag: Some(EntityTag { weak: true, opaque: b"v2" }), ..CURRENT };
        let dated = Validators { etag: None, ..CURRENT };
        let rows = [
            ("no If-Range", None, CURRENT, true),
            ("the current tag", Some("\"v2\""), CURRENT, true),
            ("another tag", Some("\"v1\""), CURRENT, false),
            ("the current tag made weak", Some("W/\"v2\""), CURRENT, false),
            ("a weak current tag", Some("W/\"v2\""), weak, false),
            ("a weak current tag sent strong", Some("\"v2\""), weak, false),
            ("a list, though it holds the tag", Some("\"v2\", \"v3\""), CURRENT, false),
            ("an asterisk means nothing here", Some("*"), CURRENT, false),
            ("the exact date", Some(SAME), CURRENT, true),
            ("the exact date, no tag", Some(SAME), dated, true),
            ("the exact date, but a weak tag", Some(SAME), weak, false),
            ("a later date is not the same", Some(AFTER), CURRENT, false),
            ("an earlier date", Some(BEFORE), CURRENT, false),
            ("a tag where there is none", Some("\"v2\""), dated, false),
            ("a date where there is none", Some(SAME), Validators::default(), false),
            ("malformed where there is no date", Some("x"), Validators::default(), false),
            ("malformed", Some("v2"), CURRENT, false),
            ("empty", Some(""), CURRENT, false),
        ];
        for (why, value, validators, expected) in rows {
            let applies = range_applies(value.map(str::as_bytes), &validators);
            assert_eq!(applies, expected, "{why}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(a: Option<Vec<u8>>, b: Option<Vec<u8>>, safe: bool) {
            let (a, b) = (a.as_deref(), b.as_deref());
            let preconditions = Preconditions {
                if_match: a,
                if_none_match: b,
                if_modified_since: a,
                if_unmodified_since: b,
                if_range: a,
            };
            evaluate(safe, &preconditions, &CURRENT);
            range_applies(preconditions.if_range, &CURRENT);
        }
    }
}
