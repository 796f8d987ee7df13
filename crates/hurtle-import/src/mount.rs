//! Translated sites and mounts: keys and values in the order in which they are written.

use std::collections::BTreeMap;

use toml::Value;

use super::map_value::Choice;
use super::path::mount_path;
use super::type_map::TypeMap;

/// Keys of a table, in order.
pub(super) type Keys = Vec<(String, Value)>;

/// Replacements of errors, by their status: a path, `@NAME`, or a table of one with a status.
pub(super) type ErrorPages = BTreeMap<u16, Value>;

#[derive(Debug, Default)]
pub(super) struct ServerConfig {
    pub(super) keys: Keys,
    /// Tables such as `limits`, by name.
    pub(super) tables: Vec<(&'static str, Keys)>,
    pub(super) sites: Vec<Site>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Site {
    pub(super) hosts: Vec<String>,
    /// Its addresses; empty: all of the configuration.
    pub(super) listen: Vec<String>,
    pub(super) is_default: bool,
    /// Other keys of the site, such as its password.
    pub(super) keys: Keys,
    pub(super) tls: Keys,
    pub(super) errors: ErrorPages,
    pub(super) rules: Vec<Keys>,
    pub(super) headers: Vec<Keys>,
    pub(super) mounts: Vec<Mount>,
}

/// The value of a field that responses get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) value: String,
    /// `true`: errors get it, too.
    pub(super) always: bool,
    /// Values by media types; empty: the value is that of all.
    pub(super) types: TypeMap,
}

impl Field {
    /// A field of successes.
    pub(super) fn of(value: &str) -> Field {
        Field { value: value.to_owned(), always: false, types: TypeMap::new() }
    }

    /// The field with another value before its own.
    pub(super) fn behind(mut self, first: &str) -> Field {
        let both = |own: &str| match own.is_empty() {
            true => first.to_owned(),
            false => format!("{first}, {own}"),
        };
        if !self.types.is_empty() && self.types.iter().all(|(media_type, _)| media_type.is_some()) {
            self.types.insert(0, (None, String::new()));
        }
        self.types.iter_mut().for_each(|(_, value)| *value = both(value));
        self.value = both(&self.value);
        self
    }
}

/// A mount of a site.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mount {
    pub(super) path: String,
    /// Keys beside the path that choose its requests: `exact`, `match`, `final`, `name`.
    pub(super) place: Keys,
    pub(super) keys: Keys,
    /// Fields of its responses, names in lower case.
    pub(super) headers: BTreeMap<String, Field>,
    /// Other keys where a map has another value; each becomes a mount.
    pub(super) choice: Option<Box<Choice>>,
}

impl Mount {
    pub(super) fn key(&self, name: &str) -> Option<&Value> {
        self.keys.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// `true` for the mount of a location with this path; `is_exact`: one with `=`.
    pub(super) fn is_of(&self, location: &str, is_exact: bool) -> bool {
        match is_exact {
            true => self.is_page() && self.path == location,
            false => self.is_prefix() && self.path == mount_path(location),
        }
    }

    /// `true`: it takes one path, whatever the request is else.
    pub(super) fn is_page(&self) -> bool {
        self.is_exact() && !self.place.iter().any(|(key, _)| key == "match")
    }

    /// `true`: it takes all paths beneath its own.
    pub(super) fn is_prefix(&self) -> bool {
        !self.place.iter().any(|(key, _)| matches!(key.as_str(), "exact" | "match" | "name"))
    }

    pub(super) fn is_exact(&self) -> bool {
        self.place.iter().any(|(key, _)| key == "exact")
    }

    pub(super) fn is_redirect(&self) -> bool {
        self.keys.iter().any(|(key, _)| key == "redirect")
    }

    /// `true`: it refuses requests, with an error or without a response.
    pub(super) fn is_refusal(&self) -> bool {
        self.keys.iter().any(|(key, value)| match key.as_str() {
            "abort" => true,
            "status" => value.as_integer().is_some_and(|status| status >= 400),
            _ => false,
        })
    }

    /// This mount for the paths of the expression of another matcher.
    pub(super) fn at_regex(&self, other: &Value) -> Mount {
        let mut mount = self.clone();
        for (_, value) in mount.place.iter_mut().filter(|(key, _)| key == "match") {
            if let (Some(table), Some(regex)) = (value.as_table_mut(), other.get("regex")) {
                table.insert("regex".to_owned(), regex.clone());
            }
        }
        mount
    }

    /// Makes it a mount of this path only.
    pub(super) fn at_exactly(mut self, path: &str) -> Mount {
        put(&mut self.place, "exact", true);
        Mount { path: path.to_owned(), ..self }
    }

    /// Removes a key; returns its text.
    pub(super) fn take_text(&mut self, name: &str) -> Option<String> {
        let at = self.keys.iter().position(|(key, _)| key == name)?;
        match self.keys.remove(at).1 {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

pub(super) fn put(keys: &mut Keys, name: &str, value: impl Into<Value>) {
    keys.push((name.to_owned(), value.into()));
}

/// Adds a list of texts; one alone is written without brackets.
pub(super) fn put_list(keys: &mut Keys, name: &str, list: &[String]) {
    match list {
        [] => {}
        [one] => put(keys, name, one.clone()),
        list => put(keys, name, list.to_vec()),
    }
}
