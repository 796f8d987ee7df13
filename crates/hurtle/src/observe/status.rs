//! The figures of status pages: `feed` makes them once a second for all viewers, `page` writes them
//! as HTML. `handler::status` answers requests with them.

mod feed;
mod page;

pub use feed::{Events, Feed, Figures, VIEWERS_MAX};
pub use page::{CONTENT_SECURITY_POLICY, document};
