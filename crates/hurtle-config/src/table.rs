//! A table checked against its section of the schema: unknown keys, and keys that need others.

use toml::Spanned;
use toml::de::{DeString, DeTable};

use super::error::{ValueError, shown};
use super::reader::{KeyPosition, Reader};
use super::schema::{Kind, SECTIONS, Section, one_of};
use super::suggest::nearest;
use super::value::Value;

/// Keys that are known elsewhere, and the key of this section that is meant.
const MISTAKES: [(&str, &str); 2] = [("file", "files"), ("file", "path")];

/// A table whose keys the schema lists.
#[derive(Debug)]
pub(super) struct Table<'v> {
    pub(super) spot: KeyPosition,
    section: &'static Section,
    entries: &'v DeTable<'v>,
}

impl<'v> Table<'v> {
    /// The top of a document.
    pub(super) fn document(
        entries: &'v DeTable<'v>,
        section: &'static Section,
        reader: &mut Reader<'_>,
    ) -> Table<'v> {
        Table::open(KeyPosition { key: String::new(), at: 0 }, entries, section, reader)
    }

    /// Opens a table and reports the keys that its section does not list.
    pub(super) fn open(
        spot: KeyPosition,
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

    /// The value of a key, if set. The section must list the key.
    pub(super) fn get(&self, name: &str) -> Option<Value<'v>> {
        let spec = self.section.key(name);
        debug_assert!(spec.is_some(), "{name} is not in the schema of {:?}", self.section.header);
        let (name, value) = self.entries.get_key_value(name)?;
        let spot = KeyPosition { at: value.span().start, ..self.key_spot(name) };
        Some(Value { spot, spec: spec?, toml: value.get_ref() })
    }

    /// Stores the value of a key in `slot` if it is set and valid.
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

    /// Reports keys that need another key that is not set.
    pub(super) fn check_companions(&self, reader: &mut Reader<'_>) {
        for (name, _) in self.entries {
            let with = self.section.key(name.get_ref()).map_or(&[][..], |key| key.with);
            // `status = true` is a handler, and needs no other key.
            let is_handler = self.section.key(name.get_ref()).is_some()
                && self.get(name.get_ref()).is_some_and(|value| {
                    matches!(value.spec.kind, Kind::TrueOrInteger(..)) && value.is_true()
                });
            if !with.is_empty()
                && !is_handler
                && !with.iter().any(|key| self.entries.contains_key(*key))
            {
                let wrong =
                    ValueError::new(format!("goes with {} only", one_of(with))).hint("remove it");
                reader.report_missing(&self.key_spot(name), wrong);
            }
        }
    }

    fn report_unknown(&self, name: &Spanned<DeString<'_>>, reader: &mut Reader<'_>) {
        let spot = self.key_spot(name);
        let name = name.get_ref();
        // In a manifest, the place of a key in the configuration file is no help.
        let is_here = SECTIONS.iter().any(|section| std::ptr::eq(*section, self.section));
        let homes: Vec<&str> = (SECTIONS.iter())
            .filter(|_| is_here)
            .filter(|section| section.key(name).is_some())
            .map(|section| match section.header {
                "" => "the top of the file",
                header => header,
            })
            .collect();
        let wrong = ValueError::new("unknown key");
        // `hosts` is a key of sites, `host` one of conditions.
        let numbers = [format!("{name}s"), name.trim_end_matches('s').to_owned()];
        let mistakes = MISTAKES.iter().filter(|(mistake, _)| mistake == name);
        let mut meant = mistakes.map(|(_, meant)| *meant).chain(numbers.iter().map(String::as_str));
        if let Some(meant) = meant.find(|meant| self.section.key(meant).is_some()) {
            return reader.report(&spot, wrong.hint(format!("did you mean \"{meant}\"?")));
        }
        if !homes.is_empty() {
            // With syntax errors only the table's header may have been lost.
            let hint = format!("it belongs to {}", homes.join(" or "));
            return reader.report_missing(&spot, wrong.hint(hint));
        }
        let known: Vec<&str> = self.section.keys().map(|key| key.name).collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("known here: {}", known.join(", ")),
        };
        reader.report(&spot, wrong.hint(hint));
    }

    /// The positions of the keys that meet a condition.
    pub(super) fn key_spots(&self, is_meant: fn(&str) -> bool) -> Vec<KeyPosition> {
        let names = self.entries.keys().filter(|name| is_meant(name.get_ref()));
        names.map(|name| self.key_spot(name)).collect()
    }

    fn key_spot(&self, name: &Spanned<DeString<'_>>) -> KeyPosition {
        KeyPosition { key: dotted(&self.spot.key, name.get_ref()), at: name.span().start }
    }
}

/// Joins `parent.name`; a name that is not a bare TOML key is quoted.
pub(super) fn dotted(parent: &str, name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = if !name.is_empty() && name.chars().all(bare) { name.into() } else { shown(name) };
    if parent.is_empty() { name } else { format!("{parent}.{name}") }
}
