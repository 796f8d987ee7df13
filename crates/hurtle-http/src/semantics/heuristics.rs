//! Heuristic freshness (RFC 9111 section 4.2.2): lifetimes of responses that give none, by their
//! status or by their Last-Modified. `caching` decides if a response may be stored at all.

use std::collections::BTreeMap;

use http::StatusCode;

use super::caching::Described;
use super::date;

/// The longest freshness lifetime that is guessed by Last-Modified, in seconds: one day.
pub const HEURISTIC_SECONDS_MAX: u64 = 86_400;

/// Freshness lifetimes of responses that give none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heuristics {
    /// Lifetimes by status. They precede `percent`.
    pub lifetimes: StatusLifetimes,
    /// Share of the time between Last-Modified and Date, in percent; 0: none.
    pub percent: u64,
}

/// Freshness lifetimes by status, in seconds; 0: such a response is not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusLifetimes {
    /// Those of single statuses.
    pub by_status: BTreeMap<StatusCode, u64>,
    /// That of all others.
    pub any: Option<u64>,
}

impl StatusLifetimes {
    /// Returns the lifetime for a status, in seconds.
    pub fn of(&self, status: StatusCode) -> Option<u64> {
        self.by_status.get(&status).copied().or(self.any)
    }

    /// Returns whether no status has a lifetime.
    pub fn is_empty(&self) -> bool {
        self.by_status.is_empty() && self.any.is_none()
    }
}

impl Heuristics {
    /// Returns the lifetime of a response without an explicit one, in seconds. `received`: when it
    /// arrived, in seconds since 1970.
    ///
    /// A lifetime by status applies to every status that has one: the operator speaks for the
    /// origin there. One by Last-Modified applies to statuses that are heuristically cacheable, and
    /// to responses with `public`.
    pub(super) fn lifetime(
        &self,
        status: StatusCode,
        response: &Described<'_>,
        received: u64,
    ) -> Option<u64> {
        self.lifetimes.of(status).or_else(|| {
            let is_cacheable = is_heuristically_cacheable(status) || response.directives.public;
            self.by_change(response, received).filter(|_| is_cacheable)
        })
    }

    fn by_change(&self, response: &Described<'_>, received: u64) -> Option<u64> {
        let modified = response.last_modified.and_then(date::parse)?;
        let unchanged = response.date.unwrap_or(received).saturating_sub(modified);
        Some((unchanged.saturating_mul(self.percent) / 100).min(HEURISTIC_SECONDS_MAX))
    }
}

/// Statuses that may be stored without an explicit lifetime (RFC 9110 section 15.1), but for 206.
pub(super) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
