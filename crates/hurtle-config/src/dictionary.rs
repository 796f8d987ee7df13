//! Compression dictionaries of versioned files: the `dictionary` tables of a mount.

use serde::Serialize;

use super::error::{ValueError, shown};
use super::files::Files;
use super::reader::Reader;
use super::schema::DefaultValue::{Required, Words};
use super::schema::Kind::Text;
use super::schema::{Key, Section};
use super::table::Table;

/// Patterns of one mount. Each file of the mount is compared with all of them when it is opened.
const PATTERNS_MAX: usize = 64;

/// Length of an identifier (RFC 9842 section 2.1.3).
const ID_CHARACTERS_MAX: usize = 1024;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static DICTIONARY: Section = Section {
    header: "[[site.mount.dictionary]]",
    doc: "A client that has a former version of a file gets a later one as the difference (`dcz`, RFC \
          9842); see [compression.md](compression.md#dictionaries).",
    keys: &[&[
        Key::new("match", Text("a path with `*` in its last segment"), Required, "\"js/app.*.js\"",
            "The versions of a file, as a path beneath the mount. `*` stands for any characters of the \
             name. Of several patterns that match a file, the first is used."),
        Key::new("id", Text("a few words"), Words("none"), "\"app\"",
            "Identifier that clients repeat in Dictionary-ID, for logs and scripts. The server finds \
             dictionaries by their hashes."),
    ]],
};

/// Files whose former versions are dictionaries for later ones (RFC 9842).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dictionary {
    /// Path beneath the mount. Its last segment has `*`; the others are literal.
    #[serde(rename = "match")]
    pub pattern: String,
    /// The identifier that clients repeat in Dictionary-ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Reads `dictionary` of a mount with these files.
pub(super) fn dictionaries(
    mount: &Table<'_>,
    files: &Files,
    reader: &mut Reader<'_>,
) -> Vec<Dictionary> {
    let Some(written) = mount.get("dictionary") else { return Vec::new() };
    let mut dictionaries: Vec<Dictionary> = Vec::new();
    for table in written.tables(reader) {
        let Some(value) = table.get("match") else {
            let wrong = ValueError::new("match is missing");
            reader
                .report_missing(&table.spot, wrong.hint("write for example match = \"app.*.js\""));
            continue;
        };
        let mut id = None;
        table.set("id", reader, |v, r| v.parse(r, identifier).map(Some), &mut id);
        let Some(pattern) = value.parse(reader, pattern) else { continue };
        if dictionaries.iter().any(|known| known.pattern == pattern) {
            let wrong = ValueError::new(format!("{} is already a dictionary", shown(&pattern)));
            value.report(reader, wrong.hint("remove one of them"));
        }
        dictionaries.push(Dictionary { pattern, id });
    }
    if dictionaries.len() > PATTERNS_MAX {
        let wrong = ValueError::new(format!("a mount has at most {PATTERNS_MAX} dictionaries"));
        written.report(reader, wrong.hint("write patterns that match more files"));
    }
    if mount.get("compress").is_some_and(|compress| compress.is_false()) {
        let wrong = ValueError::new("the mount does not compress, so dictionaries have no use");
        written.report(reader, wrong.hint("remove dictionary, or compress = false"));
    }
    if files.rate > 0 {
        let wrong = ValueError::new("a mount with a rate does not compress");
        written.report(reader, wrong.hint("remove dictionary, or rate"));
    }
    dictionaries
}

/// Parses a pattern: literal directories, then a name with `*`.
fn pattern(text: &str) -> Result<String, ValueError> {
    let wrong = |what: &str| {
        Err(ValueError::new(format!("{} {what}", shown(text)))
            .hint("write a path beneath the mount such as \"app.*.js\" or \"js/app.*.js\""))
    };
    let (directory, name) = text.rsplit_once('/').unwrap_or(("", text));
    match () {
        () if text.starts_with('/') => wrong("begins with a slash"),
        () if text.contains(char::is_control) => wrong("has a control character"),
        () if directory.contains('*') => wrong("has * in a directory"),
        () if !name.contains('*') => wrong("has no * in its last segment"),
        () if name.contains("**") => wrong("has **"),
        () if text.contains('/') && directory.split('/').any(|s| matches!(s, "" | "." | "..")) => {
            wrong("has an empty segment, . or ..")
        }
        () => Ok(text.to_owned()),
    }
}

/// Parses an identifier: a structured-field string (RFC 9651 section 3.3.3).
fn identifier(text: &str) -> Result<String, ValueError> {
    if text.is_empty() || text.len() > ID_CHARACTERS_MAX || !text.bytes().all(is_plain) {
        let limit = format!("it has 1 to {ID_CHARACTERS_MAX} printable ASCII characters");
        return Err(ValueError::new("not an identifier").hint(limit));
    }
    Ok(text.to_owned())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}
