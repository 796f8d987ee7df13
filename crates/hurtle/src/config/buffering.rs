//! Bodies that are kept for a mount while a slow client sends or reads them (`buffer`).
//! `crate::handler::{body_buffer, spool}` do it.

use super::names::Named;

/// The bodies that are kept, so that a slow client holds no upstream or application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Buffering {
    /// Those of requests and responses.
    #[default]
    Both,
    /// Those of requests: they are taken whole before the upstream or application is asked.
    Request,
    /// The part of responses that the client has not yet taken.
    Response,
    /// None: bodies are passed on as they arrive.
    Off,
}

impl Buffering {
    /// Bodies of requests are kept.
    pub fn of_requests(self) -> bool {
        matches!(self, Buffering::Both | Buffering::Request)
    }

    /// Bodies of responses are kept.
    pub fn of_responses(self) -> bool {
        matches!(self, Buffering::Both | Buffering::Response)
    }
}

impl Named for Buffering {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("both", Self::Both),
        ("request", Self::Request),
        ("response", Self::Response),
        ("off", Self::Off),
    ];
}
