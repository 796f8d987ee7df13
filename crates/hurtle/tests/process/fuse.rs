//! A file system that hangs: its root directory is there, and whoever looks for a name in it waits
//! for as long as it is mounted. It speaks the kernel's FUSE protocol (linux/fuse.h, version 7.31)
//! itself, so that a test needs no library; mounting needs root.

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
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// What the kernel may ask at once.
const REQUEST_BYTES_MAX: usize = 256 << 10;

const OUT_HEADER_BYTES: usize = 16;
const OPCODE_LOOKUP: u32 = 1;
const OPCODE_FORGET: u32 = 2;
const OPCODE_GETATTR: u32 = 3;
const OPCODE_INIT: u32 = 26;
const OPCODE_INTERRUPT: u32 = 36;
const OPCODE_BATCH_FORGET: u32 = 42;
const MODE_DIRECTORY: u32 = 0o40_755;

/// A mounted one; unmounted, and whoever waits let go with an error, when dropped.
#[derive(Debug)]
pub(crate) struct Hanging {
    path: PathBuf,
    shared: Arc<Shared>,
    answering: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: AtomicUsize,
    ends: AtomicBool,
}

impl Hanging {
    /// Mounts one on a directory.
    ///
    /// # Errors
    /// Where there is no FUSE, or mounting is not allowed.
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

    /// How many wait now, or have waited.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Relaxed)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // Closing the device ends all waits; what cannot be unmounted is the system's to clear.
        self.shared.ends.store(true, Relaxed);
        let _ = self.answering.take().map(thread::JoinHandle::join);
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// Answers what concerns the root itself, and nothing else.
fn answer(mut device: &File, shared: &Shared) {
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !shared.ends.load(Relaxed) {
        let _ = poll(&mut [PollFd::new(&device, PollFlags::IN)], Some(&moment));
        match device.read(&mut request) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            // Interrupted waits are asked about and then gone; the next request is another.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return,
        }
        // fuse_in_header: len, opcode, unique, nodeid, ...
        let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let unique = &request[8..16];
        let body = match number(4) {
            OPCODE_INIT => Ok(init_out()),
            OPCODE_GETATTR => Ok(attr_out()),
            OPCODE_LOOKUP => {
                shared.waiting.fetch_add(1, Relaxed);
                continue;
            }
            // They want no reply.
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
        // The kernel may have given the mount up.
        let _ = device.write(&reply);
    }
}

/// fuse_init_out: version 7.31, nothing special.
fn init_out() -> Vec<u8> {
    let mut numbers = [0u32; 16];
    numbers[0] = 7;
    numbers[1] = 31;
    // max_write
    numbers[5] = 64 << 10;
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// fuse_attr_out: an empty directory, never to be asked about again.
fn attr_out() -> Vec<u8> {
    const VALID_SECS: u64 = 3_600;
    const INODE: u64 = 1;
    let mut out = Vec::new();
    out.extend(VALID_SECS.to_ne_bytes());
    out.extend([0; 8]);
    out.extend(INODE.to_ne_bytes());
    // Size, blocks and three times in seconds, then their nanoseconds.
    out.extend([0; 5 * 8 + 3 * 4]);
    out.extend(MODE_DIRECTORY.to_ne_bytes());
    const LINKS: u32 = 2;
    out.extend(LINKS.to_ne_bytes());
    // Owner, group, device, block size, flags.
    out.extend([0; 5 * 4]);
    out
}
