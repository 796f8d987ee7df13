//! Placeholders in the strings of a configuration: `{env.NAME}`, `{env.NAME:default}` and
//! `{file.PATH}`. They are replaced before the values are read, so a value has the type of its key.
//! Everything that is printed has the placeholder in place of the value.

use std::borrow::Cow;
use std::env;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use toml::de::{DeArray, DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::error::{ValueError, shown};
use super::reader::{KeyPosition, Reader};
use super::schema::{Kind, Section};
use super::table::dotted;

/// Largest file of a placeholder, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Shorter values are too common to be searched for in messages.
const SEARCHED_BYTES_MIN: usize = 4;

/// Keys that let somebody in or keep him out: an empty value must not open them.
const GUARDS: [&str; 7] =
    ["allow", "deny", "auth", "users", "trusted_proxies", "issuer", "audience"];

/// A placeholder, without its braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder<'a> {
    Env { name: &'a str, default: Option<&'a str> },
    File(&'a str),
}

/// Finds the value of a placeholder; the path is the directory of relative paths.
pub(super) type Resolve = fn(Placeholder<'_>, &Path) -> Result<String, ValueError>;

/// The placeholders of a configuration, for printing it without their values.
#[derive(Clone, Default)]
pub struct Placeholders {
    replaced: Vec<Replaced>,
    /// The files whose contents are values; a reload reads them again.
    pub files: Vec<PathBuf>,
}

/// A string with placeholders.
#[derive(Clone, Debug)]
struct Replaced {
    /// The key, as in messages: `site[0].mount[1].proxy`.
    key: String,
    /// The position of the string in bytes.
    at: usize,
    written: String,
    value: String,
    /// The placeholders in it, each with its value.
    parts: Vec<(String, String)>,
}

/// The values are in the other fields of a configuration, so how they were written makes no
/// difference.
impl PartialEq for Placeholders {
    fn eq(&self, _: &Placeholders) -> bool {
        true
    }
}

/// The values are secrets.
impl fmt::Debug for Placeholders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.replaced.iter().map(|replaced| &replaced.written)).finish()
    }
}

impl Placeholders {
    /// Returns a text, such as a message, with placeholders in place of their values.
    pub fn conceal(&self, text: &str) -> String {
        self.concealed(text, false)
    }

    /// `escapes`: what looks like a placeholder in the text means itself.
    fn concealed(&self, text: &str, escapes: bool) -> String {
        let mut known: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
        for Replaced { written, value, parts, .. } in &self.replaced {
            if !value.is_empty() {
                known.push((shown(value).into(), shown(written).into()));
            }
            // The file itself shows a default.
            let is_searched = |(written, value): &&(String, String)| {
                value.len() >= SEARCHED_BYTES_MIN && !written.contains(&**value)
            };
            let parts = parts.iter().filter(is_searched);
            known.extend(parts.map(|(written, value)| (value.into(), written.into())));
        }
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(first) = rest.chars().next() {
            let found = known.iter().find_map(|(value, written)| {
                rest.strip_prefix(&**value).map(|rest| (&**written, rest))
            });
            let (taken, after) = found.unwrap_or_else(|| rest.split_at(first.len_utf8()));
            if escapes && found.is_none() && next(rest) == Some(0) {
                out.push('{');
            }
            out.push_str(taken);
            rest = after;
        }
        out
    }

    /// Returns a printed configuration with placeholders in place of their values.
    pub(super) fn conceal_printed(&self, printed: String) -> String {
        if self.replaced.is_empty() && next(&printed).is_none() {
            return printed;
        }
        let Ok(mut table) = printed.parse::<Table>() else { return String::new() };
        table.iter_mut().for_each(|(_, value)| self.conceal_strings(value));
        // An element of a list may be printed at another place than it was written.
        for replaced in self.replaced.iter().filter(|replaced| !replaced.key.ends_with(']')) {
            if let Some(value) = find(&mut table, &replaced.key) {
                *value = Value::String(replaced.written.clone());
            }
        }
        toml::to_string(&table).unwrap_or_default()
    }

    /// A value may be printed under another key than it was written, as `root` is.
    fn conceal_strings(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let is_it = |replaced: &&Replaced| replaced.value == *text && !text.is_empty();
                let whole = self.replaced.iter().find(is_it);
                *text = match whole {
                    Some(whole) => whole.written.clone(),
                    None => self.concealed(text, true),
                };
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.conceal_strings(item)),
            Value::Table(table) => {
                table.iter_mut().for_each(|(_, value)| self.conceal_strings(value));
            }
            _ => {}
        }
    }

    /// `true` if the string at this position had placeholders.
    pub(super) fn are_at(&self, at: usize) -> bool {
        self.replaced.iter().any(|replaced| replaced.at == at)
    }
}

/// Returns the value of a key such as `site[0].mount[1].proxy`.
fn find<'t>(table: &'t mut Table, key: &str) -> Option<&'t mut Value> {
    let mut steps = key.split('.').flat_map(|name| {
        let (name, numbers) = name.split_once('[').unwrap_or((name, ""));
        let numbers = numbers.split(['[', ']']).filter_map(|number| number.parse().ok());
        std::iter::once((Some(name), 0)).chain(numbers.map(|number: usize| (None, number)))
    });
    let mut value = table.get_mut(steps.next()?.0?)?;
    for (name, number) in steps {
        value = match name {
            Some(name) => value.get_mut(name)?,
            None => value.get_mut(number)?,
        };
    }
    Some(value)
}

/// Replaces the placeholders of a document; the reader collects the problems.
pub(super) fn replace(
    document: &mut DeTable<'_>,
    section: &'static Section,
    reader: &mut Reader<'_>,
) {
    replace_in_table(document, "", Some(section), reader);
}

fn replace_in_table(
    table: &mut DeTable<'_>,
    parent: &str,
    section: Option<&'static Section>,
    reader: &mut Reader<'_>,
) {
    for (name, value) in table.iter_mut() {
        let kind = section.and_then(|section| section.key(name.get_ref())).map(|key| &key.kind);
        let is_guard = GUARDS.contains(&&**name.get_ref());
        replace_in_value(value, &dotted(parent, name.get_ref()), kind, is_guard, reader);
    }
}

fn replace_in_value(
    value: &mut Spanned<DeValue<'_>>,
    key: &str,
    kind: Option<&'static Kind>,
    is_guard: bool,
    reader: &mut Reader<'_>,
) {
    let at = value.span().start;
    let section = match kind {
        Some(Kind::Table(section) | Kind::Tables(section)) => Some(*section),
        _ => None,
    };
    let text = match value.get_mut() {
        DeValue::Table(table) => return replace_in_table(table, key, section, reader),
        DeValue::Array(items) => {
            // An element is no list itself.
            let kind = kind.filter(|_| section.is_some());
            for (number, item) in items.iter_mut().enumerate() {
                replace_in_value(item, &format!("{key}[{number}]"), kind, is_guard, reader);
            }
            return;
        }
        DeValue::String(text) if next(text).is_some() => text.to_string(),
        _ => return,
    };
    let wrong = match resolved(&text, at, reader) {
        Err(wrong) => wrong,
        Ok((value, _)) if is_guard && is_empty_list(&value) => {
            let wrong = ValueError::new(format!("{} is empty", shown(&text)));
            wrong.hint("an empty value would guard nothing")
        }
        Ok((resolved, parts)) => {
            *value.get_mut() = typed(&resolved, kind, at);
            let (key, written, value) = (key.to_owned(), text, resolved);
            reader.placeholders.replaced.push(Replaced { key, at, written, value, parts });
            return;
        }
    };
    reader.report_alone(&KeyPosition { key: key.to_owned(), at }, wrong);
}

/// True for a value without an element.
fn is_empty_list(value: &str) -> bool {
    value.chars().all(|c| c == ',' || c.is_whitespace())
}

/// Returns a replaced string as TOML: a list if the key has one and the string has commas, or
/// spaces between networks, and true or false. `Value` reads numbers.
fn typed<'v>(text: &str, kind: Option<&Kind>, at: usize) -> DeValue<'v> {
    let are_networks = matches!(kind, Some(Kind::List("networks")));
    let separates = |c: char| c == ',' || (are_networks && c.is_whitespace());
    match (kind, text.trim()) {
        (Some(Kind::Flag | Kind::TrueOrInteger(..)), "true") => DeValue::Boolean(true),
        (Some(Kind::Flag | Kind::TrueOrInteger(..)), "false") => DeValue::Boolean(false),
        (Some(Kind::List(_) | Kind::Choices(_)), list) if list.contains(separates) => {
            let mut items = DeArray::default();
            for item in list.split(separates).map(str::trim).filter(|item| !item.is_empty()) {
                items.push(Spanned::new(at..at, DeValue::String(item.to_owned().into())));
            }
            DeValue::Array(items)
        }
        _ => DeValue::String(text.to_owned().into()),
    }
}

/// Returns the index of the next placeholder, which may be escaped.
fn next(text: &str) -> Option<usize> {
    let of = |begin| text.find(begin);
    of("{env.").into_iter().chain(of("{file.")).min()
}

/// Returns a text with the values of its placeholders, and the placeholders with their values.
fn resolved(
    text: &str,
    at: usize,
    reader: &mut Reader<'_>,
) -> Result<(String, Vec<(String, String)>), ValueError> {
    let (mut out, mut parts, mut rest) = (String::new(), Vec::new(), text);
    while let Some(begin) = next(rest) {
        let (before, from) = rest.split_at(begin);
        if before.ends_with('{') {
            // Escaped: the first brace goes.
            let dot = from.find('.').map_or(from.len(), |dot| dot + 1);
            out.push_str(&before[..begin - 1]);
            out.push_str(&from[..dot]);
            rest = &from[dot..];
            continue;
        }
        let Some(end) = from.find('}') else {
            let wrong = ValueError::new(format!("{} has no end", shown(from)));
            return Err(wrong.hint("write a } behind it, or {{ to mean a brace"));
        };
        let placeholder = parse(&from[1..end])?;
        if let Placeholder::File(path) = placeholder {
            reader.placeholders.files.push(reader.absolute(path, at)?);
        }
        let value = reader.resolve(placeholder, at)?;
        out.push_str(before);
        out.push_str(&value);
        parts.push((from[..=end].to_owned(), value));
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok((out, parts))
}

/// Parses what stands between the braces.
fn parse(text: &str) -> Result<Placeholder<'_>, ValueError> {
    if let Some(path) = text.strip_prefix("file.") {
        return Ok(Placeholder::File(path));
    }
    let text = text.strip_prefix("env.").unwrap_or(text);
    let (name, default) = match text.split_once(':') {
        Some((name, default)) => (name, Some(default)),
        None => (text, None),
    };
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_letter) {
        let wrong = ValueError::new(format!("{} is no name of a variable", shown(name)));
        return Err(wrong.hint("write {env.NAME} or {env.NAME:default}, or {{env. to mean a brace"));
    }
    Ok(Placeholder::Env { name, default })
}

/// Resolves placeholders as in an empty environment without files.
pub(super) fn resolve_empty(placeholder: Placeholder<'_>, _: &Path) -> Result<String, ValueError> {
    match placeholder {
        Placeholder::Env { default: Some(default), .. } => Ok(default.to_owned()),
        Placeholder::Env { name, default: None } => Err(not_set(name)),
        Placeholder::File(path) => {
            Err(ValueError::new(format!("{path} is read only when a file is loaded")))
        }
    }
}

fn not_set(name: &str) -> ValueError {
    ValueError::new(format!("the environment variable {name} is not set"))
        .hint(format!("set it, or write a default: {{env.{name}:value}}"))
}

/// Resolves placeholders by the environment and the files of this process.
pub(super) fn resolve_here(
    placeholder: Placeholder<'_>,
    base: &Path,
) -> Result<String, ValueError> {
    match placeholder {
        Placeholder::Env { name, default } => match (env::var(name), default) {
            (Ok(value), _) => Ok(value),
            (Err(env::VarError::NotPresent), Some(default)) => Ok(default.to_owned()),
            (Err(env::VarError::NotPresent), None) => Err(not_set(name)),
            (Err(env::VarError::NotUnicode(_)), _) => {
                Err(ValueError::new(format!("the environment variable {name} is not UTF-8")))
            }
        },
        Placeholder::File(path) => {
            let path = base.join(path);
            let text = contents(&path).map_err(|why| {
                ValueError::new(format!("{}: {why}", path.display()))
                    .hint("relative paths are relative to the configuration file")
            })?;
            let line = text.strip_suffix('\n').unwrap_or(&text);
            Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
        }
    }
}

fn contents(path: &Path) -> Result<String, String> {
    // A FIFO would wait for a writer.
    if !path.metadata().map_err(|e| e.to_string())?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(|e| e.to_string())?;
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("more than {} KiB", FILE_BYTES_MAX >> 10));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{check, print};

    #[test]
    fn a_configuration_with_placeholders_is_printed_and_read_back_equal() {
        let rows = [
            ("a default", "root = \"{env.A:/srv}\""),
            ("a default that is empty", "root = \"/{env.A:}\"\n[error_log]\npath = \"/x{env.A:}\""),
            ("what means itself", "root = \"{{env.A}\""),
            ("beside a placeholder", "root = \"/{{env.A}/{env.A:b}/{{file.c}\""),
            ("a list in one", "root = \"/\"\ntrusted_proxies = \"{env.A:10.0.0.0/8, ::1}\""),
            ("an element", "root = \"/\"\ntrusted_proxies = [\"{env.A:10.0.0.0/8}\", \"::1\"]"),
            ("a number, and an equal one", "root = \"/\"\nbacklog = \"{env.A:16}\"\ndrain = 16"),
            ("a flag", "root = \"/\"\nhttp3 = \"{env.A:false}\""),
            (
                "a value that stands elsewhere, too",
                "[[site]]\n[[site.mount]]\nrespond = \"{env.A:hello}\"\n\
                 [[site.mount]]\npath = \"/b\"\nrespond = \"hello, hello\"",
            ),
        ];
        for (sentence, text) in rows {
            let file = Path::new("/srv/hurtle.toml");
            let config = check(text, file).unwrap_or_else(|e| panic!("{sentence}: {e:?}"));
            let printed = print(&config);
            assert_eq!(check(&printed, file), Ok(config), "{sentence}: {printed}");
        }
    }
}
