//! A call of an application: failures become responses of this server and are logged, and so are
//! calls that block the worker.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::StatusCode;

use super::super::Answering;
use super::watchdog::Watchdog;
use super::work::{CallFailure, ServiceResult};
use crate::answer::Answer;
use crate::clock;

/// A running call of an application.
pub(crate) struct Calling {
    pub(super) work: Pin<Box<dyn Future<Output = ServiceResult>>>,
    /// Watches the call and the response's body.
    pub(super) watchdog: Option<Arc<Watchdog>>,
}

impl Calling {
    /// Polls for the response. `now_ms` is on `clock`'s scale, for the watchdog. `request`
    /// describes the request in the log: method and path, without the query, which may be
    /// confidential. An error is this server's own response.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now_ms: u64,
        request: impl Fn() -> String,
    ) -> Poll<Result<Answer, Answer>> {
        let result = match &self.watchdog {
            None => ready!(self.work.as_mut().poll(cx)),
            Some(watchdog) => {
                let polled = self.work.as_mut().poll(cx);
                watchdog.record(now_ms, &request);
                ready!(polled)
            }
        };
        Poll::Ready(match result {
            Ok(mut answer) => {
                if let Some(watchdog) = &self.watchdog {
                    watchdog.watch(&mut answer.body, request);
                }
                Ok(answer)
            }
            Err(CallFailure::Status(status)) => Err(Answer::error(status, None)),
            Err(CallFailure::Broken(what)) => {
                tracing::error!("the application {what} ({})", request());
                Err(Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None))
            }
        })
    }

    /// Waits for the response.
    pub(crate) fn wait(self, request: String) -> Answering {
        Box::pin(WaitingCall { calling: self, request })
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling").finish_non_exhaustive()
    }
}

struct WaitingCall {
    calling: Calling,
    request: String,
}

impl Future for WaitingCall {
    type Output = Result<Answer, Answer>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Answer, Answer>> {
        let WaitingCall { calling, request } = self.get_mut();
        calling.poll(cx, clock::now_ms(), || request.clone())
    }
}
