//! A file system that hangs. Its root directory exists, and a look-up of a name waits until the
//! file system is unmounted, except for one file that is found but whose reads wait. It speaks the
//! kernel's FUSE protocol (linux/fuse.h, version 7.31) itself, so that tests need no library;
//! mounting needs root.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use mounting::{MountFlags, UnmountFlags, mount, unmount};
#[cfg(target_os = "linux")]
pub(crate) use rustix::mount as mounting;

/// Mounting on other systems: it fails, so that the tests which need it are skipped.
#[cfg(not(target_os = "linux"))]
pub(crate) mod mounting {
    use std::ffi::CStr;
    use std::path::Path;

    use rustix::io::{Errno, Result};

    pub(crate) struct MountFlags;

    impl MountFlags {
        pub(crate) fn empty() -> MountFlags {
            MountFlags
        }
    }

    pub(crate) struct UnmountFlags;

    impl UnmountFlags {
        pub(crate) const DETACH: UnmountFlags = UnmountFlags;
    }

    pub(crate) fn mount(_: &str, _: &Path, _: &str, _: MountFlags, _: &CStr) -> Result<()> {
        Err(Errno::NOSYS)
    }

    pub(crate) fn unmount(_: &Path, _: UnmountFlags) -> Result<()> {
        Err(Errno::NOSYS)
    }
}

/// Largest request of the kernel.
const REQUEST_BYTES_MAX: usize = 256 << 10;

const IN_HEADER_BYTES: usize = 40;
const OUT_HEADER_BYTES: usize = 16;
const OPCODE_LOOKUP: u32 = 1;
const OPCODE_FORGET: u32 = 2;
const OPCODE_GETATTR: u32 = 3;
const OPCODE_OPEN: u32 = 14;
const OPCODE_READ: u32 = 15;
const OPCODE_RELEASE: u32 = 18;
const OPCODE_FLUSH: u32 = 25;
const OPCODE_INIT: u32 = 26;
const OPCODE_INTERRUPT: u32 = 36;
const OPCODE_BATCH_FORGET: u32 = 42;
const MODE_DIRECTORY: u32 = 0o40_755;
const MODE_FILE: u32 = 0o100_644;

const ROOT: u64 = 1;
const FILE: u64 = 2;

/// Name of the file that is found.
pub(crate) const FOUND: &str = "found";

/// Size of that file.
const FILE_BYTES: u64 = 1 << 20;

/// Validity of attributes and entries.
const VALID_SECS: u64 = 3_600;

/// A mounted file system; dropping it unmounts it and fails the waiting calls.
#[derive(Debug)]
pub(crate) struct Hanging {
    path: PathBuf,
    shared: Arc<Shared>,
    answering: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: AtomicUsize,
    reading: AtomicUsize,
    ends: AtomicBool,
}

impl Hanging {
    /// Mounts the file system on a directory.
    ///
    /// # Errors
    /// FUSE is not available, or mounting is not allowed.
    pub(crate) fn mount(path: &Path) -> io::Result<Hanging> {
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nonblocking)
            .open("/dev/fuse")?;
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = std::ffi::CString::new(options)?;
        mount("hanging", path, "fuse", MountFlags::empty(), options.as_c_str())?;
        let shared = Arc::<Shared>::default();
        let ours = Arc::clone(&shared);
        let answering = Some(thread::spawn(move || answer(&device, &ours)));
        Ok(Hanging { path: path.to_owned(), shared, answering })
    }

    /// Number of calls that wait or have waited.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Relaxed)
    }
}

impl Hanging {
    /// Number of those that are reads.
    pub(crate) fn reading(&self) -> usize {
        self.shared.reading.load(Relaxed)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // Closing the device ends all waits; the system clears a mount that remains.
        self.shared.ends.store(true, Relaxed);
        let _ = self.answering.take().map(thread::JoinHandle::join);
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// Answers requests about the root only.
fn answer(mut device: &File, shared: &Shared) {
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !shared.ends.load(Relaxed) {
        let _ = poll(&mut [PollFd::new(&device, PollFlags::IN)], Some(&moment));
        match device.read(&mut request) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            // An interrupted request is withdrawn; read the next one.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return,
        }
        // fuse_in_header: len, opcode, unique, nodeid, ...
        let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let unique = &request[8..16];
        let node = u64::from_ne_bytes(request[16..24].try_into().unwrap());
        let body = match number(4) {
            OPCODE_INIT => Ok(init_out()),
            OPCODE_GETATTR => Ok(attr_out(node)),
            OPCODE_LOOKUP if request[IN_HEADER_BYTES..].starts_with(FOUND.as_bytes()) => {
                Ok(entry_out())
            }
            // fuse_open_out: no handle, no flags.
            OPCODE_OPEN => Ok(vec![0; 16]),
            OPCODE_RELEASE | OPCODE_FLUSH => Ok(vec![]),
            OPCODE_READ => {
                shared.reading.fetch_add(1, Relaxed);
                continue;
            }
            OPCODE_LOOKUP => {
                shared.waiting.fetch_add(1, Relaxed);
                continue;
            }
            // These requests have no reply.
            OPCODE_FORGET | OPCODE_INTERRUPT | OPCODE_BATCH_FORGET => continue,
            _ => Err(Errno::NOSYS),
        };
        let (error, body) = match body {
            Ok(body) => (0, body),
            Err(errno) => (-errno.raw_os_error(), vec![]),
        };
        // fuse_out_header: len, error, unique.
        let len = (OUT_HEADER_BYTES + body.len()) as u32;
        let reply = [&len.to_ne_bytes()[..], &error.to_ne_bytes(), unique, &body].concat();
        // The mount may be gone.
        let _ = device.write(&reply);
    }
}

/// fuse_init_out: version 7.31, without options.
fn init_out() -> Vec<u8> {
    let mut numbers = [0u32; 16];
    numbers[0] = 7;
    numbers[1] = 31;
    // max_write
    numbers[5] = 64 << 10;
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// fuse_entry_out: the file, valid for ever.
fn entry_out() -> Vec<u8> {
    let numbers = [FILE, 0, VALID_SECS, VALID_SECS, 0];
    let head = numbers.iter().flat_map(|number| number.to_ne_bytes());
    head.chain(attr(FILE)).collect()
}

/// fuse_attr_out, valid for ever.
fn attr_out(node: u64) -> Vec<u8> {
    [VALID_SECS, 0].iter().flat_map(|number| number.to_ne_bytes()).chain(attr(node)).collect()
}

/// fuse_attr: an empty directory, or the file.
fn attr(node: u64) -> Vec<u8> {
    let (mode, size, links) =
        if node == ROOT { (MODE_DIRECTORY, 0, 2) } else { (MODE_FILE, FILE_BYTES, 1_u32) };
    let mut out = Vec::new();
    out.extend(node.to_ne_bytes());
    out.extend(size.to_ne_bytes());
    // Blocks and three times in seconds, then their nanoseconds.
    out.extend([0; 4 * 8 + 3 * 4]);
    out.extend(mode.to_ne_bytes());
    out.extend(links.to_ne_bytes());
    // Owner, group, device, block size, flags.
    out.extend([0; 5 * 4]);
    out
}
