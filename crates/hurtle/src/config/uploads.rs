//! What may be uploaded to a directory: the `uploads` table of a mount.

use super::auth::Auth;
use super::problem::Wrong;
use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// Uploads to a directory of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uploads {
    /// The largest file taken, in bytes (413).
    pub file_bytes: u64,
    /// What must stay free on the file system, in bytes (507).
    pub free_bytes: u64,
    /// The fastest one upload is taken, in bytes a second; 0: any.
    pub rate: u64,
    /// How many uploads may wait to be resumed; 0: none is.
    pub resumable: u64,
    /// What they may take on the disk together, in bytes; one whose length is not known counts as
    /// `file_bytes`.
    pub resumable_bytes: u64,
    /// Whether a file is on the disk before its upload is answered.
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

/// `uploads` of a mount, where somebody said who may.
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
        let wrong = Wrong::new("everybody who reaches the server could write here");
        let hint = "write auth = \"basic\" and users = in the mount or its site; or auth = \
                    \"none\", if that is meant";
        reader.report_missing(&written.spot, wrong.hint(hint));
    }
    Some(uploads)
}
