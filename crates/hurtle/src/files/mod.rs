//! Serves files. `lookup` finds a file on the disk threads, and `entry` prepares its response
//! fields. `objects` finds objects of a store, `arriving` sends them before they are whole. `cache`
//! and `store` keep entries current. `answer` applies the conditions of a request. The files
//! handler, error pages and applications use this module.

pub mod answer;
pub mod archive;
mod arrival;
mod arriving;
pub mod cache;
pub mod changed;
pub mod differences;
pub mod entry;
pub mod hashes;
pub mod listing;
pub mod listings;
mod live;
pub mod lookup;
pub mod objects;
mod outside;
pub mod response;
pub mod root;
pub mod routes;
pub mod scripts;
pub mod sidecars;
pub mod store;
mod times;
mod variants;
pub mod watched;

pub use answer::{FileQuery, answer};
pub use arrival::{Arrival, Home};
pub use arriving::respond;
pub use cache::{Cache, Key};
pub use changed::{Changed, UNFINISHED, has_hidden_segment, is_unfinished};
pub use entry::Entry;
pub use hashes::Hashes;
pub use listings::{ListingRequest, Listings};
pub use lookup::{Lookup, Outcome, Target, Try};
pub use root::Root;
pub use routes::Routes;
pub use scripts::{Found, Scripts};
pub use sidecars::Sidecars;
pub use store::Store;
pub use watched::Watched;
