//! Compression of responses: the `[compress]` table.

use std::path::PathBuf;

use serde::Serialize;

use super::error::{ValueError, shown};
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// Compression of responses with a content-coding (RFC 9110 section 8.4.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compress {
    /// Media types to compress: `type/subtype`, `type/*` or `*+suffix`.
    pub types: Vec<String>,
    /// Size of the smallest body that is compressed, in bytes.
    #[serde(serialize_with = "print::size")]
    pub min_bytes: u64,
    /// Size of the largest file that is compressed, in bytes.
    #[serde(serialize_with = "print::size")]
    pub max_bytes: u64,
    /// Memory for compressed files in the whole process, in bytes.
    #[serde(serialize_with = "print::size")]
    pub cache_bytes: u64,
    /// Directory of compressed files; `None`: they are in memory only.
    #[serde(flatten)]
    pub disk: Option<CompressDirectory>,
}

/// The directory in which compressed files survive a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompressDirectory {
    /// Directory of the files: absolute path.
    #[serde(rename = "directory", serialize_with = "print::path")]
    pub path: PathBuf,
    /// Space that the files may take there, in bytes.
    #[serde(rename = "directory_bytes", serialize_with = "print::size")]
    pub bytes_max: u64,
}

/// Media types that gain from compression. Images, sound, films, archives and WOFF are compressed
/// already.
const TYPES: [&str; 16] = [
    "text/*",
    "*+json",
    "*+xml",
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "application/xml",
    "application/wasm",
    "application/x-ndjson",
    "application/rtf",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
];

/// `directory_bytes` unless it is written.
const DIRECTORY_BYTES: u64 = 1 << 30;

impl Default for Compress {
    fn default() -> Compress {
        Compress {
            types: TYPES.iter().map(ToString::to_string).collect(),
            min_bytes: 1 << 10,
            max_bytes: 16 << 20,
            cache_bytes: 32 << 20,
            disk: None,
        }
    }
}

/// Reads `compress` at the top of the file.
pub(super) fn compress(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Compress> {
    let table: Table<'_> = value.table(reader)?;
    table.check_companions(reader);
    let mut compress = Compress::default();
    let c = &mut compress;
    let types = |value: &Value<'_>, reader: &mut Reader<'_>| {
        Some(value.list(reader, |item, reader| item.parse(reader, type_pattern)))
    };
    table.set("types", reader, types, &mut c.types);
    table.set("min_bytes", reader, Value::size, &mut c.min_bytes);
    table.set("max_bytes", reader, Value::size, &mut c.max_bytes);
    table.set("cache_bytes", reader, Value::size, &mut c.cache_bytes);
    let directory = table.get("directory").and_then(|value| value.path(reader));
    let mut bytes_max = DIRECTORY_BYTES;
    table.set("directory_bytes", reader, Value::size, &mut bytes_max);
    compress.disk = directory.map(|path| CompressDirectory { path, bytes_max });
    // With 0, streams alone are compressed, which have no such limit.
    let is_empty = (1..compress.min_bytes).contains(&compress.max_bytes);
    let written = table.get("max_bytes").filter(|_| is_empty);
    if let Some(written) = written {
        let wrong = ValueError::new("max_bytes is below min_bytes, so no file is compressed");
        written.report(reader, wrong.hint("write a larger size, or compress = false in the site"));
    }
    Some(compress)
}

/// Parses a pattern of media types: `type/subtype`, `type/*` or `*+suffix`.
pub(super) fn type_pattern(text: &str) -> Result<String, ValueError> {
    let token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let is_pattern = match (text.strip_prefix("*+"), text.split_once('/')) {
        (Some(suffix), _) => token(suffix),
        (None, Some((kind, subtype))) => token(kind) && (subtype == "*" || token(subtype)),
        (None, None) => false,
    };
    if !is_pattern {
        return Err(ValueError::new(format!("{} is not a media type", shown(text))).hint(
            "write for example \"text/html\", \"text/*\" or \"*+json\", without parameters",
        ));
    }
    Ok(text.to_ascii_lowercase())
}
