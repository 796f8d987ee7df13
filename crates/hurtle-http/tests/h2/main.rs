//! Tests of the HTTP/2 state machine with frames, without sockets.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod client;
mod errors;
mod floods;
mod messages;
mod peer;
mod schedule;
mod split;
mod wire;
