//! Outbound requests: only to granted origins, with limits on their number and time.

use std::error::Error as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use crate::settings::{Origin, Settings};

/// Outbound requests of one request at once, until their responses' bodies end.
const REQUESTS_MAX: usize = 16;

/// Time limit from a request to its response's head; a component may set a lower one.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(60);

/// Time limit of connecting, with the TLS handshake; a component may set a lower one.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Idle connections that are kept for each origin.
const IDLE_MAX: usize = 16;

/// The client of an application, shared by its requests.
#[derive(Debug)]
pub(crate) struct Outbound {
    origins: Vec<Origin>,
    client: Client<HttpsConnector<HttpConnector>, WasiBody>,
}

/// A response, and the work that its connection needs: none here, the client does it.
pub(crate) type Reply = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl Outbound {
    /// # Errors
    /// The TLS settings are unusable.
    pub(crate) fn new(settings: &Settings) -> Result<Outbound, String> {
        let tls = match &settings.outbound_tls {
            Some(tls) => tls.clone(),
            None => trusting_nobody()?,
        };
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_MAX));
        // Otherwise it would refuse `https`.
        connector.enforce_http(false);
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let connector = builder.enable_http1().wrap_connector(connector);
        let mut client = Client::builder(TokioExecutor::new());
        let client = client.pool_max_idle_per_host(IDLE_MAX).build(connector);
        Ok(Outbound { origins: settings.outbound.clone(), client })
    }

    /// Returns the head of the response to a request. Of the time limits of the component and of
    /// this module, the lower ones hold.
    async fn ask(
        &self,
        mut request: Request<WasiBody>,
        own: &RequestOptions,
    ) -> Result<Response<Incoming>, Error> {
        let first_byte = own.first_byte_timeout.unwrap_or(FIRST_BYTE_MAX).min(FIRST_BYTE_MAX);
        let connect = own.connect_timeout.unwrap_or(CONNECT_MAX).min(CONNECT_MAX);
        let mut captured = capture_connection(&mut request);
        let mut responding = pin!(timeout(first_byte, self.client.request(request)));
        let connecting = async { drop(captured.wait_for_connection_metadata().await) };
        let early = tokio::select! {
            biased;
            response = &mut responding => Some(response),
            connected = timeout(connect, connecting) => {
                connected.map_err(|_| Error::ConnectionTimeout)?;
                None
            }
        };
        let response = match early {
            Some(response) => response,
            None => responding.await,
        };
        response.map_err(|_| Error::ConnectionReadTimeout)?.map_err(|e| failure(&e))
    }

    fn permits(&self, request: &Request<WasiBody>) -> bool {
        Origin::of(request.uri()).is_some_and(|origin| self.origins.contains(&origin))
    }
}

/// The outbound requests of one request.
#[derive(Debug)]
pub(crate) struct Requests {
    outbound: Arc<Outbound>,
    slots: Arc<Semaphore>,
}

impl Requests {
    pub(crate) fn new(outbound: &Arc<Outbound>) -> Requests {
        let slots = Arc::new(Semaphore::new(REQUESTS_MAX));
        Requests { outbound: Arc::clone(outbound), slots }
    }

    pub(crate) fn send(
        &self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> impl Future<Output = Result<Reply, Error>> + Send + use<> {
        let (outbound, slots) = (Arc::clone(&self.outbound), Arc::clone(&self.slots));
        async move {
            if !outbound.permits(&request) {
                return Err(Error::HttpRequestDenied);
            }
            let slot = slots.try_acquire_owned().map_err(|_| Error::ConnectionLimitReached)?;
            let own = options.unwrap_or_default();
            let response = outbound.ask(request, &own).await?;
            let between_bytes = own.between_bytes_timeout;
            let response = response.map(|body| {
                ReplyBody { body, between_bytes, pause: None, _slot: slot }.boxed_unsync()
            });
            let nothing: Box<dyn Future<Output = Result<(), Error>> + Send> =
                Box::new(std::future::ready(Ok(())));
            Ok((response, nothing))
        }
    }
}

/// The body of a response.
struct ReplyBody {
    body: Incoming,
    /// The component's own limit of a pause. `None`: the limits of its response end a long one.
    between_bytes: Option<Duration>,
    /// Runs out when the body pauses too long.
    pause: Option<Pin<Box<Sleep>>>,
    /// Free when the body is dropped.
    _slot: OwnedSemaphorePermit,
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(cx) {
            self.pause = None;
            return Poll::Ready(next.map(|frame| frame.map_err(Error::Hyper)));
        }
        let Some(limit) = self.between_bytes else { return Poll::Pending };
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(pause.as_mut().poll(cx));
        Poll::Ready(Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The error as a component sees it.
fn failure(error: &hyper_util::client::legacy::Error) -> Error {
    let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    match error.is_connect() {
        true => Error::InternalError(Some(format!("cannot connect: {reason}"))),
        false => Error::InternalError(Some(reason)),
    }
}

/// A configuration that accepts no certificate.
fn trusting_nobody() -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use http_body_util::Full;

    use super::*;

    /// Time limit of the test.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn get(target: &str) -> Request<WasiBody> {
        let body = Full::new(Bytes::new()).map_err(|e| match e {}).boxed_unsync();
        Request::get(target).body(body).expect("a valid target")
    }

    #[test]
    fn only_granted_origins_are_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let served = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("one connection");
            let mut head = [0; 1024];
            let len = peer.read(&mut head).expect("a request");
            peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").expect("a reader");
            String::from_utf8_lossy(&head[..len]).into_owned()
        });
        let granted = format!("http://{address}");
        let origins = vec![Origin::parse(&granted).expect("an origin")];
        let settings = Settings { outbound: origins, ..Settings::new("a") };
        let outbound = Arc::new(Outbound::new(&settings).expect("settings without TLS"));
        let requests = Requests::new(&outbound);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let refused = [
                format!("https://{address}/"),
                format!("http://localhost:{}/", address.port()),
                "http://127.0.0.1/".to_owned(),
                "/relative".to_owned(),
            ];
            for target in refused {
                let reply = requests.send(get(&target), None).await;
                assert!(matches!(reply, Err(Error::HttpRequestDenied)), "{target}");
            }
            let sent = requests.send(get(&format!("{granted}/x?y")), None);
            let (response, _) = timeout(PATIENCE, sent).await.expect("in time").expect("a reply");
            assert_eq!(requests.slots.available_permits(), REQUESTS_MAX - 1, "one has its slot");
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(&body[..], b"hi");
            assert_eq!(requests.slots.available_permits(), REQUESTS_MAX, "and gives it back");
        });
        assert!(served.join().expect("it has served").starts_with("GET /x?y HTTP/1.1\r\n"));
    }

    /// Regression: the limits of connecting and of pauses were ignored.
    #[test]
    fn a_component_sets_lower_time_limits() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        // The first connection gets a part of a body. The next one is never accepted. Both stay
        // open until the thread is joined.
        let served = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("one connection");
            let len = peer.read(&mut [0; 1024]).expect("a request");
            let part = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi";
            peer.write_all(part).expect("a reader");
            (listener, peer, len)
        });
        let granted = ["http", "https"].map(|scheme| format!("{scheme}://{address}"));
        let origins = granted.each_ref().map(|origin| Origin::parse(origin).expect("an origin"));
        let settings = Settings { outbound: origins.to_vec(), ..Settings::new("a") };
        let outbound = Arc::new(Outbound::new(&settings).expect("settings without TLS"));
        let requests = Requests::new(&outbound);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let brief = Some(Duration::from_millis(1));
            let own = RequestOptions { between_bytes_timeout: brief, ..RequestOptions::default() };
            let sent = requests.send(get(&granted[0]), Some(own));
            let (response, _) = timeout(PATIENCE, sent).await.expect("in time").expect("a reply");
            let body = timeout(PATIENCE, response.into_body().collect()).await.expect("in time");
            let cut = body.err();
            assert!(matches!(cut, Some(Error::ConnectionReadTimeout)), "{cut:?}");
            // The TLS handshake does not end.
            let own = RequestOptions { connect_timeout: brief, ..RequestOptions::default() };
            let sent = requests.send(get(&granted[1]), Some(own));
            let refused = timeout(PATIENCE, sent).await.expect("in time").err();
            assert!(matches!(refused, Some(Error::ConnectionTimeout)), "{refused:?}");
        });
        drop(served.join().expect("it has served"));
    }
}
