//! Range requests to an upstream, and their responses (206): whether a request's range is fetched
//! for the cache, and how a part joins what is stored (RFC 9111 sections 3.3 and 3.4).

use std::sync::Arc;

use http::StatusCode;
use hurtle_http::message::field_lines::field;
use hurtle_http::message::keep;
use hurtle_http::message::response_head::{Length, ResponseHead};
use hurtle_http::request::fields::pairs;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::caching::{self, Described, Refused};
use hurtle_http::semantics::conditional;
use hurtle_http::semantics::range::{self, Selection};

use super::fetch::Fetch;
use super::selection::range_validators;
use crate::cache::{ArrivedPart, Cache, Flight, Head, Kept, Stored};

/// Maximum number of attempts to store a part while other fetches store parts of the same response.
const TRIES_MAX: usize = 4;

/// A fetch of the range that a request has.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeFetch {
    /// The request has If-Range, so the response may lack fields that its client has already
    /// (RFC 9110 section 15.3.7).
    pub(super) is_conditional: bool,
}

/// The position of a part in its representation.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartOf {
    pub(super) start: u64,
    /// The length of the whole, in bytes.
    pub(super) len: u64,
}

impl RangeFetch {
    /// Returns how the range of a request is fetched for the cache. `None`: the request is
    /// forwarded as it is. Several ranges are not stored. With If-Range the response is a part of
    /// the stored representation only if that has the same validator.
    pub(super) fn of(request: &RequestHead<'_>, stored: Option<&Stored>) -> Option<RangeFetch> {
        request.range.filter(|range| range::is_single(range))?;
        let is_conditional = request.if_range.is_some();
        let is_same = |stored: &Stored| {
            let described = caching::of_response(pairs(&stored.head.lines));
            conditional::range_applies(request.if_range, &range_validators(&described))
        };
        (!is_conditional || stored.is_some_and(is_same)).then_some(RangeFetch { is_conditional })
    }

    /// Appends the fields of the request.
    pub(super) fn write(request: &RequestHead<'_>, out: &mut Vec<u8>) {
        request.range.inspect(|range| field(out, "Range", range));
        request.if_range.inspect(|validator| field(out, "If-Range", validator));
    }
}

impl PartOf {
    /// Returns the position of a response that may be stored as a part: it has one range of known
    /// complete length, as long as its content, and a strong validator.
    pub(super) fn of(reply: &ResponseHead<'_>, described: &Described<'_>) -> Option<PartOf> {
        let name = |name: &[u8]| name.eq_ignore_ascii_case(b"content-range");
        let mut ranges = pairs(reply.field_lines).filter(|(other, _)| name(other));
        let ((_, value), None) = (ranges.next()?, ranges.next()) else { return None };
        let (range, len) = range::content_range(value)?;
        described.strong_validator()?;
        let is_exact = exact_len(reply) == Some(range.end - range.start);
        is_exact.then_some(PartOf { start: range.start, len })
    }
}

impl Fetch {
    /// Returns whether a response has the range that was requested.
    pub(super) fn is_part(&self, status: StatusCode) -> bool {
        self.range.is_some() && status == StatusCode::PARTIAL_CONTENT
    }

    /// Returns the position of a part; `None`: the response is no part.
    ///
    /// # Errors
    /// The part may not be stored.
    pub(super) fn part(
        &self,
        reply: &ResponseHead<'_>,
        described: &Described<'_>,
    ) -> Result<Option<PartOf>, Refused> {
        if !self.is_part(reply.status) {
            return Ok(None);
        }
        let part = PartOf::of(reply, described).ok_or(Refused::Request("part"))?;
        let fits = part.len <= self.cache().object_bytes_max();
        if fits { Ok(Some(part)) } else { Err(Refused::Response("size")) }
    }
}

/// Returns whether a stored response has all bytes for a request. An incomplete one answers only
/// ranges within its parts (RFC 9111 section 3.3).
pub(super) fn covers(stored: &Stored, request: &RequestHead<'_>) -> bool {
    let Kept::Parts(parts) = &stored.content.kept else { return true };
    let Some(ranges) = request.range.filter(|_| request.method == Method::Get) else {
        return false;
    };
    let Selection::One(range) = range::select(ranges, parts.complete_len()) else { return false };
    let described = caching::of_response(pairs(&stored.head.lines));
    parts.covers(&range)
        && conditional::range_applies(request.if_range, &range_validators(&described))
}

/// Stores a part: with the stored response of the same strong validator, or in its place. With
/// `needs_stored` it is not stored alone.
pub(super) async fn store_part(
    mut flight: Flight,
    head: &Head,
    part: &ArrivedPart,
    needs_stored: bool,
) {
    let cache = Arc::clone(flight.cache());
    for _ in 0..TRIES_MAX {
        let current = flight.current(head);
        let new = combined(&cache, current.as_deref(), head, part, needs_stored).await;
        let Some(new) = new else { return };
        match flight.replace(current.as_ref(), &Arc::new(new)) {
            Ok(()) => return,
            Err(changed) => flight = changed,
        }
    }
}

/// Combines a part with the stored response. `None`: the part is not stored.
async fn combined(
    cache: &Cache,
    stored: Option<&Stored>,
    head: &Head,
    part: &ArrivedPart,
    needs_stored: bool,
) -> Option<Stored> {
    let same = stored.filter(|stored| is_same(stored, head, part.len));
    let is_outdated = stored.is_some_and(|stored| stored.head.received_ms > head.received_ms);
    if same.is_none() && (needs_stored || is_outdated) {
        return None;
    }
    let content = match same.map(|stored| (stored, &stored.content.kept)) {
        Some((_, Kept::Parts(parts))) => match cache.combine(Some(parts), part).await {
            Some(content) => content,
            // There are too many parts: the newest replaces them.
            None => cache.combine(None, part).await?,
        },
        Some((stored, _)) => Arc::clone(&stored.content),
        None => cache.combine(None, part).await?,
    };
    let lines = keep::of_whole(&head.lines);
    let head = match same {
        Some(stored) if is_outdated => stored.head.clone(),
        Some(stored) => {
            let lines = keep::combined(&stored.head.lines, &lines).into();
            Head { status: StatusCode::OK, lines, ..head.clone() }
        }
        None => Head { status: StatusCode::OK, lines: lines.into(), ..head.clone() },
    };
    let room = cache.reserve(head.cost())?;
    Some(Stored::new(head, content, room))
}

/// Returns whether a part belongs to the stored representation (RFC 9110 section 15.3.7.3).
fn is_same(stored: &Stored, part: &Head, len: u64) -> bool {
    let ours = caching::of_response(pairs(&stored.head.lines));
    let theirs = caching::of_response(pairs(&part.lines));
    let validator = ours.strong_validator();
    stored.head.status == StatusCode::OK
        && stored.content.kept.len() == len
        && validator.is_some()
        && validator == theirs.strong_validator()
}

/// Returns the length of a body if the framing fields give it, in bytes.
pub(super) fn exact_len(reply: &ResponseHead<'_>) -> Option<u64> {
    match reply.length {
        Length::Framed(BodyLength::None) => Some(0),
        Length::Framed(BodyLength::Exactly(len)) => Some(len),
        Length::Frames => reply.content_length,
        Length::Framed(BodyLength::Chunked) | Length::UntilClose => None,
    }
}
