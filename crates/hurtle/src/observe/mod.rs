//! Logging: the access log (`access_log`) and the error log (`error_log`). Each is written by its
//! own thread (`sink`), so that a full disk or a blocked pipe loses lines but never delays a
//! request.
//!
//! `server` decides when buffers are flushed, `lifecycle` handles SIGUSR1.

mod access_log;
mod error_log;
pub mod format;
mod record;
mod rotation;
mod sink;
mod stamp;
pub mod status;
mod target;

pub use access_log::{WorkerLog, Writer};
pub use error_log::{ErrorLogHandle, init, set_level};
pub use record::{BufferedBytes, Completion, Details, LogRecord, UpstreamLog, UpstreamTimes};
pub use target::{LOG_MODE, colour};

#[cfg(test)]
mod scratch;
