//! Hurtle: a web server for a machine's own files and applications.
//!
//! The modules, bottom-up; a file uses only what stands above it here (checked by `tests/tidy.rs`).

#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod files;
