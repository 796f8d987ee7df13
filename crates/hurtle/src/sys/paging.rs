//! Pages a file in by reading it and dropping the bytes, for systems without a better way.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{pread, retry_on_intr};

/// Bytes of one read: the longest request that is commonly sent to a disk.
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    /// On systems with a better way the contract's test does not cover this code.
    #[test]
    fn read_counts_bytes_up_to_the_end() {
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let len = usize::try_from(file.metadata().unwrap().len()).unwrap();
        let rows = [("all", 0, len, len), ("some", 3, 5, 5), ("the last", len - 2, 9, 2)];
        let none = [
            ("the end", len, 9, 0),
            ("nothing", 0, 0, 0),
            ("more than a piece", 0, usize::MAX, len),
        ];
        for (why, offset, asked, want) in rows.into_iter().chain(none) {
            assert_eq!(by_reading(file.as_fd(), offset as u64, asked).unwrap(), want, "{why}");
        }
    }
}
