//! Tests of HTTP/2 over sockets: the same responses as over HTTP/1.1, concurrent requests, and,
//! with raw frames, protocol errors and floods.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod alike;
#[path = "../tls/authority.rs"]
#[allow(dead_code)]
mod authority;
mod bodies;
mod breaches;
mod compression;
mod curl;
mod files;
mod floods;
#[path = "../h3/peer.rs"]
#[allow(dead_code)]
mod h3_peer;
mod handlers;
mod hints;
mod kept_bodies;
mod limits;
mod messages;
mod peer;
mod priorities;
mod stalls;
#[path = "../it/support/mod.rs"]
mod support;
mod table;
mod turns;
mod websocket;
mod wire;
