//! The life of a server process: how it starts, reloads its configuration, is replaced by another
//! process, and stops; and the sandbox that it enters, with the processes outside of it.
//!
//! `launch` and `process` start it, `control` handles signals and commands. `reload` puts another
//! configuration in force; `handover` and `upgrade` have another process go on. `sandbox` confines
//! this one; `names` finds what it no longer permits. `starter`, `resolver`, `dns_hooks` and
//! `supervisor` are processes of their own.

mod config_watch;
mod control;
pub mod dns_hooks;
mod greeting;
mod handover;
mod launch;
mod names;
mod places;
pub mod process;
mod reload;
pub mod resolver;
pub(crate) mod sandbox;
mod socket_files;
pub mod starter;
pub mod supervisor;
mod upgrade;

pub use launch::Launch;
