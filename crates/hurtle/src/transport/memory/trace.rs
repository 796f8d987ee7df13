//! The hash of a simulation's events, to compare two runs of a seed.

use std::cell::RefCell;

use crate::rt::simulated;

/// Number of an event's bytes that the hash includes.
const RECORDED_BYTES_MAX: usize = 16;

thread_local! {
    static TRACE: RefCell<Trace> = const { RefCell::new(Trace { hash: 0, is_printed: false }) };
}

/// The events so far. The hash is FNV-1a.
struct Trace {
    hash: u64,
    is_printed: bool,
}

/// Begins a new trace; `is_printed`: prints each event.
pub(crate) fn begin_trace(is_printed: bool) {
    TRACE.set(Trace { hash: 0xcbf2_9ce4_8422_2325, is_printed });
}

/// Returns the hash of all events since `begin_trace`.
pub(crate) fn trace_hash() -> u64 {
    TRACE.with_borrow(|trace| trace.hash)
}

/// Adds an event of the end `name`.
pub(crate) fn record(event: &str, name: &str, bytes: &[u8]) {
    let ms = simulated::now_ms().unwrap_or_default();
    TRACE.with_borrow_mut(|trace| {
        let (len, begin) = (bytes.len() as u64, &bytes[..bytes.len().min(RECORDED_BYTES_MAX)]);
        let parts =
            [event.as_bytes(), name.as_bytes(), &ms.to_le_bytes(), &len.to_le_bytes(), begin];
        for &byte in parts.into_iter().flatten() {
            trace.hash = (trace.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if trace.is_printed {
            let shown: String = bytes.escape_ascii().take(200).map(char::from).collect();
            println!("{ms} {name} {event} {} {shown}", bytes.len());
        }
    });
}
