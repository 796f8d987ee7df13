//! Tests of the reverse proxy with scripted upstreams on raw sockets and clients that send exactly
//! the given bytes.

#![allow(clippy::unwrap_used)] // a test that fails may panic where it stands

mod additions;
mod answers;
mod axum_app;
mod balance;
mod bodies;
mod buffer;
mod cache;
#[allow(dead_code)]
#[path = "../app/client.rs"]
mod client;
#[allow(dead_code)]
#[path = "../it/support/coding.rs"]
mod coding;
mod compression;
mod concurrency;
mod edges;
mod error_limits;
mod errors;
mod failures;
mod finished;
mod forward_auth;
mod forwarded;
mod gates;
mod header_kinds;
mod headers;
mod held;
mod hints;
mod internal;
mod jwt;
mod kept_responses;
#[allow(dead_code)]
#[path = "../grpc/library.rs"]
mod library;
#[path = "../app/log.rs"]
mod log;
mod otherwise;
mod paths;
mod pinned;
mod queue;
mod real;
mod refused_methods;
mod request_fields;
#[path = "../it/support/reserved.rs"]
mod reserved;
mod secure;
mod secure_auth;
mod send_proxy_protocol;
mod slashes;
mod streams;
mod streams_node;
mod support;
mod tokens;
mod translate;
mod upgrade;
#[allow(dead_code)]
#[path = "../h2/wire.rs"]
mod wire;
