//! Deathmatch: runs web servers against the same work on this machine, honestly, and draws the
//! result. It shares no code with hurtle, so that a bug they shared could not cancel out.
//!
//! The modules, bottom-up; a file uses only what stands above it here.

#[doc(hidden)]
pub mod histogram;

#[doc(hidden)]
pub mod sample;

#[doc(hidden)]
pub mod load;

#[doc(hidden)]
pub mod plan;
pub mod process;

#[doc(hidden)]
pub mod contender;

#[doc(hidden)]
pub mod verify;
pub mod machine;

#[doc(hidden)]
pub mod stats;

#[doc(hidden)]
pub mod compare;
pub mod report;

// So that the tests in here and those beside them read one invented run.
#[cfg(test)]
extern crate self as deathmatch;
