//! A table with keys of its own, held against its section of the schema: unknown keys, and keys
//! that go with others only.

use toml::Spanned;
use toml::de::{DeString, DeTable};

use super::problem::{Wrong, shown};
use super::reader::{Reader, Spot};
use super::schema::{SECTIONS, Section, one_of};
use super::suggest::nearest;
use super::value::Value;

/// A table with keys of its own.
#[derive(Debug)]
pub(super) struct Table<'v> {
    pub(super) spot: Spot,
    section: &'static Section,
    entries: &'v DeTable<'v>,
}

impl<'v> Table<'v> {
    /// The top of a document.
    pub(super) fn top(
        entries: &'v DeTable<'v>,
        section: &'static Section,
        reader: &mut Reader<'_>,
    ) -> Table<'v> {
        Table::open(Spot { key: String::new(), at: 0 }, entries, section, reader)
    }

    /// A table as its section knows it; keys unknown there are reported.
    pub(super) fn open(
        spot: Spot,
        entries: &'v DeTable<'v>,
        section: &'static Section,
        reader: &mut Reader<'_>,
    ) -> Table<'v> {
        let table = Table { spot, section, entries };
        for (name, _) in entries {
            if section.key(name.get_ref()).is_none() {
                table.report_unknown(name, reader);
            }
        }
        table
    }

    /// The value of a key, if written. The key must be one of the section's.
    pub(super) fn get(&self, name: &str) -> Option<Value<'v>> {
        let spec = self.section.key(name);
        debug_assert!(spec.is_some(), "{name} is not in the schema of {:?}", self.section.header);
        let (name, value) = self.entries.get_key_value(name)?;
        let spot = Spot { at: value.span().start, ..self.key_spot(name) };
        Some(Value { spot, spec: spec?, toml: value.get_ref() })
    }

    /// Puts the value of a key, if it is written and right, where it belongs.
    pub(super) fn set<T>(
        &self,
        name: &str,
        reader: &mut Reader<'_>,
        read: impl FnOnce(&Value<'v>, &mut Reader<'_>) -> Option<T>,
        slot: &mut T,
    ) {
        if let Some(value) = self.get(name).and_then(|value| read(&value, reader)) {
            *slot = value;
        }
    }

    /// Reports keys that go with others of which none is written.
    pub(super) fn check_companions(&self, reader: &mut Reader<'_>) {
        for (name, _) in self.entries {
            let with = self.section.key(name.get_ref()).map_or(&[][..], |key| key.with);
            if !with.is_empty() && !with.iter().any(|key| self.entries.contains_key(*key)) {
                let wrong =
                    Wrong::new(format!("goes with {} only", one_of(with))).hint("remove it");
                reader.report_missing(&self.key_spot(name), wrong);
            }
        }
    }

    fn report_unknown(&self, name: &Spanned<DeString<'_>>, reader: &mut Reader<'_>) {
        let spot = self.key_spot(name);
        let name = name.get_ref();
        // A manifest is another file, and what belongs to a configuration is no hint there.
        let is_here = SECTIONS.iter().any(|section| std::ptr::eq(*section, self.section));
        let homes: Vec<&str> = (SECTIONS.iter())
            .filter(|_| is_here)
            .filter(|section| section.key(name).is_some())
            .map(|section| match section.header {
                "" => "the top of the file",
                header => header,
            })
            .collect();
        let wrong = Wrong::new("unknown key");
        if !homes.is_empty() {
            // In a broken text it may be in its place, and only the table's header was lost.
            let hint = format!("it belongs to {}", homes.join(" or "));
            return reader.report_missing(&spot, wrong.hint(hint));
        }
        let known: Vec<&str> = self.section.keys.iter().map(|key| key.name).collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("known here: {}", known.join(", ")),
        };
        reader.report(&spot, wrong.hint(hint));
    }

    fn key_spot(&self, name: &Spanned<DeString<'_>>) -> Spot {
        Spot { key: dotted(&self.spot.key, name.get_ref()), at: name.span().start }
    }
}

/// `parent.name`, quoted as TOML would have it where the name is not a bare key.
pub(super) fn dotted(parent: &str, name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = if !name.is_empty() && name.chars().all(bare) { name.into() } else { shown(name) };
    if parent.is_empty() { name } else { format!("{parent}.{name}") }
}
