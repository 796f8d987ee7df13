//! One exchange with an upstream, as it stands: who is asked, how far it is, what of it has come.

use std::borrow::Cow;
use std::rc::Rc;

use super::relay::Framing;
use super::upload::Upload;
use crate::h1::request::Request;
use crate::handler::proxy::{Errand, Proxy, Waits};
use crate::transport::Taken;

/// A body that came with its head, and is this small, leaves with it in one write.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// Who is asked on a client's behalf, and for what.
pub(super) struct Asked<'a> {
    pub(super) proxy: Rc<Proxy>,
    pub(super) site: usize,
    /// `None`: an application that was deployed beside the mounts.
    pub(super) mount: Option<usize>,
    /// Decoded, after the site's rules.
    pub(super) path: Cow<'a, [u8]>,
}

/// One exchange under way.
pub(super) struct Exchange<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) errand: Errand,
    pub(super) waits: Waits,
    pub(super) upload: Upload,
    /// The protocol to change to, if the upstream agrees.
    pub(super) protocol: Option<String>,
    /// A client that waits for leave to send its body has got it.
    pub(super) invited: bool,
}

impl<'a> Exchange<'a> {
    /// Of a request without a body, whose answer's head is there.
    pub(super) fn bodiless(asked: Asked<'a>, errand: Errand) -> Exchange<'a> {
        let (waits, upload) = (Waits::default(), Upload::none());
        Exchange { asked, errand, waits, upload, protocol: None, invited: false }
    }

    /// A client that never got leave to send its body may send it or not: nothing after it can be
    /// told from it.
    pub(super) fn settle_invitation(&mut self, request: &Request<'_>) {
        if request.expect_continue && !self.invited {
            self.upload.was_not_invited();
        }
    }

    /// The whole body behind its new head, if it is here and small and nothing else is under way. It
    /// is not moved: the head takes the place of the one it came with.
    pub(super) fn take_whole(&mut self, framing: &Framing, head: &[u8]) -> Option<Taken> {
        if !self.errand.is_sent() || !self.upload.reading.is_done() {
            return None;
        }
        let len = framing.known_len().filter(|len| *len <= WHOLE_BYTES_MAX)?;
        let input = &mut self.errand.link()?.input;
        let whole = len <= input.bytes().len() && input.precede(head);
        whole.then(|| input.take(head.len() + len))
    }
}
