//! The fields of resumable uploads (draft-ietf-httpbis-resumable-upload-12, interop version 8), read
//! from requests and written into answers: pure. Sections cited as "draft" are that document's.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::refusal::Refusal;
use crate::answer::Answer;
use crate::h1::fields::joined;
use crate::semantics::structured::{self, INTEGER_MAX};

pub(super) const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
pub(super) const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
pub(super) const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
pub(super) const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const INTEROP: HeaderName = HeaderName::from_static("upload-draft-interop-version");

/// The version of the draft's protocol that is spoken here (draft, Draft Version Identification).
const INTEROP_VERSION: u64 = 8;

/// The media type of what is appended.
const PARTIAL_UPLOAD: &str = "application/partial-upload";

const PROBLEMS: &str = "https://iana.org/assignments/http-problem-types";

/// What a request says of a resumable upload. A field that does not parse is not there (draft,
/// State).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The upload is complete with this request's content.
    pub(super) complete: Option<bool>,
    /// Where the content begins.
    pub(super) offset: Option<u64>,
    /// Bytes of the whole.
    pub(super) length: Option<u64>,
    /// The client speaks the same version, and so may be sent 104.
    pub(super) understands: bool,
}

impl Asked {
    pub(super) fn of(fields: &HeaderMap) -> Asked {
        let integer = |name| joined(fields, name).and_then(|value| structured::integer(&value));
        Asked {
            complete: joined(fields, UPLOAD_COMPLETE).and_then(|v| structured::boolean(&v)),
            offset: integer(UPLOAD_OFFSET),
            length: integer(UPLOAD_LENGTH),
            understands: integer(INTEROP) == Some(INTEROP_VERSION),
        }
    }

    /// The length of the whole, from all that says it: what was `known` before, what the request
    /// says, and the content of the last part, which begins at `offset` and has `content` bytes.
    ///
    /// # Errors
    /// They contradict one another (draft, Length).
    pub(super) fn length(
        &self,
        known: Option<u64>,
        offset: u64,
        content: Option<u64>,
    ) -> Result<Option<u64>, Refusal> {
        let reached = content.map(|len| offset.saturating_add(len));
        let last = reached.filter(|_| self.complete == Some(true));
        let said = known.or(self.length).or(last);
        let agree = [known, self.length, last].into_iter().flatten().all(|len| Some(len) == said);
        let within = said.is_none_or(|said| reached.is_none_or(|reached| reached <= said));
        if agree && within && said.is_none_or(|said| offset <= said) {
            Ok(said)
        } else {
            Err(Refusal::LENGTHS)
        }
    }
}

/// Whether a request's content is a part to append.
pub(super) fn is_part(fields: &HeaderMap) -> bool {
    let said = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = said.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(PARTIAL_UPLOAD.as_bytes())
}

/// What a part must be called (RFC 5789 3.1).
pub(super) fn with_accepted(answer: Answer) -> Answer {
    let name = HeaderName::from_static("accept-patch");
    answer.with(name, HeaderValue::from_static(PARTIAL_UPLOAD))
}

/// Says what an answer speaks for: the file it has become (`true`), or the upload alone.
pub(super) fn with_complete(answer: Answer, complete: bool) -> Answer {
    let flag = HeaderValue::from_static(if complete { "?1" } else { "?0" });
    answer.with(UPLOAD_COMPLETE, flag)
}

/// `Upload-Limit` (draft, Limits); `age_secs`: what is left of the upload's time.
pub(super) fn limit(bytes_max: u64, age_secs: u64) -> HeaderValue {
    let value = format!("max-size={}, max-age={age_secs}", bytes_max.min(INTEGER_MAX));
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("min-size=0"))
}

/// The fields of the 104 that announces an upload.
pub(super) fn announcement(location: &HeaderValue, limit: HeaderValue) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(INTEROP, HeaderValue::from(INTEROP_VERSION));
    fields.insert(header::LOCATION, location.clone());
    fields.insert(UPLOAD_LIMIT, limit);
    fields
}

/// The fields of a 104 that says how far it has come.
pub(super) fn progress(offset: u64) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(INTEROP, HeaderValue::from(INTEROP_VERSION));
    fields.insert(UPLOAD_OFFSET, HeaderValue::from(offset));
    fields
}

/// The answer to a part that does not begin where the upload ends (draft, Mismatching Offset).
pub(super) fn mismatch(expected: u64, provided: u64) -> Answer {
    let more = format!(",\"expected-offset\":{expected},\"provided-offset\":{provided}");
    let title = "the part does not begin where the upload ends";
    problem(StatusCode::CONFLICT, "mismatching-upload-offset", title, &more)
        .with(UPLOAD_OFFSET, HeaderValue::from(expected))
}

/// The answer to lengths that contradict one another (draft, Inconsistent Length).
pub(super) fn inconsistent() -> Answer {
    let title = "what is said of the length is contradictory";
    problem(StatusCode::BAD_REQUEST, "inconsistent-upload-length", title, "")
}

fn problem(status: StatusCode, kind: &str, title: &str, more: &str) -> Answer {
    let body = format!("{{\"type\":\"{PROBLEMS}#{kind}\",\"title\":\"{title}\"{more}}}\n");
    let media_type = HeaderValue::from_static("application/problem+json");
    with_complete(Answer::bytes(status, media_type, body), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_agree_or_are_refused() {
        let asked = |complete, length| Asked { complete, length, ..Asked::default() };
        let (part, last) = (Some(false), Some(true));
        let rows = [
            ("nothing is said", asked(part, None), None, 0, Some(5), Ok(None)),
            ("the last part says it", asked(last, None), None, 5, Some(5), Ok(Some(10))),
            ("the last part, of unknown length", asked(last, None), None, 5, None, Ok(None)),
            ("the field says it", asked(part, Some(9)), None, 0, Some(5), Ok(Some(9))),
            ("known from before", asked(part, None), Some(9), 5, None, Ok(Some(9))),
            ("both say the same", asked(last, Some(10)), Some(10), 5, Some(5), Ok(Some(10))),
            ("field and last part differ", asked(last, Some(9)), None, 0, Some(5), Err(())),
            ("said otherwise before", asked(part, Some(9)), Some(10), 0, None, Err(())),
            ("the last part ends short", asked(last, None), Some(10), 5, Some(4), Err(())),
            ("a part goes beyond", asked(part, None), Some(10), 5, Some(6), Err(())),
            ("what is here is more", asked(part, Some(4)), None, 5, None, Err(())),
            ("no overflow", asked(last, None), None, 5, Some(u64::MAX), Ok(Some(u64::MAX))),
        ];
        for (sentence, asked, known, offset, content, want) in rows {
            assert_eq!(asked.length(known, offset, content).map_err(drop), want, "{sentence}");
        }
    }
}
