//! One request to an application on its way, in a task of its own: the head of the answer comes back
//! first, then its body, a frame when one is asked for. Who drops either ends the task, and with it
//! the connection or the program, unless all that was promised has come.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http::{StatusCode, header};
use http_body::{Frame, SizeHint};

use crate::answer::is_bodiless;
use crate::body::{self, Body, BoxError, Feeder, RequestBody, Stream, feed};
use crate::cgi::{self, HEAD_BYTES_MAX, Head, head_end};
use crate::clock;
use crate::config::Patience;
use crate::fcgi;
use crate::rt::{self, Bell, First, Task, Teller, Told};

/// What is read of a body that nobody gets, so that its maker comes to its end.
const DISCARDED_BYTES_MAX: u64 = 1 << 20;

/// Why there is no answer, or no whole one.
#[derive(Debug)]
pub(super) enum Fault {
    /// It takes no connection.
    Refused(io::Error),
    /// It was waited for too long.
    Slow(&'static str),
    /// It ended before its answer did.
    Gone(Option<io::Error>),
    /// What it says is no FastCGI.
    Record(fcgi::Flaw),
    /// What it says is no answer.
    Head(cgi::Flaw),
    /// It has no room.
    Overloaded,
    /// It is no responder, or no authorizer.
    Role,
    /// As many programs run as may.
    Full,
    /// The program cannot be started.
    Start(io::Error),
    /// The client's body broke off, or nobody waits any more: there is nobody to be told.
    Abandoned,
}

impl Fault {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Fault::Slow(_) => StatusCode::GATEWAY_TIMEOUT,
            Fault::Overloaded | Fault::Full => StatusCode::SERVICE_UNAVAILABLE,
            Fault::Start(e) if e.kind() == io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused(e) => write!(f, "it takes no connection: {e}"),
            Fault::Slow(what) => write!(f, "it took too long to {what}"),
            Fault::Gone(None) => f.write_str("it ended before its answer did"),
            Fault::Gone(Some(e)) => write!(f, "it gave no whole answer: {e}"),
            Fault::Record(flaw) => write!(f, "it does not speak FastCGI: {flaw}"),
            Fault::Head(flaw) => write!(f, "its answer is malformed: {flaw}"),
            Fault::Overloaded => f.write_str("it says that it has no room"),
            Fault::Role => f.write_str("it does not know the role it is asked to play"),
            Fault::Full => f.write_str("as many programs run as may"),
            Fault::Start(e) => write!(f, "it cannot be started: {e}"),
            Fault::Abandoned => f.write_str("nobody waits for it"),
        }
    }
}

/// A request under way.
pub(super) struct Asking {
    told: Told<Result<Head, Fault>>,
    body: RequestBody,
    task: Task,
    silent: bool,
}

impl Asking {
    /// Begins. `silent`: whatever body the answer has, nobody will get it (HEAD).
    pub(super) fn start(
        silent: bool,
        work: impl AsyncFnOnce(&mut Sink) -> Result<(), Fault> + 'static,
    ) -> Asking {
        let (tell, told) = rt::once();
        let (feeder, body) = feed(None);
        let mut sink =
            Sink { tell: Some(tell), feeder, head: Vec::new(), silent, left: None, discarded: 0 };
        let task = rt::spawn_held(async move {
            let done = work(&mut sink).await;
            sink.close(done).await;
        });
        Asking { told, body, task, silent }
    }

    /// The answer's head, and its body to come.
    pub(super) async fn head(self) -> Result<(Head, Body), Fault> {
        let Asking { told, body, task, silent } = self;
        let head = told.wait().await.unwrap_or(Err(Fault::Gone(None)))?;
        let silent = silent || is_bodiless(head.status);
        let held = Held { body, left: declared(&head), silent, task: Some(task) };
        Ok((head, Body::Stream(Stream::new(held))))
    }
}

fn declared(head: &Head) -> Option<u64> {
    head.fields.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// An answer's body, and the task that brings it.
struct Held {
    body: RequestBody,
    /// What is still to come of the length that the head has told.
    left: Option<u64>,
    silent: bool,
    task: Option<Task>,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<body::Next> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let (Some(left), Poll::Ready(Some(Ok(frame)))) = (&mut self.left, &polled) {
            *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // All is said that anybody wants; what the application has to do after that, it may.
        if self.silent || self.left == Some(0) {
            self.task.take().into_iter().for_each(Task::let_go);
        }
    }
}

/// Where an answer goes as it comes.
pub(super) struct Sink {
    tell: Option<Teller<Result<Head, Fault>>>,
    feeder: Feeder,
    /// What has come of the head.
    head: Vec<u8>,
    silent: bool,
    left: Option<u64>,
    discarded: u64,
}

impl Sink {
    /// Whether the head is complete.
    pub(super) fn has_head(&self) -> bool {
        self.tell.is_none()
    }

    /// Whether not a byte has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.tell.is_some() && self.head.is_empty()
    }

    /// Takes a piece of the answer; waits until somebody wants it.
    pub(super) async fn take(&mut self, data: Bytes) -> Result<(), Fault> {
        if self.tell.is_none() {
            return self.give(data).await;
        }
        self.head.extend_from_slice(&data);
        let Some(end) = head_end(&self.head) else {
            let fits = self.head.len() <= HEAD_BYTES_MAX;
            return if fits { Ok(()) } else { Err(Fault::Head(cgi::Flaw::Endless)) };
        };
        let head = Head::parse(&self.head[..end]).map_err(Fault::Head)?;
        self.left = declared(&head);
        self.silent |= is_bodiless(head.status);
        let rest = Bytes::copy_from_slice(&self.head[end..]);
        self.head = Vec::new();
        if let Some(tell) = self.tell.take() {
            tell.tell(Ok(head));
        }
        self.give(rest).await
    }

    async fn give(&mut self, data: Bytes) -> Result<(), Fault> {
        let len = data.len() as u64;
        if len == 0 {
            return Ok(());
        }
        if self.silent || self.left == Some(0) || !self.feeder.wanted().await {
            let settled = self.silent || self.left == Some(0);
            self.discarded += len;
            let may = settled && self.discarded <= DISCARDED_BYTES_MAX;
            return if may { Ok(()) } else { Err(Fault::Abandoned) };
        }
        self.left = self.left.map(|left| left.saturating_sub(len));
        self.feeder.put(Frame::data(data), false);
        Ok(())
    }

    /// The answer has come, or will not.
    async fn close(&mut self, done: Result<(), Fault>) {
        match (done, self.tell.take()) {
            (Ok(()), Some(tell)) => tell.tell(Err(Fault::Head(cgi::Flaw::Endless))),
            (Err(fault), Some(tell)) => tell.tell(Err(fault)),
            (done, None) => {
                // The last piece is read first.
                self.feeder.wanted().await;
                match done {
                    Ok(()) => self.feeder.end(),
                    Err(fault) => self.feeder.fail(fault.to_string().into()),
                }
            }
        }
    }
}

/// How long an application may still take, told by both directions of one exchange.
pub(super) struct Watch<'a> {
    patience: &'a Patience,
    /// When the request's last byte was taken.
    sent_ms: Cell<Option<u64>>,
    sent: Bell,
}

impl Watch<'_> {
    pub(super) fn new(patience: &Patience) -> Watch<'_> {
        Watch { patience, sent_ms: Cell::new(None), sent: Bell::default() }
    }

    /// The application has all it will get of the request.
    pub(super) fn all_sent(&self) {
        self.sent_ms.set(Some(clock::now_ms()));
        self.sent.ring();
    }

    pub(super) fn is_all_sent(&self) -> bool {
        self.sent_ms.get().is_some()
    }

    /// Reads once; a read that is given up must lose nothing.
    pub(super) async fn read<T>(
        &self,
        has_head: bool,
        mut read: impl AsyncFnMut() -> T,
    ) -> Result<T, Fault> {
        loop {
            let (within, what) = match (has_head, self.sent_ms.get()) {
                (true, _) => (self.patience.read, "go on with its answer"),
                (false, Some(since_ms)) => {
                    let taken = clock::now_ms().saturating_sub(since_ms);
                    let first_byte = self.patience.first_byte;
                    (first_byte.saturating_sub(Duration::from_millis(taken)), "answer")
                }
                // As long as its client sends, an application may wait for more.
                (false, None) => match rt::race(read(), self.sent.wait(None)).await {
                    First::A(read) => return Ok(read),
                    First::B(()) => continue,
                },
            };
            return rt::timeout(within, read()).await.ok_or(Fault::Slow(what));
        }
    }

    /// Writes; it must not take longer than bytes may wait to be taken.
    pub(super) async fn write<T>(&self, write: impl Future<Output = T>) -> Result<T, Fault> {
        let written = rt::timeout(self.patience.send, write).await;
        written.ok_or(Fault::Slow("take the request"))
    }
}
