//! Settings of uploads to a directory or an object store: the `uploads` table of a mount.

use serde::Serialize;

use super::auth::Auth;
use super::error::ValueError;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// Uploads to a directory of files, or to an object store. In front of a store, the settings of
/// disks are those of unfinished uploads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uploads {
    /// Size of the largest file accepted, in bytes (413).
    #[serde(serialize_with = "print::size")]
    pub file_bytes: u64,
    /// Space that must stay free on the file system, in bytes (507).
    #[serde(serialize_with = "print::size")]
    pub free_bytes: u64,
    /// Highest rate of one upload, in bytes a second; 0: unlimited.
    #[serde(serialize_with = "print::size")]
    pub rate: u64,
    /// Number of interrupted uploads kept for resumption; 0: uploads cannot be resumed.
    pub resumable: u64,
    /// Disk space of all interrupted uploads, in bytes; one of unknown length counts as
    /// `file_bytes`.
    #[serde(serialize_with = "print::size")]
    pub resumable_bytes: u64,
    /// `true`: a file is synced to the disk before its upload is answered.
    pub fsync: bool,
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads {
            file_bytes: 1 << 30,
            free_bytes: 256 << 20,
            rate: 0,
            resumable: 64,
            resumable_bytes: 8 << 30,
            fsync: false,
        }
    }
}

/// Reads `uploads` of a mount; requires an explicit `auth`.
pub(super) fn uploads(
    mount: &Table<'_>,
    auth: Option<&Auth>,
    reader: &mut Reader<'_>,
) -> Option<Uploads> {
    let written = mount.get("uploads")?;
    let mut uploads = Uploads::default();
    let table = written.table(reader)?;
    table.set("file_bytes", reader, Value::size, &mut uploads.file_bytes);
    table.set("free_bytes", reader, Value::size, &mut uploads.free_bytes);
    table.set("rate", reader, Value::size, &mut uploads.rate);
    table.set("resumable", reader, Value::integer, &mut uploads.resumable);
    table.set("resumable_bytes", reader, Value::size, &mut uploads.resumable_bytes);
    table.set("fsync", reader, Value::flag, &mut uploads.fsync);
    if auth.is_none() {
        let wrong = ValueError::new("everybody who can reach the server could write here");
        let hint = "write auth = \"basic\" and users = in the mount or its site; or auth = \
                    \"none\" if that is intended";
        reader.report_missing(&written.spot, wrong.hint(hint));
    }
    Some(uploads)
}
