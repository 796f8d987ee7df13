//! Selects the part of a stored response that a request gets: the whole, one range, or 304.

use std::sync::Arc;

use http::StatusCode;
use hurtle_http::message::field_lines::{field, number_field};
use hurtle_http::message::keep;
use hurtle_http::request::fields::pairs;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::caching::{self, Described};
use hurtle_http::semantics::conditional::{self, Preconditions, Validators, Verdict};
use hurtle_http::semantics::date;
use hurtle_http::semantics::etag;
use hurtle_http::semantics::range::{self, Selection};

use crate::answer::is_bodiless;
use crate::body::{Body, FileSlice, Part, Stream};
use crate::cache::{Head, Kept, Reader};

/// Initial capacity for lines that are added to a stored head, in bytes.
const OWN_LINES_BYTES: usize = 128;

/// A body that is stored or arriving.
pub(super) enum Source<'a> {
    Kept(&'a Kept),
    Arriving(Reader),
}

/// Returns the status, fields and body for a request's conditions and range (RFC 9111 section
/// 4.3.2, RFC 9110 section 14). `lines` is an empty buffer for the fields.
pub(super) fn selected(
    request: &RequestHead<'_>,
    head: &Head,
    source: Source<'_>,
    mut lines: Vec<u8>,
) -> (StatusCode, Vec<u8>, Body) {
    lines.reserve(head.lines.len() + OWN_LINES_BYTES);
    lines.extend_from_slice(&head.lines);
    let has_content = matches!(head.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT);
    if has_content && !is_for_the_whole(request) {
        let described = caching::of_response(pairs(&head.lines));
        let validators = validators(&described);
        let preconditions = Preconditions {
            if_none_match: request.if_none_match,
            if_modified_since: request.if_modified_since,
            ..Preconditions::default()
        };
        if conditional::evaluate(true, &preconditions, &validators) == Verdict::NotModified {
            return (StatusCode::NOT_MODIFIED, keep::not_modified(&lines), Body::Empty);
        }
        if let (Source::Kept(kept), Method::Get, Some(ranges)) =
            (&source, &request.method, request.range)
            && conditional::range_applies(request.if_range, &range_validators(&described))
        {
            let len = kept.len();
            match range::select(ranges, len) {
                Selection::One(range) => {
                    let mut lines = keep::of_whole(&lines);
                    let text = format!("bytes {}-{}/{len}", range.start, range.end - 1);
                    field(&mut lines, "Content-Range", text.as_bytes());
                    length(&mut lines, range.end - range.start);
                    return (StatusCode::PARTIAL_CONTENT, lines, piece(kept, range));
                }
                Selection::Unsatisfiable => {
                    let mut lines = keep::not_modified(&lines);
                    field(&mut lines, "Content-Range", format!("bytes */{len}").as_bytes());
                    length(&mut lines, 0);
                    return (StatusCode::RANGE_NOT_SATISFIABLE, lines, Body::Empty);
                }
                // Several ranges are rare, and the whole body is always correct (RFC 9110 section
                // 14.2).
                Selection::Whole | Selection::Many(_) => {}
            }
        }
    }
    match source {
        Source::Kept(kept) => {
            if !is_bodiless(head.status) {
                length(&mut lines, kept.len());
            }
            (head.status, lines, piece(kept, 0..kept.len()))
        }
        Source::Arriving(reader) => (head.status, lines, Body::Stream(Stream::new(reader))),
    }
}

/// Returns the validators of a stored response.
fn validators<'a>(described: &Described<'a>) -> Validators<'a> {
    let (etag, modified) = (described.etag.and_then(etag::parse), described.last_modified);
    Validators { etag, last_modified: modified.and_then(date::parse) }
}

/// Returns the validators for If-Range: only a strong date counts (RFC 9110 section 13.1.5).
pub(super) fn range_validators<'a>(described: &Described<'a>) -> Validators<'a> {
    Validators { last_modified: described.strong_date(), ..validators(described) }
}

/// Returns whether a request has neither a range nor a precondition.
pub(super) fn is_for_the_whole(request: &RequestHead<'_>) -> bool {
    request.if_none_match.is_none()
        && request.if_modified_since.is_none()
        && request.range.is_none()
}

fn length(lines: &mut Vec<u8>, len: u64) {
    number_field(lines, "Content-Length", len);
}

pub(super) fn piece(kept: &Kept, range: std::ops::Range<u64>) -> Body {
    match kept {
        Kept::Bytes(bytes) if bytes.is_empty() => Body::Empty,
        // A range lies within the body.
        Kept::Bytes(bytes) => Body::Bytes(bytes.slice(range.start as usize..range.end as usize)),
        Kept::File(file) => Body::File(FileSlice {
            file: Arc::clone(file),
            offset: range.start,
            len: range.end - range.start,
        }),
        Kept::Parts(parts) => {
            debug_assert!(parts.covers(&range), "`covers` precedes");
            Body::Parts(parts.slices(&range).into_iter().map(Part::Bytes).collect())
        }
    }
}
