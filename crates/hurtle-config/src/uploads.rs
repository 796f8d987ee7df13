//! Settings of uploads to a directory or an object store: the `uploads` table of a mount.

use super::auth::Auth;
use super::bounds::{BYTES_MAX, RESUMABLE_MAX};
use super::error::ValueError;
use super::print;
use super::reader::Reader;
use super::schema::Kind::{Flag, Integer, Size};
use super::settings::settings;
use super::table::Table;

settings! {
    /// PUT creates or replaces a file of the mount's directory or object store, DELETE removes one;
    /// see [uploads.md](uploads.md). With an object store, `free_bytes`, `resumable`,
    /// `resumable_bytes` and `fsync` apply to interrupted uploads, which are in `cache_dir`.
    pub struct Uploads: UPLOADS "[site.mount.uploads]" {
        /// Size of the largest file accepted (413). `body_bytes` of the site or mount applies too,
        /// that of `[limits]` does not.
        #[serde(serialize_with = "print::size")]
        file_bytes: u64 = 1 << 30, Size(0, BYTES_MAX), "\"20 MiB\"";
        /// Space that must stay free on the file system (507).
        #[serde(serialize_with = "print::size")]
        free_bytes: u64 = 256 << 20, Size(0, BYTES_MAX), "\"10 GiB\"";
        /// Highest rate of one upload, in bytes a second; 0: unlimited.
        #[serde(serialize_with = "print::size")]
        rate: u64 = 0, Size(0, BYTES_MAX), "\"2 MiB\"";
        /// Number of interrupted uploads kept for a day, so that they can be resumed; 0: none.
        resumable: u64 = 64, Integer(0, RESUMABLE_MAX), "1000";
        /// Disk space of all interrupted uploads; one of unknown length counts as `file_bytes`.
        #[serde(serialize_with = "print::size")]
        resumable_bytes: u64 = 8 << 30, Size(0, BYTES_MAX), "\"100 GiB\"";
        /// Sync a file to the disk before its upload is answered.
        fsync: bool = false, Flag, "true";
    }
}

/// Reads `uploads` of a mount; requires an explicit `auth`.
pub(super) fn uploads(
    mount: &Table<'_>,
    auth: Option<&Auth>,
    reader: &mut Reader<'_>,
) -> Option<Uploads> {
    let written = mount.get("uploads")?;
    let uploads = Uploads::read(&written.table(reader)?, reader);
    if auth.is_none() {
        let wrong = ValueError::new("everybody who can reach the server could write here");
        let hint = "write auth = \"basic\" and users = in the mount or its site; or auth = \
                    \"none\" if that is intended";
        reader.report_missing(&written.spot, wrong.hint(hint));
    }
    Some(uploads)
}
