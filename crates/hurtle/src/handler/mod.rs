//! The closed set of handlers and the one dispatch over them, [`Handler::call`]. A handler returns
//! an [`Outcome`]; it writes no response to a socket. Handlers do not use each other. `request` is
//! what a handler gets, `client` its way to the client while it waits.

pub(crate) mod app;
mod body_buffer;
pub(crate) mod client;
pub(crate) mod directory;
mod file_bytes;
pub(crate) mod fixed;
pub(crate) mod gateway;
pub(crate) mod http_request;
mod named_file;
pub(crate) mod proxy;
pub(crate) mod request;
mod request_fields;
pub(crate) mod resources;
mod spool;
pub(crate) mod status;
pub(crate) mod wait;
mod websocket;

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::target::{Target, append_query, encode_path};

use self::client::{Client, ExchangeError};
use self::directory::Directory;
use self::named_file::named_file;
pub(crate) use self::proxy::{RelayEnd, TunnelEnd, UpstreamBody, UpstreamResponse, UpstreamTunnel};
use self::request::{MatchedPath, RequestContext};
use crate::answer::{Answer, Needs};
use crate::body::Body;
use crate::files;
use crate::transport::Offer;
use crate::uploads::{self, Uploads};

/// A future of a response.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Answer, Answer>>>>;

/// Handlers of mounts, one for each kind of the configuration.
#[derive(Debug)]
pub(crate) enum Handler {
    /// Files of a directory.
    Directory(Directory),
    /// A redirect to a fixed target, or one that ends with the rest of the path.
    Redirect(fixed::Redirect),
    /// Closes the connection, or resets the stream.
    Abort,
    /// A constant response to every request.
    Fixed(fixed::Fixed),
    /// The status of the server.
    Status(status::Status),
    /// An application in this process, such as one of WebAssembly.
    App(app::App),
    /// Servers that requests are forwarded to.
    Proxy(Rc<proxy::Proxy>),
    /// FastCGI or CGI applications.
    Gateway {
        /// The applications that have a protocol of gateways.
        gateway: Rc<gateway::Gateway>,
        /// The files beside their scripts.
        beside: Option<Directory>,
    },
}

/// The result of handling a request.
pub(crate) enum Outcome {
    /// A response; its body may still be produced.
    Answer(Answer),
    /// An upstream's response, whose body is relayed.
    Stream(UpstreamResponse),
    /// Another protocol on the connection, after a 101.
    Tunnel(Tunnel),
    /// A file that replaces the response which names it.
    InternalRedirect(Box<InternalRedirect>),
    /// The request is for the mount that `otherwise` names; nothing of its body was read.
    Otherwise,
    /// The exchange ends without a response.
    Abort,
}

/// A switch to another protocol.
pub(crate) enum Tunnel {
    /// An upstream has accepted it.
    Upstream(Box<UpstreamTunnel>),
    /// An application has accepted it with this response.
    App(Box<(Answer, Offer)>),
}

/// A file that an upstream or application names instead of its response (X-Accel-Redirect,
/// X-Sendfile).
pub(crate) struct InternalRedirect {
    /// The file, as the response names it.
    pub file: FileName,
    /// Field lines of the replaced response for the whole file.
    pub kept: Bytes,
    /// Field lines for other responses, without those that describe the content.
    pub kept_without_content: Bytes,
}

/// The name of an internal file.
pub(crate) enum FileName {
    /// X-Accel-Redirect: a URL path.
    Accel(Vec<u8>),
    /// X-Sendfile: a URL path or a file-system path.
    Sendfile(Vec<u8>),
}

/// A request without a handler's response.
pub(crate) enum HandlerError {
    /// This server's error response; the site may have a page for it.
    Answer(Box<Answer>),
    /// The exchange with the client has ended.
    Exchange(ExchangeError),
}

impl HandlerError {
    /// The response of a server that has too much to do.
    pub(crate) fn unavailable(why: &str) -> HandlerError {
        HandlerError::Answer(Box::new(Answer::error(StatusCode::SERVICE_UNAVAILABLE, Some(why))))
    }
}

impl From<ExchangeError> for HandlerError {
    fn from(error: ExchangeError) -> HandlerError {
        HandlerError::Exchange(error)
    }
}

/// The result of [`Handler::call`].
pub(crate) type Handled = Result<Outcome, HandlerError>;

impl Handler {
    /// Returns whether it takes the body of this request whole before an upstream or application is
    /// asked.
    pub(crate) fn takes_body(&self, request: &RequestHead<'_>) -> bool {
        let is_taken = match self {
            Handler::Proxy(proxy) => proxy.takes_body(request) && !proxy.may_store(request),
            Handler::Gateway { gateway, .. } => gateway.takes_body(request.body),
            _ => false,
        };
        is_taken && request.body != BodyLength::None
    }

    /// Returns whether it may take calls of gRPC, whose bodies pause.
    pub(crate) fn takes_calls(&self) -> bool {
        match self {
            Handler::App(_) => true,
            Handler::Proxy(proxy) => proxy.has_http2(),
            _ => false,
        }
    }

    /// Handles a request.
    ///
    /// # Errors
    /// There is no response, or an error response of this server.
    pub(crate) async fn call<C: Client>(
        &self,
        request: &RequestContext<'_>,
        client: &mut C,
    ) -> Handled {
        if request.head.protocol.is_some() {
            return Box::pin(websocket::open(self, request, client)).await;
        }
        match self {
            // First, because they often respond at once. The other futures are boxed: every request
            // would be as large as the largest of them.
            Handler::App(app) => {
                let mut call = app.call(request, client);
                // Most applications respond on the first poll, which avoids the cost of a wait.
                match poll_fn(|cx| Poll::Ready(call.poll(cx, request))).await {
                    Poll::Ready(Ok(answer)) => Ok(self.of_app(request, answer)),
                    Poll::Ready(Err(own)) => own_response(own),
                    Poll::Pending => match Box::pin(app.wait(call, request, client)).await? {
                        Outcome::Answer(answer) => Ok(self.of_app(request, answer)),
                        other => Ok(other),
                    },
                }
            }
            Handler::Proxy(proxy) => proxy.call(request, client).await,
            Handler::Directory(directory) => match uploads_for(directory, request) {
                Some(uploads) => Box::pin(upload(uploads, request, client)).await,
                None => Box::pin(read_file(directory, request, client)).await,
            },
            Handler::Redirect(redirect) => {
                let redirected = async || redirect.call(request, &request.matched);
                Box::pin(whatever_method(request, client, redirected)).await
            }
            Handler::Abort => Ok(Outcome::Abort),
            Handler::Fixed(fixed) => {
                Box::pin(whatever_method(request, client, async || fixed.call())).await
            }
            Handler::Status(status) => {
                let answered = async || status.answer(request).await;
                Box::pin(without_body(request, client, answered)).await
            }
            Handler::Gateway { gateway, beside } => {
                let called = Box::pin(gateway.respond(request, client)).await?;
                match (called, beside) {
                    (Some(outcome), _) => Ok(with_coding(outcome)),
                    (None, Some(files)) => Box::pin(read_file(files, request, client)).await,
                    (None, None) => own_response(not_found()),
                }
            }
        }
    }
}

impl Handler {
    /// Returns an application's response, or the file that it names.
    fn of_app(&self, request: &RequestContext<'_>, mut answer: Answer) -> Outcome {
        if !request.has_internal_files {
            return with_coding(Outcome::Answer(answer));
        }
        let body = mem::take(&mut answer.body);
        match named_file(request, answer) {
            Outcome::Answer(answer) => with_coding(Outcome::Answer(Answer { body, ..answer })),
            file => {
                self.discard(request.head, body);
                file
            }
        }
    }

    /// Takes the body of its response, in whose place the client gets another one.
    pub(crate) fn discard(&self, request: &RequestHead<'_>, body: Body) {
        // The body of a response to HEAD is read by no client, which applications expect.
        if let Handler::App(app) = self
            && request.method != Method::Head
        {
            app.discard(body);
        }
    }
}

/// Marks a response that may be compressed.
fn with_coding(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Answer(answer) => {
            Outcome::Answer(Answer { needs: Needs::EditsAndCoding, ..answer })
        }
        other => other,
    }
}

/// Returns a directory's uploads if they handle the request.
fn uploads_for<'a>(directory: &'a Directory, request: &RequestContext<'_>) -> Option<&'a Uploads> {
    let reads = matches!(request.head.method, Method::Get | Method::Head);
    let uploads = directory.uploads()?;
    (!reads || uploads::is_upload(request.matched.rest)).then_some(uploads)
}

async fn upload<C: Client>(
    uploads: &Uploads,
    request: &RequestContext<'_>,
    client: &mut C,
) -> Handled {
    let body = client.body(client::Continue::OnRead);
    let method = http_request::method(&request.head.method);
    let Some((method, fields)) = method.zip(request.buffers.field_map(request.head)) else {
        return Ok(Outcome::Answer(Answer::error(StatusCode::BAD_REQUEST, None)));
    };
    let mut built = http::Request::new(body);
    (*built.method_mut(), *built.headers_mut()) = (method, fields);
    let user = request.passwords.and_then(|passwords| passwords.user(request.head.authorization));
    let answering = Directory::upload(uploads, built, &request.matched, request.target.0, user);
    // A refusal has no page: its status and its fields tell the client what is stored.
    let answer = client.beside(&wait::Waits::default(), async |_| answering.await).await?;
    Ok(Outcome::Answer(answer))
}

/// Answers with a file of a directory, or hands the request on.
async fn read_file<C: Client>(
    directory: &Directory,
    request: &RequestContext<'_>,
    client: &mut C,
) -> Handled {
    if let Some(refused) = refusal(request.head) {
        let handed_on = directory.hands_on_path(request.store, request.matched.rest);
        let answer = match Box::pin(handed_on).await {
            Ok(true) => return Ok(Outcome::Otherwise),
            Ok(false) => refused,
            Err(trouble) => trouble.answer(request.matched.path),
        };
        client.discard_body(true).await?;
        return own_response(answer);
    }
    match file_of(directory, request).await {
        None => Ok(Outcome::Otherwise),
        Some(answer) => {
            client.discard_body(false).await?;
            own_response(answer)
        }
    }
}

/// Returns the response of a directory to GET or HEAD; `None`: the request is handed on.
async fn file_of(directory: &Directory, request: &RequestContext<'_>) -> Option<Answer> {
    let (query, matched) = (request.for_files(), &request.matched);
    let sends = query.get && query.file.is_for_the_whole();
    // The look-up below reports disk errors.
    if matched.cacheable
        && query.status == StatusCode::OK
        && let Ok(Some(entry)) = request.store.revalidated(query.key, sends).await
        && entry.mount == matched.mount
    {
        // The mount admits this client, so the file may be sent.
        return Some(files::answer(&entry, StatusCode::OK, &query.file));
    }
    let answer = directory.call(request.store, &query, matched).await?;
    Some(match directory.takes_uploads() {
        // Uploaded files are untrusted, so browsers must not guess their type.
        true => answer.with(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        false => answer,
    })
}

/// Answers GET and HEAD with `answer`, after the body was discarded.
async fn without_body<C: Client>(
    request: &RequestContext<'_>,
    client: &mut C,
    answer: impl AsyncFnOnce() -> Answer,
) -> Handled {
    let refused = refusal(request.head);
    let is_refused = refused.is_some();
    client.discard_body(is_refused).await?;
    match refused {
        Some(refused) => own_response(refused),
        None => own_response(answer().await),
    }
}

/// Answers every method but TRACE with `answer`, without its body.
async fn whatever_method<C: Client>(
    request: &RequestContext<'_>,
    client: &mut C,
    answer: impl AsyncFnOnce() -> Answer,
) -> Handled {
    let method = request.head.method;
    // Only GET and HEAD wait for a body, which they hardly ever have.
    client.discard_body(!matches!(method, Method::Get | Method::Head)).await?;
    match method {
        Method::Other(b"TRACE") => own_response(Answer::trace_refused()),
        _ => own_response(answer().await),
    }
}

/// Returns a response of this server, which is an error by its status.
pub(crate) fn own_response(answer: Answer) -> Handled {
    match answer.status.as_u16() {
        ..400 => Ok(Outcome::Answer(answer)),
        _ => Err(HandlerError::Answer(Box::new(answer))),
    }
}

/// Redirects a request to its path with a slash at the end. The site's rules may have written the
/// path and the query.
fn redirect_to_directory(status: StatusCode, matched: &MatchedPath<'_>) -> Answer {
    let mut location = encode_path(&[matched.path, b"/"].concat()).into_owned();
    append_query(&mut location, matched.query);
    Answer::redirect(status, &location)
}

/// Returns the response to a request that needs no handler: a refused method, or OPTIONS.
pub(crate) fn refusal(request: &RequestHead<'_>) -> Option<Answer> {
    match request.method {
        Method::Options if request.target == Target::Asterisk => Some(Answer::options()),
        Method::Get | Method::Head => None,
        Method::Options => Some(Answer::options()),
        Method::Other(_) => Some(Answer::method_refused(request.method.is_known())),
    }
}

fn not_found() -> Answer {
    Answer::error(StatusCode::NOT_FOUND, None)
}
