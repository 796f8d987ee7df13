//! The operation of an upstream that a request waits for.

use std::fmt;

/// The last operation of the upstream that was awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Phase {
    Connecting,
    Sending,
    Waiting,
    Reading,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Connecting => "it takes too long to connect",
            Phase::Sending => "it takes none of the request's bytes",
            Phase::Waiting => "it takes too long to respond",
            Phase::Reading => "its response stopped",
        })
    }
}
