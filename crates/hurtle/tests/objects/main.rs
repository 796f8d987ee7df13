//! Objects of a store as files: a server, a real S3 service on loopback, and between them a proxy
//! that injects faults. Each test of a fault asserts that the fault happened. The stores of Azure
//! and Google are emulated.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

mod answers;
mod cache;
#[path = "../process/child.rs"]
#[allow(dead_code)]
mod child;
mod config;
mod emulator;
mod faults;
mod providers;
mod proxy;
mod resumed;
mod store;
#[path = "../it/support/mod.rs"]
mod support;
mod uploads;
