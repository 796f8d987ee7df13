//! A component that handles one request: a future that runs in turns and counts its time.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::yield_now;
use wasmtime::{Result, Store, UpdateDeadline};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};

use crate::BoxError;
use crate::application::Compiled;
use crate::clock::Running;
use crate::host::Host;
use crate::progress::{Progress, RequestBody};

/// Bytes that one call of the host copies from the component.
const HOSTCALL_BYTES_MAX: usize = 4 << 20;

/// A component's response, or the error that it gives in place of one.
pub(crate) type Given =
    Result<http::Response<UnsyncBoxBody<Bytes, wasmtime_wasi_http::Error>>, ErrorCode>;

/// A component at work. Dropping it ends the component at its next turn, and frees its memory.
pub(crate) struct Guest {
    work: Pin<Box<dyn Future<Output = Result<()>> + Send>>,
    progress: Arc<Progress>,
    _running: Running,
    _slot: OwnedSemaphorePermit,
}

impl Guest {
    /// Prepares an instance for a request. It runs when it is polled. The receiver gets its
    /// response.
    ///
    /// # Errors
    /// A granted directory cannot be opened, or the request has no authority.
    pub(crate) fn new<B>(
        compiled: &Compiled,
        slot: OwnedSemaphorePermit,
        request: Request<B>,
    ) -> io::Result<(Guest, oneshot::Receiver<Given>)>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let progress = Arc::new(Progress::new(!request.body().is_end_stream()));
        let host = compiled.host(&progress)?;
        let mut store = Store::new(compiled.pre.engine(), host);
        store.limiter(|host| &mut host.memory);
        store.set_hostcall_fuel(HOSTCALL_BYTES_MAX);
        store.set_epoch_deadline(1);
        let cpu_time = compiled.settings.cpu_time;
        store.epoch_deadline_callback(move |store| {
            if store.data().progress.exceeds(cpu_time) {
                return Ok(UpdateDeadline::Interrupt);
            }
            // The runtime's own yield: it looks for events before it polls this task again.
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(yield_now())))
        });
        let scheme = match request.uri().scheme_str() {
            Some("https") => Scheme::Https,
            _ => Scheme::Http,
        };
        let request = request.map(|body| RequestBody::new(body, &progress));
        let (sender, receiver) = oneshot::channel();
        let (incoming, outgoing) = resources(&mut store, scheme, request, sender)
            .map_err(|e| io::Error::other(format!("{e:#}")))?;
        let pre = compiled.pre.clone();
        let work = Box::pin(async move {
            let instance = pre.instantiate_async(&mut store).await?;
            let handler = instance.wasi_http_incoming_handler();
            handler.call_handle(&mut store, incoming, outgoing).await
        });
        let running = compiled.clock.run();
        Ok((Guest { work, progress, _running: running, _slot: slot }, receiver))
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

type Incoming = wasmtime::component::Resource<wasmtime_wasi_http::p2::types::HostIncomingRequest>;
type Outgoing = wasmtime::component::Resource<wasmtime_wasi_http::p2::types::HostResponseOutparam>;

fn resources<B>(
    store: &mut Store<Host>,
    scheme: Scheme,
    request: Request<RequestBody<B>>,
    sender: oneshot::Sender<Given>,
) -> Result<(Incoming, Outgoing)>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut http = store.data_mut().http();
    let incoming = http.new_incoming_request(scheme, request)?;
    Ok((incoming, http.new_response_outparam(sender)?))
}

impl Future for Guest {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.progress.begin_turn();
        let polled = self.work.as_mut().poll(cx);
        self.progress.end_turn();
        polled
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").field("progress", &self.progress).finish_non_exhaustive()
    }
}
