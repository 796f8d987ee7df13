//! One HTTP/1.1 request and its response on a connection for administration or monitoring, as of
//! `curl`. The connection is closed afterwards.

use std::io;
use std::time::Duration;

use http::StatusCode;
use hurtle_http::request::HeadLimits;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::rt;

/// Size and time limits of a request. The time is for the head, and again for the response.
pub(super) const LIMITS: HeadLimits =
    HeadLimits { head_bytes: 16 << 10, target_bytes: 8 << 10, fields: 50 };
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    /// The value of Allow; empty: the field is absent.
    allow: &'static str,
    text: Vec<u8>,
}

impl Reply {
    pub(super) fn new(status: StatusCode, text: impl Into<Vec<u8>>) -> Reply {
        Reply { status, content_type: "text/plain", allow: "", text: text.into() }
    }

    /// Sets the media type of the text.
    pub(super) fn typed(self, content_type: &'static str) -> Reply {
        Reply { content_type, ..self }
    }

    pub(super) fn ok(text: impl Into<Vec<u8>>) -> Reply {
        Reply::new(StatusCode::OK, text)
    }

    pub(super) fn not_found(text: &str) -> Reply {
        Reply::new(StatusCode::NOT_FOUND, text)
    }

    pub(super) fn unavailable(text: &str) -> Reply {
        Reply::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    pub(super) fn method_not_allowed(allow: &'static str, text: &str) -> Reply {
        Reply { allow, ..Reply::new(StatusCode::METHOD_NOT_ALLOWED, text) }
    }
}

/// Reads a request, has `answer` make the response to its head, and sends it. Errors of the peer
/// are ignored.
pub(super) async fn exchange(
    mut peer: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl AsyncFnOnce(&[u8]) -> Reply,
) {
    let Some(Ok(head)) = rt::timeout(TIME_MAX, read_head(&mut peer)).await else { return };
    if head.is_empty() {
        return;
    }
    let Reply { status, content_type, allow, text } = answer(&head).await;
    let allow = match allow {
        "" => String::new(),
        allow => format!("Allow: {allow}\r\n"),
    };
    let mut reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         {allow}Connection: close\r\n\r\n",
        text.len()
    )
    .into_bytes();
    if !head.starts_with(b"HEAD ") {
        reply.extend_from_slice(&text);
    }
    let sending = async {
        peer.write_all(&reply).await?;
        peer.shutdown().await
    };
    // The peer may have left.
    let _ = rt::timeout(TIME_MAX, sending).await;
}

/// Reads the head of a request, and nothing of a body; empty: the peer has left, or sends a head
/// that is too large.
async fn read_head(peer: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    loop {
        if let Some(at) = memchr::memmem::find(&head, END) {
            head.truncate(at + END.len());
            return Ok(head);
        }
        if head.len() >= LIMITS.head_bytes || peer.read_buf(&mut head).await? == 0 {
            return Ok(Vec::new());
        }
    }
}

/// Returns the method and the path of a request's head, without the query; empty: malformed.
pub(super) fn target(head: &[u8]) -> (&[u8], &[u8]) {
    let line = head.split(|&b| b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    (method, target.split(|&b| b == b'?').next().unwrap_or_default())
}

/// Returns the query of a request's target.
pub(super) fn query(head: &[u8]) -> Option<&[u8]> {
    let target = head.split(|&b| b == b' ').nth(1)?;
    target.iter().position(|&b| b == b'?').map(|at| &target[at + 1..])
}

/// Returns the value of the first field with this name, in lower case.
pub(super) fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let lines = head.split(|&b| b == b'\n').skip(1);
    let fields = lines.filter_map(|line| {
        let colon = line.iter().position(|&b| b == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    });
    let mut fields = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    fields.next().map(|(_, value)| value)
}
