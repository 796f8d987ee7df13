//! Deathmatch runs web servers against the same work on one machine and draws a report. It shares
//! no code with hurtle, so that a common bug cannot cancel out.
//!
//! The modules, bottom-up; a file uses only modules above it here.

#[doc(hidden)]
pub mod random;

#[doc(hidden)]
pub mod duration;

#[doc(hidden)]
pub mod instant;

#[doc(hidden)]
pub mod histogram;

#[doc(hidden)]
pub mod sample;

#[doc(hidden)]
pub mod tls;

#[doc(hidden)]
pub mod load;

#[doc(hidden)]
pub mod machine;

#[doc(hidden)]
pub mod process;

#[doc(hidden)]
pub mod calls;

#[doc(hidden)]
pub mod network;

#[doc(hidden)]
pub mod contender;

#[doc(hidden)]
pub mod verify;

#[doc(hidden)]
pub mod target;

#[doc(hidden)]
pub mod stats;

#[doc(hidden)]
pub mod plan;

#[doc(hidden)]
pub mod arena;

#[doc(hidden)]
pub mod report;

#[doc(hidden)]
pub mod summary;

#[doc(hidden)]
pub mod compare;

#[doc(hidden)]
pub mod figures;

#[doc(hidden)]
pub mod fleet;

#[doc(hidden)]
pub mod cli;

// Shared with the integration tests.
#[cfg(test)]
extern crate self as deathmatch;
