//! A finished request with its response. It borrows all values; formatting is the first copy.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use http::Version;

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It was sent whole.
    Complete,
    /// The client has closed or reset the connection, or its request body was malformed.
    ClientGone,
    /// The upstream, the application or the file ended early.
    SourceFailed,
    /// The client did not read, or the upstream did not send, for too long.
    TimedOut,
}

impl Completion {
    /// Returns the name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Completion::Complete => "complete",
            Completion::ClientGone => "client_gone",
            Completion::SourceFailed => "source_failed",
            Completion::TimedOut => "timed_out",
        }
    }
}

/// A finished request for the access log. Bytes are as sent by the client: unescaped, possibly not
/// UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// The client's address; `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// The method; empty if no request line was parsed.
    pub method: &'a [u8],
    /// The request target; empty if no request line was parsed.
    pub target: &'a [u8],
    /// The protocol version of the request.
    pub version: Version,
    /// The status of the response.
    pub status: u16,
    /// Bytes of the response body that were sent.
    pub body_bytes: u64,
    /// Time from the first byte of the request to the last byte of the response, in microseconds.
    pub duration_us: u64,
    /// The requested host; empty if there was none.
    pub host: &'a [u8],
    /// The Referer field, as sent.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent field, as sent.
    pub user_agent: Option<&'a [u8]>,
    /// The name in the credentials of the scheme Basic, which are not right if the status is 401.
    pub user: Option<&'a [u8]>,
    /// Result of the response cache (such as `hit`); `None` if the request used no cache.
    pub cache: Option<&'static str>,
    /// The end of the response.
    pub completion: Completion,
    /// Wall-clock time of the request, in seconds since 1970-01-01 UTC.
    pub unix_secs: u64,
    /// Details that are set only if the log has one of them.
    pub details: Details<'a>,
}

/// Details of a request for a log that names them. Absent ones are `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details<'a> {
    /// ID of the request, from a trusted proxy or made by this server.
    pub request_id: Option<&'a [u8]>,
    /// The ID of the trace.
    pub trace_id: Option<&'a [u8]>,
    /// Name of the site, as in metrics.
    pub site: Option<&'a str>,
    /// Name of the mount, as in metrics.
    pub mount: Option<&'a str>,
    /// Bytes of the response's head.
    pub head_bytes: u64,
    /// Bytes of the request's body that were received; of a tunnel, those from the client.
    pub request_bytes: u64,
    /// The version of TLS and the cipher suite.
    pub tls: Option<(&'static str, &'static str)>,
    /// Bytes of the request's and of the response's body that were kept in a file.
    pub buffered: (u64, u64),
    /// The server name that the client requested in the TLS handshake.
    pub server_name: Option<&'a str>,
    /// The upstream that sent the response.
    pub upstream: Option<UpstreamTimes<'a>>,
}

/// An upstream and its times, in microseconds since it was chosen.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamTimes<'a> {
    /// The upstream as configured.
    pub name: &'a str,
    /// Up to the connection; `None`: an idle connection was used.
    pub connect_us: Option<u64>,
    /// Up to the head of the response.
    pub head_us: u64,
    /// Up to the end of the response.
    pub whole_us: u64,
}

impl Details<'_> {
    /// Details that are all absent.
    pub const NONE: Details<'static> = Details {
        request_id: None,
        trace_id: None,
        site: None,
        mount: None,
        head_bytes: 0,
        request_bytes: 0,
        buffered: (0, 0),
        tls: None,
        server_name: None,
        upstream: None,
    };
}

/// Bytes of one request's bodies that were kept in files, because its client is slow.
#[derive(Debug, Default)]
pub struct BufferedBytes {
    /// Those of the request.
    pub request: AtomicU64,
    /// Those of the response.
    pub response: AtomicU64,
}

/// An upstream that has sent a response, with its times, for the log.
#[derive(Clone, Debug)]
pub struct UpstreamLog {
    /// The upstream as configured.
    pub name: String,
    /// Time at which it was chosen.
    pub chosen: Option<Instant>,
    /// Time since then up to the connection; `None`: an idle one was used.
    pub connected: Option<Duration>,
    /// Time since then up to the head of the response.
    pub answered: Duration,
}
