//! What the server says about itself.

mod exchange;
pub mod format;

pub use exchange::Exchange;
