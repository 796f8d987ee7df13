//! The use of connections by a load, and their version of HTTP.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Special use of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionUse {
    /// A new connection for each request.
    Anew {
        /// `true` if its handshake resumes an earlier session; otherwise it is a full one.
        resumed: bool,
    },
    /// HTTP/2, with so many requests at once on each connection.
    Streams(u32),
    /// HTTP/3, with so many requests at once on each connection.
    Http3(u32),
    /// HTTP/2 with requests of gRPC, likewise.
    Grpc(u32),
    /// WebSockets (RFC 6455), with one message at a time on each connection.
    WebSocket,
    /// HTTP/3, with a new connection and a full handshake for each request.
    Http3Anew,
    /// A new connection and a full handshake for each page. A page is one request of the figures:
    /// it begins with the connection and ends with the last byte of its last file.
    Page {
        /// The version of HTTP. HTTP/2 and HTTP/3 request all files at once, HTTP/1.1 one after the
        /// other.
        version: Version,
        /// Files of a page.
        files: u32,
    },
    /// Visitors that take steps: each has connections of its own.
    Visits {
        /// The version of HTTP.
        version: Version,
        /// Connections of each visitor, at most.
        connections: u32,
    },
    /// All connections request the same object at once; once all have it, another one.
    Herd,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// HTTP/1.1.
    Http1,
    Http2,
    Http3,
}

/// As in `HTTP/1.1`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::Http1 => "HTTP/1.1",
            Version::Http2 => "HTTP/2",
            Version::Http3 => "HTTP/3",
        })
    }
}

impl ConnectionUse {
    /// `true` if connections are encrypted.
    pub fn is_secure(self) -> bool {
        self != ConnectionUse::Herd
    }

    /// The version of HTTP.
    pub fn version(self) -> Version {
        match self {
            ConnectionUse::Anew { .. } | ConnectionUse::Herd | ConnectionUse::WebSocket => {
                Version::Http1
            }
            ConnectionUse::Streams(_) | ConnectionUse::Grpc(_) => Version::Http2,
            ConnectionUse::Http3(_) | ConnectionUse::Http3Anew => Version::Http3,
            ConnectionUse::Page { version, .. } | ConnectionUse::Visits { version, .. } => version,
        }
    }
}

/// As in `a full handshake each`.
impl fmt::Display for ConnectionUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionUse::Anew { resumed: false } => write!(f, "a full handshake each"),
            ConnectionUse::Anew { resumed: true } => write!(f, "a resumed handshake each"),
            ConnectionUse::Streams(1) => write!(f, "1 stream a connection"),
            ConnectionUse::Streams(streams) => write!(f, "{streams} streams a connection"),
            ConnectionUse::Http3(1) => write!(f, "HTTP/3, 1 stream a connection"),
            ConnectionUse::Http3(streams) => write!(f, "HTTP/3, {streams} streams a connection"),
            ConnectionUse::Grpc(streams) => write!(f, "gRPC, {streams} streams a connection"),
            ConnectionUse::WebSocket => write!(f, "WebSockets"),
            ConnectionUse::Http3Anew => write!(f, "HTTP/3, a full handshake each"),
            ConnectionUse::Page { version, files } => {
                write!(f, "a page of {files} files over {version}")
            }
            ConnectionUse::Visits { version, .. } => write!(f, "visits over {version}"),
            ConnectionUse::Herd => write!(f, "the same new object at once"),
        }
    }
}
