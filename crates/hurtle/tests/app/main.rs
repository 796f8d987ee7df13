//! Tests of mounted applications over sockets: bodies of unknown length in both directions, and
//! failures of either side.

#![allow(clippy::unwrap_used)] // a test that fails may panic where it stands

mod answers;
mod client;
#[allow(dead_code)]
#[path = "../it/support/coding.rs"]
mod coding;
mod compression;
// The example is tested as a user would copy it.
#[allow(dead_code)]
#[path = "../../examples/axum.rs"]
mod example;
mod files;
mod finished;
mod hints;
mod isolated;
mod log;
mod mounts;
mod requests;
mod router;
#[allow(dead_code)]
#[path = "../../examples/service.rs"]
mod service_example;
mod support;
mod websocket;
