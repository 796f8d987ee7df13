//! Finds objects of a store like files of a directory: index files and fallbacks, prefixes in place
//! of directories, encoded variants. `hurtle_objects` asks the store and keeps the bytes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use hurtle_http::semantics::accept::Coding;
use hurtle_objects::{Arrival, Failure, Kind, Object, Origin, Version};
use rustix::fs::{Mode, OFlags};

use super::hashes::TagSource;
use super::lookup::{Lookup, Opened, Outcome, SIDECARS, Target, Try, read_full};
use super::store::LookupError;
use crate::body::{OpenFile, Stamp};
use crate::disk::Disk;
use crate::rt;

/// The bytes of an object while not all of them have arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arriving {
    pub bytes: Arrival,
    /// True if the open file holds those that have arrived.
    pub has_file: bool,
}

/// An object or what else a look-up leads to.
enum Found<T> {
    Object(String, T),
    Other(Target),
}

/// Resolves and opens an object. `whole`: all of it will be sent next.
///
/// # Errors
/// The store or the disk failed.
pub(crate) async fn find(
    lookup: &Lookup,
    origin: &Origin,
    disk: &Disk,
    whole: bool,
) -> Result<Outcome, LookupError> {
    let open = async |key| origin.open(key, whole).await;
    let (key, object) = match resolve(lookup, origin, open).await.map_err(LookupError::Origin)? {
        Found::Object(key, object) => (key, object),
        Found::Other(target) => return Ok(Outcome::Other(target)),
    };
    // They are fetched with the object, or the entry would not be complete for long.
    let open = async |key| origin.open(key, whole).await;
    let variants = variants(lookup, &key, object.version, |object| object.version, open).await;
    let mut opened = vec![opened(lookup, disk, Coding::Identity, object).await?];
    for (coding, object) in variants {
        opened.push(self::opened(lookup, disk, coding, object).await?);
    }
    Ok(Outcome::File { path: key.into_bytes(), opened })
}

/// Resolves an object.
///
/// # Errors
/// The store failed.
pub(crate) async fn probe(lookup: &Lookup, origin: &Origin) -> Result<Target, LookupError> {
    let check = async |key| origin.check(key).await;
    let (key, version) = match resolve(lookup, origin, check).await.map_err(LookupError::Origin)? {
        Found::Object(key, version) => (key, version),
        Found::Other(target) => return Ok(target),
    };
    let mut states = vec![(Coding::Identity, stamp(&version))];
    let variants = variants(lookup, &key, version, |version| *version, check).await;
    states.extend(variants.into_iter().map(|(coding, version)| (coding, stamp(&version))));
    Ok(Target::File { path: key.into_bytes(), states })
}

/// The status of a response in place of an object.
pub(crate) fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Store | Kind::Changed | Kind::Corrupt => StatusCode::BAD_GATEWAY,
        Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        Kind::Denied => StatusCode::FORBIDDEN,
        Kind::Full | Kind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The suffix of the key of a variant.
pub(crate) fn suffix(coding: Coding) -> &'static str {
    let suffix = SIDECARS.iter().find(|(known, _)| *known == coding).map(|(_, suffix)| *suffix);
    suffix.and_then(|suffix| std::str::from_utf8(suffix).ok()).unwrap_or_default()
}

/// Resolves the first candidate that exists. `get` opens or checks an object.
async fn resolve<T>(
    lookup: &Lookup,
    origin: &Origin,
    get: impl AsyncFn(String) -> Result<Option<T>, Failure>,
) -> Result<Found<T>, Failure> {
    for attempt in &lookup.tries {
        let path = match attempt {
            Try::Status(status) => return Ok(Found::Other(Target::Status(*status))),
            Try::Path(path) => path,
        };
        // A key is text.
        let Ok(path) = std::str::from_utf8(path) else { continue };
        let found = if path.is_empty() || path.ends_with('/') {
            resolve_directory(lookup, origin, path, &get).await?
        } else if let Some(object) = get(path.to_owned()).await? {
            Found::Object(path.to_owned(), object)
        } else if origin.has_prefix(format!("{path}/")).await? {
            Found::Other(Target::SlashMissing)
        } else {
            Found::Other(Target::Missing)
        };
        if !matches!(found, Found::Other(Target::Missing)) {
            return Ok(found);
        }
    }
    Ok(Found::Other(Target::Missing))
}

async fn resolve_directory<T>(
    lookup: &Lookup,
    origin: &Origin,
    path: &str,
    get: &impl AsyncFn(String) -> Result<Option<T>, Failure>,
) -> Result<Found<T>, Failure> {
    for index in lookup.index.iter() {
        let key = format!("{path}{index}");
        if let Some(object) = get(key.clone()).await? {
            return Ok(Found::Object(key, object));
        }
    }
    Ok(Found::Other(match origin.has_prefix(path.to_owned()).await? {
        true => Target::Directory(path.into(), Stamp::default()),
        false => Target::Missing,
    }))
}

/// Finds the encoded variants of an object that are not older than it. One that cannot be read is
/// ignored.
async fn variants<T>(
    lookup: &Lookup,
    key: &str,
    original: Version,
    version: impl Fn(&T) -> Version,
    get: impl AsyncFn(String) -> Result<Option<T>, Failure>,
) -> Vec<(Coding, T)> {
    let is_variant = SIDECARS.iter().any(|(_, suffix)| key.as_bytes().ends_with(suffix));
    if lookup.sidecars.is_none() || is_variant {
        return Vec::new();
    }
    let [br, zstd, gzip] = SIDECARS.map(|(coding, _)| {
        let (key, get) = (format!("{key}{}", suffix(coding)), &get);
        async move { Some((coding, get(key).await.ok()??)) }
    });
    let (br, (zstd, gzip)) = rt::both(br, rt::both(zstd, gzip)).await;
    let is_current =
        |found: &(Coding, T)| version(&found.1).modified_secs >= original.modified_secs;
    [br, zstd, gzip].into_iter().flatten().filter(is_current).collect()
}

/// Makes the open file of an object; a small one is read into memory.
async fn opened(
    lookup: &Lookup,
    disk: &Disk,
    coding: Coding,
    object: Object,
) -> Result<Opened, LookupError> {
    let Object { version, file, arrival } = object;
    let is_whole = arrival.is_none();
    let has_file = file.is_some();
    let fd = match file {
        Some(fd) => fd,
        // Its bytes are read through `arrival`.
        None => nothing().map_err(LookupError::Disk)?,
    };
    let file = OpenFile::new(fd, stamp(&version), lookup.lane).without_change_time();
    let file = file.with_rate(lookup.rate);
    let file = Arc::new(if is_whole { file } else { file.constant() });
    let mut content = None;
    if is_whole && version.len <= lookup.memory_bytes_max {
        let read = Arc::clone(&file);
        let read = disk.run(lookup.lane, move || read_whole(&read)).await;
        content = Some(read.map_err(LookupError::Pool)?.map_err(LookupError::Disk)?);
    }
    let arrival = arrival.map(|bytes| Arriving { bytes, has_file });
    Ok(Opened { coding, file, content, tag: TagSource::Hash(version.hash), arrival })
}

fn read_whole(file: &OpenFile) -> io::Result<Bytes> {
    // At most `memory_bytes_max`.
    let mut content = vec![0; file.stamp.len as usize];
    match read_full(file, &mut content)? {
        len if len == content.len() => Ok(content.into()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn nothing() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The stamp of an object: that of its file in the cache in length and modification time, and
/// otherwise made from the version. Objects are never edited, so the times are one.
fn stamp(version: &Version) -> Stamp {
    let modified_ns = i128::from(version.modified_secs) * 1_000_000_000;
    Stamp {
        // The halves of the hash.
        device: version.hash as u64,
        inode: (version.hash >> 64) as u64,
        len: version.len,
        modified_ns,
        changed_ns: modified_ns,
    }
}
