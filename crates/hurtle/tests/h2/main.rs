//! HTTP/2 as its clients see it: every answer as over HTTP/1.1, many at once; and, frame by frame,
//! what becomes of those who break the protocol or only cost.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

mod alike;
mod bodies;
mod breaches;
mod curl;
mod files;
mod floods;
mod handlers;
mod hints;
mod messages;
mod peer;
mod priorities;
mod stalls;
#[path = "../it/support/mod.rs"]
mod support;
mod table;
mod wire;
