//! The fields of resumable uploads (draft-ietf-httpbis-resumable-upload-12, interop version 8):
//! parses requests and writes responses. Pure. References to "draft" mean that document.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::request::fields::joined;
use hurtle_http::semantics::structured::{self, INTEGER_MAX};

use super::error::UploadError;
use crate::answer::Answer;

pub(super) const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
pub(super) const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
pub(super) const UPLOAD_LIMIT: HeaderName = HeaderName::from_static("upload-limit");
pub(super) const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const INTEROP: HeaderName = HeaderName::from_static("upload-draft-interop-version");

/// Supported interop version (draft, Draft Version Identification).
const INTEROP_VERSION: u64 = 8;

/// The media type of an appended part.
const PARTIAL_UPLOAD: &str = "application/partial-upload";

const PROBLEMS: &str = "https://iana.org/assignments/http-problem-types";

/// The upload fields of a request. A malformed field counts as absent (draft, State).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UploadFields {
    /// `Upload-Complete`: true if the upload ends with this request's content.
    pub(super) complete: Option<bool>,
    /// `Upload-Offset`: where the content begins, in bytes.
    pub(super) offset: Option<u64>,
    /// `Upload-Length`: the length of the whole upload, in bytes.
    pub(super) length: Option<u64>,
    /// True if the client supports the same interop version, so it may be sent 104.
    pub(super) supports_interop: bool,
}

impl UploadFields {
    pub(super) fn of(fields: &HeaderMap) -> UploadFields {
        let integer = |name| joined(fields, name).and_then(|value| structured::integer(&value));
        UploadFields {
            complete: joined(fields, UPLOAD_COMPLETE).and_then(|v| structured::boolean(&v)),
            offset: integer(UPLOAD_OFFSET),
            length: integer(UPLOAD_LENGTH),
            supports_interop: integer(INTEROP) == Some(INTEROP_VERSION),
        }
    }

    /// True if a request without content completes an upload of `len` bytes.
    pub(super) fn ends_at(&self, len: u64, content: Option<u64>) -> bool {
        self.complete == Some(true) && self.offset == Some(len) && content == Some(0)
    }

    /// Determines the length of the whole upload. It may be `known` from an earlier request, stated
    /// in this one, or follow from the last part, which begins at `offset` and has `content` bytes.
    ///
    /// # Errors
    /// The lengths contradict one another (draft, Length).
    pub(super) fn length(
        &self,
        known: Option<u64>,
        offset: u64,
        content: Option<u64>,
    ) -> Result<Option<u64>, UploadError> {
        let reached = content.map(|len| offset.saturating_add(len));
        let last = reached.filter(|_| self.complete == Some(true));
        let length = known.or(self.length).or(last);
        let agree = [known, self.length, last].into_iter().flatten().all(|len| Some(len) == length);
        let within = length.is_none_or(|length| reached.is_none_or(|reached| reached <= length));
        if agree && within && length.is_none_or(|length| offset <= length) {
            Ok(length)
        } else {
            Err(UploadError::LENGTHS)
        }
    }
}

/// True if a request's content is a part to append.
pub(super) fn is_part(fields: &HeaderMap) -> bool {
    let value = fields.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(PARTIAL_UPLOAD.as_bytes())
}

/// Adds the media type of a part to a response (RFC 5789 section 3.1).
pub(super) fn with_accepted(answer: Answer) -> Answer {
    let name = HeaderName::from_static("accept-patch");
    answer.with(name, HeaderValue::from_static(PARTIAL_UPLOAD))
}

/// Adds `Upload-Complete`: `true` if the response is for the complete file, `false` if it is for
/// the upload.
pub(super) fn with_complete(answer: Answer, complete: bool) -> Answer {
    let flag = HeaderValue::from_static(if complete { "?1" } else { "?0" });
    answer.with(UPLOAD_COMPLETE, flag)
}

/// The value of `Upload-Limit` (draft, Limits). `age_secs` is the remaining lifetime of the upload.
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

/// The fields of a 104 that reports progress.
pub(super) fn progress(offset: u64) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(INTEROP, HeaderValue::from(INTEROP_VERSION));
    fields.insert(UPLOAD_OFFSET, HeaderValue::from(offset));
    fields
}

/// The response to a part that does not begin at the end of the upload (draft, Mismatching Offset).
pub(super) fn mismatch(expected: u64, provided: u64) -> Answer {
    let more = format!(",\"expected-offset\":{expected},\"provided-offset\":{provided}");
    let title = "the part does not begin at the end of the upload";
    problem(StatusCode::CONFLICT, "mismatching-upload-offset", title, &more)
        .with(UPLOAD_OFFSET, HeaderValue::from(expected))
}

/// The response to contradictory lengths (draft, Inconsistent Length).
pub(super) fn inconsistent() -> Answer {
    let title = "the lengths of the upload are contradictory";
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
        let upload_fields =
            |complete, length| UploadFields { complete, length, ..UploadFields::default() };
        let (part, last) = (Some(false), Some(true));
        let rows = [
            ("no length is known", upload_fields(part, None), None, 0, Some(5), Ok(None)),
            (
                "the last part determines it",
                upload_fields(last, None),
                None,
                5,
                Some(5),
                Ok(Some(10)),
            ),
            (
                "the last part, of unknown length",
                upload_fields(last, None),
                None,
                5,
                None,
                Ok(None),
            ),
            ("the field states it", upload_fields(part, Some(9)), None, 0, Some(5), Ok(Some(9))),
            ("known from before", upload_fields(part, None), Some(9), 5, None, Ok(Some(9))),
            ("both agree", upload_fields(last, Some(10)), Some(10), 5, Some(5), Ok(Some(10))),
            ("field and last part differ", upload_fields(last, Some(9)), None, 0, Some(5), Err(())),
            (
                "an earlier request stated another",
                upload_fields(part, Some(9)),
                Some(10),
                0,
                None,
                Err(()),
            ),
            ("the last part ends short", upload_fields(last, None), Some(10), 5, Some(4), Err(())),
            ("a part goes beyond", upload_fields(part, None), Some(10), 5, Some(6), Err(())),
            (
                "the offset is beyond the length",
                upload_fields(part, Some(4)),
                None,
                5,
                None,
                Err(()),
            ),
            ("no overflow", upload_fields(last, None), None, 5, Some(u64::MAX), Ok(Some(u64::MAX))),
        ];
        for (sentence, upload_fields, known, offset, content, want) in rows {
            assert_eq!(
                upload_fields.length(known, offset, content).map_err(drop),
                want,
                "{sentence}"
            );
        }
    }
}
