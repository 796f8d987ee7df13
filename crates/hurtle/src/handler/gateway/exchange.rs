//! One exchange with an application, in a separate task. It delivers the head of the response,
//! then the body frame by frame. Dropping either cancels the task, and with it the connection or
//! program, unless the whole response has been read.

use std::cell::Cell;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http::{StatusCode, header};
use hurtle_http::cgi::{self, HEAD_BYTES_MAX, Head, head_end};
use hurtle_http::{fcgi, uwsgi};

use super::super::body_buffer::BodyBuffer;
use super::super::spool::{Spool, SpoolError, Spooled, Tasks, spool};
use crate::answer::is_bodiless;
use crate::body::{self, Body, BoxError, Stream, TruncatedError};
use crate::clock;
use crate::config::UpstreamTimeouts;
use crate::rt::{self, Bell, First, Task, oneshot};

/// Unwanted body bytes that are read so that the application can finish.
const DISCARDED_BYTES_MAX: u64 = 1 << 20;

/// The reason for a missing or incomplete response.
#[derive(Debug)]
pub(super) enum GatewayError {
    /// The connection was refused.
    Refused(io::Error),
    /// A time limit has passed.
    Slow(&'static str),
    /// The application ended before its response.
    Gone(Option<io::Error>),
    /// The application sent an invalid FastCGI record.
    Record(fcgi::RecordError),
    /// The request does not fit into the protocol.
    Variables(uwsgi::TooLong),
    /// The application sent an invalid response head.
    Head(cgi::CgiError),
    /// The application is overloaded.
    Overloaded,
    /// The application does not support the role.
    Role,
    /// The limit of running programs is reached.
    Full,
    /// The program cannot be started.
    Start(io::Error),
    /// The client's body ended early, or the client is gone.
    Abandoned,
}

impl GatewayError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            GatewayError::Slow(_) => StatusCode::GATEWAY_TIMEOUT,
            GatewayError::Variables(_) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            GatewayError::Overloaded | GatewayError::Full => StatusCode::SERVICE_UNAVAILABLE,
            GatewayError::Start(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                StatusCode::FORBIDDEN
            }
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatewayError::Refused(e) => write!(f, "cannot connect: {e}"),
            GatewayError::Slow(what) => write!(f, "it took too long to {what}"),
            GatewayError::Gone(None) => f.write_str("it ended before its response"),
            GatewayError::Gone(Some(e)) => write!(f, "its response is incomplete: {e}"),
            GatewayError::Record(error) => write!(f, "it does not speak FastCGI: {error}"),
            GatewayError::Variables(error) => error.fmt(f),
            GatewayError::Head(error) => write!(f, "its response is malformed: {error}"),
            GatewayError::Overloaded => f.write_str("it is overloaded"),
            GatewayError::Role => f.write_str("it does not support the role"),
            GatewayError::Full => f.write_str("too many programs are running"),
            GatewayError::Start(e) => write!(f, "it cannot be started: {e}"),
            GatewayError::Abandoned => f.write_str("the client is gone"),
        }
    }
}

/// An exchange whose response is pending.
pub(super) struct Exchange {
    head: oneshot::Receiver<Result<Head, GatewayError>>,
    body: Spooled<BoxError>,
    task: Task,
    silent: Arc<AtomicBool>,
    let_go: oneshot::Sender<()>,
}

impl Exchange {
    /// Starts an exchange. `silent`: the response's body is not wanted (HEAD). `buffer` keeps what
    /// the client cannot take yet. `ends_within`: the time in which the application may finish when
    /// nothing of its response is needed anymore.
    pub(super) fn start(
        silent: bool,
        buffer: Option<BodyBuffer>,
        ends_within: Duration,
        work: impl AsyncFnOnce(&mut Sink) -> Result<(), GatewayError> + 'static,
    ) -> Exchange {
        let (head_sender, head) = oneshot::channel();
        let (spool, body) = spool(buffer, Tasks::Two);
        let silent = Arc::new(AtomicBool::new(silent));
        let mut sink = Sink {
            head_sender: Some(head_sender),
            spool,
            head: Vec::new(),
            silent: Arc::clone(&silent),
            left: None,
            discarded: 0,
        };
        let (let_go, released) = oneshot::channel();
        let task = rt::spawn_held(async move {
            let late = async {
                match released.recv().await {
                    Some(()) => rt::sleep(ends_within).await,
                    None => pending().await,
                }
            };
            let done = match rt::race(work(&mut sink), late).await {
                First::A(done) => done,
                First::B(()) => Err(GatewayError::Abandoned),
            };
            sink.close(done);
        });
        Exchange { head, body, task, silent, let_go }
    }

    /// Waits for the response's head; the body follows.
    pub(super) async fn head(self) -> Result<(Head, ResponseBody), GatewayError> {
        let Exchange { head, body, task, silent, let_go } = self;
        let head = head.recv().await.unwrap_or(Err(GatewayError::Gone(None)))?;
        let left = content_length(&head);
        let held = ResponseBody { body, left, silent, task: Some((task, let_go)) };
        Ok((head, held))
    }
}

fn content_length(head: &Head) -> Option<u64> {
    head.fields.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A response's body with the task that produces it.
pub(super) struct ResponseBody {
    body: Spooled<BoxError>,
    /// Bytes to come of the declared length.
    left: Option<u64>,
    /// `true`: it is not wanted.
    silent: Arc<AtomicBool>,
    task: Option<(Task, oneshot::Sender<()>)>,
}

impl ResponseBody {
    pub(super) fn into_body(self) -> Body {
        Body::Stream(Stream::new(self))
    }

    /// Discards the body; the application may finish its work.
    pub(super) fn discard(self) {
        self.silent.store(true, Relaxed);
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<body::Next> {
        let polled = self.body.poll_frame(cx).map_err(|error| match error {
            SpoolError::Source(error) => error,
            SpoolError::Lost(error) => error.into(),
        });
        if let (Some(left), Poll::Ready(Some(Ok(frame)))) = (&mut self.left, &polled) {
            *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // The rest of the response is not needed; the application may finish its work, for a while.
        if (self.silent.load(Relaxed) || self.left == Some(0))
            && let Some((task, let_go)) = self.task.take()
        {
            let_go.send(());
            task.let_go();
        }
    }
}

/// Receives a response and passes it to the client.
pub(super) struct Sink {
    head_sender: Option<oneshot::Sender<Result<Head, GatewayError>>>,
    spool: Spool<BoxError>,
    /// Bytes of an incomplete head.
    head: Vec<u8>,
    silent: Arc<AtomicBool>,
    left: Option<u64>,
    discarded: u64,
}

impl Sink {
    /// `true` if the head is complete.
    pub(super) fn has_head(&self) -> bool {
        self.head_sender.is_none()
    }

    /// `true` if no byte has arrived.
    pub(super) fn is_untouched(&self) -> bool {
        self.head_sender.is_some() && self.head.is_empty()
    }

    /// Takes a piece of the response; waits while no more of it is kept.
    pub(super) async fn take(&mut self, data: Bytes) -> Result<(), GatewayError> {
        if self.head_sender.is_none() {
            return self.forward(data).await;
        }
        self.head.extend_from_slice(&data);
        let Some(end) = head_end(&self.head) else {
            let fits = self.head.len() <= HEAD_BYTES_MAX;
            return if fits { Ok(()) } else { Err(GatewayError::Head(cgi::CgiError::Endless)) };
        };
        let head = Head::parse(&self.head[..end]).map_err(GatewayError::Head)?;
        self.left = content_length(&head);
        if is_bodiless(head.status) {
            self.silent.store(true, Relaxed);
        }
        if head.is_unbuffered {
            self.spool.pass_on();
        }
        let rest = Bytes::copy_from_slice(&self.head[end..]);
        self.head = Vec::new();
        if let Some(head_sender) = self.head_sender.take() {
            head_sender.send(Ok(head));
        }
        self.forward(rest).await
    }

    async fn forward(&mut self, mut data: Bytes) -> Result<(), GatewayError> {
        let left = if self.silent.load(Relaxed) { Some(0) } else { self.left };
        let wanted = left.map_or(data.len(), |left| {
            usize::try_from(left).map_or(data.len(), |left| left.min(data.len()))
        });
        let beyond = data.split_off(wanted).len() as u64;
        self.discarded += beyond;
        if beyond > 0 && self.discarded > DISCARDED_BYTES_MAX {
            return Err(GatewayError::Abandoned);
        }
        if data.is_empty() {
            return Ok(());
        }
        self.left = self.left.map(|left| left - wanted as u64);
        match self.spool.put(data).await || self.silent.load(Relaxed) {
            true => Ok(()),
            false => Err(GatewayError::Abandoned),
        }
    }

    /// Completes the response, or reports its failure.
    fn close(&mut self, done: Result<(), GatewayError>) {
        match (done, self.head_sender.take()) {
            (Ok(()), Some(head_sender)) => {
                head_sender.send(Err(GatewayError::Head(cgi::CgiError::Endless)));
            }
            (Err(error), Some(head_sender)) => head_sender.send(Err(error)),
            (done, None) => {
                let is_short = !self.silent.load(Relaxed) && self.left.is_some_and(|left| left > 0);
                let end = match done {
                    Ok(()) if is_short => {
                        let why = "it is shorter than its Content-Length";
                        Err(TruncatedError::new(why, StatusCode::BAD_GATEWAY).into())
                    }
                    Ok(()) => Ok(None),
                    Err(error) => {
                        Err(TruncatedError::new(error.to_string(), error.status()).into())
                    }
                };
                self.spool.end(end);
            }
        }
    }
}

/// Time limits of an exchange, shared by both directions.
pub(super) struct Timer<'a> {
    timeouts: &'a UpstreamTimeouts,
    /// Time when the request's last byte was sent.
    sent_ms: Cell<Option<u64>>,
    sent: Bell,
}

impl Timer<'_> {
    pub(super) fn new(timeouts: &UpstreamTimeouts) -> Timer<'_> {
        Timer { timeouts, sent_ms: Cell::new(None), sent: Bell::default() }
    }

    /// Records that the whole request is sent.
    pub(super) fn set_all_sent(&self) {
        self.sent_ms.set(Some(clock::now_ms()));
        self.sent.ring();
    }

    pub(super) fn is_all_sent(&self) -> bool {
        self.sent_ms.get().is_some()
    }

    /// Reads once within the time limit; `read` must be cancel-safe.
    pub(super) async fn read<T>(
        &self,
        has_head: bool,
        mut read: impl AsyncFnMut() -> T,
    ) -> Result<T, GatewayError> {
        loop {
            let (within, what) = match (has_head, self.sent_ms.get()) {
                (true, Some(_)) => (self.timeouts.read, "continue its response"),
                (false, Some(since_ms)) => {
                    let taken = clock::now_ms().saturating_sub(since_ms);
                    let first_byte = self.timeouts.first_byte;
                    (first_byte.saturating_sub(Duration::from_millis(taken)), "respond")
                }
                // While the client sends, an application may wait for more input.
                (_, None) => match rt::race(read(), self.sent.wait(None)).await {
                    First::A(read) => return Ok(read),
                    First::B(()) => continue,
                },
            };
            return rt::timeout(within, read()).await.ok_or(GatewayError::Slow(what));
        }
    }

    /// Writes within the time limit.
    pub(super) async fn write<T>(&self, write: impl Future<Output = T>) -> Result<T, GatewayError> {
        let written = rt::timeout(self.timeouts.send, write).await;
        written.ok_or(GatewayError::Slow("read the request"))
    }
}
