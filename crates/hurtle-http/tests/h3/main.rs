//! Tests of the HTTP/3 state machine with frames, without sockets and QUIC.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod control;
mod floods;
mod messages;
mod qpack;
mod requests;
mod rows;
mod shutdown;
mod split;
mod wire;
