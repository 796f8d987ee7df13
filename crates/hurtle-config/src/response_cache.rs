//! Settings of the response cache: the `cache` table of a mount.

use std::path::PathBuf;

use hurtle_http::semantics::caching::StatusLifetimes;
use serde::Serialize;

use super::bounds::{BYTES_MAX, CACHE_MEMORY_MIN};
use super::lifetimes::{LIFETIMES, lifetimes, print_lifetimes};
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Kind::{Integer, Size, Text};
use super::schema::{Key, Section};
use super::table::Table;
use super::value::Value;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static CACHE: Section = Section {
    header: "[site.mount.cache]",
    doc: "Cache of upstream responses; see [cache.md](cache.md).",
    keys: &[&[
        Key::new("memory", Size(CACHE_MEMORY_MIN, BYTES_MAX), Toml("\"64 MiB\""), "\"256 MiB\"",
            "Memory of the cache, for the whole process."),
        Key::new("disk", Text("a directory"), Words("none; all is in memory"),
            "\"/var/cache/hurtle\"",
            "Directory of bodies larger than 64 KiB, in files without names: nothing is left there \
             when the server ends."),
        Key::new("disk_size", Size(0, BYTES_MAX), Toml("\"1 GiB\""), "\"20 GiB\"",
            "Space of the bodies in `disk`.").with(&["disk"]),
        Key::new("max_object", Size(0, BYTES_MAX), Toml("\"16 MiB\""), "\"1 MiB\"",
            "Size of the largest body kept; at most a quarter of `memory`, because each body \
             passes through memory."),
        LIFETIMES,
        Key::new("heuristic_percent", Integer(0, 100), Toml("0"), "10",
            "Freshness lifetime of a response that gives none, in percent of the time since its \
             `Last-Modified`; at most a day. With 0 such responses are not stored."),
    ]],
};

/// A cache of upstream responses (RFC 9111).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResponseCache {
    /// Memory of the cache in the whole process, in bytes.
    #[serde(serialize_with = "print::size")]
    pub memory: u64,
    /// Directory of large bodies; `None`: they are kept in memory too.
    #[serde(flatten)]
    pub disk: Option<DiskCache>,
    /// Size of the largest body kept, in bytes.
    #[serde(serialize_with = "print::size")]
    pub max_object: u64,
    /// Lifetimes of responses that name none, by status.
    #[serde(serialize_with = "print_lifetimes")]
    pub lifetimes: StatusLifetimes,
    /// Lifetime of any other response that names none, in percent of the time since Last-Modified;
    /// 0: such a response is not stored.
    pub heuristic_percent: u64,
}

/// The directory in which a cache keeps large bodies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskCache {
    /// Directory of the stored bodies: absolute path.
    #[serde(rename = "disk", serialize_with = "print::path")]
    pub directory: PathBuf,
    /// Space that the bodies may take there, in bytes.
    #[serde(rename = "disk_size", serialize_with = "print::size")]
    pub bytes_max: u64,
}

/// `disk_size` unless it is written.
const DISK_BYTES: u64 = 1 << 30;

impl Default for ResponseCache {
    fn default() -> ResponseCache {
        ResponseCache {
            memory: 64 << 20,
            disk: None,
            max_object: 16 << 20,
            lifetimes: StatusLifetimes::default(),
            heuristic_percent: 0,
        }
    }
}

/// Reads `cache` of a mount.
pub(super) fn response_cache(mount: &Table<'_>, reader: &mut Reader<'_>) -> Option<ResponseCache> {
    let written = mount.get("cache")?;
    let mut cache = ResponseCache::default();
    let table = written.table(reader)?;
    table.check_companions(reader);
    table.set("memory", reader, Value::size, &mut cache.memory);
    let directory = table.get("disk").and_then(|value| value.directory(reader));
    let mut bytes_max = DISK_BYTES;
    table.set("disk_size", reader, Value::size, &mut bytes_max);
    cache.disk = directory.map(|directory| DiskCache { directory, bytes_max });
    table.set("max_object", reader, Value::size, &mut cache.max_object);
    table.set("lifetimes", reader, |v, r| Some(lifetimes(v, r)), &mut cache.lifetimes);
    table.set("heuristic_percent", reader, Value::integer, &mut cache.heuristic_percent);
    Some(cache)
}
