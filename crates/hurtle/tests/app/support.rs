//! A server with one application, and bodies whose frames a test sends one by one.

use std::convert::Infallible;
use std::env;
use std::fs::{self, File};
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hurtle::config::Listen;
use hurtle::{BoxError, Config, RequestBody, Running, Server};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::client::{Client, PATIENCE};

/// A running server, stopped when dropped.
pub(crate) struct App {
    running: Option<Running>,
    address: SocketAddr,
}

impl App {
    /// Serves `/` with this function.
    pub(crate) fn of<F, Fut, B>(answer: F) -> App
    where
        F: Fn(Request<RequestBody>) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Response<B>> + 'static,
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        App::with(|_| (), answer)
    }

    /// Like `of`, with a changed configuration.
    pub(crate) fn with<F, Fut, B>(change: impl FnOnce(&mut Config), answer: F) -> App
    where
        F: Fn(Request<RequestBody>) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Response<B>> + 'static,
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = tower::service_fn(move |request| {
            let answering = answer(request);
            async { Ok::<_, Infallible>(answering.await) }
        });
        App::mounted(change, |server| server.mount("*", "/", service).unwrap())
    }

    /// Starts a graceful stop.
    pub(crate) fn drain(&self) {
        self.running.as_ref().unwrap().stop().drain();
    }

    /// Serves the applications that `mount` adds, on one worker.
    pub(crate) fn mounted(
        change: impl FnOnce(&mut Config),
        mount: impl FnOnce(Server) -> Server,
    ) -> App {
        let mut config = Config::new(vec![]);
        config.listen = vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))];
        config.workers = NonZeroUsize::MIN;
        change(&mut config);
        let server = mount(Server::bind(config).unwrap());
        let Listen::Tcp(address) = server.addresses()[0] else { panic!("not a TCP address") };
        App { running: Some(server.start().unwrap()), address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends a request on a new connection and reads the response.
    #[track_caller]
    pub(crate) fn ask(&self, request: &str) -> (String, String) {
        let mut client = self.connect();
        client.send(request);
        client.answer()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop().end();
        let ended = running.join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// A GET with the required fields only.
pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A body of the frames that a channel delivers. It ends with the channel.
pub(crate) struct Frames {
    frames: UnboundedReceiver<Result<Frame<Bytes>, BoxError>>,
    exact: Option<u64>,
}

/// Sends the frames of a `Frames`.
pub(crate) struct FrameSender(UnboundedSender<Result<Frame<Bytes>, BoxError>>);

impl FrameSender {
    pub(crate) fn data(&self, data: impl Into<Bytes>) {
        // An error means that the body was dropped, which the client notices.
        let _ = self.0.send(Ok(Frame::data(data.into())));
    }

    pub(crate) fn trailers(&self, fields: &[(&'static str, &'static str)]) {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())
        };
        let _ = self.0.send(Ok(Frame::trailers(fields.iter().map(pair).collect())));
    }

    /// Waits until the body is dropped.
    pub(crate) fn wait_for_drop(&self) {
        let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let dropped = async { tokio::time::timeout(PATIENCE, self.0.closed()).await };
        waiting.block_on(dropped).expect("the body is still there");
    }

    pub(crate) fn fail(&self) {
        let _ = self.0.send(Err("the test says so".into()));
    }
}

/// A body and the sender of its frames.
pub(crate) fn frames() -> (FrameSender, Frames) {
    let (sender, frames) = unbounded_channel();
    (FrameSender(sender), Frames { frames, exact: None })
}

impl Frames {
    /// Sets the length in its size hint.
    pub(crate) fn claiming(self, exact: u64) -> Frames {
        Frames { exact: Some(exact), ..self }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.frames.poll_recv(cx)
    }

    fn size_hint(&self) -> SizeHint {
        self.exact.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Sends a message when it is dropped.
pub(crate) struct Guard(pub(crate) mpsc::Sender<&'static str>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// A directory in a new temporary one, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let path = env::temp_dir().join(format!("hurtle-app-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("in")).unwrap();
        Folder(path)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("in")
    }

    /// Writes a file whose modification time is old enough for a strong entity-tag.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let mut file = File::create(self.root().join(name)).unwrap();
        file.write_all(bytes).unwrap();
        // The copied time of an edit: a constant would have no fraction.
        let time = Duration::from_millis(1_000_000_000_250);
        file.set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
