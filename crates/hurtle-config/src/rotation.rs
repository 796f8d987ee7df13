//! Logs and their rotation: the schema of `[access_log]` and `[error_log]`, and the keys that both
//! have.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::bounds::BYTES_MAX;
use super::check_matcher::MATCH;
use super::error::ValueError;
use super::names::{FormatName, names};
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Kind::{Choice, Choices, Integer, Size, Text, Time};
use super::schema::{Key, Kind, Section};
use super::table::Table;
use super::types::{LogField, LogLevel, LogTarget};
use super::value::Value;

/// The rotation of a log file. Without a size and an age it is left to others, by SIGUSR1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rotation {
    /// Size in bytes that a file does not exceed.
    #[serde(rename = "rotate_bytes", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "optional_size")]
    pub bytes: Option<u64>,
    /// Age at which a file is rotated.
    #[serde(rename = "rotate_age", skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "optional_duration")]
    pub age: Option<Duration>,
    /// Number of old files that are kept.
    pub keep: NonZeroU32,
}

impl Rotation {
    /// `true`: files are not rotated, so `keep` says nothing.
    pub(super) fn is_off(&self) -> bool {
        self.bytes.is_none() && self.age.is_none()
    }
}

impl Default for Rotation {
    fn default() -> Rotation {
        Rotation { bytes: None, age: None, keep: KEEP }
    }
}

/// The default of `keep`.
const KEEP: NonZeroU32 = NonZeroU32::new(10).expect("not 0");

/// The most old files: each rotation renames all of them.
const KEEP_MAX: u64 = 1_000;

/// A file smaller than this would be rotated all the time.
const ROTATE_BYTES_MIN: u64 = 4 << 10;

/// Ages of a file, in milliseconds: a second up to a year.
const ROTATE_AGE_MS_MIN: u64 = 1_000;
const ROTATE_AGE_MS_MAX: u64 = 366 * 24 * 3_600_000;

const ROTATES: &[&str] = &["rotate_bytes", "rotate_age"];

fn optional_size<S: Serializer>(bytes: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
    print::size(&bytes.unwrap_or_default(), out)
}

fn optional_duration<S: Serializer>(age: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    print::duration(&age.unwrap_or_default(), out)
}

#[rustfmt::skip] // One paragraph for each key.
pub(super) static ACCESS_LOG: Section = Section {
    header: "[access_log]",
    doc: "Log of requests, one line each. It is off without this table, which may be empty.",
    keys: &[&[
        Key::new("format", Choice(names::<FormatName>), Toml("\"combined\""), "\"json\"",
            "Apache's and nginx's combined format, a JSON object, or a short line for a person."),
        Key::new("fields", Choices(names::<LogField>), Words("those up to `completion`"),
            "[\"time\", \"status\", \"target\"]",
            "Members of the JSON object, in this order; for `format = \"json\"`. Those behind \
             `completion` are described in monitoring.md."),
        Key::new("path", Text("a file, \"stdout\" or \"stderr\""), Toml("\"stdout\""),
            "\"/var/log/hurtle/access.log\"",
            "Destination of the lines. A file is appended to, and reopened on SIGUSR1."),
        ROTATE_BYTES,
        ROTATE_AGE,
        KEPT,
        Key::new("match", Kind::Table(&MATCH), Words("every request"), "{ not = { path = \"/healthz\" } }",
            "Requests that are logged: a pattern of paths, a list of patterns, or a table of conditions, see \
             `[site.mount.match]`. Requests that cannot be parsed are always logged."),
    ]],
};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static ERROR_LOG: Section = Section {
    header: "[error_log]",
    doc: "Log of the server's own events.",
    keys: &[&[
        Key::new("level", Choice(names::<LogLevel>), Toml("\"info\""), "\"warn\"",
            "The least severe level written. `hurtle log-level` changes it while the server runs."),
        Key::new("path", Text("a file, \"stdout\" or \"stderr\""), Toml("\"stderr\""),
            "\"/var/log/hurtle/error.log\"",
            "Destination of the lines. A file is appended to, and reopened on SIGUSR1."),
        ROTATE_BYTES,
        ROTATE_AGE,
        KEPT,
    ]],
};

#[rustfmt::skip] // One paragraph for each key.
const ROTATE_BYTES: Key =
    Key::new("rotate_bytes", Size(ROTATE_BYTES_MIN, BYTES_MAX), Words("off"), "\"100 MiB\"",
        "Rotate a file before a line would make it larger: it is renamed to `NAME.1`, `NAME.1` to \
         `NAME.2` and so on. The server's user must be allowed to write in the directory.");
#[rustfmt::skip] // One paragraph for each key.
const ROTATE_AGE: Key =
    Key::new("rotate_age", Time(ROTATE_AGE_MS_MIN, ROTATE_AGE_MS_MAX), Words("off"), "\"24h\"",
        "Rotate a file that is this old, with the next line.");
#[rustfmt::skip] // One paragraph for each key.
const KEPT: Key =
    Key::new("keep", Integer(1, KEEP_MAX), Toml("10"), "30",
        "Number of rotated files that are kept; older ones are removed.").with(ROTATES);

/// Reads the keys of a log's rotation.
pub(super) fn rotation(table: &Table<'_>, to: &LogTarget, reader: &mut Reader<'_>) -> Rotation {
    table.check_companions(reader);
    let mut rotation = Rotation::default();
    let size = |value: &Value<'_>, reader: &mut Reader<'_>| value.size(reader).map(Some);
    table.set("rotate_bytes", reader, size, &mut rotation.bytes);
    let age = |value: &Value<'_>, reader: &mut Reader<'_>| value.duration(reader).map(Some);
    table.set("rotate_age", reader, age, &mut rotation.age);
    let keep = |value: &Value<'_>, reader: &mut Reader<'_>| {
        value.integer::<u32>(reader).and_then(NonZeroU32::new)
    };
    table.set("keep", reader, keep, &mut rotation.keep);
    if !matches!(to, LogTarget::File(_)) {
        for written in ROTATES.iter().filter_map(|name| table.get(name)) {
            let wrong = ValueError::new("only a file is rotated");
            written.report(reader, wrong.hint("write path = \"FILE\", or remove it"));
        }
    }
    rotation
}
