//! Runs an application on separate threads. They produce the response and its body, and pass the
//! body to the worker one frame at a time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use super::work::{CallFailure, ServiceResult, Work};
use super::{Call, Calling};
use crate::answer::Answer;
use crate::body::{Body, BoxError, Feeder, RequestBody, Stream, feed};
use crate::files::Home;
use crate::rt::{self, First, Threads, oneshot};

/// Bytes that are read of a body that no client gets.
const DISCARDED_BYTES_MAX: usize = 1 << 20;

/// Time for reading them.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(10);

/// A service and its threads, which the clones of all workers share.
pub(super) struct Isolated<S> {
    pub(super) service: S,
    pub(super) threads: Arc<Threads>,
}

impl<S, B> Call for Isolated<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn call(&self, request: Request<RequestBody>) -> Calling {
        let (service, threads) = (self.service.clone(), Arc::clone(&self.threads));
        let work = Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            // The task ends when the response is no longer awaited.
            let task = threads.spawn(async move {
                let mut result = Work::new(service, request).await;
                let making = result.as_mut().ok().and_then(detach_body);
                sender.send(result);
                if let Some((stream, feeder)) = making {
                    feed_body(stream, feeder).await;
                }
            });
            let Some(result) = receiver.recv().await else {
                return ServiceResult::Err(CallFailure::Broken("is gone".to_owned()));
            };
            // The task now ends with the response's body.
            task.let_go();
            result
        });
        Calling { work, watchdog: None }
    }

    fn discard(&self, body: Body) {
        if let Body::Stream(stream) = body {
            self.threads.spawn(discard_body(stream)).let_go();
        }
    }

    fn for_worker(&self, _home: &Arc<Home>) -> Box<dyn Call> {
        let (service, threads) = (self.service.clone(), Arc::clone(&self.threads));
        Box::new(Isolated { service, threads })
    }
}

/// Replaces a streamed body by one that is read from another thread.
fn detach_body(answer: &mut Answer) -> Option<(Stream, Feeder)> {
    match std::mem::take(&mut answer.body) {
        Body::Stream(stream) => {
            let (feeder, body) = feed(stream.exact_len());
            answer.body = Body::Stream(Stream::new(body));
            Some((stream, feeder))
        }
        // Other bodies need no polling.
        body => {
            answer.body = body;
            None
        }
    }
}

/// Polls the body frame by frame on demand, until it ends or is dropped.
async fn feed_body(mut stream: Stream, feeder: Feeder) {
    while feeder.wanted().await {
        match rt::race(stream.frame(), feeder.abandoned()).await {
            First::A(Some(Ok(frame))) => feeder.put(frame, stream.is_end()),
            First::A(Some(Err(error))) => return feeder.fail(error),
            First::A(None) => return feeder.end(),
            First::B(()) => return,
        }
    }
}

/// Reads a body that no client gets, so that the application comes to its end. One that exceeds the
/// limits is dropped, which ends the application.
async fn discard_body(mut stream: Stream) {
    let reading = async {
        let mut bytes = 0;
        while bytes <= DISCARDED_BYTES_MAX
            && let Some(Ok(frame)) = stream.frame().await
        {
            bytes += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    let _ = rt::timeout(DISCARD_TIME_MAX, reading).await;
}
