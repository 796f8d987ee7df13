//! Decides how far the modification time of a file identifies a version of it. An edit sets the
//! modification and the change time; programs that copy or unpack a file set the former only.

use std::time::Duration;

use hurtle_http::semantics::conditional::Preconditions;
use hurtle_http::semantics::date;

use crate::body::Stamp;

/// 1990-01-01. Earlier times are constants of build and package tools: 1970-01-01 (Nix, OSTree),
/// 1980-01-01 (zip), 1985-10-26 (npm).
const EDITED_SECS_MIN: u64 = 631_152_000;

/// Tolerance of clocks: a file's time this far in the future counts as now.
const SKEW: Duration = Duration::from_secs(2);

const SECOND_NS: i128 = 1_000_000_000;

/// Last-Modified of a file (RFC 9110 section 8.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastModified {
    /// Seconds since 1970.
    pub secs: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The time of the last edit.
    Edited,
    /// A time that a program set, in a file that last changed before `changed_secs`. With a
    /// fraction of a second it is the copied time of one edit; others may be constants that
    /// versions share.
    Set { changed_secs: u64, has_fraction: bool },
}

impl LastModified {
    /// Determines Last-Modified. `None`: no edit can have this time, so it is neither sent nor
    /// honoured. `is_own`: no program sets the times of these files.
    pub(crate) fn of(stamp: &Stamp, is_own: bool, now_secs: u64) -> Option<LastModified> {
        let secs = stamp.modified_secs();
        if secs < EDITED_SECS_MIN || secs > now_secs + SKEW.as_secs() {
            return None;
        }
        // RFC 9110 section 8.8.2.1: Last-Modified is never later than Date.
        let secs = secs.min(now_secs);
        if is_own || has_own_time(stamp) {
            return Some(LastModified { secs, kind: Kind::Edited });
        }
        // Date has whole seconds, and the clock of the file system may be behind.
        let changed_secs = u64::try_from(stamp.changed_ns.div_euclid(SECOND_NS)).unwrap_or(0);
        let changed_secs = changed_secs.saturating_add(SKEW.as_secs());
        let has_fraction = stamp.modified_ns.rem_euclid(SECOND_NS) != 0;
        Some(LastModified { secs, kind: Kind::Set { changed_secs, has_fraction } })
    }

    /// The time to compare with the dates of a request (RFC 9110 sections 13.1.3 and 13.1.4). A
    /// file with a time that was set counts as modified when it was put there, except for a client
    /// that names exactly that time.
    pub(crate) fn for_conditions(&self, preconditions: &Preconditions<'_>) -> u64 {
        let Kind::Set { changed_secs, has_fraction } = self.kind else { return self.secs };
        let dates = [preconditions.if_modified_since, preconditions.if_unmodified_since];
        let is_named = dates.into_iter().flatten().all(|date| date::parse(date) == Some(self.secs));
        if is_named && has_fraction { self.secs } else { changed_secs }
    }

    /// The time that If-Range may name (RFC 9110 section 13.1.5).
    pub(crate) fn for_ranges(&self) -> Option<u64> {
        let is_edit = !matches!(self.kind, Kind::Set { has_fraction: false, .. });
        is_edit.then_some(self.secs)
    }
}

/// True if the modification time is that of the last change, which no program can set.
pub(super) fn has_own_time(stamp: &Stamp) -> bool {
    stamp.modified_ns == stamp.changed_ns && stamp.modified_secs() >= EDITED_SECS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_750_000_000;

    #[test]
    fn times_that_an_edit_can_have() {
        let rows: &[(&str, i128, Option<u64>)] = &[
            ("the epoch", 0, None),
            ("Nix", 1, None),
            ("before it", -5, None),
            ("zip", 315_532_800, None),
            ("npm", 499_162_500, None),
            ("1990", 631_152_000, Some(631_152_000)),
            ("now", NOW as i128, Some(NOW)),
            ("a clock that is ahead", NOW as i128 + 2, Some(NOW)),
            ("tomorrow", NOW as i128 + 86_400, None),
        ];
        for (why, secs, expected) in rows {
            let ns = secs * SECOND_NS;
            let stamp = Stamp { modified_ns: ns, changed_ns: ns, ..Stamp::default() };
            assert_eq!(LastModified::of(&stamp, false, NOW).map(|m| m.secs), *expected, "{why}");
        }
    }

    #[test]
    fn conditions_on_times() {
        let secs = 1_714_564_800;
        let dates = [
            "Tue, 30 Apr 2024 12:00:00 GMT",
            "Wed, 01 May 2024 12:00:00 GMT",
            "Thu, 02 May 2024 12:00:00 GMT",
            "Tue, 01 Jan 2030 00:00:00 GMT",
        ];
        let (own, changed) = (0, 800 * 86_400 * SECOND_NS);
        // With the date, a client has the file: for each of the dates.
        let rows: &[(&str, i128, i128, [bool; 4], bool)] = &[
            ("edited", 0, own, [false, true, true, true], true),
            ("a constant", 0, changed, [false, false, false, true], false),
            ("the copied time of an edit", 5, changed, [false, true, false, true], true),
        ];
        for (why, fraction, later, expected, joins) in rows {
            let modified_ns = i128::from(secs) * SECOND_NS + fraction;
            let changed_ns = modified_ns + later;
            let stamp = Stamp { modified_ns, changed_ns, ..Stamp::default() };
            let modified = LastModified::of(&stamp, false, NOW + 86_400 * 365).unwrap();
            for (date, expected) in dates.iter().zip(expected) {
                let if_modified_since = Some(date.as_bytes());
                let asked = Preconditions { if_modified_since, ..Preconditions::default() };
                let since = date::parse(date.as_bytes()).unwrap();
                assert_eq!(modified.for_conditions(&asked) <= since, *expected, "{why}: {date}");
            }
            assert_eq!(modified.for_ranges().is_some(), *joins, "{why}");
        }
    }
}
