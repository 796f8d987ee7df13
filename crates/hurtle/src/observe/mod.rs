//! What the server says about itself: a line per request (`access_log`) and its own events
//! (`error_log`). Both are written by a thread each (`sink`), so that a full disk or a stuck pipe
//! costs lines, never a request's time.
//!
//! Which requests are logged, when buffers are flushed and what SIGUSR1 does is `server`'s work.

mod access_log;
mod error_log;
mod exchange;
pub mod format;
mod sink;
mod stamp;
mod target;

pub use access_log::{WorkerLog, Writer};
pub use error_log::{ErrorLogHandle, init};
pub use exchange::Exchange;
pub use target::colour;

#[cfg(test)]
mod scratch;
