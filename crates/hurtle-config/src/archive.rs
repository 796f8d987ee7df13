//! Settings of archives of listed directories: the `archive` table of a mount.

use super::bounds::{ARCHIVE_ENTRIES_MAX, BYTES_MAX};
use super::error::ValueError;
use super::files::Files;
use super::print;
use super::reader::Reader;
use super::schema::Kind::{Integer, Size};
use super::settings::settings;
use super::table::Table;

settings! {
    /// `?archive=zip` and `?archive=tar` send a listed directory and all beneath it as one file;
    /// see [listings.md](listings.md).
    pub struct Archive: ARCHIVE "[site.mount.archive]" {
        /// Size of the files in one archive, together (403).
        #[serde(serialize_with = "print::size")]
        bytes: u64 = 10 << 30, Size(0, BYTES_MAX), "\"1 GiB\"";
        /// Number of files and directories in one archive (403).
        entries: u64 = 50_000, Integer(1, ARCHIVE_ENTRIES_MAX), "1_000";
    }
}

/// Reads `archive` of a mount with these files; it holds only what a listing shows.
pub(super) fn archive(
    mount: &Table<'_>,
    files: &Files,
    reader: &mut Reader<'_>,
) -> Option<Archive> {
    let written = mount.get("archive")?;
    let archive = Archive::read(&written.table(reader)?, reader);
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
