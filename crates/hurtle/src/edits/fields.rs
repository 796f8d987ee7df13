//! Fields that are edited, in each of their forms: a map, field lines, an upstream's response head, and
//! the fields of a file before its lines are made.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use hurtle_http::h1::forward;
use hurtle_http::h1::response::{Fields, field};
use hurtle_http::h1::response_head::ResponseHead;
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

/// Field lines that are not copied until they are edited.
#[derive(Debug)]
pub struct LineEdits<'a> {
    original: Original<'a>,
    /// Names whose original lines are removed.
    pub removed: Vec<HeaderName>,
    /// Complete lines to add, each with its CRLF.
    pub added: Vec<u8>,
}

#[derive(Debug)]
enum Original<'a> {
    Lines(&'a [u8]),
    Upstream(&'a ResponseHead<'a>),
}

impl<'a> LineEdits<'a> {
    /// Edits field lines, each ended by CRLF.
    pub fn of_lines(lines: &'a [u8]) -> LineEdits<'a> {
        LineEdits { original: Original::Lines(lines), removed: Vec::new(), added: Vec::new() }
    }

    /// Edits the fields that a client gets of an upstream's response.
    pub fn of_upstream(reply: &'a ResponseHead<'a>) -> LineEdits<'a> {
        LineEdits { original: Original::Upstream(reply), removed: Vec::new(), added: Vec::new() }
    }

    /// Returns whether the original lines of a name are removed.
    pub fn removes(&self, name: &[u8]) -> bool {
        self.removed.iter().any(|removed| is_same(name, removed.as_str().as_bytes()))
    }

    /// Returns the edited lines; `None`: they are as they were.
    fn edited(&self) -> Option<Vec<u8>> {
        match self.original {
            Original::Lines(lines) if !self.removed.is_empty() || !self.added.is_empty() => {
                Some(forward::edit_lines(lines, b"", &self.removed, &self.added))
            }
            _ => None,
        }
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
        self.removed.push(name.clone());
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        // The spelling of RFC 9110.
        let spelled = if *name == header::ETAG { "ETag" } else { name.as_str() };
        field(&mut self.added, spelled, value.as_bytes());
    }

    fn each(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        let mut kept = |name: &[u8], value: &[u8]| {
            if !self.removes(name) {
                take(name, value);
            }
        };
        match self.original {
            Original::Lines(lines) => pairs(lines).for_each(|(name, value)| kept(name, value)),
            Original::Upstream(reply) => forward::each_for_client(reply, kept),
        }
        pairs(&self.added).for_each(|(name, value)| take(name, value));
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

/// Edits the fields of a response of this server. Lines that `edit` leaves as they are are not copied.
pub fn edit_fields(fields: &mut Fields, edit: impl FnOnce(&mut dyn FieldEdits)) {
    match fields {
        Fields::Map(map) => edit(map),
        Fields::Ready(lines) => {
            if let Some(edited) = edited(lines, edit) {
                *lines = Bytes::from(edited);
            }
        }
        Fields::Dated(lines) => {
            if let Some(edited) = edited(lines, edit) {
                *lines = edited;
            }
        }
    }
}

fn edited(lines: &[u8], edit: impl FnOnce(&mut dyn FieldEdits)) -> Option<Vec<u8>> {
    let mut edits = LineEdits::of_lines(lines);
    edit(&mut edits);
    edits.edited()
}
