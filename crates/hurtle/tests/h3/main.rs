//! Tests of HTTP/3 over UDP sockets: a client of the libraries `quinn` and `h3`, streams of raw
//! bytes, and real peers.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

#[path = "../tls/authority.rs"]
#[allow(dead_code)]
mod authority;
mod bodies;
mod breaches;
mod calls;
mod certified_mounts;
mod ends;
mod files;
#[path = "../grpc/go.rs"]
mod go;
mod handshakes;
mod kept_bodies;
#[allow(dead_code)]
#[path = "../grpc/library.rs"]
mod library;
mod peer;
mod real;
mod server;
mod silent;
#[path = "../it/support/mod.rs"]
mod support;
mod websocket;
