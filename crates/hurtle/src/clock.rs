//! Time for the event loop: monotonic milliseconds, calendar seconds, and the bytes of the `Date`
//! field, formatted once a second.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;

use crate::sys;

/// A time of `now_ms` that does not come.
pub(crate) const NEVER: u64 = u64::MAX;

/// Milliseconds of a monotonic clock with an arbitrary zero. Resolution: 1 to 10 ms.
pub(crate) fn now_ms() -> u64 {
    #[cfg(test)]
    if let Some(ms) = crate::rt::simulated::now_ms() {
        return ms;
    }
    sys::coarse_ms()
}

/// Milliseconds since `then_ms` (of `now_ms`). Less than a tick of that clock (1 to 10 ms) counts
/// as 0; longer times are up to a tick too long. The exact clock is several times slower, so it is
/// read only if a tick has passed.
pub(crate) fn ms_since(then_ms: u64) -> u64 {
    let now_ms = now_ms();
    if now_ms == then_ms {
        return 0;
    }
    #[cfg(test)]
    if crate::rt::simulated::now_ms().is_some() {
        return now_ms.saturating_sub(then_ms);
    }
    let t = rustix::time::clock_gettime(ClockId::Monotonic);
    // Since boot, so never negative.
    (t.tv_sec as u64 * 1_000 + t.tv_nsec as u64 / 1_000_000).saturating_sub(then_ms)
}

/// Seconds since 1970-01-01 UTC.
pub(crate) fn unix_secs() -> u64 {
    #[cfg(test)]
    if let Some(ms) = crate::rt::simulated::now_ms() {
        return ms / 1_000;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The bytes of an IMF-fixdate (RFC 9110 5.6.7).
type DateBytes = [u8; 29];

thread_local! {
    /// (`now_ms` when the calendar was read, the second it gave, the date of that second)
    static DATE: Cell<(u64, u64, DateBytes)> = const { Cell::new((u64::MAX, 0, [b' '; 29])) };
}

/// The calendar is read again after this long, so a `Date` is at most this much late.
const DATE_AGE_MS_MAX: u64 = 100;

/// The current date, for the `Date` field (RFC 9110 6.6.1).
pub(crate) fn date(now_ms: u64) -> DateBytes {
    let (read_ms, secs, bytes) = DATE.get();
    if now_ms.wrapping_sub(read_ms) <= DATE_AGE_MS_MAX {
        return bytes;
    }
    let now = unix_secs();
    let bytes = if now == secs { bytes } else { hurtle_http::semantics::date::format(now) };
    DATE.set((now_ms, now, bytes));
    bytes
}

/// Seconds since 1970, read from the calendar at most every 100 ms.
pub(crate) fn coarse_unix_secs(now_ms: u64) -> u64 {
    date(now_ms);
    DATE.get().1
}
