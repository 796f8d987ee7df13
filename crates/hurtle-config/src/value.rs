//! A value with its key, read as the type, unit and range of the schema. `check*` relates values to
//! each other.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeInteger, DeValue};

use super::bounds::COUNT_MAX;
use super::error::{ValueError, shown};
use super::names::{Named, names};
use super::reader::{KeyPosition, Reader};
use super::schema::{DefaultValue, Key, Kind, Section, one_of, time_text};
use super::suggest::nearest;
use super::table::{Table, dotted};
use super::units::{duration, size, size_text};

/// A value with its key.
#[derive(Clone, Debug)]
pub(super) struct Value<'v> {
    pub(super) spot: KeyPosition,
    pub(super) spec: &'static Key,
    pub(super) toml: &'v DeValue<'v>,
}

impl<'v> Value<'v> {
    /// Records a problem with this value.
    pub(super) fn report(&self, reader: &mut Reader<'_>, wrong: ValueError) {
        reader.report(&self.spot, wrong);
    }

    /// The value if it is a string; reports nothing otherwise.
    pub(super) fn as_text(&self) -> Option<&'v str> {
        self.toml.as_str()
    }

    /// Returns a string; reports a value of any other type.
    pub(super) fn text(&self, reader: &mut Reader<'_>) -> Option<&'v str> {
        self.as_text().or_else(|| self.report_type(reader, "a string"))
    }

    /// A string parsed by `parse`.
    pub(super) fn parse<T>(
        &self,
        reader: &mut Reader<'_>,
        parse: impl FnOnce(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        parse(self.text(reader)?).map_err(|wrong| self.report(reader, wrong)).ok()
    }

    /// A path, made absolute.
    pub(super) fn path(&self, reader: &mut Reader<'_>) -> Option<PathBuf> {
        let text = self.text(reader)?;
        reader.absolute(text, self.spot.at).map_err(|wrong| self.report(reader, wrong)).ok()
    }

    /// A path of a directory; `load` checks that it exists.
    pub(super) fn directory(&self, reader: &mut Reader<'_>) -> Option<PathBuf> {
        let path = self.path(reader)?;
        reader.directories.push((self.spot.clone(), path.clone()));
        Some(path)
    }

    /// A path of a file that must exist; `load` checks it.
    pub(super) fn file(&self, reader: &mut Reader<'_>) -> Option<PathBuf> {
        let path = self.path(reader)?;
        reader.files.push((self.spot.clone(), path.clone()));
        Some(path)
    }

    /// A path of a file with a secret; `load` checks it.
    pub(super) fn secret_file(&self, reader: &mut Reader<'_>) -> Option<PathBuf> {
        let path = self.path(reader)?;
        reader.secrets.push((self.spot.clone(), path.clone()));
        Some(path)
    }

    /// Returns a boolean; reports a value of any other type.
    pub(super) fn flag(&self, reader: &mut Reader<'_>) -> Option<bool> {
        self.toml.as_bool().or_else(|| self.report_type(reader, "true or false"))
    }

    /// `true` if the value is a string.
    pub(super) fn is_text(&self) -> bool {
        self.toml.as_str().is_some()
    }

    /// `true` if the value is a list.
    pub(super) fn is_list(&self) -> bool {
        self.toml.as_array().is_some()
    }

    /// `true` if the value is a table.
    pub(super) fn is_table(&self) -> bool {
        self.toml.as_table().is_some()
    }

    /// `true` if the value is `true`; reports nothing otherwise.
    pub(super) fn is_true(&self) -> bool {
        self.toml.as_bool() == Some(true)
    }

    /// `true` if the value is `false`; reports nothing otherwise.
    pub(super) fn is_false(&self) -> bool {
        self.toml.as_bool() == Some(false)
    }

    /// An integer in the key's range.
    pub(super) fn integer<T: TryFrom<u64>>(&self, reader: &mut Reader<'_>) -> Option<T> {
        let Some(number) = self.number(reader) else {
            return self.report_type(reader, &self.spec.kind.to_string());
        };
        let range = match self.spec.kind {
            Kind::Integer(least, most)
            | Kind::AutoOrInteger(least, most)
            | Kind::TrueOrInteger(least, most) => least..=most,
            _ => 0..=u64::MAX,
        };
        self.within(reader, number, &range, |n| n.to_string())
    }

    /// The number of an integer, or of a placeholder's value that has only digits. `None`: the
    /// value is neither; `Some(None)`: it does not fit 64 bits.
    fn number(&self, reader: &Reader<'_>) -> Option<Option<u64>> {
        match self.toml {
            DeValue::Integer(written) => Some(to_u64(written)),
            DeValue::String(text) if reader.placeholders.are_at(self.spot.at) => {
                let digits = text.trim();
                let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                is_number.then(|| digits.parse().ok())
            }
            _ => None,
        }
    }

    /// A size in the key's range, in bytes.
    pub(super) fn size<T: TryFrom<u64>>(&self, reader: &mut Reader<'_>) -> Option<T> {
        let bytes = match (self.number(reader), self.toml) {
            (Some(number), _) => number,
            (None, DeValue::String(_)) => Some(self.parse(reader, size)?),
            _ => return self.report_type(reader, &self.spec.kind.to_string()),
        };
        let range = match self.spec.kind {
            Kind::Size(least, most) => least..=most,
            _ => 0..=u64::MAX,
        };
        self.within(reader, bytes, &range, size_text)
    }

    /// A duration in the key's range; a plain integer is seconds.
    pub(super) fn duration(&self, reader: &mut Reader<'_>) -> Option<Duration> {
        let ms = match (self.number(reader), self.toml) {
            (Some(number), _) => number.and_then(|s| s.checked_mul(1_000)),
            (None, DeValue::String(_)) => {
                u64::try_from(self.parse(reader, duration)?.as_millis()).ok()
            }
            _ => return self.report_type(reader, &self.spec.kind.to_string()),
        };
        let range = match self.spec.kind {
            Kind::Time(least, most) => least..=most,
            _ => 0..=u64::MAX,
        };
        self.within(reader, ms, &range, time_text).map(Duration::from_millis)
    }

    /// A value of an enumeration.
    pub(super) fn choice<T: Named>(&self, reader: &mut Reader<'_>) -> Option<T> {
        let text = self.text(reader)?;
        let named = T::NAMES.iter().find(|(name, _)| *name == text);
        if named.is_none() {
            let names = names::<T>();
            let hint = match nearest(text, names.iter().copied()) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!("write {}", one_of(&names)),
            };
            self.report(
                reader,
                ValueError::new(format!("{} is not a known value", shown(text))).hint(hint),
            );
        }
        named.map(|(_, value)| *value)
    }

    /// The elements of a list; a single string is a list of one.
    pub(super) fn items(&self, reader: &mut Reader<'_>) -> Vec<Value<'v>> {
        match self.toml {
            DeValue::String(_) => vec![self.clone()],
            DeValue::Array(_) => self.elements(),
            _ => {
                self.report_type::<()>(reader, &self.spec.kind.to_string());
                Vec::new()
            }
        }
    }

    /// Like `items`; a single table is a list of one, too.
    pub(super) fn items_or_table(&self, reader: &mut Reader<'_>) -> Vec<Value<'v>> {
        match self.toml {
            DeValue::Table(_) => vec![self.clone()],
            _ => self.items(reader),
        }
    }

    /// `true` for `[]`.
    pub(super) fn is_empty_list(&self) -> bool {
        self.toml.as_array().is_some_and(|list| list.is_empty())
    }

    /// Reads every element of a list and leaves out wrong ones.
    pub(super) fn list<T>(
        &self,
        reader: &mut Reader<'_>,
        mut read: impl FnMut(&Value<'v>, &mut Reader<'_>) -> Option<T>,
    ) -> Vec<T> {
        self.items(reader).iter().filter_map(|item| read(item, reader)).collect()
    }

    /// Parses every element of a list and leaves out wrong ones.
    pub(super) fn parse_list<T>(
        &self,
        reader: &mut Reader<'_>,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<Vec<T>> {
        Some(self.list(reader, |item, reader| item.parse(reader, &parse)))
    }

    /// The entries of a table whose keys the operator chooses, in the order written, each with the
    /// position of its key.
    pub(super) fn pairs(&self, reader: &mut Reader<'_>) -> Vec<(&'v str, KeyPosition, Value<'v>)> {
        let DeValue::Table(entries) = self.toml else {
            self.report_type::<()>(reader, &format!("a table ({})", self.spec.kind));
            return Vec::new();
        };
        let mut pairs: Vec<_> = (entries.iter())
            .map(|(name, value)| {
                let key = dotted(&self.spot.key, name.get_ref());
                let spot = KeyPosition { key: key.clone(), at: value.span().start };
                let value = Value { spot, spec: self.spec, toml: value.get_ref() };
                (&**name.get_ref(), KeyPosition { key, at: name.span().start }, value)
            })
            .collect();
        pairs.sort_by_key(|(_, spot, _)| spot.at);
        pairs
    }

    /// A table whose keys the schema lists.
    pub(super) fn table(&self, reader: &mut Reader<'_>) -> Option<Table<'v>> {
        let (Kind::Table(section) | Kind::Tables(section)) = self.spec.kind else { return None };
        match self.toml {
            DeValue::Table(entries) => {
                Some(Table::open(self.spot.clone(), entries, section, reader))
            }
            _ => self.report_type(reader, "a table"),
        }
    }

    /// The table of this section, if the value is a table.
    pub(super) fn as_table_of(
        &self,
        section: &'static Section,
        reader: &mut Reader<'_>,
    ) -> Option<Table<'v>> {
        let DeValue::Table(entries) = self.toml else { return None };
        Some(Table::open(self.spot.clone(), entries, section, reader))
    }

    /// A list of tables whose keys the schema lists.
    pub(super) fn tables(&self, reader: &mut Reader<'_>) -> Vec<Table<'v>> {
        match self.toml {
            DeValue::Array(_) => {
                self.elements().iter().filter_map(|item| item.table(reader)).collect()
            }
            _ => {
                self.report_type::<()>(reader, "a list of tables");
                Vec::new()
            }
        }
    }

    fn elements(&self) -> Vec<Value<'v>> {
        let elements = self.toml.as_array().into_iter().flatten().enumerate();
        elements
            .map(|(i, element)| {
                let spot = KeyPosition {
                    key: format!("{}[{i}]", self.spot.key),
                    at: element.span().start,
                };
                Value { spot, spec: self.spec, toml: element.get_ref() }
            })
            .collect()
    }

    fn within<T: TryFrom<u64>>(
        &self,
        reader: &mut Reader<'_>,
        value: Option<u64>,
        range: &RangeInclusive<u64>,
        text: impl Fn(u64) -> String,
    ) -> Option<T> {
        let in_range = value.filter(|value| range.contains(value));
        let fitting = in_range.and_then(|value| T::try_from(value).ok());
        if fitting.is_none() {
            let least = *range.start();
            let mut hint = match *range.end() {
                COUNT_MAX => format!("write {} or more", text(least)),
                most => format!("write {} to {}", text(least), text(most)),
            };
            if let DefaultValue::Words(what) = self.spec.absent {
                hint.push_str(&format!(", or leave the key out: {what}"));
            }
            self.report(reader, ValueError::new("out of range").hint(hint));
        }
        fitting
    }

    /// Reports a value of a wrong type and returns `None` for the caller to return.
    fn report_type<T>(&self, reader: &mut Reader<'_>, expected: &str) -> Option<T> {
        let found = match self.toml {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let hint = match self.spec.kind {
            Kind::Table(section) | Kind::Tables(section) => {
                format!("begin it with {} on a line of its own", section.header)
            }
            _ => format!("for example {} = {}", self.spec.name, self.spec.example),
        };
        self.report(
            reader,
            ValueError::new(format!("expected {expected}, found {found}")).hint(hint),
        );
        None
    }
}

/// Converts an integer that is not negative and fits 64 bits.
fn to_u64(written: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(written.as_str(), written.radix()).ok()
}
