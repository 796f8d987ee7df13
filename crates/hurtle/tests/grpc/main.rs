//! Tests of upstreams over HTTP/2 and of gRPC: with grpc-go as client and as upstream, with
//! upstreams of the library `h2`, and with upstreams that send raw frames.

#![allow(clippy::unwrap_used)] // a test that fails may panic where it stands

mod calls;
#[allow(dead_code)]
#[path = "../app/client.rs"]
mod client;
mod go;
mod hostile;
mod library;
mod real;
mod refused;
#[allow(dead_code)]
#[path = "../proxy/support.rs"]
mod support;
mod upstreams;
mod web;
#[allow(dead_code)]
#[path = "../h2/wire.rs"]
mod wire;
