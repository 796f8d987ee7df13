//! The schema of compression.

use super::bounds::{BYTES_MAX, COMPRESSED_FILE_MAX};
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Kind::{List, Size, Text};
use super::schema::{Key, Section};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static COMPRESS: Section = Section {
    header: "[compress]",
    doc: "Compression with Brotli, zstd and gzip; see [compression.md](compression.md). `compress` \
          in a site or a mount turns it on and off.",
    keys: &[&[
        Key::new("types", List("media types"), Words("those that gain; `hurtle print-config` lists them"),
            "[\"text/*\", \"*+json\", \"application/wasm\"]",
            "Media types to compress: `type/subtype`, every subtype (`text/*`), or a suffix \
             (`*+json`)."),
        Key::new("min_bytes", Size(0, BYTES_MAX), Toml("\"1 KiB\""), "\"256 B\"",
            "Size of the smallest body that is compressed."),
        Key::new("max_bytes", Size(0, COMPRESSED_FILE_MAX), Toml("\"16 MiB\""), "\"4 MiB\"",
            "Size of the largest file that is compressed. Streams have no such limit."),
        Key::new("cache_bytes", Size(0, BYTES_MAX), Toml("\"32 MiB\""), "\"256 MiB\"",
            "Memory for compressed files, for the whole process; 0: files are not compressed."),
        Key::new("directory", Text("a directory"), Words("memory only"),
            "\"/var/cache/hurtle/compressed\"",
            "Directory in which compressed files survive a restart. It is created if it is missing \
             (mode 0700), and must not be writable for other users."),
        Key::new("directory_bytes", Size(0, BYTES_MAX), Toml("\"1 GiB\""), "\"10 GiB\"",
            "Space of the files in `directory`; the oldest are removed first.")
            .with(&["directory"]),
    ]],
};
