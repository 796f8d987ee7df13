//! What is kept of upstreams' answers: the `cache` table of a mount.

use std::path::PathBuf;

use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// A cache of upstreams' answers (RFC 9111).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseCache {
    /// Memory for it, for the whole process, in bytes.
    pub memory: u64,
    /// Where large bodies are kept; `None`: in memory, too.
    pub disk: Option<PathBuf>,
    /// What they may take there, in bytes.
    pub disk_size: u64,
    /// The largest body kept, in bytes.
    pub max_object: u64,
}

impl Default for ResponseCache {
    fn default() -> ResponseCache {
        ResponseCache { memory: 64 << 20, disk: None, disk_size: 1 << 30, max_object: 16 << 20 }
    }
}

/// `cache` of a mount.
pub(super) fn response_cache(mount: &Table<'_>, reader: &mut Reader<'_>) -> Option<ResponseCache> {
    let written = mount.get("cache")?;
    let mut cache = ResponseCache::default();
    let table = written.table(reader)?;
    table.check_companions(reader);
    table.set("memory", reader, Value::size, &mut cache.memory);
    table.set("disk", reader, |v, r| v.directory(r).map(Some), &mut cache.disk);
    table.set("disk_size", reader, Value::size, &mut cache.disk_size);
    table.set("max_object", reader, Value::size, &mut cache.max_object);
    Some(cache)
}
