//! The cache's handling of a request, for Cache-Status (RFC 9211) and the access log.

use std::io::Write;

use hurtle_http::semantics::decimal;

/// The cache's handling of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheStatus {
    /// Sent from the cache; seconds of freshness left, negative if stale.
    Hit(i64),
    /// Sent stale from the cache, because the upstream failed.
    HitOnError(i64),
    /// Sent from the cache after the upstream has validated it.
    Revalidated,
    /// Forwarded, and the response was stored.
    Stored(MissReason),
    /// Answered by the fetch of another request.
    Collapsed(MissReason),
    /// Forwarded, and the response was not stored.
    Passed(MissReason),
    /// Forwarded, and the response was not stored; the detail for Cache-Status.
    NotStored(MissReason, &'static str),
    /// Forwarded without the cache; the detail for Cache-Status.
    Bypassed(&'static str),
}

/// The reason for forwarding a request (RFC 9211 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // RFC 9211 defines them.
pub(crate) enum MissReason {
    Method,
    UriMiss,
    VaryMiss,
    Stale,
    Request,
    Partial,
}

impl MissReason {
    fn name(self) -> &'static str {
        match self {
            MissReason::Method => "method",
            MissReason::UriMiss => "uri-miss",
            MissReason::VaryMiss => "vary-miss",
            MissReason::Stale => "stale",
            MissReason::Request => "request",
            MissReason::Partial => "partial",
        }
    }
}

impl CacheStatus {
    /// Appends the Cache-Status line.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Cache-Status: hurtle; ");
        // Writing into a Vec cannot fail.
        let _ = match self {
            CacheStatus::Hit(ttl) => {
                out.extend_from_slice(b"hit; ttl=");
                decimal::number(ttl, out);
                Ok(())
            }
            CacheStatus::HitOnError(ttl) => write!(out, "hit; ttl={ttl}; detail=stale-if-error"),
            CacheStatus::Revalidated => write!(out, "fwd=stale; fwd-status=304; stored"),
            CacheStatus::Stored(why) => write!(out, "fwd={}; stored", why.name()),
            CacheStatus::Collapsed(why) => write!(out, "fwd={}; collapsed", why.name()),
            CacheStatus::Passed(why) => write!(out, "fwd={}", why.name()),
            CacheStatus::NotStored(why, detail) => {
                write!(out, "fwd={}; detail={detail}", why.name())
            }
            CacheStatus::Bypassed(detail) => write!(out, "fwd=bypass; detail={detail}"),
        };
        out.extend_from_slice(b"\r\n");
    }

    /// Returns the name in the access log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CacheStatus::Hit(ttl) if ttl > 0 => "hit",
            CacheStatus::Hit(_) | CacheStatus::HitOnError(_) => "stale",
            CacheStatus::Revalidated => "revalidated",
            CacheStatus::Stored(_) => "miss",
            CacheStatus::Collapsed(_) => "collapsed",
            CacheStatus::Passed(_) | CacheStatus::NotStored(..) => "pass",
            CacheStatus::Bypassed(_) => "bypass",
        }
    }
}
