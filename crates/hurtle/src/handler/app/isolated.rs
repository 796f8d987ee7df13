//! An application on threads of its own: its answer is made there, and so is the answer's body, of
//! which one frame at a time comes to the worker.

use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use super::work::{Made, Work};
use super::{Call, Calling};
use crate::answer::Answer;
use crate::body::{Body, BoxError, Feeder, RequestBody, Stream, feed};
use crate::config::HeaderRule;
use crate::files::Home;
use crate::rt::{self, First, Threads};

/// A service and its threads, which all workers' clones share.
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
    fn call(&self, request: Request<RequestBody>, rules: Vec<HeaderRule>) -> Calling {
        let (service, threads) = (self.service.clone(), Arc::clone(&self.threads));
        let work = Box::pin(async move {
            let (tell, told) = rt::once();
            // If nobody waits for the answer any more, this ends it.
            let task = threads.spawn(async move {
                let mut made = Work::new(service, request, rules).await;
                let making = made.as_mut().ok().and_then(hand_over);
                tell.tell(made);
                if let Some((stream, feeder)) = making {
                    feed_body(stream, feeder).await;
                }
            });
            let Some(made) = told.wait().await else { return Made::Err("is gone".to_owned()) };
            // The rest of it ends with the answer's body.
            task.let_go();
            made
        });
        Calling { work, dog: None }
    }

    fn another(&self, _home: &Arc<Home>) -> Box<dyn Call> {
        let (service, threads) = (self.service.clone(), Arc::clone(&self.threads));
        Box::new(Isolated { service, threads })
    }
}

/// Puts what reads from another thread in a body's place.
fn hand_over(answer: &mut Answer) -> Option<(Stream, Feeder)> {
    match std::mem::take(&mut answer.body) {
        Body::Stream(stream) => {
            let (feeder, body) = feed(stream.exact_len());
            answer.body = Body::Stream(Stream::new(body));
            Some((stream, feeder))
        }
        // Whatever else there is, nobody has to make.
        body => {
            answer.body = body;
            None
        }
    }
}

/// Makes the body, a frame when one is asked for, until nobody wants it.
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
