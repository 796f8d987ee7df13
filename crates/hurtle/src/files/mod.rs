//! A file as an answer. `lookup` finds it (on the disk pool), `entry` holds what is known of it
//! with heads made in advance, `cache` keeps entries and `store` keeps
//! them true, `answer` turns one and a request's
//! conditions into a response. Used by the files handler, error pages, and applications.

pub mod answer;
mod arrival;
pub mod cache;
pub mod changed;
pub mod entry;
pub mod listing;
pub mod listings;
pub mod lookup;
pub mod response;
pub mod scripts;
pub mod store;

pub use answer::{FileQuery, answer};
pub use arrival::{Arrival, Home};
pub use cache::{Cache, Key};
pub use changed::{Changed, UNFINISHED, has_hidden_segment, is_unfinished};
pub use entry::Entry;
pub use listings::{Listings, Wanted};
pub use lookup::{Lookup, Outcome, Target, Try};
pub use scripts::{Found, Scripts};
pub use store::Store;
