//! What is known of one path: its representations, each with all its heads made in advance but
//! for `Date`, and when its name was last looked up.

use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};

use super::lookup::{Lookup, Opened, Target};
use crate::body::{OpenFile, Stamp};
use crate::h1::response::{SERVER, field};
use crate::semantics::accept::Coding;
use crate::semantics::date;
use crate::semantics::etag::EntityTag;

/// A file as it is answered at one path.
#[derive(Debug)]
pub struct Entry {
    /// The file as it is first, then its encoded variants, best first.
    pub representations: Vec<Representation>,
    /// The codings of the variants.
    pub codings: Vec<Coding>,
    /// How to look the name up again.
    pub lookup: Arc<Lookup>,
    /// What the name stood for.
    pub target: Target,
    /// The number of the mount it was found through, for access rules.
    pub mount: usize,
    /// When the name was last looked up, in milliseconds.
    pub checked_ms: Cell<u64>,
    /// A look-up is under way.
    pub refreshing: Cell<bool>,
    /// Used since the cache last passed by.
    pub used: Cell<bool>,
    /// Whether a tag is weak for now and must be made anew (RFC 9110 8.8.1).
    pub weak: bool,
}

/// One form a file is sent in.
#[derive(Debug)]
pub struct Representation {
    /// How it is encoded.
    pub coding: Coding,
    /// Open.
    pub file: Arc<OpenFile>,
    /// The whole of it, if it is small.
    pub content: Option<Bytes>,
    /// The entity-tag's text between the quotes; `None`: none is sent.
    pub tag: Option<String>,
    /// Whether the tag is weak.
    pub weak: bool,
    /// Last-Modified, in seconds since 1970.
    pub modified_secs: u64,
    /// The fields of the whole answer.
    pub whole: Bytes,
    /// The fields of a 304.
    pub not_modified: Bytes,
    /// The fields every answer has.
    pub common: Bytes,
    /// Content-Type.
    pub media_type: HeaderValue,
}

/// What the place a file is served at says about its fields.
#[derive(Debug)]
pub struct Dress {
    /// Content-Type.
    pub media_type: HeaderValue,
    /// Fields set; they replace what the answer had.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Fields removed.
    pub remove: Vec<HeaderName>,
    /// Files here are replaced, never edited in place: a tag is strong from the first.
    pub settled: bool,
}

/// A file modified this recently may be modified again within the clock's grain.
const SETTLED_NS: i128 = 2_000_000_000;

impl Representation {
    /// Makes the heads. `varies`: there are encoded variants. `now_secs` is the calendar's.
    pub fn new(opened: Opened, dress: &Dress, varies: bool, now_secs: u64) -> Representation {
        let stamp = opened.file.stamp;
        let now_ns = i128::from(now_secs) * 1_000_000_000;
        let recent = now_ns - stamp.modified_ns < SETTLED_NS;
        let weak = opened.hash.is_none() && recent && !dress.settled;
        // RFC 9110 8.8.2.1: never later than Date.
        let modified_secs = stamp.modified_secs().min(now_secs);
        let mut representation = Representation {
            coding: opened.coding,
            tag: None,
            weak,
            modified_secs,
            file: opened.file,
            content: opened.content,
            whole: Bytes::new(),
            not_modified: Bytes::new(),
            common: Bytes::new(),
            media_type: dress.media_type.clone(),
        };
        representation.tag = representation.make_tag(opened.hash, dress);
        let mut common = Vec::new();
        representation.common_fields(dress, varies, &mut common);
        let mut whole = common.clone();
        field(&mut whole, "Content-Type", representation.media_type.as_bytes());
        // Writing into a Vec cannot fail.
        let _ = write!(whole, "Content-Length: {}\r\n", stamp.len);
        representation.not_modified = common.clone().into();
        representation.common = common.into();
        representation.whole = whole.into();
        representation
    }

    /// Its validator, as conditions are compared with it.
    pub fn entity_tag(&self) -> Option<EntityTag<'_>> {
        let tag = self.tag.as_ref()?;
        Some(EntityTag { weak: self.weak, opaque: tag.as_bytes() })
    }

    /// With the coding, so that variants differ.
    fn make_tag(&self, hash: Option<u128>, dress: &Dress) -> Option<String> {
        if dress.remove.contains(&header::ETAG) {
            return None;
        }
        let suffix = match self.coding {
            Coding::Identity => "",
            Coding::Br => "-br",
            Coding::Zstd => "-zst",
            Coding::Gzip => "-gz",
        };
        Some(tag(&self.file.stamp, hash) + suffix)
    }

    fn common_fields(&self, dress: &Dress, varies: bool, out: &mut Vec<u8>) {
        let mut add = |name: &HeaderName, text: &str, value: &[u8]| {
            let replaced = dress.set.iter().any(|(n, _)| n == name);
            if !replaced && !dress.remove.contains(name) {
                field(out, text, value);
            }
        };
        add(&header::SERVER, "Server", SERVER.as_bytes());
        add(&header::LAST_MODIFIED, "Last-Modified", &date::format(self.modified_secs));
        if let Some(tag) = &self.tag {
            let weak = if self.weak { "W/" } else { "" };
            add(&header::ETAG, "ETag", format!("{weak}\"{tag}\"").as_bytes());
        }
        add(&header::ACCEPT_RANGES, "Accept-Ranges", b"bytes");
        if varies {
            add(&header::VARY, "Vary", b"Accept-Encoding");
        }
        let coding = match self.coding {
            Coding::Identity => None,
            Coding::Br => Some("br"),
            Coding::Zstd => Some("zstd"),
            Coding::Gzip => Some("gzip"),
        };
        if let Some(coding) = coding {
            field(out, "Content-Encoding", coding.as_bytes());
        }
        for (name, value) in &dress.set {
            if *name != header::CONTENT_TYPE {
                field(out, name.as_str(), value.as_bytes());
            }
        }
    }
}

/// The text of a file's entity-tag. Size and time, no inode: two hosts of one deploy must agree.
/// Nanoseconds, so that two edits within a second differ. `hash`: of the contents, where the tag
/// comes from them.
pub fn tag(stamp: &Stamp, hash: Option<u128>) -> String {
    match hash {
        Some(hash) => format!("{hash:032x}"),
        None => format!("{:x}-{:x}", stamp.modified_ns, stamp.len),
    }
}

impl Entry {
    /// Memory it holds, in bytes, roughly.
    pub fn cost(&self) -> usize {
        let one = |r: &Representation| {
            r.content.as_ref().map_or(0, Bytes::len) + r.whole.len() * 3 + REPRESENTATION_BYTES
        };
        self.representations.iter().map(one).sum::<usize>() + ENTRY_BYTES
    }

    /// Descriptors it holds.
    pub fn descriptors(&self) -> usize {
        self.representations.len()
    }
}

/// What an entry and its key cost beside what it points to.
const ENTRY_BYTES: usize = 512;
const REPRESENTATION_BYTES: usize = 512;
