//! Between a connection's protocol and the kernel: bytes come in, answers leave.
//!
//! This is the seam for other engines (io_uring) and other channels (TLS): they offer what `Plain`
//! offers. `outgoing` decides how a body leaves, `meter` when, where that is limited.

pub mod buffer;
pub mod meter;
pub mod outgoing;
pub mod plain;

pub use buffer::{Input, Output};
pub use meter::{Addresses, Meter};
pub use outgoing::{Progress, Sender};
pub use plain::Plain;
