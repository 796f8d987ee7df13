//! Hurtle: a web server for a machine's own files and applications.
//!
//! The modules, bottom-up; a file uses only what stands above it here (checked by `tests/tidy.rs`).
//! Those hidden from the documentation are public for the command, fuzzing and benchmarks only.

//!
//! An application mounts where files do, and both share one server:
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use hurtle::{Config, RequestBody, Server};
//! use http::{Request, Response};
//!
//! let hello = tower::service_fn(|_: Request<RequestBody>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new("hello\n".to_owned()))
//! });
//! let config = Config::for_directory("public".into());
//! Server::bind(config)?.mount("*", "/hello", hello)?.start()?.join()
//! # }
//! ```

pub use body::{BoxError, EarlyHints, FileBody, RequestBody};
pub use files::Arrival;
pub use files::response::file;
#[doc(hidden)]
pub use hurtle_config as config;
#[doc(inline)]
pub use hurtle_config::Config;
#[doc(hidden)]
pub use hurtle_import as import;
pub use server::{Running, Server, Stop};
pub use tls::ClientCertificate;

#[doc(hidden)]
pub mod sys;

mod rt;

mod clock;

#[doc(hidden)]
pub mod metrics;

mod users;

mod sockets;

#[doc(hidden)]
pub mod tls;

mod acme;

mod disk;

mod body;

mod answer;

mod edits;

mod compress;

mod transport;

mod files;

#[doc(hidden)]
pub mod observe;

mod cache;

mod limits;

mod auth;

mod uploads;

mod wasm;

mod shared_store;

mod handler;

mod site;

mod deadline;

mod protocol;

mod pipeline;

mod serve;

#[doc(hidden)]
pub mod apps;

mod services;

mod monitoring;

#[doc(hidden)]
pub mod server;

#[doc(hidden)]
pub mod lifecycle;

#[doc(hidden)]
pub mod explain;

#[doc(hidden)]
pub mod cli;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
