//! An application: a compiled component, its settings, and the slots of its instances.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tower_service::Service;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi_http::p2::bindings::ProxyPre;

use crate::body::ResponseBody;
use crate::call::Failed;
use crate::clock::Clock;
use crate::host::Host;
use crate::outbound::Outbound;
use crate::progress::Progress;
use crate::settings::Settings;
use crate::{BoxError, call, engine};

/// Requests that may wait for an instance; more get 503.
const WAITING_MAX: usize = 1_000;

/// Interval at which the end of all work is looked for.
const IDLE_CHECK: Duration = Duration::from_millis(50);

/// Longest wait for an instance (503).
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The first bytes of a binary, and the version that follows for a component and for a core module.
const MAGIC: &[u8] = b"\0asm";
const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];
const CORE_MODULE: &[u8] = &[1, 0, 0, 0];

/// A component that answers requests. Clones share it.
///
/// Its requests have absolute URIs, which give the component the scheme and the authority. Without
/// one the scheme is `http` and the authority that of Host.
#[derive(Clone)]
pub struct Application(Arc<Compiled>);

/// A compiled component with its settings.
pub(crate) struct Compiled {
    pub(crate) name: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) pre: ProxyPre<Host>,
    pub(crate) clock: Clock,
    pub(crate) slots: Slots,
    outbound: Arc<Outbound>,
}

impl Application {
    /// Compiles a component in the binary format. It takes seconds for a component of megabytes.
    ///
    /// # Errors
    /// The reason why these bytes cannot answer requests, or why the system cannot run them.
    pub fn compile(component: &[u8], settings: Settings) -> Result<Application, String> {
        check_kind(component)?;
        let reason = |what: &str, e: &wasmtime::Error| format!("{what}: {e:#}").replace('\n', "; ");
        let engine = engine::engine(&settings)
            .map_err(|e| reason("the system refuses the memory of its instances", &e))?;
        let component = Component::from_binary(&engine, component)
            .map_err(|e| reason("it cannot be compiled", &e))?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)
            .and_then(|()| wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker))
            .map_err(|e| reason("it cannot be linked", &e))?;
        let pre = linker
            .instantiate_pre(&component)
            .map_err(|e| reason("it needs more than WASI 0.2 and wasi:http offer", &e))?;
        let pre = ProxyPre::new(pre)
            .map_err(|e| reason("it is no component of the world wasi:http/proxy", &e))?;
        let outbound = Arc::new(Outbound::new(&settings)?);
        let clock = Clock::start(&engine).map_err(|e| e.to_string())?;
        let slots = Slots::new(settings.instances);
        let name = Arc::from(settings.name.as_str());
        Ok(Application(Arc::new(Compiled { name, settings, pre, clock, slots, outbound })))
    }
}

impl Application {
    /// Waits until none of its instances is at work, also behind a response. It takes none from a
    /// request that comes meanwhile.
    pub async fn idle(&self) {
        let Compiled { slots, settings, .. } = &*self.0;
        while slots.free.available_permits() < settings.instances as usize {
            sleep(IDLE_CHECK).await;
        }
    }
}

fn check_kind(component: &[u8]) -> Result<(), String> {
    let version = component.strip_prefix(MAGIC);
    match version {
        Some(rest) if rest.starts_with(COMPONENT) => Ok(()),
        Some(rest) if rest.starts_with(CORE_MODULE) => {
            Err("it is a core module, not a component: build it for the world wasi:http/proxy"
                .to_owned())
        }
        _ => Err("it is not WebAssembly in the binary format".to_owned()),
    }
}

impl Compiled {
    /// The host's side of an instance.
    ///
    /// # Errors
    /// A granted directory cannot be opened.
    pub(crate) fn host(&self, progress: &Arc<Progress>) -> io::Result<Host> {
        Host::new(&self.settings, &self.name, &self.outbound, progress)
    }
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Application").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for Application
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Failed>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let compiled = Arc::clone(&self.0);
        Box::pin(call::respond(compiled, request))
    }
}

/// The slots of instances, and the queue for them.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Slots {
    fn new(count: u32) -> Slots {
        Slots { free: Arc::new(Semaphore::new(count as usize)), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a slot; `None`: there are too many requests.
    pub(crate) async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(slot);
        }
        let _place = Place::take(&self.waiting)?;
        timeout(WAIT_MAX, Arc::clone(&self.free).acquire_owned()).await.ok()?.ok()
    }
}

/// A place in the queue for instances.
struct Place<'a>(&'a AtomicUsize);

impl Place<'_> {
    fn take(waiting: &AtomicUsize) -> Option<Place<'_>> {
        let place = Place(waiting);
        (waiting.fetch_add(1, Relaxed) < WAITING_MAX).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
