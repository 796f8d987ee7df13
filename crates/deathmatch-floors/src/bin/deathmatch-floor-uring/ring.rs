//! The kernel's ring for one thread, as operations that cannot be misused: what the kernel reads or
//! writes lives until the process ends. It holds all `unsafe` code of this program.

#![allow(unsafe_code)] // every block has its reason

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};

/// Completions taken in one turn.
const COMPLETIONS_MAX: usize = 512;
/// Entries for submission. If a turn adds more, some are submitted before its end.
const SUBMISSIONS_MAX: u32 = 512;
/// Completions between two turns; the kernel keeps more elsewhere, at a cost.
const COMPLETIONS_KEPT: u32 = 2048;
/// Number of buffers for received bytes, a power of two. Idle connections hold none.
pub(super) const BUFFERS: u16 = 512;
/// Bytes of a buffer. It is no power of two, so that the heads do not share few cache sets.
const BUFFER_BYTES: usize = 2048 + 64;
/// The number of the buffers' group.
const GROUP: u16 = 0;
/// Alignment that the kernel wants for the ring of buffers.
const PAGE_BYTES: usize = 4096;

/// An operation, which its completions name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Accept,
    Receive,
    Send,
    Poll,
    Cancel,
}

/// The end of an operation, or one of the results of a repeated one.
pub(super) struct Completion {
    pub(super) operation: Operation,
    pub(super) slot: u32,
    /// Number of bytes; 0 for accepted connections.
    pub(super) result: Result<usize, Errno>,
    /// `true` if the operation has no further completion.
    pub(super) is_last: bool,
    pub(super) accepted: Option<OwnedFd>,
    pub(super) received: Option<Received>,
}

/// A buffer with received bytes. It belongs to its holder until `Ring::give_back`.
#[derive(Debug)]
pub(super) struct Received {
    buffer: u16,
    length: usize,
}

pub(super) struct Ring {
    ring: IoUring,
    buffers: Buffers,
    /// Bytes of the buffers, apart from `buffers` so that they can be read beside submissions.
    memory: Memory,
}

/// The entries that give buffers to the kernel.
struct Buffers {
    entries: *mut BufRingEntry,
    tail: u16,
}

/// The buffers' bytes, which are never freed.
#[derive(Clone, Copy)]
pub(super) struct Memory(*mut u8);

impl Ring {
    /// Makes the ring of the calling thread. Other threads cannot use it.
    ///
    /// # Errors
    /// The system has no io_uring, forbids it, or is older than Linux 6.1.
    pub(super) fn new() -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS_KEPT)
            .build(SUBMISSIONS_MAX)?;
        let memory: &'static mut [u8] = vec![0; usize::from(BUFFERS) * BUFFER_BYTES].leak();
        let memory = Memory(memory.as_mut_ptr());
        let mut buffers = Buffers { entries: entries(), tail: 0 };
        // SAFETY: `entries` is page-aligned memory for BUFFERS entries that is never freed, and
        // so is what its entries point to.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                buffers.entries as u64,
                BUFFERS,
                GROUP,
                0,
            )?;
        }
        for buffer in 0..BUFFERS {
            buffers.add(buffer, memory);
        }
        Ok(Ring { ring, buffers, memory })
    }

    /// Submits what was queued and waits for a completion; then takes those that are there.
    pub(super) fn turn(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        match self.ring.submit_and_wait(1).map_err(|e| (e.raw_os_error(), e)) {
            Ok(_) => {}
            // Nothing is lost: completions have to be taken first.
            Err((code, e)) => match code.map(Errno::from_raw_os_error) {
                Some(Errno::INTR | Errno::BUSY | Errno::AGAIN) => {}
                _ => return Err(e),
            },
        }
        completions.clear();
        completions
            .extend(self.ring.completion().take(COMPLETIONS_MAX).map(|entry| completion(&entry)));
        Ok(())
    }

    /// Accepts connections until its last completion. They do not block.
    pub(super) fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let flags = (SocketFlags::NONBLOCK | SocketFlags::CLOEXEC).bits() as i32;
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags);
        self.push(entry.build(), Operation::Accept, 0)
    }

    /// Receives into buffers until its last completion.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, slot: u32) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP);
        self.push(entry.build(), Operation::Receive, slot)
    }

    /// Ends the receiving of a connection, which has a last completion then.
    pub(super) fn cancel_receive(&mut self, slot: u32) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(mark(Operation::Receive, slot));
        self.push(entry.build(), Operation::Cancel, slot)
    }

    /// Sends all of these bytes, unless the connection fails.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &'static [u8],
        slot: u32,
    ) -> io::Result<()> {
        // rustix has no WAITALL for sending; the value is that of receiving.
        let flags = (SendFlags::NOSIGNAL.bits() | rustix::net::RecvFlags::WAITALL.bits()) as i32;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), length).flags(flags);
        self.push(entry.build(), Operation::Send, slot)
    }

    /// Completes once the socket is writable or has failed.
    pub(super) fn poll_writable(&mut self, socket: BorrowedFd<'_>, slot: u32) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), PollFlags::OUT.bits().into());
        self.push(entry.build(), Operation::Poll, slot)
    }

    fn push(&mut self, entry: squeue::Entry, operation: Operation, slot: u32) -> io::Result<()> {
        let entry = entry.user_data(mark(operation, slot));
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: the entries above have no pointers but those to 'static bytes that are sent, and
        // the buffers' group, which is never freed.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::other("the kernel takes no operations"))
    }

    /// The buffers' bytes.
    pub(super) fn memory(&self) -> Memory {
        self.memory
    }

    /// Gives a buffer back to the kernel.
    #[allow(clippy::needless_pass_by_value)] // nobody may read the buffer any more
    pub(super) fn give_back(&mut self, received: Received) {
        self.buffers.add(received.buffer, self.memory);
    }
}

impl Memory {
    /// The bytes in a buffer that has not been given back.
    pub(super) fn bytes(self, received: &Received) -> &[u8] {
        let at = usize::from(received.buffer) * BUFFER_BYTES;
        // SAFETY: `completion` makes `Received` of a buffer below BUFFERS alone.
        let start = unsafe { self.0.add(at) };
        // SAFETY: the kernel has initialized `length` bytes at most BUFFER_BYTES long, and does
        // not touch them before `give_back`, which takes the `Received` that is borrowed here.
        unsafe { std::slice::from_raw_parts(start, received.length) }
    }
}

impl Buffers {
    /// Makes a buffer the kernel's.
    fn add(&mut self, buffer: u16, memory: Memory) {
        let at = usize::from(self.tail & (BUFFERS - 1));
        let start = memory.0.wrapping_add(usize::from(buffer) * BUFFER_BYTES);
        let entry = self.entries.wrapping_add(at);
        // SAFETY: `at` is below BUFFERS, so the entry lies within the registered memory. The kernel
        // does not read it before the tail is stored.
        let entry = unsafe { &mut *entry };
        entry.set_addr(start as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` is the address of the first entry, which was zeroed.
        let tail = unsafe { BufRingEntry::tail(self.entries) };
        // SAFETY: it is aligned, never freed, and written here alone.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

/// Zeroed memory for the buffers' entries, aligned to a page and never freed.
fn entries() -> *mut BufRingEntry {
    const BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();
    #[repr(C, align(4096))]
    struct Pages([u8; BYTES]);
    const { assert!(align_of::<Pages>() == PAGE_BYTES && BUFFERS.is_power_of_two()) };
    std::ptr::from_mut(Box::leak(Box::new(Pages([0; BYTES])))).cast()
}

/// An operation and a slot as the number that its completions have.
fn mark(operation: Operation, slot: u32) -> u64 {
    (operation as u64) << 32 | u64::from(slot)
}

fn completion(entry: &cqueue::Entry) -> Completion {
    let operation = match entry.user_data() >> 32 {
        0 => Operation::Accept,
        1 => Operation::Receive,
        2 => Operation::Send,
        3 => Operation::Poll,
        _ => Operation::Cancel,
    };
    let result = match entry.result() {
        code @ ..0 => Err(Errno::from_raw_os_error(-code)),
        number => Ok(number as usize),
    };
    let accepted = match (operation, result) {
        // SAFETY: the kernel has just made this descriptor for the connection.
        (Operation::Accept, Ok(number)) => Some(unsafe { OwnedFd::from_raw_fd(number as i32) }),
        _ => None,
    };
    let received = match (operation, result, cqueue::buffer_select(entry.flags())) {
        (Operation::Receive, length, Some(buffer)) if buffer < BUFFERS => {
            Some(Received { buffer, length: length.unwrap_or(0).min(BUFFER_BYTES) })
        }
        _ => None,
    };
    Completion {
        operation,
        slot: entry.user_data() as u32,
        result: if accepted.is_some() { Ok(0) } else { result },
        is_last: !cqueue::more(entry.flags()),
        accepted,
        received,
    }
}
