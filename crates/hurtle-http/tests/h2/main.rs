//! HTTP/2 as a client sees it, without sockets: frames in, frames out.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

mod errors;
mod floods;
mod messages;
mod peer;
mod schedule;
mod split;
mod wire;
