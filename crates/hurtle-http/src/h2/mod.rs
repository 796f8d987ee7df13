//! HTTP/2 (RFC 9113) with HPACK (RFC 7541) and priorities (RFC 9218) for servers, and for clients
//! as proxies need them, without sockets, clocks and tasks. The input is received bytes; the output
//! is events and bytes to write. Times are milliseconds of the caller's clock.
//!
//! ```
//! use bytes::Bytes;
//! use hurtle_http::h2::{Connection, Event, Limits};
//!
//! let mut connection = Connection::new(&Limits::default(), 0);
//! // The client sends the preface, SETTINGS, and HEADERS that request `/`.
//! connection.receive(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0);
//! connection.receive(b"\0\0\0\x04\0\0\0\0\0", 0);
//! connection.receive(b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a", 0);
//! let Some(Event::Request { id, head, .. }) = connection.next_event() else { panic!() };
//! assert_eq!((head.method(), head.path()), (&b"GET"[..], &b"/"[..]));
//! let fields = [(&b"Content-Length"[..], &b"5"[..])];
//! connection.send_head(id, 200, fields, false).unwrap();
//! assert_eq!(connection.capacity(id, 5), Ok(5));
//! connection.send_data(id, Bytes::from("hello"), true).unwrap();
//! let written: usize = connection.output().map(<[u8]>::len).sum();
//! connection.consume(written);
//! assert_eq!(connection.open_streams(), 0);
//! ```
//!
//! A driver repeats these steps:
//! 1. Read from the socket and call [`Connection::receive`].
//! 2. Call [`Connection::next_event`] until there is none, and let the requests' handlers act:
//!    [`Connection::send_head`], [`Connection::capacity`], [`Connection::send_data`],
//!    [`Connection::read`], [`Connection::release`].
//! 3. Write [`Connection::output`] and pass the number of written bytes to [`Connection::consume`].
//! 4. Close the socket once [`Connection::is_finished`] and [`Connection::queued`] is 0.
//!
//! A client ([`Connection::client`]) opens streams with [`Connection::open`], reads heads with
//! [`Connection::read_head`], and closes each stream with [`Connection::finish`].
//!
//! A stream requests capacity only when it has data, so a stream that waits for a disk or an
//! upstream does not delay others. A stream is closed when both sides have ended it, or one has
//! reset it. Calls for it then return [`StreamClosed`].

mod client;
mod connection;
mod dispatch;
mod flood;
mod flow;
mod frame;
pub mod hpack;
mod output;
mod receive;
mod requests;
mod schedule;
mod send;
mod stream;

pub use client::RequestLine;
pub use connection::{Connection, Event, Limits};
pub use frame::Reason;

pub use crate::stream::{Body, FieldSection, Fields, StreamClosed};
