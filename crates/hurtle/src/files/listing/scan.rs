//! Reads the names of a directory and selects those to list. `view` looks up sizes and times.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use super::{Builder, Kind, Listing};
use crate::files::is_unfinished;

/// The one hidden name that is always served and listed (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// Returns whether the link with this name leads to something that is served.
pub(in crate::files) type Serves<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// Reads all names of an open directory. Any descriptor will do; its offset does not change.
///
/// Names with a leading dot are omitted unless `dotfiles` is set, except `.well-known`. FIFOs,
/// sockets, devices and broken links are omitted, since they are never served. Symbolic links are
/// listed if `serves` returns true for them.
///
/// # Errors
/// The directory cannot be opened or read. An entry that cannot be looked up is omitted.
pub(crate) fn scan(dir: impl AsFd, dotfiles: bool, serves: &Serves<'_>) -> io::Result<Listing> {
    let dir = dir.as_fd();
    // Open the directory again: the caller's descriptor may be shared, or allow only look-ups
    // (O_PATH).
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let reader = Dir::new(openat(dir, c".", flags, Mode::empty())?)?;
    let mut builder = Builder::default();
    for entry in reader {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !visible(name, dotfiles) {
            continue;
        }
        if let Some(kind) = kind(dir, name, entry.file_type(), serves)
            && !builder.push(kind, name)
        {
            break;
        }
    }
    Ok(builder.finish())
}

/// True if a name is listed.
pub(in crate::files) fn visible(name: &[u8], dotfiles: bool) -> bool {
    match name {
        b"." | b".." => false,
        name if is_unfinished(name) => false,
        WELL_KNOWN => true,
        _ => dotfiles || !name.starts_with(b"."),
    }
}

fn kind(
    dir: BorrowedFd<'_>,
    name: &[u8],
    file_type: FileType,
    serves: &Serves<'_>,
) -> Option<Kind> {
    match file_type {
        FileType::Directory => Some(Kind::Directory),
        FileType::RegularFile => Some(Kind::File),
        // Some file systems do not return the type of an entry.
        FileType::Symlink | FileType::Unknown => {
            let stat = stat_served(dir, name, serves)?;
            Kind::of(FileType::from_raw_mode(stat.st_mode))
        }
        _ => None,
    }
}

/// Looks up a name, or what a link leads to. `None`: there is nothing that is served.
pub(super) fn stat_served(
    dir: BorrowedFd<'_>,
    name: &[u8],
    serves: &Serves<'_>,
) -> Option<rustix::fs::Stat> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Some(stat);
    }
    serves(name).then(|| statat(dir, name, AtFlags::empty()).ok())?
}

impl Kind {
    /// The kind of a file type; `None` if it is not listed.
    pub(super) fn of(file_type: FileType) -> Option<Kind> {
        match file_type {
            FileType::Directory => Some(Kind::Directory),
            FileType::RegularFile => Some(Kind::File),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::files::listing::tests::Scratch;

    fn names(listing: &Listing) -> Vec<String> {
        let name = |position| String::from_utf8_lossy(listing.name(position)).into_owned();
        (0..listing.len()).map(name).collect()
    }

    #[test]
    fn only_served_kinds_are_listed() {
        let scratch = Scratch::new();
        let path = scratch.path();
        fs::write(path.join("file"), "").unwrap();
        fs::create_dir(path.join("directory")).unwrap();
        fs::write(path.join(".hidden"), "").unwrap();
        fs::create_dir(path.join(".well-known")).unwrap();
        symlink("file", path.join("link-to-file")).unwrap();
        symlink("directory", path.join("link-to-directory")).unwrap();
        symlink("nowhere", path.join("link-to-nothing")).unwrap();
        symlink("link-to-itself", path.join("link-to-itself")).unwrap();
        symlink("/dev/null", path.join("link-to-device")).unwrap();
        let _socket = UnixListener::bind(path.join("socket")).unwrap();

        let shown = scan(scratch.open(), false, &|_| true).unwrap();
        let expected = [".well-known", "directory", "link-to-directory", "file", "link-to-file"];
        assert_eq!(names(&shown), expected, "directories and links to them first");
        assert_eq!(shown.directories(), 3);
        assert!(!shown.truncated());

        let all = scan(scratch.open(), true, &|_| true).unwrap();
        assert!(names(&all).contains(&".hidden".to_owned()), "unless dotfiles are shown");
        assert_eq!(all.len(), shown.len() + 1);

        let served = scan(scratch.open(), false, &|name| name == b"link-to-file").unwrap();
        assert_eq!(names(&served), [".well-known", "directory", "file", "link-to-file"]);
    }

    #[test]
    fn a_descriptor_can_be_scanned_again() {
        let scratch = Scratch::new();
        let dir = scratch.open();
        assert_eq!(scan(&dir, false, &|_| true).unwrap().len(), 0);
        fs::write(scratch.path().join("a"), "").unwrap();
        assert_eq!(names(&scan(&dir, false, &|_| true).unwrap()), ["a"]);
        assert_eq!(names(&scan(&dir, false, &|_| true).unwrap()), ["a"]);
    }

    #[test]
    fn scanning_a_file_is_an_error() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        fs::write(&path, "").unwrap();
        let error = scan(fs::File::open(path).unwrap(), false, &|_| true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn names_are_returned_unchanged() {
        let scratch = Scratch::new();
        let every_byte: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        let (first, second) = every_byte.split_at(100);
        let mut created = Vec::new();
        for name in [first, second] {
            // Some file systems accept only UTF-8.
            if fs::write(scratch.path().join(OsStr::from_bytes(name)), "").is_ok() {
                created.push(name);
            }
        }
        let listing = scan(scratch.open(), true, &|_| true).unwrap();
        let listed: Vec<_> = (0..listing.len()).map(|position| listing.name(position)).collect();
        assert_eq!(listed, created);
    }
}
