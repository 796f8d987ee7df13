//! TLS as clients see it: handshakes, requests, reloaded certificates, errors. Most tests use a
//! rustls client; `wire` sends bytes of its own.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod authority;
mod certified_mounts;
#[path = "../process/child.rs"]
#[allow(dead_code)]
mod child;
mod clients;
mod cold;
mod early_data;
mod exchange;
mod expiry;
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
mod local_sites;
mod peer;
mod proxied;
mod reload;
mod revoked;
mod server;
#[path = "../it/support/mod.rs"]
mod support;
mod trusted;
mod wire;
