//! Returns the free memory of the C library's heap to the system. The GNU C library keeps the
//! memory of a crowd of connections after they have ended, because a few allocations between them
//! are still used.

/// Returns free memory to the system (malloc_trim(3)); `true` if there was some. It takes some
/// milliseconds for each 100 MiB of heap, and an allocation of another thread may wait that long.
/// It does nothing if the C library has no such call.
pub fn trim() -> bool {
    system::trim()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    #[allow(unsafe_code)]
    pub(super) fn trim() -> bool {
        // SAFETY: malloc_trim has no precondition, takes no pointer and is safe to call from any
        // thread at any time (malloc_trim(3), ATTRIBUTES: MT-Safe). It gives back only memory that
        // no allocation uses. No sanitizer or Miri run adds to that: there is no memory of ours in
        // it.
        unsafe { libc::malloc_trim(0) == 1 }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod system {
    pub(super) fn trim() -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::fs;

    /// Resident memory of this process in KiB.
    fn resident_kib() -> u64 {
        let text = fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.expect("a number of pages") * 4
    }

    #[test]
    fn memory_between_used_allocations_is_returned() {
        let mut all: Vec<Vec<u8>> = (0..20_000).map(|n| vec![n as u8; 4_000]).collect();
        let full = resident_kib();
        let mut number = 0;
        // One of a hundred is still used.
        all.retain(|_| {
            number += 1;
            number % 100 == 0
        });
        let kept = resident_kib();
        assert!(super::trim());
        let trimmed = resident_kib();
        assert!(kept > full / 2, "the C library keeps it: {full} to {kept} KiB");
        assert!(trimmed < full / 2, "{full} to {trimmed} KiB");
        assert_eq!(all.len(), 200);
    }
}
