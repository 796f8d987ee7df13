//! Messages that a mount takes whole before it asks its upstream or application (`buffer`).
//! `crate::handler::body_buffer` does it.

use super::names::Named;

/// The messages that are taken whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Buffering {
    /// The bodies of requests, so that a slow client holds no upstream.
    #[default]
    Request,
    /// None: bodies are passed on as they arrive.
    Off,
}

impl Named for Buffering {
    const NAMES: &'static [(&'static str, Self)] =
        &[("request", Self::Request), ("off", Self::Off)];
}
