//! WebAssembly applications (the feature `wasm`): each mount's component is compiled when a
//! configuration is loaded, and runs on threads that no worker waits for.

#[cfg(not(feature = "wasm"))]
mod absent;
#[cfg(feature = "wasm")]
mod apps;
#[cfg(feature = "wasm")]
mod service;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use tower_service::Service;

use crate::body::RequestBody;

#[cfg(not(feature = "wasm"))]
pub(crate) use absent::WasmApps;
#[cfg(feature = "wasm")]
pub(crate) use apps::WasmApps;

/// The service of a mount whose application is not loaded, as in `hurtle explain`: 503.
#[derive(Clone, Debug)]
pub(crate) struct NotLoaded;

impl Service<Request<RequestBody>> for NotLoaded {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RequestBody>) -> Self::Future {
        let mut response = Response::new("the application is not loaded\n".to_owned());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        ready(Ok(response))
    }
}
