//! What a request head says to the handlers, whatever protocol they think it is.

use std::borrow::Cow;

use crate::files::FileQuery;
use crate::h1::request::{Method, Request, Value};
use crate::semantics::conditional::Preconditions;
use crate::semantics::target::Target;

/// The path and the query, where the target has them.
pub(super) fn path_of<'a>(target: &Target<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    match target {
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
            Some((path, *query))
        }
        Target::Asterisk | Target::Authority(_) => None,
    }
}

/// A field's value.
pub(super) fn value<'a>(field: &'a Value<'_>) -> Option<&'a [u8]> {
    field.as_ref().map(Cow::as_ref)
}

/// Conditions, ranges, codings.
pub(super) fn file_query<'a>(request: &'a Request<'_>) -> FileQuery<'a> {
    FileQuery {
        preconditions: Preconditions {
            if_match: value(&request.if_match),
            if_none_match: value(&request.if_none_match),
            if_modified_since: value(&request.if_modified_since),
            if_unmodified_since: value(&request.if_unmodified_since),
            if_range: value(&request.if_range),
        },
        // RFC 9110 14.2: Range means nothing but in GET.
        range: if request.method == Method::Get { value(&request.range) } else { None },
        accept_encoding: value(&request.accept_encoding),
    }
}
