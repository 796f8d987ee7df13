//! The request to explain, as the text of its head.

use std::io;

use hurtle_http::semantics::target;

/// A request to explain.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedRequest<'a> {
    /// A path with or without a query, or a whole http:// URL.
    pub target: &'a str,
    /// The method.
    pub method: &'a str,
    /// The requested host, if the target names none.
    pub host: Option<&'a str>,
    /// Accept-Encoding.
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

    /// Returns whether the response of a file can be shown without effects.
    pub(super) fn is_safe(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }

    /// Percent-encodes the bytes of the target that a person types and a browser encodes: spaces and
    /// those beyond ASCII.
    pub(super) fn encoded_target(&self) -> String {
        let encoded = target::encode_beyond_ascii(self.target.as_bytes());
        String::from_utf8_lossy(&encoded).replace(' ', "%20")
    }
}
