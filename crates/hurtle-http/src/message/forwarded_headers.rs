//! Caches the forwarding fields of a client connection. An untrusted peer cannot change them, so
//! all requests of a connection to one host get the same lines.

use super::forward::{self, ForwardParams};
use super::forwarding_fields::untrusted_forwarding_fields;
use crate::semantics::host::Host;

/// The forwarding lines of a connection's last request.
#[derive(Debug, Default)]
pub struct ForwardedHeaders {
    /// The Host value, followed by the lines.
    text: Vec<u8>,
    name_len: usize,
    port: Option<u16>,
    host_len: usize,
}

impl ForwardedHeaders {
    /// Returns the lines for a request to `host` (with a name) from an untrusted peer. All other
    /// parameters used are the same for every request of the connection.
    pub fn lines(&mut self, host: Host<'_>, params: &ForwardParams<'_>) -> &[u8] {
        if !self.is_to(host) {
            self.text.clear();
            forward::authority(&mut self.text, host);
            (self.name_len, self.port, self.host_len) =
                (host.name.len(), host.port, self.text.len());
            untrusted_forwarding_fields(&mut self.text, params, 0..self.host_len);
        }
        &self.text[self.host_len..]
    }

    fn is_to(&self, host: Host<'_>) -> bool {
        !self.text.is_empty() && self.port == host.port && self.text[..self.name_len] == *host.name
    }
}
