//! Bodies that are kept for a mount while a slow client sends or reads them (`buffer`).
//! `hurtle::handler::{body_buffer, spool}` do it.

use std::path::{Path, PathBuf};

use super::bounds::BYTES_MAX;
use super::names::{Named, names};
use super::print;
use super::schema::Kind::{Choice, Size, Text};
use super::schema_mount::CONNECTED;
use super::settings::settings;

/// Directory for large temporary files, which is on a disk where /tmp is in memory
/// (file-hierarchy(7)).
const LARGE_FILES: &str = "/var/tmp";

settings! {
    /// The bodies that are kept, and the place for what does not fit in memory.
    pub struct Buffer: BUFFER with CONNECTED {
        /// The bodies that are kept so that slow clients do not occupy the upstream or application:
        /// those of requests are taken whole before it is asked, those of responses as fast as it
        /// gives them. Up to 64 KiB are in memory, the rest in a file without a name. "off": bodies
        /// are passed on as they arrive. See [proxy.md](proxy.md#slow-clients).
        kind ("buffer"): Buffering = Buffering::default(), Choice(names::<Buffering>), "\"off\"";
        /// Directory of the files with such bodies.
        #[serde(serialize_with = "print::optional_path")]
        directory ("buffer_directory"): Option<PathBuf> = None, Text("a directory"), "\"/srv/buffered\"",
            or "`TMPDIR`, else /var/tmp, else the system's temporary directory",
            by |v, r| v.directory(r).map(Some);
        /// Most bytes of one such body in a file; more are passed on as they arrive.
        #[serde(serialize_with = "print::size")]
        bytes_max ("buffer_bytes"): u64 = 1 << 30, Size(0, BYTES_MAX), "\"100 MiB\"";
        /// Most bytes of all such bodies of this mount in files at once; more are passed on as they
        /// arrive.
        #[serde(serialize_with = "print::optional_size")]
        mount_bytes_max ("buffer_total_bytes"): Option<u64> = None, Size(0, BYTES_MAX), "\"4 GiB\"",
            or "the 16 GiB of the whole server";
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
