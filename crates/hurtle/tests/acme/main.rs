//! Certificates got from a real authority (Pebble, by those who run Let's Encrypt) and from scripted
//! ones, by a server in a process of its own. Pebble and its DNS server are installed by
//! `cargo xtask test --only packages`; without them these tests say so and do nothing.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

#[path = "../process/child.rs"]
#[allow(dead_code)]
mod child;
mod issuing;
mod pebble;
#[path = "../tls/peer.rs"]
#[allow(dead_code)]
mod peer;
mod scripted;
#[path = "../tls/server.rs"]
#[allow(dead_code)]
mod server;
mod subscriber;
#[path = "../it/support/mod.rs"]
mod support;
mod trouble;
