//! Archives of directories: a directory and all beneath it as one zip or tar file, made while it is
//! sent.
//!
//! - `walk` lists the entries before the first byte is sent, so that the length is known and the
//!   limits hold.
//! - `source` reads the files and writes the archive in pieces; `zip` and `tar` encode the headers.
//! - `body` is the response body. The disk threads make a piece when the client has room for it.
//!
//! An archive holds what the listings of the directory and of its subdirectories lead to: no hidden
//! names, no other mount's paths, no links out. Links to directories are left out, so there is no
//! loop. A file that is removed, shortened or edited after the walk ends the response early.

mod body;
mod source;
mod tar;
mod walk;
mod zip;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::Lookup;
use super::listing::Kind;
use super::routes::{Routes, UrlDirectory};
use super::store::LookupError;
use crate::config;
use crate::disk::{Disk, Lane};

pub(crate) use body::ArchiveBody;
use source::Source;
use walk::Walk;

/// Memory for the entries of all archives that are sent at once, in bytes; more are answered 503.
const ENTRIES_BYTES_MAX: usize = 128 << 20;

/// Bytes of the entries of all archives that are being sent.
static ENTRIES_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The archives of a directory mount.
#[derive(Debug)]
pub(crate) struct Archives {
    /// A lane of their own: downloads of files do not wait for archives.
    lane: Lane,
    limits: config::Archive,
    routes: Arc<Routes>,
}

/// The format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Zip without compression.
    Zip,
    /// Tar (pax).
    Tar,
}

/// Parameters of an archive.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveRequest {
    pub format: Format,
    /// The look-up of the directory.
    pub lookup: Arc<Lookup>,
    /// The directory's path, relative to the root of the look-up; empty, or with a trailing `/`.
    pub path: Vec<u8>,
    /// The URL paths of the directory: as requested, and after rules.
    pub urls: Vec<UrlDirectory>,
    /// Name of the directory in the archive.
    pub name: Vec<u8>,
    /// True if hidden names are included.
    pub dotfiles: bool,
}

/// The reason why there is no archive.
#[derive(Debug)]
pub(crate) enum ArchiveError {
    /// The files are larger than `bytes` of the configuration.
    Bytes(u64),
    /// There are more entries than `entries` of the configuration.
    Entries(u64),
    /// A directory is nested too deep, or a path is too long.
    Depth,
    /// The entries of all archives need too much memory.
    Busy,
    Lookup(LookupError),
}

/// A file or directory of an archive.
#[derive(Clone, Debug)]
struct Entry {
    /// Path relative to the archived directory, without a trailing `/`.
    path: Box<[u8]>,
    kind: Kind,
    /// Length in bytes; 0 for a directory.
    size: u64,
    /// Last modification, in seconds since 1970-01-01T00:00:00Z.
    modified: i64,
    inode: u64,
    /// CRC-32 of the data, once it was sent.
    crc: u32,
}

/// Memory reserved for the entries of one archive.
#[derive(Debug, Default)]
struct Reservation(usize);

impl Format {
    /// Parses `archive=zip|tar` of a query; `None` if there is none.
    pub(crate) fn from_query(query: Option<&[u8]>) -> Option<Format> {
        query?.split(|byte| *byte == b'&').find_map(|pair| match pair {
            b"archive=zip" => Some(Format::Zip),
            b"archive=tar" => Some(Format::Tar),
            _ => None,
        })
    }

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Format::Zip => "zip",
            Format::Tar => "tar",
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Format::Zip => "application/zip",
            Format::Tar => "application/x-tar",
        }
    }
}

impl Archives {
    /// Archives of the directory of `files`; `None`: they are off.
    pub(crate) fn new(
        files: &config::Files,
        disk: &Disk,
        routes: &Arc<Routes>,
    ) -> Option<Archives> {
        let limits = files.archive.clone()?;
        let lane = disk.lane_of(format!("archives {}", files.root.display()));
        Some(Archives { lane, limits, routes: Arc::clone(routes) })
    }

    /// Lists the entries of an archive and returns its body. `rate` is the highest rate, in bytes a
    /// second; 0 means unlimited.
    ///
    /// # Errors
    /// See [`ArchiveError`].
    pub(crate) async fn open(
        &self,
        disk: &Disk,
        request: ArchiveRequest,
        rate: u64,
    ) -> Result<ArchiveBody, ArchiveError> {
        let mut walk = Walk::new(request, self.limits.clone(), Arc::clone(&self.routes));
        loop {
            // Each step is a job of its own, so that a large tree does not hold a thread.
            let stepped = disk.run(self.lane, move || walk.step()).await;
            match stepped.map_err(|failure| ArchiveError::Lookup(LookupError::Pool(failure)))?? {
                walk::Step::More(rest) => walk = rest,
                walk::Step::Done(source) => {
                    return Ok(ArchiveBody::new(*source, disk.clone(), self.lane, rate));
                }
            }
        }
    }
}

impl From<io::Error> for ArchiveError {
    fn from(e: io::Error) -> ArchiveError {
        ArchiveError::Lookup(LookupError::Disk(e))
    }
}

impl From<rustix::io::Errno> for ArchiveError {
    fn from(e: rustix::io::Errno) -> ArchiveError {
        io::Error::from(e).into()
    }
}

impl Reservation {
    /// Adds memory for an entry; `false`: all archives together have too much.
    fn add(&mut self, path: &[u8]) -> bool {
        let bytes = size_of::<Entry>() + path.len();
        self.0 += bytes;
        ENTRIES_BYTES.fetch_add(bytes, Relaxed) + bytes <= ENTRIES_BYTES_MAX
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        ENTRIES_BYTES.fetch_sub(self.0, Relaxed);
    }
}
