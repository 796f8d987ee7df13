//! The directory of applications, read: which manifests are there, and which of them may not be
//! trusted. Whoever can write here decides what the server starts.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::config::{Config, Manifest, Problem, manifest};

/// What says that a directory is an application.
pub(super) const MANIFEST: &str = "app.toml";

/// A manifest is a page, not a book.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// Applications of one server.
const APPS_MAX: usize = 100;

/// An application's name is in its socket's path, which has few bytes.
const NAME_BYTES_MAX: usize = 32;

/// An application as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) stamp: Stamp,
    /// Its directory.
    pub(super) dir: PathBuf,
    pub(super) manifest: Manifest,
}

/// One that is not deployed.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) name: String,
    pub(super) why: String,
    /// What was deployed before may stay.
    pub(super) keep: bool,
}

/// What changes when a manifest does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Names of those that are as they were.
    pub(super) same: Vec<String>,
    /// Those that are new, or not as they were, in the order of their names.
    pub(super) new: Vec<Found>,
    pub(super) refused: Vec<Refused>,
}

/// Reads the directory; `known`: whether the manifest of an application is known as it is.
///
/// # Errors
/// Why nothing in it can be trusted, or read.
pub(super) fn read(
    dir: &Path,
    config: &Config,
    known: impl Fn(&str, &Stamp) -> bool,
) -> Result<Looked, String> {
    let told = |e: Errno| format!("{}: {}", dir.display(), io::Error::from(e));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(dir, flags, Mode::empty()).map_err(told)?;
    trusted(&fstat(&opened).map_err(told)?).map_err(|why| format!("{} {why}", dir.display()))?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&opened).map_err(told)? {
        let name = entry.map_err(told)?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    let mut looked = Looked::default();
    for name in names {
        let (why, keep) = match manifest_of(&opened, &name) {
            Ok(None) => continue,
            Ok(Some((_, stamp))) if known(&name, &stamp) => {
                looked.same.push(name);
                continue;
            }
            Ok(Some(_)) if looked.same.len() + looked.new.len() >= APPS_MAX => {
                (format!("there are more than {APPS_MAX}"), false)
            }
            Ok(Some((file, stamp))) => match meant(file, &dir.join(&name), config) {
                Ok(manifest) => {
                    let dir = dir.join(&name);
                    looked.new.push(Found { name, stamp, dir, manifest });
                    continue;
                }
                Err(why) => (why, true),
            },
            Err(why) => (why, false),
        };
        looked.refused.push(Refused { name, why, keep });
    }
    Ok(looked)
}

/// The manifest of what has this name in the directory, if nobody else can have written it; `None`:
/// a file, which is nobody's application.
fn manifest_of(apps: &OwnedFd, name: &str) -> Result<Option<(OwnedFd, Stamp)>, String> {
    let told = |e: Errno| io::Error::from(e).to_string();
    let stat = statat(apps, name, AtFlags::SYMLINK_NOFOLLOW).map_err(told)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => return Err("it is a symbolic link".to_owned()),
        _ => return Ok(None),
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        let what = "its name must be of letters, digits, -, _ and .,";
        return Err(format!("{what} {NAME_BYTES_MAX} at most"));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let dir = openat(apps, name, flags | OFlags::DIRECTORY, Mode::empty()).map_err(told)?;
    trusted(&fstat(&dir).map_err(told)?).map_err(|why| format!("it {why}"))?;
    let opened = openat(&dir, MANIFEST, flags, Mode::empty()).map_err(|e| match e {
        Errno::NOENT => format!("it has no {MANIFEST}"),
        Errno::LOOP | Errno::MLINK => format!("{MANIFEST} is a symbolic link"),
        e => format!("{MANIFEST}: {}", told(e)),
    })?;
    let stat = fstat(&opened).map_err(told)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(format!("{MANIFEST} is not a file"));
    }
    trusted(&stat).map_err(|why| format!("{MANIFEST} {why}"))?;
    Ok(Some((opened, Stamp::of(&stat))))
}

/// What a manifest says, of the application in `dir`.
fn meant(file: OwnedFd, dir: &Path, config: &Config) -> Result<Manifest, String> {
    let mut bytes = Vec::new();
    let read = File::from(file).take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| format!("{MANIFEST}: {e}"))?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(format!("{MANIFEST} has more than {MANIFEST_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{MANIFEST} is not UTF-8"))?;
    manifest(&text, &dir.join(MANIFEST), config)
        .map_err(|problems| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join(" | "))
}

/// Whether nobody but root and the server's own user decides what is in it.
fn trusted(stat: &Stat) -> Result<(), String> {
    let own = geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != own {
        let owner = stat.st_uid;
        return Err(format!("belongs to the user {owner}, who is neither root nor the server's"));
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.intersects(Mode::WGRP | Mode::WOTH) {
        let mode = mode.as_raw_mode();
        return Err(format!("is writable by others (mode {mode:o}): chmod go-w"));
    }
    Ok(())
}

impl Stamp {
    // Systems differ in how wide these are.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            bytes: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}
