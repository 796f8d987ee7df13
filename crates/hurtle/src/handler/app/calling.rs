//! An application called for a request, as who waits for its answer has it: failures become answers,
//! and the operator is told of them, and of who takes long.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::StatusCode;

use super::super::Answering;
use super::watchdog::Watchdog;
use super::work::Made;
use crate::answer::Answer;
use crate::clock;

/// An application at work.
pub struct Calling {
    pub(super) work: Pin<Box<dyn Future<Output = Made>>>,
    /// Watches the work and the answer's body.
    pub(super) dog: Option<Arc<Watchdog>>,
}

impl Calling {
    /// The answer, if it is there. `now_ms` is on `clock`'s scale, for who watches. `asked` is what the
    /// operator is told of the request, if anything is: its method and its path, not the query, which
    /// may hold what is nobody's business.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now_ms: u64,
        asked: impl Fn() -> String,
    ) -> Poll<Answer> {
        let made = match &self.dog {
            None => ready!(self.work.as_mut().poll(cx)),
            Some(dog) => {
                let polled = self.work.as_mut().poll(cx);
                dog.saw(now_ms, &asked);
                ready!(polled)
            }
        };
        Poll::Ready(match made {
            Ok(mut answer) => {
                if let Some(dog) = &self.dog {
                    dog.watch(&mut answer.body, asked);
                }
                answer
            }
            Err(what) => {
                tracing::error!("the application {what} ({})", asked());
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
        })
    }

    /// Waits for it.
    pub fn wait(self, asked: String) -> Answering {
        Box::pin(Waiting { calling: self, asked })
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling").finish_non_exhaustive()
    }
}

struct Waiting {
    calling: Calling,
    asked: String,
}

impl Future for Waiting {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let Waiting { calling, asked } = self.get_mut();
        calling.poll(cx, clock::now_ms(), || asked.clone())
    }
}
