//! The server side of HTTP/3 (RFC 9114) with QPACK (RFC 9204), priorities (RFC 9218) and extended
//! CONNECT (RFC 9220), without sockets, clocks, tasks and QUIC. The input is the bytes of the
//! client's streams; the output is events, and bytes for the server's unidirectional streams. Times
//! are milliseconds of the caller's clock.
//!
//! ```
//! use bytes::Bytes;
//! use hurtle_http::h3::{self, Connection, Event, Limits, Outlet};
//!
//! let mut connection = Connection::new(&Limits::default(), 0);
//! // SETTINGS, for the first unidirectional stream of the server.
//! let settings = connection.take_output(Outlet::Control).unwrap();
//! assert_eq!(settings[..2], [0, 4]);
//!
//! // The client opens stream 0 and sends HEADERS that request `/` of `a`.
//! connection.open(0, 0);
//! let request = b"\x01\x08\0\0\xd1\xd7\xc1\x50\x01a";
//! connection.receive(0, Bytes::from_static(request), true, 0);
//! let Some(Event::Request { id, head, end_stream }) = connection.next_event() else { panic!() };
//! assert_eq!((id, head.method(), head.path(), end_stream), (0, &b"GET"[..], &b"/"[..], true));
//!
//! // The response: HEADERS, then DATA with a payload of any length.
//! let mut response = Vec::new();
//! h3::write_head(&mut response, 200, [(&b"Content-Length"[..], &b"5"[..])]);
//! h3::write_data_head(&mut response, 5);
//! response.extend_from_slice(b"hello");
//! assert!(!connection.close(id), "the request was complete");
//! ```
//!
//! A driver, which owns the QUIC connection, repeats these steps:
//! 1. Call [`Connection::open`] for each stream that the client opens, in the order of their
//!    numbers.
//! 2. Read from streams of which [`Connection::wants`] is true, and pass the bytes to
//!    [`Connection::receive`]. Bytes that are not wanted stay in the QUIC stream, whose flow
//!    control then slows the client down. Tell [`Connection::reset`] and [`Connection::stopped`]
//!    about RESET_STREAM and STOP_SENDING.
//! 3. Call [`Connection::next_event`] until there is none, and let the requests' handlers act. They
//!    read bodies by [`Connection::read`]. They write responses to the QUIC stream themselves, with
//!    the heads of [`write_head`], [`write_data_head`] and [`write_trailers`], and call
//!    [`Connection::close`] after the last byte.
//! 4. Write [`Connection::take_output`] to the server's unidirectional streams, which begin with
//!    their type. The driver opens each one when it gets the first bytes for it.
//! 5. Close the QUIC connection after [`Event::Closed`], or once [`Connection::is_finished`].

mod connection;
mod control;
mod error;
mod flood;
mod frame;
pub mod qpack;
mod request;
mod response;
mod streams;
mod unidirectional;
pub mod varint;

pub use connection::{Connection, Event, Limits, Outlet};
pub use error::{Code, Error, Scope};
pub use response::{DATA_HEAD_BYTES_MAX, send_rank, write_data_head, write_head, write_trailers};
pub use unidirectional::UNIDIRECTIONAL_STREAMS_MAX;

pub use crate::stream::{Body, FieldSection, Fields, StreamClosed};
