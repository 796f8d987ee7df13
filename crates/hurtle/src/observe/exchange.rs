//! What is known of one finished request. Taken from the request and the answer where they lie:
//! nothing is copied before it is formatted.

use std::net::IpAddr;

use http::Version;

/// One finished request, as the access log sees it. Bytes are as the client sent them: unescaped,
/// perhaps not UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// Who asked; `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// The method; empty when no request line could be read.
    pub method: &'a [u8],
    /// The request target; empty when no request line could be read.
    pub target: &'a [u8],
    /// The protocol it was asked by.
    pub version: Version,
    /// The status answered.
    pub status: u16,
    /// Bytes of body sent.
    pub body_bytes: u64,
    /// From the request's first byte to the answer's last, in microseconds.
    pub duration_us: u64,
    /// The host asked for; empty when there was none.
    pub host: &'a [u8],
    /// The Referer field.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent field.
    pub user_agent: Option<&'a [u8]>,
    /// What a cache of upstreams' answers did; `None`: none was asked.
    pub cache: Option<&'static str>,
    /// Wall-clock time of the request, in seconds since 1970-01-01 UTC.
    pub unix_secs: u64,
}
