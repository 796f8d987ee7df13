//! What an application says of its answer before it has made it (103 Early Hints, RFC 8297).

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use http::HeaderMap;

/// Tells a client what an answer will need while an application makes it: in the extensions of
/// requests whose client is told (`early_hints` of the site): unless configured, of those that came by
/// HTTP/2. Over HTTP/1.1 some clients take the first answer for the last (RFC 8297 3).
#[derive(Clone, Default)]
pub struct EarlyHints(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    fields: Option<HeaderMap>,
    teller: Option<Waker>,
}

impl EarlyHints {
    /// Sends these fields in an interim answer: `Link`, above all. They are no part of the answer,
    /// which has its own. What has not left when the answer is there, does not.
    pub fn send(&self, fields: HeaderMap) {
        let teller = {
            let mut state = self.state();
            match &mut state.fields {
                Some(waiting) => waiting.extend(fields),
                none => *none = Some(fields),
            }
            state.teller.take()
        };
        if let Some(teller) = teller {
            teller.wake();
        }
    }

    /// Waits until there is something to send.
    pub(crate) async fn told(&self) -> HeaderMap {
        poll_fn(|cx| {
            let mut state = self.state();
            match state.fields.take() {
                Some(fields) => Poll::Ready(fields),
                None => {
                    state.teller = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Nothing that can panic runs while the lock is held, so a poisoned one is as good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for EarlyHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EarlyHints")
    }
}
