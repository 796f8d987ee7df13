//! A written value with its key, read as the type, unit and range that the schema gives it. What
//! values mean together is left to `check*`.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeInteger, DeValue};

use super::bounds::COUNT_MAX;
use super::names::{Named, names};
use super::problem::{Wrong, shown};
use super::reader::{Reader, Spot};
use super::schema::{Absent, Key, Kind, one_of, time_text};
use super::suggest::nearest;
use super::table::{Table, dotted};
use super::units::{duration, size, size_text};

/// A value with its key.
#[derive(Clone, Debug)]
pub(super) struct Value<'v> {
    pub(super) spot: Spot,
    pub(super) spec: &'static Key,
    pub(super) toml: &'v DeValue<'v>,
}

impl<'v> Value<'v> {
    /// Notes a problem with this value.
    pub(super) fn wrong(&self, reader: &mut Reader<'_>, wrong: Wrong) {
        reader.report(&self.spot, wrong);
    }

    /// The string, if it is one; nothing is reported if not.
    pub(super) fn as_text(&self) -> Option<&'v str> {
        self.toml.as_str()
    }

    /// A string.
    pub(super) fn text(&self, reader: &mut Reader<'_>) -> Option<&'v str> {
        self.as_text().or_else(|| self.mistyped(reader, "a string"))
    }

    /// A string that means something.
    pub(super) fn parse<T>(
        &self,
        reader: &mut Reader<'_>,
        parse: impl FnOnce(&str) -> Result<T, Wrong>,
    ) -> Option<T> {
        parse(self.text(reader)?).map_err(|wrong| self.wrong(reader, wrong)).ok()
    }

    /// A path, made absolute.
    pub(super) fn path(&self, reader: &mut Reader<'_>) -> Option<PathBuf> {
        let text = self.text(reader)?;
        reader.absolute(text).map_err(|wrong| self.wrong(reader, wrong)).ok()
    }

    /// A path of a directory that must exist; whether it does is left to those who may look.
    pub(super) fn directory(&self, reader: &mut Reader<'_>) -> Option<PathBuf> {
        let path = self.path(reader)?;
        reader.directories.push((self.spot.clone(), path.clone()));
        Some(path)
    }

    /// True or false.
    pub(super) fn flag(&self, reader: &mut Reader<'_>) -> Option<bool> {
        self.toml.as_bool().or_else(|| self.mistyped(reader, "true or false"))
    }

    /// An integer in the key's range.
    pub(super) fn integer<T: TryFrom<u64>>(&self, reader: &mut Reader<'_>) -> Option<T> {
        let DeValue::Integer(written) = self.toml else {
            return self.mistyped(reader, &self.spec.kind.to_string());
        };
        let (least, most) = match self.spec.kind {
            Kind::Integer(least, most) | Kind::AutoOrInteger(least, most) => (least, most),
            _ => (0, u64::MAX),
        };
        self.within(reader, whole(written), (least, most), |n| n.to_string())
    }

    /// A size in the key's range, in bytes.
    pub(super) fn size<T: TryFrom<u64>>(&self, reader: &mut Reader<'_>) -> Option<T> {
        let bytes = match self.toml {
            DeValue::Integer(written) => whole(written),
            DeValue::String(_) => Some(self.parse(reader, size)?),
            _ => return self.mistyped(reader, &self.spec.kind.to_string()),
        };
        let range = match self.spec.kind {
            Kind::Size(least, most) => (least, most),
            _ => (0, u64::MAX),
        };
        self.within(reader, bytes, range, size_text)
    }

    /// A duration in the key's range; a plain integer is seconds.
    pub(super) fn duration(&self, reader: &mut Reader<'_>) -> Option<Duration> {
        let ms = match self.toml {
            DeValue::Integer(written) => whole(written).and_then(|s| s.checked_mul(1_000)),
            DeValue::String(_) => u64::try_from(self.parse(reader, duration)?.as_millis()).ok(),
            _ => return self.mistyped(reader, &self.spec.kind.to_string()),
        };
        let range = match self.spec.kind {
            Kind::Time(least, most) => (least, most),
            _ => (0, u64::MAX),
        };
        self.within(reader, ms, range, time_text).map(Duration::from_millis)
    }

    /// One of a closed set.
    pub(super) fn choice<T: Named>(&self, reader: &mut Reader<'_>) -> Option<T> {
        let text = self.text(reader)?;
        let named = T::NAMES.iter().find(|(name, _)| *name == text);
        if named.is_none() {
            let names = names::<T>();
            let hint = match nearest(text, names.iter().copied()) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!("write {}", one_of(&names)),
            };
            self.wrong(reader, Wrong::new(format!("{} is not known", shown(text))).hint(hint));
        }
        named.map(|(_, value)| *value)
    }

    /// The elements of a list; a string alone is a list of one.
    pub(super) fn items(&self, reader: &mut Reader<'_>) -> Vec<Value<'v>> {
        match self.toml {
            DeValue::String(_) => vec![self.clone()],
            DeValue::Array(_) => self.elements(),
            _ => {
                self.mistyped::<()>(reader, &self.spec.kind.to_string());
                Vec::new()
            }
        }
    }

    /// Whether it is `[]`.
    pub(super) fn is_empty_list(&self) -> bool {
        self.toml.as_array().is_some_and(|list| list.is_empty())
    }

    /// Every element of a list, read; those that are wrong are left out.
    pub(super) fn list<T>(
        &self,
        reader: &mut Reader<'_>,
        mut read: impl FnMut(&Value<'v>, &mut Reader<'_>) -> Option<T>,
    ) -> Vec<T> {
        self.items(reader).iter().filter_map(|item| read(item, reader)).collect()
    }

    /// The entries of a table whose keys the operator chooses, in the order written, each with the
    /// place of its key.
    pub(super) fn pairs(&self, reader: &mut Reader<'_>) -> Vec<(&'v str, Spot, Value<'v>)> {
        let DeValue::Table(entries) = self.toml else {
            self.mistyped::<()>(reader, &format!("a table ({})", self.spec.kind));
            return Vec::new();
        };
        let mut pairs: Vec<_> = (entries.iter())
            .map(|(name, value)| {
                let key = dotted(&self.spot.key, name.get_ref());
                let spot = Spot { key: key.clone(), at: value.span().start };
                let value = Value { spot, spec: self.spec, toml: value.get_ref() };
                (&**name.get_ref(), Spot { key, at: name.span().start }, value)
            })
            .collect();
        pairs.sort_by_key(|(_, spot, _)| spot.at);
        pairs
    }

    /// A table with keys of its own.
    pub(super) fn table(&self, reader: &mut Reader<'_>) -> Option<Table<'v>> {
        let (Kind::Table(section) | Kind::Tables(section)) = self.spec.kind else { return None };
        match self.toml {
            DeValue::Table(entries) => {
                Some(Table::open(self.spot.clone(), entries, section, reader))
            }
            _ => self.mistyped(reader, "a table"),
        }
    }

    /// A list of tables with keys of their own.
    pub(super) fn tables(&self, reader: &mut Reader<'_>) -> Vec<Table<'v>> {
        match self.toml {
            DeValue::Array(_) => {
                self.elements().iter().filter_map(|item| item.table(reader)).collect()
            }
            _ => {
                self.mistyped::<()>(reader, "a list of tables");
                Vec::new()
            }
        }
    }

    fn elements(&self) -> Vec<Value<'v>> {
        let elements = self.toml.as_array().into_iter().flatten().enumerate();
        elements
            .map(|(i, element)| {
                let spot =
                    Spot { key: format!("{}[{i}]", self.spot.key), at: element.span().start };
                Value { spot, spec: self.spec, toml: element.get_ref() }
            })
            .collect()
    }

    fn within<T: TryFrom<u64>>(
        &self,
        reader: &mut Reader<'_>,
        value: Option<u64>,
        (least, most): (u64, u64),
        text: impl Fn(u64) -> String,
    ) -> Option<T> {
        let in_range = value.filter(|value| (least..=most).contains(value));
        let fitting = in_range.and_then(|value| T::try_from(value).ok());
        if fitting.is_none() {
            let mut hint = match most {
                COUNT_MAX => format!("write {} or more", text(least)),
                most => format!("write {} to {}", text(least), text(most)),
            };
            if let Absent::Means(what) = self.spec.absent {
                hint.push_str(&format!(", or leave the key out: {what}"));
            }
            self.wrong(reader, Wrong::new("out of range").hint(hint));
        }
        fitting
    }

    /// Reports a value of another type than expected; returns nothing, for the caller to return.
    fn mistyped<T>(&self, reader: &mut Reader<'_>, expected: &str) -> Option<T> {
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
        self.wrong(reader, Wrong::new(format!("expected {expected}, found {found}")).hint(hint));
        None
    }
}

/// An integer that is not negative and fits.
fn whole(written: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(written.as_str(), written.radix()).ok()
}
