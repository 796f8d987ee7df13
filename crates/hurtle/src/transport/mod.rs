//! Between a connection's protocol and the kernel: bytes come in, answers leave.
//!
//! This is the seam for other engines (io_uring) and other channels (TLS): they offer what `Plain`
//! offers. `outgoing` decides how a body leaves.

pub mod buffer;
pub mod outgoing;
pub mod plain;

pub use buffer::{Input, Output, Taken};
pub use outgoing::{Progress, Sender};
pub use plain::Plain;
