//! Linux's watches of directories: `inotify(7)`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Bytes of events that are read at once: 16 with the longest names.
const EVENTS_BYTES: usize = 4 << 10;

/// See the contract in `sys`.
pub fn watch() -> io::Result<OwnedFd> {
    Ok(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)
}

/// See the contract in `sys`.
pub fn watch_directory(watch: impl AsFd, directory: &Path) -> io::Result<()> {
    // A file that stays open, such as a log, would change with each line.
    let flags = WatchFlags::CLOSE_WRITE
        | WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    inotify::add_watch(watch, directory, flags)?;
    Ok(())
}

/// See the contract in `sys`.
pub fn take_changes(watch: impl AsFd) -> io::Result<bool> {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
    let mut events = inotify::Reader::new(watch, &mut buffer);
    let mut is_complete = true;
    loop {
        match events.next() {
            Ok(event) => {
                let ends = ReadFlags::IGNORED | ReadFlags::MOVE_SELF | ReadFlags::QUEUE_OVERFLOW;
                is_complete &= !event.events().intersects(ends);
            }
            Err(Errno::AGAIN) => return Ok(is_complete),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
