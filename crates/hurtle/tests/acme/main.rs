//! ACME with a real authority (Pebble, Let's Encrypt's test server) and with a scripted one; the
//! server runs as a process of its own. `cargo xtask test --only packages` installs Pebble and its
//! DNS server; without them these tests are skipped and say so.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

#[path = "../tls/authority.rs"]
#[allow(dead_code)]
mod authority;
mod changes;
#[path = "../process/child.rs"]
#[allow(dead_code)]
mod child;
mod issuing;
mod on_demand;
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
mod wildcard;
mod zone;
