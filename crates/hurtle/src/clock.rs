//! The time as the event loop sees it: milliseconds that never go back, seconds of the calendar,
//! and the `Date` field's bytes, made once a second.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;

use crate::sys;

/// Milliseconds of a clock that never goes back; its zero means nothing.
pub fn now_ms() -> u64 {
    sys::coarse_ms()
}

/// Milliseconds since then (`now_ms`), for how long something took: by less than a tick of that clock
/// (1 to 10 ms) too many, and less than a tick is none. To know that much is what it usually costs: an
/// exact clock is several times as dear.
pub fn ms_since(then_ms: u64) -> u64 {
    if now_ms() == then_ms {
        return 0;
    }
    let t = rustix::time::clock_gettime(ClockId::Monotonic);
    // Since boot, so never negative.
    (t.tv_sec as u64 * 1_000 + t.tv_nsec as u64 / 1_000_000).saturating_sub(then_ms)
}

/// Seconds since 1970-01-01 UTC.
pub fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The bytes of an IMF-fixdate (RFC 9110 5.6.7).
type DateBytes = [u8; 29];

thread_local! {
    /// (when the second of the calendar was read, that second, its date)
    static DATE: Cell<(u64, u64, DateBytes)> = const { Cell::new((u64::MAX, 0, [b' '; 29])) };
}

/// The calendar is read again after this long, so a `Date` is at most this much late.
const DATE_AGE_MS_MAX: u64 = 100;

/// Now, for the `Date` field (RFC 9110 6.6.1).
pub fn date(now_ms: u64) -> DateBytes {
    let (read_ms, secs, bytes) = DATE.get();
    if now_ms.wrapping_sub(read_ms) <= DATE_AGE_MS_MAX {
        return bytes;
    }
    let now = unix_secs();
    let bytes = if now == secs { bytes } else { crate::semantics::date::format(now) };
    DATE.set((now_ms, now, bytes));
    bytes
}

/// Seconds since 1970, read from the calendar at most every 100 ms.
pub fn coarse_unix_secs(now_ms: u64) -> u64 {
    date(now_ms);
    DATE.get().1
}
