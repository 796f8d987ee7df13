//! A cached file: its representations with prepared response fields (all except `Date`), and the
//! time of the last look-up.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use hurtle_http::message::field_lines::{SERVER, field, number_field};
use hurtle_http::semantics::accept::Coding;
use hurtle_http::semantics::conditional::{Preconditions, Validators};
use hurtle_http::semantics::date;
use hurtle_http::semantics::etag::EntityTag;

use super::answer::FileQuery;
use super::differences::{Differences, client_dictionary};
use super::hashes::TagSource;
use super::lookup::{Lookup, Opened, Target};
use super::objects::Arriving;
use super::tag::{tag, tag_suffix};
use super::times::LastModified;
use crate::body::{OpenFile, Stream};
use crate::compress::{CODINGS, Compressor, Encoding, EncodingResult};
use crate::edits::ReadyEdits;
use crate::metrics::RouteMetrics;

/// A file as served at one path.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The unencoded file first, if there is one, then its encoded variants, best first.
    pub representations: Vec<Representation>,
    /// The codings of the variants, then those that this server can make.
    pub codings: Vec<Coding>,
    /// Variants that this server makes; `None`: it makes none of this file.
    pub made: Option<Box<MadeVariants>>,
    /// Parameters for repeating the look-up.
    pub lookup: Arc<Lookup>,
    /// Result of the last look-up.
    pub target: Target,
    /// Index of the mount that served the file, for access rules.
    pub mount: usize,
    /// Counters of the mount's requests; `None`: a file that no mount serves to clients.
    pub route: Option<Arc<RouteMetrics>>,
    /// Time of the last look-up, in milliseconds.
    pub checked_ms: Cell<u64>,
    /// True while a look-up is running.
    pub refreshing: Cell<bool>,
    /// True if the entry was used since the cache last considered it for eviction.
    pub used: Cell<bool>,
    /// True if a tag is weak for now, or a file may change again without another time of its
    /// change: it must be opened again (RFC 9110 section 8.8.1).
    pub is_young: bool,
}

/// A representation of a file.
#[derive(Debug)]
pub(crate) struct Representation {
    pub coding: Coding,
    /// The open file; the unencoded one for a variant that this server has made.
    pub file: Arc<OpenFile>,
    /// Length of the content in bytes.
    pub len: u64,
    /// The bytes of an object while not all of them have arrived.
    pub arrival: Option<Arriving>,
    /// The content, if it is in memory.
    pub content: Option<Bytes>,
    /// The opaque part of the entity-tag; `None` if no tag is sent.
    pub tag: Option<String>,
    /// True if the entity-tag is weak.
    pub weak: bool,
    /// True if the entity-tag is made from times that do not tell versions apart: no condition
    /// matches it.
    pub is_pending: bool,
    /// True if it is encoded while it is sent, so its bytes and their number are not known.
    pub is_live: bool,
    /// Last-Modified; `None` if it is neither sent nor honoured.
    pub modified: Option<LastModified>,
    /// Prepared fields of a 200.
    pub whole: Bytes,
    /// Length of those of them that a 304 has, in bytes.
    not_modified_len: usize,
    /// Length of those of them that a 206 has beside those of its part, in bytes.
    common_len: usize,
    /// Prepared fields of a 412 and a 416, if rules for them differ from those for a 304.
    failed: Option<Bytes>,
    pub media_type: HeaderValue,
}

/// Rules of a mount for the fields of its files.
#[derive(Debug)]
pub(crate) struct FieldRules {
    pub media_type: HeaderValue,
    /// True if `compress.types` has it.
    pub is_compressed: bool,
    /// Fields to set and to remove.
    pub edits: ReadyEdits,
    /// Fields to set and to remove in a 412 and a 416.
    pub on_failure: ReadyEdits,
    /// True if the Accept field has selected the file.
    pub varies_by_accept: bool,
    /// Use-As-Dictionary; `None`: the file is none of those that are dictionaries.
    pub dictionary: Option<HeaderValue>,
    /// True if files are replaced, never edited in place: entity-tags are then strong from the
    /// start.
    pub settled: bool,
}

/// The field that makes a response a dictionary (RFC 9842 section 2.1).
const USE_AS_DICTIONARY: HeaderName = HeaderName::from_static("use-as-dictionary");

/// Room for the fields of a file, in bytes; more is allocated if they need it.
const FIELDS_BYTES: usize = 256;

/// A file modified within this time (2 s) may be modified again without a change of its timestamp.
const SETTLED_NS: i128 = 2_000_000_000;

impl Representation {
    /// Prepares the fields. `varies` means that there are encoded variants. `now_secs` is the
    /// wall-clock time in seconds since 1970.
    pub(crate) fn new(
        opened: Opened,
        rules: &FieldRules,
        varies: bool,
        now_secs: u64,
    ) -> Representation {
        let len = opened.file.stamp.len;
        Representation::with_len(opened, len, rules, varies, now_secs)
    }

    /// As `new`, for content of this length.
    fn with_len(
        opened: Opened,
        len: u64,
        rules: &FieldRules,
        varies: bool,
        now_secs: u64,
    ) -> Representation {
        let stamp = opened.file.stamp;
        let now_ns = i128::from(now_secs) * 1_000_000_000;
        let recent = now_ns - stamp.modified_ns < SETTLED_NS;
        let is_pending = opened.tag == TagSource::Pending;
        let weak = is_pending || opened.tag == TagSource::Times && recent && !rules.settled;
        let mut representation = Representation {
            coding: opened.coding,
            tag: None,
            weak,
            is_pending,
            is_live: false,
            modified: LastModified::of(&stamp, rules.settled, now_secs),
            len,
            file: opened.file,
            content: opened.content,
            arrival: opened.arrival,
            whole: Bytes::new(),
            not_modified_len: 0,
            common_len: 0,
            failed: None,
            media_type: rules.media_type.clone(),
        };
        representation.tag = representation.make_tag(opened.tag.hash(), rules);
        representation.prepare(rules, varies)
    }

    /// The representation of a file in a coding that is made while it is sent.
    fn live(identity: &Representation, coding: Coding, rules: &FieldRules) -> Representation {
        let tag = identity.tag.as_ref().map(|tag| format!("{tag}{}-live", tag_suffix(coding)));
        let live = Representation {
            coding,
            tag,
            weak: true,
            is_live: true,
            content: None,
            arrival: None,
            file: Arc::clone(&identity.file),
            whole: Bytes::new(),
            not_modified_len: 0,
            common_len: 0,
            failed: None,
            media_type: identity.media_type.clone(),
            ..*identity
        };
        live.prepare(rules, true)
    }

    fn prepare(mut self, rules: &FieldRules, varies: bool) -> Representation {
        // One allocation for nearly all of them: each file that is not cached needs it.
        let mut fields = Vec::with_capacity(FIELDS_BYTES);
        self.metadata(rules, varies, &rules.edits, &mut fields);
        self.not_modified_len = fields.len();
        // RFC 9110 sections 8.4 and 15.4.5: it describes content, which a 304, 412 or 416 lacks.
        if let Some(coding) = content_coding(self.coding) {
            field(&mut fields, "Content-Encoding", coding.as_bytes());
        }
        self.common_len = fields.len();
        field(&mut fields, "Content-Type", self.media_type.as_bytes());
        if !self.is_live {
            number_field(&mut fields, "Content-Length", self.len);
        }
        self.whole = fields.into();
        if rules.on_failure != rules.edits {
            let mut failed = Vec::new();
            self.metadata(rules, varies, &rules.on_failure, &mut failed);
            self.failed = Some(failed.into());
        }
        self
    }

    /// The fields of a 304.
    pub(super) fn not_modified(&self) -> Bytes {
        self.whole.slice(..self.not_modified_len)
    }

    /// The fields of a 206, without those of its part.
    pub(super) fn common(&self) -> &[u8] {
        &self.whole[..self.common_len]
    }

    /// The fields of a 412 and a 416.
    pub(super) fn failed(&self) -> &[u8] {
        self.failed.as_ref().map_or(&self.whole[..self.not_modified_len], |failed| failed)
    }

    /// The validators for evaluating these preconditions.
    pub(crate) fn validators(&self, preconditions: &Preconditions<'_>) -> Validators<'_> {
        let last_modified = self.modified.map(|modified| modified.for_conditions(preconditions));
        Validators { etag: self.entity_tag(), last_modified }
    }

    /// The validators for evaluating If-Range.
    pub(crate) fn range_validators(&self) -> Validators<'_> {
        // The file may change again in the same second (RFC 9110 section 8.8.2.2).
        let modified = self.modified.filter(|_| !self.weak);
        let last_modified = modified.and_then(|modified| modified.for_ranges());
        Validators { etag: self.entity_tag(), last_modified }
    }

    fn entity_tag(&self) -> Option<EntityTag<'_>> {
        let tag = self.tag.as_ref().filter(|_| !self.is_pending)?;
        Some(EntityTag { weak: self.weak, opaque: tag.as_bytes() })
    }

    /// Makes the entity-tag. The coding is part of it, so that variants differ.
    fn make_tag(&self, hash: Option<u128>, rules: &FieldRules) -> Option<String> {
        if rules.edits.remove.contains(&header::ETAG) {
            return None;
        }
        let mut tag = tag(&self.file.stamp, hash);
        tag.push_str(tag_suffix(self.coding));
        Some(tag)
    }

    /// The fields of every response, edited by these rules.
    fn metadata(
        &self,
        rules: &FieldRules,
        varies: bool,
        ReadyEdits { set, remove, .. }: &ReadyEdits,
        out: &mut Vec<u8>,
    ) {
        let mut add = |name: &HeaderName, begin: &str, value: &[&[u8]]| {
            // A Vary of a rule stands beside this one, because caches need both.
            let replaced = *name != header::VARY && set.iter().any(|(n, _)| n == name);
            if !replaced && !remove.contains(name) {
                out.extend_from_slice(begin.as_bytes());
                value.iter().for_each(|part| out.extend_from_slice(part));
                out.extend_from_slice(b"\r\n");
            }
        };
        add(&header::SERVER, "Server: ", &[SERVER.as_bytes()]);
        if let Some(modified) = &self.modified {
            add(&header::LAST_MODIFIED, "Last-Modified: ", &[&date::format(modified.secs)]);
        }
        if let Some(tag) = &self.tag {
            let begin = if self.weak { "ETag: W/\"" } else { "ETag: \"" };
            add(&header::ETAG, begin, &[tag.as_bytes(), b"\""]);
        }
        if !self.is_live {
            add(&header::ACCEPT_RANGES, "Accept-Ranges: ", &[b"bytes"]);
        }
        let by_dictionary = varies && rules.dictionary.is_some();
        let selecting = [
            (varies, "Accept-Encoding"),
            (by_dictionary, "Available-Dictionary"),
            (rules.varies_by_accept, "Accept"),
        ];
        if selecting.iter().any(|(selects, _)| *selects) {
            let selecting = selecting.iter().filter(|(selects, _)| *selects).map(|(_, name)| *name);
            let vary = selecting.collect::<Vec<_>>().join(", ");
            add(&header::VARY, "Vary: ", &[vary.as_bytes()]);
        }
        if let Some(value) = &rules.dictionary {
            add(&USE_AS_DICTIONARY, "Use-As-Dictionary: ", &[value.as_bytes()]);
        }
        for (name, value) in set {
            if *name != header::CONTENT_TYPE {
                field(out, name.as_str(), value.as_bytes());
            }
        }
    }
}

fn content_coding(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Identity => None,
        Coding::Br => Some("br"),
        Coding::Zstd => Some("zstd"),
        Coding::Gzip => Some("gzip"),
        Coding::Dcz => Some("dcz"),
    }
}

/// The variants of a file that this server makes. They are made on threads of their own when a
/// client first accepts them; until then it gets an encoding that is made while it is sent, or the
/// unencoded file.
#[derive(Debug)]
pub(crate) struct MadeVariants {
    compressor: Compressor,
    file: Arc<OpenFile>,
    rules: FieldRules,
    now_secs: u64,
    /// In the order of `CODINGS`.
    variants: [MadeVariant; CODINGS.len()],
    /// Differences to former versions; `None`: none are made.
    differences: Option<Box<Differences>>,
}

/// A variant that may not be made yet.
#[derive(Debug, Default)]
pub(super) struct MadeVariant {
    representation: OnceCell<Representation>,
    /// The representation for clients that come before that.
    live: OnceCell<Box<Representation>>,
    /// The encoding while it is made, and as long as it is served.
    encoding: RefCell<Option<Arc<Encoding>>>,
    /// The encoding is not worth it, or it failed.
    is_refused: Cell<bool>,
}

impl MadeVariants {
    /// Creates the variants of an unencoded file. `now_secs` is the wall-clock time in seconds
    /// since 1970.
    pub(crate) fn new(
        compressor: &Compressor,
        file: &Arc<OpenFile>,
        rules: FieldRules,
        now_secs: u64,
    ) -> MadeVariants {
        let (compressor, file) = (compressor.clone(), Arc::clone(file));
        let variants = Default::default();
        MadeVariants { compressor, file, rules, now_secs, variants, differences: None }
    }

    /// Makes differences to former versions too.
    #[must_use]
    pub(crate) fn with_differences(self, differences: Option<Differences>) -> MadeVariants {
        MadeVariants { differences: differences.map(Box::new), ..self }
    }

    /// Returns the variant in a coding. If it is not made yet, its making begins. `otherwise` has
    /// the result for a coding that is not in `CODINGS`.
    #[inline]
    pub(crate) fn get<'a>(
        &'a self,
        coding: Coding,
        otherwise: impl FnOnce() -> Option<&'a Representation>,
    ) -> Option<&'a Representation> {
        let Some(position) = CODINGS.iter().position(|known| *known == coding) else {
            return otherwise();
        };
        let variant = &self.variants[position];
        let begin = || self.compressor.encoding(&self.file, coding);
        variant.representation.get().or_else(|| self.find(variant, coding, begin))
    }

    /// Returns the representation in a coding that is made while it is sent. `None`: this server
    /// does not make the coding, or it is not worth it.
    pub(super) fn live(
        &self,
        coding: Coding,
        identity: &Representation,
    ) -> Option<&Representation> {
        let variant = &self.variants[CODINGS.iter().position(|known| *known == coding)?];
        let live = || Box::new(Representation::live(identity, coding, &self.rules));
        (!variant.is_refused.get()).then(|| &**variant.live.get_or_init(live))
    }

    /// Returns the body of that representation. `content`: that of the file, if it is in memory.
    /// `None`: too many are being encoded.
    pub(super) fn live_body(&self, content: Option<&Bytes>, coding: Coding) -> Option<Stream> {
        self.compressor.live(&self.file, content, coding)
    }

    /// Returns the difference to the dictionary of a client. If it is not made yet, its making
    /// begins.
    pub(crate) fn in_dictionary(&self, query: &FileQuery<'_>) -> Option<&Representation> {
        let differences = self.differences.as_ref()?;
        let hash = client_dictionary(query, &self.rules.edits.set)?;
        let Some(variant) = differences.variant(&hash) else {
            differences.look_for(&self.compressor, &self.file, hash);
            return None;
        };
        self.find(variant, Coding::Dcz, || {
            self.compressor.encoding_with(&self.file, differences.dictionary(&hash)?)
        })
    }

    /// True if a variant holds memory of the compressor.
    pub(crate) fn is_held(&self) -> bool {
        let differences = self.differences.iter().flat_map(|differences| differences.variants());
        self.variants.iter().chain(differences).any(|variant| variant.encoding.borrow().is_some())
    }

    #[cold]
    fn find<'a>(
        &self,
        variant: &'a MadeVariant,
        coding: Coding,
        begin: impl FnOnce() -> Option<Arc<Encoding>>,
    ) -> Option<&'a Representation> {
        if let Some(made) = variant.representation.get() {
            return Some(made);
        }
        if variant.is_refused.get() {
            return None;
        }
        let mut known = variant.encoding.borrow_mut();
        if known.is_none() {
            *known = begin();
        }
        let made = match known.as_ref()?.result()?.clone() {
            EncodingResult::Made(made) => made,
            EncodingResult::TooLarge => return None,
            result => {
                variant.is_refused.set(matches!(result, EncodingResult::Refused));
                *known = None;
                return None;
            }
        };
        let file = Arc::clone(&self.file);
        let (len, tag) = (made.bytes.len() as u64, TagSource::Hash(made.hash));
        let opened = Opened { coding, file, content: Some(made.bytes), tag, arrival: None };
        let made = Representation::with_len(opened, len, &self.rules, true, self.now_secs);
        Some(variant.representation.get_or_init(|| made))
    }
}

impl Entry {
    /// Approximate memory use, in bytes.
    pub(crate) fn cost(&self) -> usize {
        let one = |r: &Representation| {
            r.content.as_ref().map_or(0, Bytes::len) + r.whole.len() + REPRESENTATION_BYTES
        };
        self.representations.iter().map(one).sum::<usize>() + ENTRY_BYTES
    }

    /// The path of the file's directory, without a trailing `/`; `None`: it is an object of a
    /// store.
    pub(crate) fn directory(&self) -> Option<Vec<u8>> {
        let Target::File { path, .. } = &self.target else { return None };
        if self.lookup.origin.is_some() {
            return None;
        }
        let root = self.lookup.root.as_os_str().as_bytes();
        let end = memchr::memrchr(b'/', path).unwrap_or(0);
        let mut directory = Vec::with_capacity(root.len() + 1 + end);
        directory.extend_from_slice(root);
        if end > 0 {
            directory.push(b'/');
            directory.extend_from_slice(&path[..end]);
        }
        Some(directory)
    }

    /// The file, if it is sent as it is and from the disk whatever a client accepts.
    pub(crate) fn file_on_disk(&self) -> Option<&Arc<OpenFile>> {
        match &self.representations[..] {
            [Representation { file, content: None, arrival: None, .. }]
                if self.made.is_none() && self.lookup.origin.is_none() =>
            {
                Some(file)
            }
            _ => None,
        }
    }

    /// True if bytes are still arriving; the entry is not kept then.
    pub(crate) fn is_arriving(&self) -> bool {
        self.representations.iter().any(|r| r.arrival.is_some())
    }

    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        self.representations.len()
    }
}

/// Approximate size of an entry with its key, in bytes, without what it points to.
const ENTRY_BYTES: usize = 512;
const REPRESENTATION_BYTES: usize = 512;
