//! Reasons for which an object cannot be read or changed.

use std::error::Error;
use std::fmt;

/// A failure, with a text for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind, by which a response is chosen.
    pub kind: Kind,
    /// Description for the log.
    pub text: String,
}

/// Kinds of failures of a store or of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The store refused the request, or sent no usable response.
    Store,
    /// The store did not respond in time.
    Timeout,
    /// The store denies access with these credentials.
    Denied,
    /// The object was replaced while it was read.
    Changed,
    /// The bytes are not those that the store has described.
    Corrupt,
    /// The cache has no room: all of it is in use, or the object is larger.
    Full,
    /// Too many requests wait for the store.
    Busy,
    /// The disk of the cache failed, or a defect of this crate.
    Internal,
}

impl Failure {
    /// Creates a failure with its description for the log.
    pub fn new(kind: Kind, text: impl Into<String>) -> Failure {
        Failure { kind, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failure {}
