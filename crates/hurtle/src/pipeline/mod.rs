//! Exchanges (request and response), independent of the protocol. `run_exchange` runs the steps of
//! one, each in a file of its own, over the [`Connection`] and the exchange. An HTTP/1.1 connection
//! has many exchanges in sequence; an HTTP/2 stream has one.

mod arriving;
mod beside;
mod body;
mod body_writer;
mod client;
mod connection;
mod context;
mod duplex;
mod errors;
mod exchange;
pub(crate) mod finish;
mod gates;
mod handle;
mod identify;
mod known;
pub(crate) mod limit_log;
mod limits;
pub(crate) mod log_filter;
mod observe;
mod pace;
mod refuse;
mod relay;
mod resolve;
mod respond;
mod run;
mod send;
mod stream;
mod tunnel;
mod write;

pub(crate) mod balancers;
pub(crate) mod worker;

pub(crate) use self::connection::Connection;
pub(crate) use self::connection::{Ended, Next};
pub(crate) use self::refuse::refuse;
pub(crate) use self::run::run_exchange;
