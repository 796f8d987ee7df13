//! Fields that are edited, in each of their forms: a map, field lines, and the fields of a file before
//! its lines are made.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use hurtle_http::h1::forward;
use hurtle_http::h1::response::{Fields, field};
use hurtle_http::request::fields::{is_same, pairs};

/// The fields of a response, to be edited.
pub trait FieldEdits {
    /// Removes all lines of a field.
    fn remove(&mut self, name: &HeaderName);

    /// Adds a line.
    fn append(&mut self, name: &HeaderName, value: &HeaderValue);

    /// Calls `take` with the name and value of each line.
    fn each(&self, take: &mut dyn FnMut(&[u8], &[u8]));

    /// Replaces all lines of a field by one.
    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.remove(name);
        self.append(name, value);
    }

    /// Returns whether there is a line of the field.
    fn has(&self, name: &HeaderName) -> bool {
        let mut has = false;
        self.each(&mut |other, _| has |= is_same(other, name.as_str().as_bytes()));
        has
    }
}

impl FieldEdits for HeaderMap {
    fn remove(&mut self, name: &HeaderName) {
        HeaderMap::remove(self, name);
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        HeaderMap::append(self, name.clone(), value.clone());
    }

    fn each(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        self.iter().for_each(|(name, value)| take(name.as_str().as_bytes(), value.as_bytes()));
    }

    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.insert(name.clone(), value.clone());
    }

    fn has(&self, name: &HeaderName) -> bool {
        self.contains_key(name)
    }
}

/// Edits of field lines, which are not copied until they are applied.
#[derive(Debug)]
pub struct LineEdits<'a> {
    lines: &'a [u8],
    /// Names whose lines are removed.
    removed: Vec<HeaderName>,
    /// Complete lines to add, each with its CRLF.
    added: Vec<u8>,
}

impl<'a> LineEdits<'a> {
    /// Edits field lines, each ended by CRLF.
    pub fn of(lines: &'a [u8]) -> LineEdits<'a> {
        LineEdits { lines, removed: Vec::new(), added: Vec::new() }
    }
}

impl FieldEdits for LineEdits<'_> {
    fn remove(&mut self, name: &HeaderName) {
        let text = name.as_str().as_bytes();
        if pairs(&self.added).any(|(other, _)| is_same(other, text)) {
            let mut kept = Vec::with_capacity(self.added.len());
            for (other, value) in pairs(&self.added).filter(|(other, _)| !is_same(other, text)) {
                for part in [other, b": ", value, b"\r\n"] {
                    kept.extend_from_slice(part);
                }
            }
            self.added = kept;
        }
        if pairs(self.lines).any(|(other, _)| is_same(other, text)) {
            self.removed.push(name.clone());
        }
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        // The spelling of RFC 9110.
        let spelled = if *name == header::ETAG { "ETag" } else { name.as_str() };
        field(&mut self.added, spelled, value.as_bytes());
    }

    fn each(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        let removes =
            |name: &[u8]| self.removed.iter().any(|r| is_same(name, r.as_str().as_bytes()));
        let kept = pairs(self.lines).filter(|(name, _)| !removes(name));
        kept.chain(pairs(&self.added)).for_each(|(name, value)| take(name, value));
    }
}

/// Fields to set in the lines of a file and to remove from them, which are made with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyEdits {
    /// Fields to set; they replace the file's own.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Fields to remove.
    pub remove: Vec<HeaderName>,
}

impl FieldEdits for ReadyEdits {
    fn remove(&mut self, name: &HeaderName) {
        self.set.retain(|(other, _)| other != name);
        self.remove.push(name.clone());
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.set.push((name.clone(), value.clone()));
    }

    fn each(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        let fields = self.set.iter();
        fields.for_each(|(name, value)| take(name.as_str().as_bytes(), value.as_bytes()));
    }

    /// The file's own lines of a field that is set are not written.
    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.set.retain(|(other, _)| other != name);
        self.append(name, value);
    }
}

/// Edits the fields of a response. Lines that `edit` leaves as they are are not copied.
pub fn edit_fields(fields: &mut Fields, edit: impl FnOnce(&mut dyn FieldEdits)) {
    match fields {
        Fields::Map(map) => edit(map),
        Fields::Ready(lines) => {
            let mut edits = LineEdits::of(lines);
            edit(&mut edits);
            let LineEdits { removed, added, .. } = edits;
            if !removed.is_empty() || !added.is_empty() {
                *lines = Bytes::from(forward::edit_lines(lines, b"", &removed, &added));
            }
        }
        Fields::Dated(lines) => {
            let mut edits = LineEdits::of(lines);
            edit(&mut edits);
            let LineEdits { removed, added, .. } = edits;
            match removed.is_empty() {
                true => lines.extend_from_slice(&added),
                false => *lines = forward::edit_lines(lines, b"", &removed, &added),
            }
        }
    }
}
