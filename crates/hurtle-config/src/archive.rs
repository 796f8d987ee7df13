//! Settings of archives of listed directories: the `archive` table of a mount.

use serde::Serialize;

use super::error::ValueError;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::types::Files;
use super::value::Value;

/// Archives of listed directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Archive {
    /// Size of the files in one archive together, in bytes (403).
    #[serde(serialize_with = "print::size")]
    pub bytes: u64,
    /// Number of files and directories in one archive (403).
    pub entries: u64,
}

impl Default for Archive {
    fn default() -> Archive {
        Archive { bytes: 10 << 30, entries: 50_000 }
    }
}

/// Reads `archive` of a mount with these files; it holds only what a listing shows.
pub(super) fn archive(
    mount: &Table<'_>,
    files: &Files,
    reader: &mut Reader<'_>,
) -> Option<Archive> {
    let written = mount.get("archive")?;
    let mut archive = Archive::default();
    let table = written.table(reader)?;
    table.set("bytes", reader, Value::size, &mut archive.bytes);
    table.set("entries", reader, Value::integer, &mut archive.entries);
    if !files.listing {
        let wrong = ValueError::new("only a listed directory has archives");
        written.report(reader, wrong.hint("write listing = true, or remove archive"));
    }
    if !files.try_files.is_empty() {
        let wrong = ValueError::new("try_files gives paths other files than the directory has");
        written.report(reader, wrong.hint("remove archive, or write two mounts"));
    }
    Some(archive)
}
