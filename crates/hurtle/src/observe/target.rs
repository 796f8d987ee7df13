//! The target of a log: a descriptor opened for appending, which can be opened again by name.
//! Writing blocks; only the thread of `sink` calls it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use super::rotation::RotatedFile;
use crate::config::{LogTarget, Rotation};
use crate::users::open_as_root;

/// Permissions of a new log file. Request lines hold personal data, so not everyone may read them.
pub const LOG_MODE: u32 = 0o640;

/// True if output to `target` should be coloured: it is a terminal, and NO_COLOR (no-color.org) is
/// unset or empty.
pub fn colour(target: &LogTarget) -> bool {
    let terminal = match target {
        LogTarget::Stdout => io::stdout().is_terminal(),
        LogTarget::Stderr => io::stderr().is_terminal(),
        LogTarget::File(_) => false,
    };
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[derive(Debug)]
pub(super) struct Output {
    target: LogTarget,
    file: File,
    /// True if the last write ended within a line.
    torn: bool,
    rotation: Rotation,
    /// `None`: the target is not rotated.
    rotated: Option<RotatedFile>,
}

/// A failed write, with the number of bytes written before.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) written: usize,
    pub(super) error: io::Error,
}

impl Output {
    /// Opens the target; creates a missing file.
    pub(super) fn open(target: &LogTarget, rotation: &Rotation) -> io::Result<Output> {
        let file = match target {
            // A separate descriptor, because the handles of `std` buffer and lock.
            LogTarget::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            LogTarget::Stderr => File::from(io::stderr().as_fd().try_clone_to_owned()?),
            LogTarget::File(path) => open_file(path).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot open {}: {error}", path.display()))
            })?,
        };
        let rotated = match target {
            LogTarget::File(path) => RotatedFile::of(&file, path, rotation),
            LogTarget::Stdout | LogTarget::Stderr => None,
        };
        let (target, rotation) = (target.clone(), rotation.clone());
        Ok(Output { target, file, torn: false, rotation, rotated })
    }

    /// Rotates the file if it must be before this many bytes are appended.
    ///
    /// # Errors
    /// The file cannot be renamed, or the name cannot be opened again; the open file stays in use.
    pub(super) fn rotate_if_due(&mut self, bytes: usize, now: SystemTime) -> io::Result<()> {
        match &self.rotated {
            Some(rotated) if rotated.is_due(&self.file, bytes, now) => {
                if rotated.rotate(&self.file)? { self.follow() } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Opens a new file in place of one that was rotated. If root makes it, it belongs to the owner
    /// of the other one, who writes to it once root is given up.
    fn follow(&mut self) -> io::Result<()> {
        if let (LogTarget::File(path), Ok(before)) = (&self.target, self.file.metadata())
            && geteuid().is_root()
        {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
            // A file that is there by now keeps its owner.
            let made = open_as_root(path, flags | OFlags::CREATE | OFlags::EXCL, LOG_MODE);
            let owned = made.map(|made| fchown(&made, Some(before.uid()), Some(before.gid())));
            if let Ok(Err(_)) = owned {
                // Root was given up in between; the user, who cannot write to it, makes another.
                let _ = fs::remove_file(path);
            }
        }
        self.reopen()
    }

    /// Opens the file again by its name, or the standard stream as it is now; on an error the old
    /// one stays open.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        *self = Output::open(&self.target, &self.rotation)?;
        Ok(())
    }

    /// Appends whole lines; blocks until they are written.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), Failure> {
        append(&mut BlockingFile(&self.file), &mut self.torn, lines)
    }
}

/// Opens a file for appending without blocking: opening a FIFO for writing waits for a reader.
fn open_file(path: &Path) -> io::Result<File> {
    if geteuid().is_root() {
        let flags = OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        return match open_as_root(path, flags | OFlags::WRONLY, LOG_MODE) {
            Err(e) if e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                open_as_root(path, flags | OFlags::RDWR, LOG_MODE)
            }
            opened => opened,
        };
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(LOG_MODE);
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    match options.open(path) {
        // A FIFO without a reader (ENXIO). Opened for reading too it needs none: its lines wait in
        // the FIFO, then in the queue.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            options.read(true).open(path)
        }
        opened => opened,
    }
}

/// Writes all of `lines`. After a failure within a line (`torn`) it ends that line first, so that
/// the next line is not read as part of it.
fn append(out: &mut impl Write, torn: &mut bool, lines: &[u8]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    if *torn {
        out.write_all(b"\n").map_err(|error| Failure { written: 0, error })?;
        *torn = false;
    }
    let mut written = 0;
    while written < lines.len() {
        let outcome = match out.write(&lines[written..]) {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            outcome => outcome,
        };
        match outcome {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                *torn = written > 0 && lines[written - 1] != b'\n';
                return Err(Failure { written, error });
            }
        }
    }
    Ok(())
}

/// Waits for room even if the descriptor is non-blocking: a FIFO opened here is, and an inherited
/// terminal or pipe may be.
struct BlockingFile<'a>(&'a File);

impl Write for BlockingFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    rustix::event::poll(&mut [PollFd::new(self.0, PollFlags::OUT)], None)?;
                }
                outcome => return outcome,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    use crate::observe::scratch::Scratch;

    /// A disk with a limited number of free bytes.
    struct Disk {
        room: usize,
        holds: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= count;
            self.holds.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_cut_by_a_full_disk_does_not_swallow_the_next() {
        #[rustfmt::skip]
        let rows = [
            (0, "a\nb\n", 0, "no room: nothing is torn"),
            (2, "a\nb\n", 2, "room for one line, exactly"),
            (3, "a\nb\na\nb\n", 3, "the second line lost only its end"),
            (4, "a\nb\na\nb\n", 4, "room for both"),
        ];
        for (room, then, written, why) in rows {
            let mut disk = Disk { room, holds: Vec::new() };
            let mut torn = false;
            match append(&mut disk, &mut torn, b"a\nb\n") {
                Ok(()) => assert_eq!(room, 4, "{why}"),
                Err(failure) => assert_eq!(failure.written, written, "{why}"),
            }
            disk.room = usize::MAX;
            append(&mut disk, &mut torn, b"a\nb\n").expect("there is room");
            let holds = String::from_utf8(disk.holds).expect("UTF-8");
            assert!(holds.ends_with(then), "{why}: {holds:?}");
            assert_eq!(holds.len(), written + usize::from(written == 3) + 4, "{why}: {holds:?}");
        }
    }

    #[test]
    fn the_error_names_a_target_that_cannot_be_opened() {
        let scratch = Scratch::new("unopenable");
        let path = scratch.path("missing/access.log");
        let error = Output::open(&LogTarget::File(path.clone()), &Rotation::default())
            .expect_err("no such directory");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(path.to_str().expect("UTF-8")), "{error}");
    }

    #[test]
    fn a_log_file_is_not_world_readable() {
        let scratch = Scratch::new("mode");
        let path = scratch.path("access.log");
        Output::open(&LogTarget::File(path.clone()), &Rotation::default())
            .expect("a writable directory");
        let mode = path.metadata().expect("it exists").permissions().mode();
        assert_eq!(mode & 0o007, 0, "{mode:o}");
    }

    /// The contents of the files of a log: the current one, then the older ones.
    fn contents(path: &Path) -> Vec<String> {
        let older = (1..9).map(|number| format!("{}.{number}", path.display()).into());
        let files = [path.to_owned()].into_iter().chain(older);
        files.map_while(|file: PathBuf| fs::read_to_string(file).ok()).collect()
    }

    #[test]
    fn a_log_is_rotated_by_age() {
        let scratch = Scratch::new("age");
        let path = scratch.path("access.log");
        let day = Duration::from_secs(24 * 3_600);
        let keep = NonZeroU32::new(2).expect("not 0");
        let rotation = Rotation { age: Some(day), bytes: None, keep };
        let mut log = Output::open(&LogTarget::File(path.clone()), &rotation).expect("it opens");
        let begun = SystemTime::now();
        let mut write = |line: &str, age: Duration| {
            log.rotate_if_due(line.len(), begun + age).expect("it rotates");
            log.append(line.as_bytes()).expect("there is room");
        };
        write("a\n", 3 * day);
        write("b\n", day - Duration::from_secs(60));
        assert_eq!(contents(&path), ["a\nb\n"], "an empty file is not rotated, nor a young one");
        write("c\n", day + Duration::from_secs(60));
        assert_eq!(contents(&path), ["c\n", "a\nb\n"]);
        write("d\n", 2 * day);
        write("e\n", 3 * day);
        assert_eq!(contents(&path), ["e\n", "d\n", "c\n"], "two old ones are kept");
    }

    #[test]
    fn of_two_processes_one_rotates_a_log() {
        let scratch = Scratch::new("two");
        let path = scratch.path("access.log");
        let keep = NonZeroU32::new(3).expect("not 0");
        let rotation = Rotation { bytes: Some(6), age: None, keep };
        let open = || Output::open(&LogTarget::File(path.clone()), &rotation).expect("it opens");
        let mut logs = [open(), open()];
        let mut write = |log: usize, line: &str| {
            logs[log].rotate_if_due(line.len(), SystemTime::now()).expect("it rotates");
            logs[log].append(line.as_bytes()).expect("there is room");
        };
        ["a\n", "b\n", "c\n", "d\n"].iter().enumerate().for_each(|(at, line)| write(at % 2, line));
        assert_eq!(contents(&path), ["d\n", "a\nb\nc\n"], "both count the lines of both");
        // The first one still has the old file open.
        write(0, "e\n");
        assert_eq!(contents(&path), ["d\ne\n", "a\nb\nc\n"], "it has found the new file");
    }

    #[test]
    fn files_are_not_coloured() {
        assert!(!colour(&LogTarget::File("/var/log/access.log".into())));
    }
}
