//! Answers with an encoding that is made while it is sent: for the clients that come before the
//! encoded file is made. Its entity-tag is its own, and weak, because the bytes differ from those
//! of the encoded file, which may be made by the next request.

use http::StatusCode;
use hurtle_http::semantics::accept::{self, Coding};
use hurtle_http::semantics::conditional::{self, Verdict};
use hurtle_http::semantics::etag::{self, Comparison};
use hurtle_http::semantics::fields::trim_ows;

use super::answer::FileQuery;
use super::entry::{Entry, Representation};
use crate::answer::Answer;
use crate::body::Body;
use crate::clock;

/// Answers a request without a range for which `selected` is the best representation that is there.
/// `None`: that one is sent.
pub(super) fn answer(
    entry: &Entry,
    selected: &Representation,
    query: &FileQuery<'_>,
) -> Option<Answer> {
    let (made, identity) = (entry.made.as_ref()?, entry.representations.first()?);
    let is_missing = selected.coding == Coding::Identity;
    let coding = if is_missing { wanted(entry, query)? } else { selected.coding };
    if !is_missing && query.preconditions.if_none_match.is_none() {
        return None;
    }
    let live = made.live(coding, identity)?;
    match conditional::evaluate(true, &query.preconditions, &live.validators(&query.preconditions))
    {
        // Also after the encoded file is made: a client that has the live encoding has its content.
        Verdict::NotModified if is_missing || is_named(live, query) => {
            let fields = live.not_modified();
            Some(Answer::ready(StatusCode::NOT_MODIFIED, fields, Body::Empty))
        }
        Verdict::Proceed if is_missing => {
            // Else the file is looked up again.
            let content = identity.content.as_ref();
            if content.is_none() && !identity.file.is_unchanged_lately(clock::now_ms()) {
                return None;
            }
            let body = Body::Stream(made.live_body(content, coding)?);
            Some(Answer::ready(StatusCode::OK, live.whole.clone(), body))
        }
        Verdict::Proceed | Verdict::NotModified | Verdict::Failed => None,
    }
}

/// The coding that the client prefers to the unencoded file.
fn wanted(entry: &Entry, query: &FileQuery<'_>) -> Option<Coding> {
    // A body of unknown length would end a connection of HTTP/1.0.
    if !query.admits_stream || query.accept_encoding.is_none() {
        return None;
    }
    let codings = entry.codings.strip_prefix(&[Coding::Dcz]).unwrap_or(&entry.codings);
    let coding = accept::choose(query.accept_encoding, codings);
    (coding != Coding::Identity).then_some(coding)
}

/// Returns whether If-None-Match has this representation's tag.
fn is_named(live: &Representation, query: &FileQuery<'_>) -> bool {
    let tag = live.validators(&query.preconditions).etag;
    let field = query.preconditions.if_none_match.filter(|field| trim_ows(field) != b"*");
    field.is_some_and(|field| etag::list_matches(field, tag, Comparison::Weak))
}
