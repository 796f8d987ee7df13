//! What the operator wrote, checked, as typed values: the only configuration the rest of the
//! server sees. Reading TOML and reporting problems is `check`'s work; nothing here does I/O.

pub mod types;

pub use types::*;
