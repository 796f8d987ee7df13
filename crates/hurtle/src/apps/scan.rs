//! Scans the directory of applications for manifests. Whoever can write them decides which programs
//! the server starts, so their owner and mode are checked.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::config::{Config, ConfigError, Manifest, manifest};

/// Name of the manifest in an application's directory.
pub(super) const MANIFEST: &str = "app.toml";

const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// Most applications of one server.
const APPS_MAX: usize = 100;

/// Longest name of an application; the name is part of its socket's path, which is short.
const NAME_BYTES_MAX: usize = 32;

/// A new or changed application.
#[derive(Debug)]
pub(super) struct FoundApp {
    pub(super) name: String,
    pub(super) stamp: ManifestStamp,
    /// Directory of the application.
    pub(super) dir: PathBuf,
    pub(super) manifest: Manifest,
}

/// An application that cannot be deployed.
#[derive(Debug)]
pub(super) struct RejectedApp {
    pub(super) name: String,
    pub(super) why: String,
    /// `true`: the version deployed before may stay.
    pub(super) keep: bool,
}

impl RejectedApp {
    /// A rejection of the whole directory.
    pub(super) fn all(why: String, keep: bool) -> RejectedApp {
        RejectedApp { name: String::new(), why, keep }
    }
}

/// File attributes that change with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestStamp {
    device: u64,
    inode: u64,
    bytes: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Result of a scan.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    /// Names of unchanged applications.
    pub(super) same: Vec<String>,
    /// New and changed applications, sorted by name.
    pub(super) new: Vec<FoundApp>,
    pub(super) refused: Vec<RejectedApp>,
}

/// Why a directory or a manifest is not read.
#[derive(Debug)]
pub(super) struct ScanError {
    pub(super) why: String,
    /// `true`: the system lacks a resource or a disk fails, which tells nothing of the file.
    pub(super) is_passing: bool,
}

impl From<String> for ScanError {
    fn from(why: String) -> Self {
        ScanError { why, is_passing: false }
    }
}

impl From<&str> for ScanError {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<Errno> for ScanError {
    fn from(e: Errno) -> Self {
        let is_passing = matches!(
            e,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::INTR | Errno::STALE
        );
        ScanError { why: io::Error::from(e).to_string(), is_passing }
    }
}

impl ScanError {
    /// Says of what the reason is.
    fn of(mut self, what: impl Display) -> ScanError {
        self.why = format!("{what}{}", self.why);
        self
    }
}

/// Scans the directory; `known` tells whether the manifest of an application is unchanged, and
/// `is_deployed` whether it is deployed: new ones have the room that those leave.
///
/// # Errors
/// The directory cannot be read or trusted.
pub(super) fn read(
    dir: &Path,
    config: &Config,
    known: impl Fn(&str, &ManifestStamp) -> bool,
    is_deployed: impl Fn(&str) -> bool,
) -> Result<ScanResult, ScanError> {
    let error = |e: Errno| ScanError::from(e).of(format_args!("{}: ", dir.display()));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(dir, flags, Mode::empty()).map_err(error)?;
    check_owner(&fstat(&opened).map_err(error)?)
        .map_err(|why| format!("{} {why}", dir.display()))?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&opened).map_err(error)? {
        let name = entry.map_err(error)?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    let mut room = APPS_MAX.saturating_sub(names.iter().filter(|name| is_deployed(name)).count());
    let mut scanned = ScanResult::default();
    for name in names {
        let (why, keep) = match open_manifest(&opened, &name) {
            Ok(None) => continue,
            Ok(Some((_, stamp))) if known(&name, &stamp) => {
                scanned.same.push(name);
                continue;
            }
            Ok(Some(_)) if room == 0 && !is_deployed(&name) => {
                (format!("there are more than {APPS_MAX} applications"), false)
            }
            Ok(Some((file, stamp))) => match parse_manifest(file, &dir.join(&name), config) {
                Ok(manifest) => {
                    room -= usize::from(!is_deployed(&name));
                    let dir = dir.join(&name);
                    scanned.new.push(FoundApp { name, stamp, dir, manifest });
                    continue;
                }
                Err(why) => (why, true),
            },
            Err(ScanError { why, is_passing }) => (why, is_passing),
        };
        scanned.refused.push(RejectedApp { name, why, keep });
    }
    Ok(scanned)
}

/// Opens the manifest of an application if only trusted users can write it; `None`: the entry is a
/// plain file.
fn open_manifest(
    apps: &OwnedFd,
    name: &str,
) -> Result<Option<(OwnedFd, ManifestStamp)>, ScanError> {
    let stat = statat(apps, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => return Err("it is a symbolic link".into()),
        _ => return Ok(None),
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        let what = "its name must be of letters, digits, -, _ and .,";
        return Err(format!("{what} {NAME_BYTES_MAX} at most").into());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let dir = openat(apps, name, flags | OFlags::DIRECTORY, Mode::empty())?;
    check_owner(&fstat(&dir)?).map_err(|why| format!("it {why}"))?;
    let opened = openat(&dir, MANIFEST, flags, Mode::empty()).map_err(|e| match e {
        Errno::NOENT => format!("it has no {MANIFEST}").into(),
        Errno::LOOP | Errno::MLINK => format!("{MANIFEST} is a symbolic link").into(),
        e => ScanError::from(e).of(format_args!("{MANIFEST}: ")),
    })?;
    let stat = fstat(&opened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(format!("{MANIFEST} is not a file").into());
    }
    check_owner(&stat).map_err(|why| format!("{MANIFEST} {why}"))?;
    Ok(Some((opened, ManifestStamp::of(&stat))))
}

/// Reads and checks the manifest of the application in `dir`.
fn parse_manifest(file: OwnedFd, dir: &Path, config: &Config) -> Result<Manifest, String> {
    let mut bytes = Vec::new();
    let read = File::from(file).take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| format!("{MANIFEST}: {e}"))?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(format!("{MANIFEST} has more than {MANIFEST_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{MANIFEST} is not UTF-8"))?;
    manifest(&text, &dir.join(MANIFEST), config).map_err(|problems| {
        problems.iter().map(ConfigError::to_string).collect::<Vec<_>>().join(" | ")
    })
}

/// Checks that only root and the server's own user can write a file.
fn check_owner(stat: &Stat) -> Result<(), String> {
    let own = geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != own {
        let owner = stat.st_uid;
        return Err(format!(
            "belongs to the user {owner}, which is neither root nor the server's user"
        ));
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.intersects(Mode::WGRP | Mode::WOTH) {
        let mode = mode.as_raw_mode();
        return Err(format!("is writable by others (mode {mode:o}): chmod go-w"));
    }
    Ok(())
}

impl ManifestStamp {
    /// `true`: the manifest was not written in between. Its owner or mode may have changed.
    pub(super) fn is_same_write(&self, other: &ManifestStamp) -> bool {
        ManifestStamp { changed: other.changed, ..self.clone() } == *other
    }

    // The types of these fields differ between systems.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    fn of(stat: &Stat) -> ManifestStamp {
        ManifestStamp {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            bytes: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}
