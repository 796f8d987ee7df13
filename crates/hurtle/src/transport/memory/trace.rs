//! The events of a simulation, as a hash, so that two runs of a seed can be compared.

use std::cell::RefCell;

use crate::rt::simulated;

/// An event's hash has this many of its bytes.
const NOTED_BYTES_MAX: usize = 16;

thread_local! {
    static TRACE: RefCell<Trace> = const { RefCell::new(Trace { hash: 0, is_shown: false }) };
}

/// Events so far, as a hash (FNV-1a).
struct Trace {
    hash: u64,
    is_shown: bool,
}

/// Starts a new list of events; `is_shown`: each is printed.
pub fn trace(is_shown: bool) {
    TRACE.set(Trace { hash: 0xcbf2_9ce4_8422_2325, is_shown });
}

/// The hash of all events since `trace`.
pub fn traced() -> u64 {
    TRACE.with_borrow(|trace| trace.hash)
}

/// Notes an event.
pub fn note(what: &str, who: &str, bytes: &[u8]) {
    let ms = simulated::now_ms().unwrap_or_default();
    TRACE.with_borrow_mut(|trace| {
        let (len, begin) = (bytes.len() as u64, &bytes[..bytes.len().min(NOTED_BYTES_MAX)]);
        let parts = [what.as_bytes(), who.as_bytes(), &ms.to_le_bytes(), &len.to_le_bytes(), begin];
        for &byte in parts.into_iter().flatten() {
            trace.hash = (trace.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if trace.is_shown {
            let shown: String = bytes.escape_ascii().take(200).map(char::from).collect();
            println!("{ms} {who} {what} {} {shown}", bytes.len());
        }
    });
}
