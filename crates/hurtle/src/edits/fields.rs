//! Fields that are edited, in each of their forms: a map, field lines, and the fields of a file
//! before its lines are made.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use hurtle_http::message::field_lines::field;
use hurtle_http::message::forward;
use hurtle_http::message::response::Fields;
use hurtle_http::request::fields::{is_same, pairs};

/// The fields of a response, to be edited.
pub(crate) trait FieldEdits {
    /// Removes all lines of a field.
    fn remove(&mut self, name: &HeaderName);

    fn append(&mut self, name: &HeaderName, value: &HeaderValue);

    /// Calls `take` with the name and value of each line.
    fn each(&self, take: &mut dyn FnMut(&[u8], &[u8]));

    /// Returns the value of Content-Type; `None`: there is none.
    fn media_type(&self) -> Option<Vec<u8>> {
        let mut own = None;
        self.each(&mut |name, value| {
            if is_same(name, b"content-type") {
                own = Some(value.to_vec());
            }
        });
        own
    }

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
pub(crate) struct LineEdits<'a> {
    lines: &'a [u8],
    /// Names whose lines are removed.
    removed: Vec<HeaderName>,
    /// Complete lines to add, each with its CRLF.
    added: Vec<u8>,
}

impl<'a> LineEdits<'a> {
    /// Edits field lines, each ended by CRLF.
    pub(crate) fn of(lines: &'a [u8]) -> LineEdits<'a> {
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

/// The fields of a response of this server. Its own Vary, by which it selected the response, stands
/// beside that of a rule, because caches need both.
pub(crate) struct OwnFields<'a> {
    fields: &'a mut dyn FieldEdits,
    /// The server's own lines of Vary; `None`: not read yet.
    own_vary: Option<Vec<HeaderValue>>,
    /// `true`: a rule has set Vary.
    has_vary: bool,
}

impl<'a> OwnFields<'a> {
    /// Edits these fields, which no rule has edited yet.
    pub(crate) fn of(fields: &'a mut dyn FieldEdits) -> OwnFields<'a> {
        OwnFields { fields, own_vary: None, has_vary: false }
    }
}

impl FieldEdits for OwnFields<'_> {
    fn remove(&mut self, name: &HeaderName) {
        if *name == header::VARY {
            (self.own_vary, self.has_vary) = (Some(Vec::new()), false);
        }
        self.fields.remove(name);
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.fields.append(name, value);
    }

    fn each(&self, take: &mut dyn FnMut(&[u8], &[u8])) {
        self.fields.each(take);
    }

    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        if *name != header::VARY {
            return self.fields.set(name, value);
        }
        let own = self.own_vary.get_or_insert_with(|| values(&*self.fields, name));
        self.fields.remove(name);
        own.iter().for_each(|line| self.fields.append(name, line));
        if !own.iter().any(|line| line.as_bytes().eq_ignore_ascii_case(value.as_bytes())) {
            self.fields.append(name, value);
        }
        self.has_vary = true;
    }

    fn has(&self, name: &HeaderName) -> bool {
        if *name == header::VARY { self.has_vary } else { self.fields.has(name) }
    }
}

/// Returns the value of each line of a field.
fn values(fields: &dyn FieldEdits, name: &HeaderName) -> Vec<HeaderValue> {
    let mut values = Vec::new();
    fields.each(&mut |other, value| {
        if is_same(other, name.as_str().as_bytes()) {
            values.extend(HeaderValue::from_bytes(value));
        }
    });
    values
}

/// Fields to set in the lines of a file and to remove from them, which are made with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadyEdits {
    /// Fields to set; they replace the file's own.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Names of fields to remove from the file's own.
    pub remove: Vec<HeaderName>,
    /// The file's own Content-Type.
    pub media_type: Option<HeaderValue>,
}

/// The fields that every file has of its own, besides those that only the protocol sets.
const OF_FILES: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::ACCEPT_RANGES,
    header::SERVER,
];

impl FieldEdits for ReadyEdits {
    fn has(&self, name: &HeaderName) -> bool {
        let is_own = OF_FILES.contains(name) && !self.remove.contains(name);
        is_own || self.set.iter().any(|(other, _)| other == name)
    }

    fn media_type(&self) -> Option<Vec<u8>> {
        let set = self.set.iter().find(|(name, _)| *name == header::CONTENT_TYPE);
        let own = self.media_type.as_ref().filter(|_| !self.remove.contains(&header::CONTENT_TYPE));
        set.map(|(_, value)| value).or(own).map(|value| value.as_bytes().to_vec())
    }

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
pub(crate) fn edit_fields(fields: &mut Fields, edit: impl FnOnce(&mut dyn FieldEdits)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields of a response, each as a line in lower case, sorted.
    fn sorted(fields: &dyn FieldEdits) -> Vec<String> {
        let mut lines = Vec::new();
        fields.each(&mut |name, value| {
            let name = String::from_utf8_lossy(name).to_lowercase();
            lines.push(format!("{name}: {}", String::from_utf8_lossy(value)));
        });
        lines.sort();
        lines
    }

    #[test]
    fn all_forms_of_fields_are_edited_alike() {
        let original = [("vary", "Accept"), ("vary", "Cookie"), ("x-a", "1"), ("etag", "\"t\"")];
        let (name, value) = (HeaderName::from_static, HeaderValue::from_static);
        type Steps = fn(&mut dyn FieldEdits, &HeaderName, &HeaderValue);
        let rows: &[(&str, Steps)] = &[
            ("nothing", |_, _, _| {}),
            ("a removal", |fields, name, _| fields.remove(name)),
            ("a replacement", |fields, name, value| fields.set(name, value)),
            ("another line", |fields, name, value| fields.append(name, value)),
            ("one of each", |fields, name, value| {
                fields.append(name, value);
                fields.remove(name);
                fields.append(name, value);
            }),
            ("a default", |fields, name, value| {
                if !fields.has(name) {
                    fields.append(name, value);
                }
            }),
        ];
        for (sentence, steps) in rows {
            for field in ["vary", "x-a", "etag", "x-new"] {
                let (edited, new) = (name(field), value("new"));
                let mut map = HeaderMap::new();
                let mut lines = Vec::new();
                for (field, text) in original {
                    map.append(name(field), value(text));
                    lines.extend_from_slice(format!("{field}: {text}\r\n").as_bytes());
                }
                steps(&mut map, &edited, &new);
                let mut forms = [Fields::Ready(lines.clone().into()), Fields::Dated(lines)];
                for fields in &mut forms {
                    let mut within = Vec::new();
                    edit_fields(fields, |fields| {
                        steps(fields, &edited, &new);
                        within = sorted(fields);
                    });
                    assert_eq!(within, sorted(&map), "{sentence} of {field}, within");
                    let text = match fields {
                        Fields::Ready(lines) => lines.to_vec(),
                        Fields::Dated(lines) => lines.clone(),
                        Fields::Map(_) => Vec::new(),
                    };
                    assert_eq!(
                        sorted(&LineEdits::of(&text)),
                        sorted(&map),
                        "{sentence} of {field}"
                    );
                }
            }
        }
    }
    #[test]
    fn the_vary_of_a_rule_stands_beside_that_of_this_server() {
        type Row = (&'static str, &'static [Option<&'static str>], &'static [&'static str]);
        let rows: &[Row] = &[
            ("no rule", &[], &["vary: Accept"]),
            ("a rule", &[Some("Origin")], &["vary: Accept", "vary: Origin"]),
            ("the same field", &[Some("accept")], &["vary: Accept"]),
            ("two rules", &[Some("Cookie"), Some("Origin")], &["vary: Accept", "vary: Origin"]),
            ("a removal", &[None], &[]),
            ("a removal and a rule", &[None, Some("Origin")], &["vary: Origin"]),
        ];
        for (sentence, steps, expected) in rows {
            let map = HeaderMap::from_iter([(header::VARY, HeaderValue::from_static("Accept"))]);
            let lines = Bytes::from_static(b"Vary: Accept\r\n");
            for mut fields in [Fields::Map(map), Fields::Ready(lines)] {
                edit_fields(&mut fields, |fields| {
                    let own = &mut OwnFields::of(fields);
                    for step in *steps {
                        match step {
                            Some(value) => own.set(&header::VARY, &HeaderValue::from_static(value)),
                            None => own.remove(&header::VARY),
                        }
                    }
                    assert_eq!(sorted(own), *expected, "{sentence}");
                });
            }
        }
    }
}
