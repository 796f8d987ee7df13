//! The state of one exchange with an upstream.

use std::borrow::Cow;
use std::rc::Rc;

use hurtle_http::request::RequestHead;

use super::relay::Framing;
use super::upload::Upload;
use crate::handler::proxy::{Proxy, UpstreamRequest, Waits};
use crate::transport::Input;

/// Maximum size of a body that is sent with its head in one write, in bytes.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// The route of a request to an upstream.
pub(super) struct UpstreamRoute<'a> {
    pub(super) proxy: Rc<Proxy>,
    pub(super) site: usize,
    /// `None`: an application that was deployed beside the mounts.
    pub(super) mount: Option<usize>,
    /// The decoded path after the site's rules.
    pub(super) path: Cow<'a, [u8]>,
}

/// An exchange in progress.
pub(super) struct UpstreamExchange<'a> {
    pub(super) asked: UpstreamRoute<'a>,
    pub(super) upstream: UpstreamRequest,
    pub(super) waits: Waits,
    pub(super) upload: Upload,
    /// The protocol to switch to, if the upstream accepts it.
    pub(super) protocol: Option<String>,
    /// `true` if the client was sent 100 (Continue).
    pub(super) invited: bool,
}

impl<'a> UpstreamExchange<'a> {
    /// Creates the exchange of a request without a body whose response head has arrived.
    pub(super) fn bodiless(
        asked: UpstreamRoute<'a>,
        upstream: UpstreamRequest,
    ) -> UpstreamExchange<'a> {
        let (waits, upload) = (Waits::default(), Upload::none());
        UpstreamExchange { asked, upstream, waits, upload, protocol: None, invited: false }
    }

    /// Marks the connection for closing if the client waits for 100 (Continue). It may or may not
    /// send its body, so the next bytes are ambiguous.
    pub(super) fn settle_invitation(&mut self, request: &RequestHead<'_>) {
        if request.expect_continue && !self.invited {
            self.upload.was_not_invited();
        }
    }

    /// Returns the input that holds the whole body, and the body's length. `None` unless the body
    /// has arrived, is small, and nothing else is in progress.
    pub(super) fn whole(&mut self, framing: &Framing) -> Option<(&mut Input, usize)> {
        if !self.upstream.is_sent() || !self.upload.reading.is_done() {
            return None;
        }
        let len = framing.known_len().filter(|len| *len <= WHOLE_BYTES_MAX)?;
        let input = &mut self.upstream.link()?.input;
        (len <= input.bytes().len()).then_some((input, len))
    }
}
