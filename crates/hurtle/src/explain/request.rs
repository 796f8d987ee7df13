//! The request to explain, as the text of its head.

use std::io;

use hurtle_http::semantics::target;

use crate::config::{Config, Listen};

/// A request to explain.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedRequest<'a> {
    /// A path with or without a query, or a whole http:// URL.
    pub target: &'a str,
    /// Method of the explained request.
    pub method: &'a str,
    /// The requested host, if the target names none.
    pub host: Option<&'a str>,
    /// The address of the listener, as in `listen` or `listen_tls`.
    pub listen: Option<&'a Listen>,
    /// Value of its Accept-Encoding, if there is one.
    pub accept_encoding: Option<&'a str>,
    /// Other fields, each as `Name: value`.
    pub fields: &'a [String],
}

impl ExplainedRequest<'_> {
    /// Returns the head, with another method if one is given.
    ///
    /// # Errors
    /// A field that is none.
    pub(super) fn head(&self, method: Option<&str>) -> io::Result<String> {
        let (method, target) = (method.unwrap_or(self.method), self.encoded_target());
        let host = self.host.unwrap_or("localhost");
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        let coding = self.accept_encoding.map(|codings| format!("Accept-Encoding: {codings}"));
        for field in coding.iter().chain(self.fields) {
            let is_field = field.split_once(':').is_some_and(|(name, _)| !name.is_empty());
            if !is_field || field.contains(['\r', '\n']) {
                let what = format!("{field:?} is not a field: write 'Name: value'");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
            head.push_str(field);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        Ok(head)
    }

    /// Returns the listener: the one that is named, or the first with the port of a whole URL at
    /// which a site answers by its `listen`. `None`: any.
    pub(super) fn listener<'c>(&'c self, config: &'c Config) -> Option<&'c Listen> {
        let (scheme, rest) = self.target.split_once("://").unwrap_or_default();
        let is_tls = scheme.eq_ignore_ascii_case("https");
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let written = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let default = if is_tls { 443 } else { 80 };
        let port: Option<u16> = (!scheme.is_empty()).then(|| written.unwrap_or(default));
        let of_url = || {
            let open = if is_tls { &config.listen_tls } else { &config.listen };
            let mut named = config.sites.iter().flat_map(|site| &site.listen);
            named.find(|listen| listen.port() == port && open.contains(listen))
        };
        self.listen.or_else(|| port.and_then(|_| of_url()))
    }

    /// Returns whether the response of a file can be shown without effects.
    pub(super) fn is_safe(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }

    /// Percent-encodes the bytes of the target that a person types and a browser encodes: spaces
    /// and those beyond ASCII.
    pub(super) fn encoded_target(&self) -> String {
        let encoded = target::encode_beyond_ascii(self.target.as_bytes());
        String::from_utf8_lossy(&encoded).replace(' ', "%20")
    }
}
