//! Applications: any `tower` service, called on the worker. What may go wrong in one becomes an
//! answer; its body is polled by whoever sends it. `isolated` are those on threads of their own,
//! `watchdog` tells of those that should be.

mod isolated;
mod watchdog;

use std::fmt;
use std::future::Future;
use std::mem;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use hyper::upgrade::OnUpgrade;
use pin_project_lite::pin_project;
use tower_service::Service;

use self::isolated::Isolated;
use self::watchdog::{Watchdog, Watched};
use super::{Answering, dress};
use crate::answer::Answer;
use crate::body::{Body, BoxError, FileSlice, RequestBody, Stream};
use crate::config::HeaderRule;
use crate::disk::Disk;
use crate::files::{Arrival, Opener};
use crate::h1::response::Fields;
use crate::rt::{self, Threads};

/// A mounted application; each worker has its own clone.
pub struct App {
    mount: Arc<str>,
    site: Arc<str>,
    /// `None`: the server has not started.
    opener: Option<Opener>,
    service: Box<dyn Call>,
}

/// What `App` needs of a service whose types are forgotten.
trait Call: Send {
    fn call(&self, request: Request<RequestBody>, rules: Vec<HeaderRule>) -> Answering;
    fn another(&self, site: &Arc<str>, mount: &Arc<str>) -> Box<dyn Call>;
}

impl App {
    /// Takes a service; `mount` is where: `/`, or a path that does not end in `/`; `site`: the site's
    /// name.
    pub fn new<S, B>(site: &str, mount: &str, service: S) -> App
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (site, mount) = (site.into(), mount.into());
        let watchdog = Watchdog::new(&site, &mount);
        App { mount, site, opener: None, service: Box::new(Mounted { service, watchdog }) }
    }

    /// The same on threads of its own.
    pub fn isolated<S, B>(site: &str, mount: &str, service: S, threads: Threads) -> App
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = Box::new(Isolated { service, threads: Arc::new(threads) });
        App { mount: mount.into(), site: site.into(), opener: None, service }
    }

    /// Where it is mounted.
    pub fn mount(&self) -> &Arc<str> {
        &self.mount
    }

    /// What site it is mounted in.
    pub fn site(&self) -> &Arc<str> {
        &self.site
    }

    /// How a request came here.
    pub fn arrival(&self, client: Option<IpAddr>, secure: bool, original: Uri) -> Arrival {
        let (mount, site) = (Arc::clone(&self.mount), Arc::clone(&self.site));
        Arrival { client, secure, original, mount, site, opener: self.opener.clone() }
    }

    /// Begins to answer a request; the site's header rules are applied to the answer. Nothing runs
    /// before the answer is awaited.
    pub fn call(&self, request: Request<RequestBody>, rules: Vec<HeaderRule>) -> Answering {
        self.service.call(request, rules)
    }

    /// A clone for another worker, with which it shares nothing that either counts; its files are
    /// opened on `disk`.
    pub fn another(&self, disk: &Disk) -> App {
        let (site, mount) = (Arc::from(&*self.site), Arc::from(&*self.mount));
        let service = self.service.another(&site, &mount);
        App { mount, site, opener: Some(Opener::new(disk)), service }
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("mount", &self.mount).finish_non_exhaustive()
    }
}

/// One that runs on the worker.
struct Mounted<S> {
    service: S,
    watchdog: Arc<Watchdog>,
}

impl<S, B> Call for Mounted<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn call(&self, request: Request<RequestBody>, rules: Vec<HeaderRule>) -> Answering {
        let dog = Arc::clone(&self.watchdog);
        Box::pin(Work::new(self.service.clone(), request, Some(dog), rules))
    }

    fn another(&self, site: &Arc<str>, mount: &Arc<str>) -> Box<dyn Call> {
        let (service, watchdog) = (self.service.clone(), Watchdog::new(site, mount));
        Box::new(Mounted { service, watchdog })
    }
}

pin_project! {
    /// A service at work on a request. Its output is its answer, or what stands for that if it fails
    /// or panics, with the site's header rules applied. A type of its own, since as an async function
    /// it would hold the request three times.
    pub(super) struct Work<S>
    where
        S: Service<Request<RequestBody>>,
    {
        service: S,
        // Until the service is ready.
        request: Option<Request<RequestBody>>,
        #[pin]
        answering: Option<S::Future>,
        method: Method,
        uri: Uri,
        may_switch: bool,
        // Watches this and the answer's body.
        dog: Option<Arc<Watchdog>>,
        rules: Vec<HeaderRule>,
    }
}

impl<S: Service<Request<RequestBody>>> Work<S> {
    fn new(
        service: S,
        request: Request<RequestBody>,
        dog: Option<Arc<Watchdog>>,
        rules: Vec<HeaderRule>,
    ) -> Work<S> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let may_switch = request.extensions().get::<OnUpgrade>().is_some();
        let request = Some(request);
        Work { service, request, answering: None, method, uri, may_switch, dog, rules }
    }

    fn poll_service(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<S::Response, S::Error>> {
        let mut this = self.project();
        if this.request.is_some() {
            if let Err(error) = ready!(this.service.poll_ready(cx)) {
                return Poll::Ready(Err(error));
            }
            let answering = this.request.take().map(|request| this.service.call(request));
            this.answering.set(answering);
        }
        match this.answering.as_pin_mut() {
            Some(answering) => answering.poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<S, B> Future for Work<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let begun = self.dog.as_ref().map(|_| Instant::now());
        let polled = rt::catch(|| self.as_mut().poll_service(cx));
        let this = self.project();
        if let Some((dog, begun)) = this.dog.as_ref().zip(begun) {
            dog.saw(begun.elapsed(), this.method, this.uri);
        }
        let what = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(response))) if is_final(response.status(), *this.may_switch) => {
                let dog = this.dog.take();
                let mut answer = answer_of(response, |body| match dog {
                    Some(dog) => {
                        let (method, uri) = (mem::take(this.method), mem::take(this.uri));
                        Stream::new(Watched { body, dog, method, uri })
                    }
                    None => Stream::new(body),
                });
                if let Fields::Map(map) = &mut answer.fields
                    && answer.status.as_u16() < 400
                {
                    dress(map, this.rules.iter());
                }
                return Poll::Ready(answer);
            }
            // RFC 9110 15.2: none of these is an answer.
            Ok(Poll::Ready(Ok(response))) => format!("answered with {}", response.status()),
            Ok(Poll::Ready(Err(error))) => format!("failed: {}", error.into()),
            Err(panic) => format!("panicked: {panic}"),
        };
        // The query may hold what is nobody's business.
        tracing::error!("the application {what} ({} {})", this.method, this.uri.path());
        Poll::Ready(Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None))
    }
}

/// Whether an answer's status may be one; `may_switch`: another protocol may follow.
fn is_final(status: StatusCode, may_switch: bool) -> bool {
    !status.is_informational() || (may_switch && status == StatusCode::SWITCHING_PROTOCOLS)
}

fn answer_of<B: http_body::Body>(
    response: Response<B>,
    stream: impl FnOnce(B) -> Stream,
) -> Answer {
    let (mut parts, body) = response.into_parts();
    let slice = parts.extensions.remove::<FileSlice>();
    let body = match slice.filter(|slice| is_still(slice, &parts.headers, &body)) {
        _ if body.is_end_stream() => Body::Empty,
        Some(slice) => Body::File(slice),
        None => Body::Stream(stream(body)),
    };
    Answer { status: parts.status, fields: Fields::Map(parts.headers), body }
}

/// Whether what came back is still the file that was answered with: nobody has encoded it or made
/// another length of it.
fn is_still(slice: &FileSlice, fields: &HeaderMap, body: &impl http_body::Body) -> bool {
    body.size_hint().exact() == Some(slice.len) && !fields.contains_key(header::CONTENT_ENCODING)
}
