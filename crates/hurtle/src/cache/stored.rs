//! A response as it is stored: its fields, what they say of its age, whose requests it answers,
//! and its body.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::StatusCode;

use super::Charge;
use crate::body::OpenFile;
use crate::h1::fields::pairs;
use crate::semantics::caching::Freshness;

/// A response without its body.
#[derive(Clone, Debug)]
pub struct Head {
    /// Its status.
    pub status: StatusCode,
    /// Its field lines, each ended by CRLF: Date is among them, Age and what frames a body is not.
    pub lines: Bytes,
    /// How long it may be used.
    pub freshness: Freshness,
    /// Its age when it came, in seconds.
    pub age_secs: u64,
    /// When that was, on `clock`'s scale.
    pub came_ms: u64,
    /// What the request had that it answers, of the fields that Vary names.
    pub selected: Vec<Selecting>,
}

/// A field's name and value, where the request had it.
type Selecting = (Box<[u8]>, Option<Vec<u8>>);

static SERIALS: AtomicU64 = AtomicU64::new(0);

/// A stored response.
#[derive(Debug)]
pub struct Stored {
    /// What tells it from all others, of whatever cache.
    pub serial: u64,
    /// Without its body.
    pub head: Head,
    /// Its body, which outlives a head that was refreshed.
    pub content: Arc<Content>,
    _charge: Charge,
}

/// A body and the room it takes.
#[derive(Debug)]
pub struct Content {
    /// Where it is.
    pub kept: Kept,
    _charges: Vec<Charge>,
}

/// Where a body is.
#[derive(Clone, Debug)]
pub enum Kept {
    /// In memory.
    Bytes(Bytes),
    /// In a file without a name.
    File(Arc<OpenFile>),
}

impl Head {
    /// Its age now, in seconds (RFC 9111 4.2.3).
    pub fn age(&self, now_ms: u64) -> u64 {
        self.age_secs.saturating_add(now_ms.saturating_sub(self.came_ms) / 1_000)
    }

    /// Whether it answers a request with these field lines (RFC 9111 4.1).
    pub fn answers(&self, lines: &[u8]) -> bool {
        self.selected.iter().all(|(name, value)| is_selecting(lines, name, value.as_deref()))
    }

    /// What of a request's field lines selects a response that names these in Vary.
    pub fn selected(vary: &[&[u8]], lines: &[u8]) -> Vec<Selecting> {
        vary.iter().map(|name| (Box::from(*name), selecting(lines, name))).collect()
    }

    /// Memory it takes, in bytes, roughly.
    pub fn cost(&self) -> u64 {
        let selected = |(name, value): &Selecting| name.len() + value.as_ref().map_or(0, Vec::len);
        let selected: usize = self.selected.iter().map(selected).sum();
        HEAD_BYTES + (self.lines.len() + selected) as u64
    }
}

/// What a head costs beside its bytes.
const HEAD_BYTES: u64 = 256;

/// The lines of a field as one value; RFC 9111 4.1 lets whitespace and line breaks differ.
fn selecting(lines: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let of_name = pairs(lines).filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let values: Vec<&[u8]> = of_name.map(|(_, value)| value).collect();
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}

/// Whether they are this; most fields have one line at most, which is not copied.
fn is_selecting(lines: &[u8], name: &[u8], expected: Option<&[u8]>) -> bool {
    let mut of_name = pairs(lines).filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let (first, second) = (of_name.next(), of_name.next());
    match second {
        None => first.map(|(_, value)| value) == expected,
        Some(_) => selecting(lines, name).as_deref() == expected,
    }
}

impl Stored {
    /// One whose head takes the room of `charge`.
    pub fn new(head: Head, content: Arc<Content>, charge: Charge) -> Stored {
        Stored { serial: SERIALS.fetch_add(1, Relaxed), head, content, _charge: charge }
    }

    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.content.kept, Kept::File(_))
    }
}

impl Content {
    /// A body that takes this room.
    pub fn new(kept: Kept, charges: Vec<Charge>) -> Arc<Content> {
        Arc::new(Content { kept, _charges: charges })
    }
}

impl Kept {
    /// Its length, in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Kept::Bytes(bytes) => bytes.len() as u64,
            Kept::File(file) => file.stamp.len,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
