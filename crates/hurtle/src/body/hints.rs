//! Fields that an application sends before its response (103 Early Hints, RFC 8297).

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use http::HeaderMap;

/// Sends early hints while an application makes its response. Found in the extensions of requests
/// whose client gets hints (`early_hints` of the site; HTTP/2 only unless configured). Over
/// HTTP/1.1 some clients take an interim response for the final one (RFC 8297 3).
#[derive(Clone, Default)]
pub struct EarlyHints(Arc<Mutex<HintsState>>);

#[derive(Default)]
struct HintsState {
    fields: Option<HeaderMap>,
    waker: Option<Waker>,
}

impl EarlyHints {
    /// Sends `fields` in an interim response, mostly `Link`. The final response does not repeat
    /// them. Fields that are still queued when the final response is ready are dropped.
    pub fn send(&self, fields: HeaderMap) {
        let waker = {
            let mut state = self.state();
            match &mut state.fields {
                Some(waiting) => {
                    // `extend` would replace the values of names that are there.
                    let mut last = None;
                    for (name, value) in fields {
                        last = name.or(last);
                        if let Some(name) = &last {
                            waiting.append(name, value);
                        }
                    }
                }
                none => *none = Some(fields),
            }
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next fields to send.
    pub(crate) async fn next(&self) -> HeaderMap {
        poll_fn(|cx| {
            let mut state = self.state();
            match state.fields.take() {
                Some(fields) => Poll::Ready(fields),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn state(&self) -> MutexGuard<'_, HintsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for EarlyHints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EarlyHints")
    }
}
