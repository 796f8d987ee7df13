//! HTTP as pure functions from bytes to values: no socket, no clock, no file, no async.
//!
//! A server reads bytes from a connection, calls these parsers, and writes what the encoders append
//! to a buffer. All limits are named constants or arguments. Parsers are strict: they refuse what
//! two implementations could read differently, and repair nothing.
//!
//! | module | content |
//! |---|---|
//! | [`semantics`] | RFC 9110, 9111: targets, hosts, ranges, preconditions, caching |
//! | [`request`] | a request head of any version: its fields and framing (RFC 9112 6.3) |
//! | [`message`] | field lines of responses and forwarded requests, and a proxy's edits of them |
//! | [`h1`] | RFC 9112: request and response heads, the chunked coding |
//! | [`h2`] | RFC 9113, RFC 7541 and RFC 9218: the connection of a server as a state machine |
//! | [`h3`] | RFC 9114, RFC 9204, RFC 9218 and RFC 9220: the same for HTTP/3, without QUIC |
//! | [`stream`], [`compression`] | the parts that [`h2`] and [`h3`] share |
//! | [`cgi`] | RFC 3875: the variables of a request, the head of a response |
//! | [`fcgi`] | FastCGI 1.0: records |
//! | [`uwsgi`] | the uwsgi protocol: a request's packet, the begin of a response |
//! | [`proxy_protocol`] | the header that a load balancer sends before a connection's first byte |
//! | [`resp`] | RESP2: commands for Redis and Valkey, and their replies |
//!
//! The server `hurtle` is built on this crate.
//!
//! # Example
//!
//! Parse a request head and encode a response head:
//!
//! ```
//! use http::{HeaderMap, HeaderValue, StatusCode, header};
//! use hurtle_http::h1::head::{Progress, Scan};
//! use hurtle_http::h1::request;
//! use hurtle_http::h1::response::encode;
//! use hurtle_http::message::response::{Delimiter, Fields, Persistence};
//! use hurtle_http::request::{HeadLimits, Joined, Method};
//! use hurtle_http::semantics::date;
//! use hurtle_http::semantics::target::Target;
//!
//! let limits = HeadLimits { head_bytes: 32 << 10, target_bytes: 8 << 10, fields: 100 };
//! let input = b"GET /hello?a=1 HTTP/1.1\r\nHost: example.org\r\n\r\n";
//!
//! // `Progress::Partial` asks for more bytes; an error names its status: `error.status()`.
//! let Progress::Complete(end) = Scan::default().advance(input, &limits)? else { panic!() };
//! let joined = Joined::default();
//! let request = request::parse(&input[..end], &joined, &limits)?;
//! assert_eq!(request.method, Method::Get);
//! assert_eq!(request.target, Target::Origin { path: b"/hello", query: Some(b"a=1") });
//!
//! let mut fields = HeaderMap::new();
//! fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
//! let persistence =
//!     if request.keep_alive { Persistence::Implied } else { Persistence::Close };
//! let mut out = Vec::new();
//! encode(
//!     &mut out,
//!     StatusCode::OK,
//!     &date::format(784_111_777),
//!     &Fields::Map(fields),
//!     Delimiter::Length(6),
//!     persistence,
//! );
//! out.extend_from_slice(b"hello\n");
//! assert_eq!(
//!     String::from_utf8_lossy(&out),
//!     "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/plain\r\n\
//!      Server: hurtle\r\nContent-Length: 6\r\n\r\nhello\n"
//! );
//! # Ok::<(), hurtle_http::request::ParseError>(())
//! ```

pub mod semantics;

pub mod recent;

mod allowance;

pub mod compression;

pub mod stream;

pub mod h2;

pub mod h3;

pub mod request;

pub mod message;

pub mod h1;

pub mod proxy_protocol;

pub mod resp;

pub mod fcgi;

pub mod uwsgi;

pub mod cgi;
