//! Bodies that are kept for a mount while a slow client sends or reads them (`buffer`).
//! `hurtle::handler::{body_buffer, spool}` do it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::names::Named;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// Directory for large temporary files, which is on a disk where /tmp is in memory
/// (file-hierarchy(7)).
const LARGE_FILES: &str = "/var/tmp";

/// The bodies that are kept, and the place for what does not fit in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Buffer {
    /// The bodies.
    #[serde(rename = "buffer")]
    pub kind: Buffering,
    /// Directory of the files; `None`: that of the system.
    #[serde(rename = "buffer_directory", serialize_with = "print::optional_path")]
    pub directory: Option<PathBuf>,
    /// Most bytes of one body in a file.
    #[serde(rename = "buffer_bytes", serialize_with = "print::size")]
    pub bytes_max: u64,
    /// Most bytes of all bodies of the mount in files at once; `None`: the bound of the process.
    #[serde(rename = "buffer_total_bytes", serialize_with = "print::optional_size")]
    pub mount_bytes_max: Option<u64>,
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer {
            kind: Buffering::default(),
            directory: None,
            bytes_max: 1 << 30,
            mount_bytes_max: None,
        }
    }
}

impl Buffer {
    /// Directory of the files: the configured one, else TMPDIR, else /var/tmp, else the system's.
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| {
            let is_set = std::env::var_os("TMPDIR").is_some();
            match Path::new(LARGE_FILES) {
                directory if !is_set && directory.is_dir() => directory.to_owned(),
                _ => std::env::temp_dir(),
            }
        })
    }
}

/// Reads the keys of a mount.
pub(super) fn buffer(table: &Table<'_>, reader: &mut Reader<'_>) -> Buffer {
    let mut buffer = Buffer::default();
    let b = &mut buffer;
    table.set("buffer", reader, Value::choice, &mut b.kind);
    table.set("buffer_directory", reader, |v, r| v.directory(r).map(Some), &mut b.directory);
    table.set("buffer_bytes", reader, Value::size, &mut b.bytes_max);
    table.set("buffer_total_bytes", reader, |v, r| v.size(r).map(Some), &mut b.mount_bytes_max);
    buffer
}

/// The bodies that are kept, so that a slow client holds no upstream or application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Buffering {
    /// Those of requests and responses.
    #[default]
    Both,
    /// Those of requests: they are taken whole before the upstream or application is asked.
    Request,
    /// The part of responses that the client has not yet taken.
    Response,
    /// None: bodies are passed on as they arrive.
    Off,
}

impl Buffering {
    /// Bodies of requests are kept.
    pub fn of_requests(self) -> bool {
        matches!(self, Buffering::Both | Buffering::Request)
    }

    /// Bodies of responses are kept.
    pub fn of_responses(self) -> bool {
        matches!(self, Buffering::Both | Buffering::Response)
    }
}

impl Named for Buffering {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("both", Self::Both),
        ("request", Self::Request),
        ("response", Self::Response),
        ("off", Self::Off),
    ];
}
