//! A stored response: its fields, its freshness and age, the requests that it answers, and its
//! body.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::StatusCode;
use hurtle_http::request::RequestFields;
use hurtle_http::semantics::caching::Freshness;
use hurtle_http::semantics::fields::list;

use super::{Charge, Parts};
use crate::body::OpenFile;

/// A response without its body.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Status code of the response.
    pub status: StatusCode,
    /// The field lines, each ended by CRLF, with Date, without Age and without body framing.
    pub lines: Bytes,
    /// Lifetime, and what allows stale use (RFC 9111 section 4.2).
    pub freshness: Freshness,
    /// The age on arrival, in milliseconds.
    pub age_ms: u64,
    /// The time of arrival, on `clock`'s scale.
    pub received_ms: u64,
    /// The fields that Vary names, with their values in the original request.
    pub selected: Vec<SelectingField>,
}

/// A field's name, and its value if the request had it.
pub(super) type SelectingField = (Box<[u8]>, Option<Vec<u8>>);

static SERIALS: AtomicU64 = AtomicU64::new(0);

/// A response in the cache, complete or in parts.
#[derive(Debug)]
pub(crate) struct Stored {
    /// A number that is unique among the stored responses of all caches.
    pub serial: u64,
    /// The response without its body.
    pub head: Head,
    /// The body, shared with the earlier versions that a 304 has updated.
    pub content: Arc<Content>,
    _charge: Charge,
}

/// A body. Its bytes or its file are charged.
#[derive(Debug)]
pub(crate) struct Content {
    /// The body, by where it is kept.
    pub kept: Kept,
    _of_parts: Option<Charge>,
}

/// The storage of a body.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Bytes(Bytes),
    /// In a file without a name.
    File(Arc<OpenFile>),
    /// Parts in memory: the response is incomplete (RFC 9111 section 3.3).
    Parts(Parts),
}

impl Head {
    /// Returns the current age, in seconds (RFC 9111 section 4.2.3).
    pub(crate) fn age(&self, now_ms: u64) -> u64 {
        self.age_ms.saturating_add(now_ms.saturating_sub(self.received_ms)) / 1_000
    }

    pub(crate) fn is_fresh(&self, now_ms: u64) -> bool {
        self.age(now_ms) < self.freshness.lifetime
    }

    /// Returns whether the response matches a request with these fields (RFC 9111 section 4.1).
    pub(crate) fn answers(&self, fields: RequestFields<'_>) -> bool {
        self.selected.iter().all(|(name, value)| is_selecting(fields, name, value.as_deref()))
    }

    /// Returns the selecting fields of a request, for a response with this Vary.
    pub(crate) fn selected(vary: &[&[u8]], fields: RequestFields<'_>) -> Vec<SelectingField> {
        vary.iter().map(|name| (Box::from(*name), selecting(fields, name))).collect()
    }

    /// Returns the approximate memory use, in bytes.
    pub(crate) fn cost(&self) -> u64 {
        let selected =
            |(name, value): &SelectingField| name.len() + value.as_ref().map_or(0, Vec::len);
        let selected: usize = self.selected.iter().map(selected).sum();
        HEAD_BYTES + (self.lines.len() + selected) as u64
    }
}

/// Memory of a head in addition to its fields, in bytes.
const HEAD_BYTES: u64 = 256;

/// Request fields that are lists of case-insensitive names (RFC 9110 sections 12.5.3 and 12.5.4).
/// Comparison ignores case and whitespace between elements, but not the order, because some origins
/// depend on it.
fn is_caseless_list(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"accept-encoding") || name.eq_ignore_ascii_case(b"accept-language")
}

/// Returns the lines of a field as one value, normalised for comparison (RFC 9111 section 4.1).
fn selecting(fields: RequestFields<'_>, name: &[u8]) -> Option<Vec<u8>> {
    let of_name = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let values: Vec<&[u8]> = of_name.map(|(_, value)| value).collect();
    if values.is_empty() {
        return None;
    }
    if !is_caseless_list(name) {
        return Some(values.join(&b", "[..]));
    }
    let elements: Vec<&[u8]> = values.into_iter().flat_map(list).collect();
    Some(elements.join(&b","[..]).to_ascii_lowercase())
}

/// Returns whether the lines of a field equal a value that `selecting` returned. A field of one
/// line is not copied.
fn is_selecting(fields: RequestFields<'_>, name: &[u8], expected: Option<&[u8]>) -> bool {
    let mut of_name = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let (first, second) = (of_name.next(), of_name.next());
    match (first, second) {
        (Some((_, value)), None) if is_caseless_list(name) => {
            expected.is_some_and(|expected| is_same_list(value, expected))
        }
        (first, None) => first.map(|(_, value)| value) == expected,
        _ => selecting(fields, name).as_deref() == expected,
    }
}

fn is_same_list(value: &[u8], expected: &[u8]) -> bool {
    let (mut ours, mut theirs) = (list(value), list(expected));
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.eq_ignore_ascii_case(b) => {}
            _ => return false,
        }
    }
}

impl Stored {
    /// Creates a response; `charge` covers its head.
    pub(crate) fn new(head: Head, content: Arc<Content>, charge: Charge) -> Stored {
        Stored { serial: SERIALS.fetch_add(1, Relaxed), head, content, _charge: charge }
    }

    /// Returns whether the whole body is stored.
    pub(crate) fn is_complete(&self) -> bool {
        !matches!(self.content.kept, Kept::Parts(_))
    }

    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.content.kept, Kept::File(_))
    }
}

impl Content {
    /// Creates a body, which is charged. `of_parts` covers a list of parts.
    pub(crate) fn new(kept: Kept, of_parts: Option<Charge>) -> Arc<Content> {
        Arc::new(Content { kept, _of_parts: of_parts })
    }
}

impl Kept {
    /// Returns the length of the whole body, in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Kept::Bytes(bytes) => bytes.len() as u64,
            Kept::File(file) => file.stamp.len,
            Kept::Parts(parts) => parts.complete_len(),
        }
    }
}
