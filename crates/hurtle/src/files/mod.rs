//! Serves files. `lookup` finds a file on the disk threads, and `entry` prepares its response
//! fields. `objects` finds objects of a store, `arriving` sends them before they are whole. `cache`
//! and `store` keep entries current. `answer` applies the conditions of a request. The files
//! handler, error pages and applications use this module.

pub(crate) mod answer;
pub(crate) mod archive;
mod arrival;
mod arriving;
pub(crate) mod cache;
pub(crate) mod changed;
pub(crate) mod differences;
pub(crate) mod entry;
pub(crate) mod hashes;
pub(crate) mod listing;
pub(crate) mod listings;
mod live;
pub(crate) mod lookup;
pub(crate) mod objects;
mod outside;
pub(crate) mod response;
pub(crate) mod root;
pub(crate) mod routes;
pub(crate) mod scripts;
pub(crate) mod sidecars;
pub(crate) mod store;
pub(crate) mod tag;
mod times;
mod variants;
pub(crate) mod watched;

pub(crate) use answer::{FileQuery, answer};
pub use arrival::Arrival;
pub(crate) use arrival::Home;
pub(crate) use arriving::respond;
pub(crate) use cache::{Cache, Key};
pub(crate) use changed::{Changed, UNFINISHED, has_hidden_segment, is_unfinished};
pub(crate) use entry::Entry;
pub(crate) use hashes::Hashes;
pub(crate) use listings::{ListingRequest, Listings};
pub(crate) use lookup::{Lookup, LookupRules, Outcome, Target, Try};
pub(crate) use root::Root;
pub(crate) use routes::{Routes, UrlDirectory};
pub(crate) use scripts::{Found, ScriptTarget, Scripts};
pub(crate) use sidecars::Sidecars;
pub(crate) use store::Store;
pub(crate) use watched::Watched;
