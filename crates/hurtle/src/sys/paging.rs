//! Paging a file in where the system has no better way: it is read, and what was read dropped.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{pread, retry_on_intr};

/// Read at once: the longest run that a disk is commonly asked for.
const PIECE_BYTES: usize = 128 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// See the contract of `page_in` in `sys`.
pub(super) fn by_reading(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<usize> {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.resize(PIECE_BYTES, 0);
        let into = &mut scratch[..len.min(PIECE_BYTES)];
        Ok(retry_on_intr(|| pread(file, &mut *into, offset))?)
    })
}
