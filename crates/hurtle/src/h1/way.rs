//! What an upstream is told of a request's way here. A peer that is not believed can add nothing to
//! it, so it is the same for all requests of a connection to one host: they are written once.

use super::forward::{self, Onward};
use crate::semantics::host::Host;

/// The lines for a connection's last request.
#[derive(Debug, Default)]
pub struct Way {
    /// Its host as it goes on, and the lines.
    text: Vec<u8>,
    name_len: usize,
    port: Option<u16>,
    host_len: usize,
}

impl Way {
    /// The lines for a request to this host, which has a name, by a peer that is not believed. All
    /// else of `onward` that they tell of is the connection's.
    pub fn lines(&mut self, host: Host<'_>, onward: &Onward<'_>) -> &[u8] {
        if !self.is_to(host) {
            self.text.clear();
            forward::authority(&mut self.text, host);
            (self.name_len, self.port, self.host_len) =
                (host.name.len(), host.port, self.text.len());
            forward::way(&mut self.text, onward, 0..self.host_len);
        }
        &self.text[self.host_len..]
    }

    fn is_to(&self, host: Host<'_>) -> bool {
        !self.text.is_empty() && self.port == host.port && self.text[..self.name_len] == *host.name
    }
}
