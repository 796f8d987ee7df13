//! Runs WebAssembly components of the world `wasi:http/proxy` (WASI 0.2) as `tower` services.
//!
//! An [`Application`] is a component that is compiled once and instantiated for each request. Each
//! instance has limits on memory, processor time, output and outbound requests, and no access to
//! files, networks and environment variables but what [`Settings`] grant.
//!
//! The service runs the component where it is polled, in turns of at most [`TICK`]: use a runtime
//! with threads of its own, not an event loop that serves other connections.

mod application;
mod body;
mod call;
mod clock;
mod engine;
mod files;
mod guest;
mod host;
mod log;
mod outbound;
mod progress;
mod settings;

pub use application::Application;
pub use body::ResponseBody;
pub use call::Failed;
pub use clock::TICK;
pub use settings::{Origin, Settings};

/// An error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
