//! Objects of S3, Google Cloud Storage and Azure Blob Storage as files of a bounded cache on disk.
//! `hurtle` serves these files; this crate knows neither HTTP requests nor configurations.
//!
//! - `settings` describes a store, `connect` makes its client, `checksum` reads checksums of its
//!   responses, `error` maps its errors.
//! - `origin` looks up objects, and asks the store once for all who wait.
//! - `slot` has the state of one object, `index` bounds all of them, `directory` names their files.
//! - `partial` receives an object in chunks and lends the bytes that have arrived.
//! - `listing` lists names, `reachable` leaves those out that no URL reaches.
//! - `upload` puts and deletes objects.
//!
//! One thread talks to all stores ([`Origins`]). Callers on other threads wait for its results, and
//! never for a lock that is held during I/O.

mod failure;
mod settings;

#[cfg(not(feature = "stores"))]
#[path = "absent.rs"]
mod origin;

#[cfg(feature = "stores")]
mod checksum;
#[cfg(feature = "stores")]
mod connect;
#[cfg(feature = "stores")]
mod directory;
#[cfg(feature = "stores")]
mod error;
#[cfg(feature = "stores")]
mod index;
#[cfg(feature = "stores")]
mod listing;
#[cfg(feature = "stores")]
mod origin;
#[cfg(feature = "stores")]
mod partial;
#[cfg(feature = "stores")]
mod reachable;
#[cfg(feature = "stores")]
mod slot;
#[cfg(feature = "stores")]
mod upload;

use std::os::fd::OwnedFd;

pub use failure::{Failure, Kind};
pub use origin::{Arrival, Origin, Origins, Put};
pub use settings::{ObjectUrl, Scheme, Settings, UrlError};

/// `true` if stores can be opened: the crate was built with the feature `stores`.
pub const IS_BUILT: bool = cfg!(feature = "stores");

/// Size of the largest object that can be put, in bytes: stores take 10,000 parts.
pub const OBJECT_BYTES_MAX: u64 = 10_000 * PART_BYTES as u64;

/// Bytes of a part, and of the largest object that is sent at once.
const PART_BYTES: usize = 8 << 20;

/// An object as the store last described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Hash of the store's entity-tag, the size and the time.
    pub hash: u128,
    /// Size of the object, in bytes.
    pub len: u64,
    /// Last modification, in seconds since 1970.
    pub modified_secs: u64,
}

/// An object with its bytes.
#[derive(Debug)]
pub struct Object {
    /// Version that this listing or response is of.
    pub version: Version,
    /// Its file in the cache; `None` as long as no byte has arrived.
    pub file: Option<OwnedFd>,
    /// Access to the bytes while not all of them have arrived.
    pub arrival: Option<Arrival>,
}

/// A name in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The last segment of the key.
    pub name: String,
    /// Size and last modification (seconds since 1970); `None`: keys beneath this name exist.
    pub file: Option<(u64, u64)>,
}

/// The names directly beneath a prefix.
#[derive(Debug, Default)]
pub struct Listing {
    /// The names, in the store's order.
    pub names: Vec<Listed>,
    /// `true` if there are more than are listed.
    pub is_truncated: bool,
}

/// Condition of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None.
    Always,
    /// There is no such object.
    Missing,
    /// The object has the version with this hash.
    Is(u128),
}

/// Result of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Created,
    /// It was replaced or deleted.
    Changed,
    /// There is none to delete.
    Missing,
    /// The condition is false, so nothing has changed.
    Refused,
}
