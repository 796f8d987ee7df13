//! The files of `<Files>` and `<FilesMatch>`, as conditions on paths.

use toml::Value;

use super::lookahead;
use super::pattern::{NameEnd, alternatives, escaped, of_name, texts};
use crate::syntax::Directive;
use hurtle_config::PathRegex;

/// Files by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSet {
    /// The expression that Apache compares with a name.
    written: String,
    /// Paths of these files, and all beneath a path like theirs.
    pub(super) closing: String,
    /// Paths of these files alone.
    selecting: String,
}

impl FileSet {
    /// Reads the files of a section.
    pub(super) fn of(d: &Directive) -> Result<FileSet, String> {
        let is_match = d.name.eq_ignore_ascii_case("<filesmatch>");
        let written = match d.args.as_slice() {
            [mark, text] if mark == "~" && !is_match => text.clone(),
            [text] if is_match => text.clone(),
            [text] => wildcards(text)?,
            _ => return Err("it names one file, or an expression".to_owned()),
        };
        let written = lookahead::without(&written);
        PathRegex::new(&written)?;
        Ok(FileSet {
            closing: of_name(&written, NameEnd::Any)?,
            selecting: of_name(&written, NameEnd::Last)?,
            written,
        })
    }

    /// `true` if a file of this name is one of them.
    pub(super) fn has(&self, name: &str) -> bool {
        PathRegex::new(&self.written).is_ok_and(|regex| regex.is_in(name.as_bytes()))
    }

    /// `true` for an expression such as `\.php$`, which all scripts match, and nothing else.
    pub(super) fn is_of_scripts_alone(&self) -> bool {
        let Some(text) = self.written.strip_suffix('$') else { return false };
        let starts = ["^.+", "^.*", ".+", ".*"];
        let bare = starts.iter().find_map(|start| text.strip_prefix(start)).unwrap_or(text);
        texts(bare).is_some_and(|all| all == [".php"])
    }

    /// `true`: no file is one of both sets, as far as is known here.
    pub(super) fn is_apart(&self, other: &FileSet) -> bool {
        let none_of = |one: &FileSet, other: &FileSet| {
            let names = one.names();
            names.is_some_and(|names| !names.iter().any(|name| other.has(name)))
        };
        none_of(self, other) || none_of(other, self)
    }

    /// The names of the files, if these are few.
    fn names(&self) -> Option<Vec<String>> {
        let whole = self.written.strip_prefix('^')?.strip_suffix('$')?;
        texts(whole).filter(|_| alternatives(&self.written).len() == 1)
    }

    /// The condition for fields of their responses; a directory's path is the one of its index.
    pub(super) fn condition(&self, index: &[String]) -> Value {
        let text = match index.iter().any(|name| self.has(name)) {
            true => format!("{}|/$", self.selecting),
            false => self.selecting.clone(),
        };
        regex(text)
    }
}

/// The condition of an expression.
pub(super) fn regex(text: String) -> Value {
    Value::Table([("regex".to_owned(), Value::from(text))].into_iter().collect())
}

/// Makes an expression of a name with `*` and `?`.
fn wildcards(text: &str) -> Result<String, String> {
    if text.contains(['/', '[']) {
        return Err("write a name, with * and ? in it, or <FilesMatch>".to_owned());
    }
    let mut out = String::from("^");
    for c in text.chars() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            c => out.push_str(&escaped(&c.to_string())),
        }
    }
    // A text behind a first star needs no begin.
    let out = out.strip_prefix("^.*").map_or(out.clone(), str::to_owned);
    Ok(out + "$")
}
