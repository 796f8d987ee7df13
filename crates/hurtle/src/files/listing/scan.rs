//! Reading a directory's names. Which of them are worth showing is decided here; what they weigh
//! and when they changed is looked up a page at a time by `view`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use super::{Builder, Kind, Listing};

/// The one hidden name that is served, and so listed, unless all are (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// Reads all names of an opened directory (any descriptor of it will do, its offset is not moved).
///
/// Names with a leading dot are left out unless `dotfiles`; `.well-known` never is. Left out too
/// is what is never served: FIFOs, sockets, devices, and symbolic links that do not lead to a
/// file or a directory. A link is followed wherever it leads: whether the place is one the site
/// may serve is found out when it is asked for.
///
/// # Errors
/// What `openat` or the reading of the directory report; an entry that cannot be looked up is
/// only left out.
pub fn scan(dir: impl AsFd, dotfiles: bool) -> io::Result<Listing> {
    let dir = dir.as_fd();
    // Opened anew: the caller's descriptor may be shared, or allow nothing but look-ups (O_PATH).
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let reader = Dir::new(openat(dir, c".", flags, Mode::empty())?)?;
    let mut builder = Builder::default();
    for entry in reader {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !visible(name, dotfiles) {
            continue;
        }
        if let Some(kind) = kind(dir, name, entry.file_type())
            && !builder.push(kind, name)
        {
            break;
        }
    }
    Ok(builder.finish())
}

fn visible(name: &[u8], dotfiles: bool) -> bool {
    match name {
        b"." | b".." => false,
        WELL_KNOWN => true,
        _ => dotfiles || !name.starts_with(b"."),
    }
}

fn kind(dir: BorrowedFd<'_>, name: &[u8], file_type: FileType) -> Option<Kind> {
    match file_type {
        FileType::Directory => Some(Kind::Directory),
        FileType::RegularFile => Some(Kind::File),
        // Not every file system tells the type of an entry; the look-up follows links.
        FileType::Symlink | FileType::Unknown => {
            let stat = statat(dir, name, AtFlags::empty()).ok()?;
            Kind::of(FileType::from_raw_mode(stat.st_mode))
        }
        _ => None,
    }
}

impl Kind {
    /// What a thing of this type is listed as; `None`: not at all.
    pub(super) fn of(file_type: FileType) -> Option<Kind> {
        match file_type {
            FileType::Directory => Some(Kind::Directory),
            FileType::RegularFile => Some(Kind::File),
            _ => None,
        }
    }
}
