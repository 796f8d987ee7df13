//! What a cache did for a request: told to the client (RFC 9211) and to the access log.

use std::io::Write;

use crate::semantics::decimal;

/// What became of a request that a cache was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// From the cache, with so many seconds left; stale ones have less than none.
    Hit(i64),
    /// Stale, since the upstream could not be asked.
    HitOnError(i64),
    /// The upstream said that what is stored is still good.
    Revalidated,
    /// Asked for, and stored.
    Stored(Why),
    /// Somebody else's answer, which was waited for.
    Collapsed(Why),
    /// Asked for, and not stored.
    Passed(Why),
    /// The cache has no part in it.
    Bypassed(&'static str),
}

/// Why the upstream was asked (RFC 9211 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Method,
    UriMiss,
    VaryMiss,
    Stale,
    Request,
    Partial,
}

impl Why {
    fn name(self) -> &'static str {
        match self {
            Why::Method => "method",
            Why::UriMiss => "uri-miss",
            Why::VaryMiss => "vary-miss",
            Why::Stale => "stale",
            Why::Request => "request",
            Why::Partial => "partial",
        }
    }
}

impl Outcome {
    /// Appends the Cache-Status line.
    pub(super) fn line(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Cache-Status: hurtle; ");
        // Writing into a Vec cannot fail.
        let _ = match self {
            Outcome::Hit(ttl) => {
                out.extend_from_slice(b"hit; ttl=");
                decimal::number(ttl, out);
                Ok(())
            }
            Outcome::HitOnError(ttl) => write!(out, "hit; ttl={ttl}; detail=stale-if-error"),
            Outcome::Revalidated => write!(out, "fwd=stale; fwd-status=304; stored"),
            Outcome::Stored(why) => write!(out, "fwd={}; stored", why.name()),
            Outcome::Collapsed(why) => write!(out, "fwd={}; collapsed", why.name()),
            Outcome::Passed(why) => write!(out, "fwd={}", why.name()),
            Outcome::Bypassed(detail) => write!(out, "fwd=bypass; detail={detail}"),
        };
        out.extend_from_slice(b"\r\n");
    }

    /// Its name in the access log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Outcome::Hit(ttl) if ttl > 0 => "hit",
            Outcome::Hit(_) | Outcome::HitOnError(_) => "stale",
            Outcome::Revalidated => "revalidated",
            Outcome::Stored(_) => "miss",
            Outcome::Collapsed(_) => "collapsed",
            Outcome::Passed(_) => "pass",
            Outcome::Bypassed(_) => "bypass",
        }
    }
}
