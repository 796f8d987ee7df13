//! TLS as its clients see it: handshakes, exchanges, certificates that change, and the bad days.
//! Most tests speak through rustls; where the bytes themselves are the matter, they are written out.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

#[path = "../process/child.rs"]
#[allow(dead_code)]
mod child;
mod clients;
mod cold;
mod exchange;
mod explained;
#[path = "../h2/wire.rs"]
#[allow(dead_code)]
mod frames;
#[path = "../process/fuse.rs"]
#[allow(dead_code)]
mod fuse;
mod handshakes;
mod http2;
mod idle;
mod local;
mod peer;
mod proxied;
mod reload;
mod server;
mod staples;
#[path = "../it/support/mod.rs"]
mod support;
mod wire;
