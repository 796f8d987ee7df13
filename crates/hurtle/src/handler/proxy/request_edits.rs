//! The operator's fields of requests to upstreams (`request_fields`).

use http::header;
use hurtle_http::message::forward::RequestEdits;

use super::super::HandlerError;
use super::super::request::RequestContext;
use super::super::request_fields::values;
use super::Proxy;
use crate::tls::ClientCertificate;

impl Proxy {
    /// Returns the edits of a request whose encoded path is `path`.
    ///
    /// # Errors
    /// The response: 400 if a value would end its line.
    pub(super) fn edits(
        &self,
        request: &RequestContext<'_>,
        path: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Result<Option<RequestEdits>, HandlerError> {
        let Some(fields) = &self.config().request_fields else { return Ok(None) };
        let removed = fields.own_names().cloned().collect();
        let mut edits = RequestEdits { removed, ..RequestEdits::default() };
        for (name, value) in values(fields, request, path, certificate)? {
            if *name == header::HOST {
                edits.host = Some(value);
                continue;
            }
            for part in [name.as_str().as_bytes(), b": ", &value, b"\r\n"] {
                edits.lines.extend_from_slice(part);
            }
        }
        Ok(Some(edits))
    }
}
