//! Turns a file and the conditions of a request into a response (RFC 9110 sections 13 and 14).
//! Pure, except that it clones `Arc`s.

use std::io::Write;
use std::ops::Range;

use http::StatusCode;
use hurtle_http::message::field_lines::field;
use hurtle_http::request::RequestFields;
use hurtle_http::semantics::accept::{self, Coding};
use hurtle_http::semantics::conditional::{self, Preconditions, Verdict};
use hurtle_http::semantics::etag;
use hurtle_http::semantics::fields::trim_ows;
use hurtle_http::semantics::range::{self, Selection};

use super::entry::{Entry, Representation};
use super::live;
use super::tag::tag_suffix;
use crate::answer::Answer;
use crate::body::{Body, FileSlice, Part};

/// The request fields that select the representation and the ranges of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileQuery<'a> {
    /// The preconditions (RFC 9110 section 13.1).
    pub preconditions: Preconditions<'a>,
    /// Range; set for GET only (RFC 9110 section 14.2).
    pub range: Option<&'a [u8]>,
    pub accept_encoding: Option<&'a [u8]>,
    /// The response may have a body of unknown length.
    pub admits_stream: bool,
    /// All fields; read where a file has dictionaries.
    pub fields: RequestFields<'a>,
    /// The channel admits codings with a dictionary (RFC 9842 section 8).
    pub is_private: bool,
}

impl FileQuery<'_> {
    /// True if the request has neither preconditions nor a range.
    pub(crate) fn is_for_the_whole(&self) -> bool {
        self.range.is_none() && self.preconditions == Preconditions::default()
    }
}

/// Answers a GET or HEAD. `status` is 200, or the status of an error whose page this file is.
pub(crate) fn answer(entry: &Entry, status: StatusCode, query: &FileQuery<'_>) -> Answer {
    if query.range.is_none() || entry.codings.is_empty() {
        return negotiated(entry, status, query);
    }
    match for_range(entry, query) {
        Some(representation) => of(representation, status, query),
        None => {
            let query = FileQuery { range: None, ..*query };
            negotiated(entry, status, &query)
        }
    }
}

/// Answers with the representation that Accept-Encoding selects.
fn negotiated(entry: &Entry, status: StatusCode, query: &FileQuery<'_>) -> Answer {
    let selected = select(entry, query, &entry.codings);
    let live = if status == StatusCode::OK { live::answer(entry, selected, query) } else { None };
    live.unwrap_or_else(|| of(selected, status, query))
}

/// Selects the representation whose parts a client gets: the one that If-Range names, or else the
/// first, the unencoded one if there is one, because a client that joins parts does not expect that
/// one of them is encoded. `None`: it gets the whole.
fn for_range<'a>(entry: &'a Entry, query: &FileQuery<'_>) -> Option<&'a Representation> {
    let first = &entry.representations[0];
    let accepts = |coding| accept::accepts_coding(query.accept_encoding, coding);
    let if_range = query.preconditions.if_range;
    let named = |r: &&Representation| conditional::range_applies(if_range, &r.range_validators());
    if let Some(tag) = if_range.and_then(|field| etag::parse(trim_ows(field))) {
        let is_of = |coding: &Coding| tag.opaque.ends_with(tag_suffix(*coding).as_bytes());
        let codings = entry.codings.iter().filter(|coding| is_of(coding) && accepts(**coding));
        let known = |coding: &Coding| entry.representations.iter().find(|r| r.coding == *coding);
        let made = |coding: &Coding| entry.made.as_ref()?.get(*coding, || None);
        let variant =
            codings.filter_map(|coding| known(coding).or_else(|| made(coding))).find(named);
        if variant.is_some() {
            return variant;
        }
    }
    let is_part = |range| range::select(range, first.len) != Selection::Whole;
    let takes_part = accepts(first.coding) && query.range.is_some_and(is_part);
    Some(first).filter(|_| takes_part && (if_range.is_none() || named(&first)))
}

/// Answers with one representation, without negotiation.
pub(crate) fn of(
    representation: &Representation,
    status: StatusCode,
    query: &FileQuery<'_>,
) -> Answer {
    // Preconditions do not apply to an error page (RFC 9110 section 13.2.1).
    if status != StatusCode::OK {
        return whole(representation, status);
    }
    match verdict(representation, query) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            return Answer::ready(
                StatusCode::NOT_MODIFIED,
                representation.not_modified(),
                Body::Empty,
            );
        }
        Verdict::Failed => return failed(representation, StatusCode::PRECONDITION_FAILED, None),
    }
    let Some(ranges) = query.range else { return whole(representation, StatusCode::OK) };
    let if_range = query.preconditions.if_range;
    let validators = representation.range_validators();
    let len = representation.len;
    // An empty file has no part, and clients begin a download with `bytes=0-`.
    if len == 0 || if_range.is_some() && !conditional::range_applies(if_range, &validators) {
        return whole(representation, StatusCode::OK);
    }
    match range::select(ranges, len) {
        Selection::Whole => whole(representation, StatusCode::OK),
        Selection::One(range) => part(representation, range),
        Selection::Many(ranges) => parts(representation, &ranges),
        Selection::Unsatisfiable => {
            failed(representation, StatusCode::RANGE_NOT_SATISFIABLE, Some(len))
        }
    }
}

/// Evaluates the preconditions, which few requests have.
fn verdict(representation: &Representation, query: &FileQuery<'_>) -> Verdict {
    if query.preconditions.is_empty() {
        return Verdict::Proceed;
    }
    let validators = representation.validators(&query.preconditions);
    conditional::evaluate(true, &query.preconditions, &validators)
}

fn select<'a>(entry: &'a Entry, query: &FileQuery<'_>, codings: &[Coding]) -> &'a Representation {
    let first = &entry.representations[0];
    if codings.is_empty() {
        return first;
    }
    let coding = accept::choose(query.accept_encoding, codings);
    if coding == Coding::Identity {
        return first;
    }
    let known = entry.representations.iter().find(|r| r.coding == coding);
    let made = || entry.made.as_ref()?.get(coding, || with_dictionary(entry, query));
    known.or_else(made).unwrap_or(first)
}

/// Returns the difference to the client's dictionary, or what another client gets meanwhile.
#[cold]
fn with_dictionary<'a>(entry: &'a Entry, query: &FileQuery<'_>) -> Option<&'a Representation> {
    let difference = entry.made.as_ref().and_then(|made| made.in_dictionary(query));
    // The coding with a dictionary is the first of all.
    difference.or_else(|| Some(select(entry, query, entry.codings.get(1..)?)))
}

fn whole(r: &Representation, status: StatusCode) -> Answer {
    Answer::ready(status, r.whole.clone(), slice(r, 0..r.len))
}

/// Body for a range: from memory if the content is cached, else from the file.
fn slice(r: &Representation, range: Range<u64>) -> Body {
    match &r.content {
        // A range lies within the content, which is in memory, so the casts lose nothing.
        Some(content) => Body::Bytes(content.slice(range.start as usize..range.end as usize)),
        None => Body::File(FileSlice {
            file: r.file.clone(),
            offset: range.start,
            len: range.end - range.start,
        }),
    }
}

fn part(r: &Representation, range: Range<u64>) -> Answer {
    let mut fields = r.common().to_vec();
    field(&mut fields, "Content-Type", r.media_type.as_bytes());
    field(&mut fields, "Content-Range", content_range(&range, r.len).as_bytes());
    content_length(&mut fields, range.end - range.start);
    Answer::ready(StatusCode::PARTIAL_CONTENT, fields.into(), slice(r, range))
}

/// A multipart/byteranges response with parts in the requested order (RFC 9110 section 14.6).
fn parts(r: &Representation, ranges: &[Range<u64>]) -> Answer {
    let boundary = boundary(r);
    let len = r.len;
    let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
    for range in ranges {
        let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
        field(&mut head, "Content-Type", r.media_type.as_bytes());
        field(&mut head, "Content-Range", content_range(range, len).as_bytes());
        head.extend_from_slice(b"\r\n");
        parts.push(Part::Bytes(head.into()));
        match slice(r, range.clone()) {
            Body::File(slice) => parts.push(Part::File(slice)),
            Body::Bytes(bytes) => parts.push(Part::Bytes(bytes)),
            Body::Empty | Body::Parts(_) | Body::Stream(_) => {}
        }
    }
    parts.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into()));
    let mut fields = r.common().to_vec();
    let media_type = format!("multipart/byteranges; boundary={boundary}");
    field(&mut fields, "Content-Type", media_type.as_bytes());
    content_length(&mut fields, parts.iter().map(Part::len).sum());
    Answer::ready(StatusCode::PARTIAL_CONTENT, fields.into(), Body::Parts(parts))
}

/// Boundary of a multipart response. It must not occur in the file, but need not be secret: it is a
/// hash of metadata that the file's author cannot choose freely.
fn boundary(r: &Representation) -> String {
    let stamp = r.file.stamp;
    let seed = (stamp.inode, stamp.changed_ns, stamp.len, stamp.modified_ns);
    let hash = xxhash_rust::xxh3::xxh3_128(format!("{seed:?}").as_bytes());
    format!("{hash:032x}")
}

/// A 412 or 416 response without a body.
fn failed(r: &Representation, status: StatusCode, len: Option<u64>) -> Answer {
    let mut fields = r.failed().to_vec();
    if let Some(len) = len {
        field(&mut fields, "Content-Range", format!("bytes */{len}").as_bytes());
    }
    content_length(&mut fields, 0);
    Answer::ready(status, fields.into(), Body::Empty)
}

fn content_range(range: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.start, range.end - 1)
}

fn content_length(fields: &mut Vec<u8>, len: u64) {
    // Writing to a Vec cannot fail.
    let _ = write!(fields, "Content-Length: {len}\r\n");
}
