//! A minimal HTTP/1.1 reader for the clients and upstreams of the simulation. It does not use the
//! server's parser, so that a defect of that parser cannot hide itself.

use crate::transport::memory::Random;

/// Returns the body for `id`: `len` pseudorandom bytes.
pub(super) fn pattern(id: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(id, 7);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The response that a path requests: its last three segments are `id/len/mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResponseSpec {
    pub(super) id: u64,
    pub(super) len: usize,
    pub(super) mode: String,
}

impl ResponseSpec {
    /// Parses a path. `None`: its last segments have another form.
    pub(super) fn parse(path: &str) -> Option<ResponseSpec> {
        let mut parts = path.rsplit('/');
        let mode = parts.next()?.to_owned();
        let len = parts.next()?.parse().ok()?;
        Some(ResponseSpec { mode, len, id: parts.next()?.parse().ok()? })
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub(super) start: String,
    fields: Vec<(String, String)>,
    /// The length in bytes.
    pub(super) len: usize,
}

impl Head {
    /// Reads the head at the front of `bytes`; `None`: it is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Head>, String> {
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is not UTF-8")?;
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let mut fields = Vec::new();
        for line in lines {
            let (name, value) =
                line.split_once(':').ok_or(format!("not a field line: {line:?}"))?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Some(Head { start, fields, len: end + 4 }))
    }

    /// Returns the first value of a field; `name` is in lower case.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the status of a response.
    pub(super) fn status(&self) -> Result<u16, String> {
        let status = self.start.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        status.and_then(|s| s.parse().ok()).ok_or(format!("not a status line: {:?}", self.start))
    }

    fn length(&self) -> Result<Option<usize>, String> {
        let values: Vec<_> = self.fields.iter().filter(|(n, _)| n == "content-length").collect();
        match &values[..] {
            [] => Ok(None),
            [(_, value)] => {
                value.parse().map(Some).map_err(|_| format!("invalid Content-Length: {value:?}"))
            }
            _ => Err("several Content-Length fields".to_owned()),
        }
    }

    fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }
}

/// A body that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// The whole body, and its length in bytes including the framing.
    Whole(Vec<u8>, usize),
    /// The beginning of an incomplete body.
    Part(Vec<u8>),
}

/// Reads the body that follows a head. `bodiless`: the message has no body, regardless of the head.
/// `until_end` applies to a body without length or chunks: `None` if it is empty, `Some(true)` if
/// it extends to the end of the connection and the sender has closed, `Some(false)` if it has not.
pub(super) fn body(
    head: &Head,
    bytes: &[u8],
    bodiless: bool,
    until_end: Option<bool>,
) -> Result<Body, String> {
    if bodiless {
        return Ok(Body::Whole(Vec::new(), 0));
    }
    match (head.is_chunked(), head.length()?) {
        (true, Some(_)) => Err("both Content-Length and chunks".to_owned()),
        (true, None) => chunks(bytes),
        (false, Some(len)) if bytes.len() >= len => Ok(Body::Whole(bytes[..len].to_vec(), len)),
        (false, Some(_)) => Ok(Body::Part(bytes.to_vec())),
        (false, None) => match until_end {
            None => Ok(Body::Whole(Vec::new(), 0)),
            Some(true) => Ok(Body::Whole(bytes.to_vec(), bytes.len())),
            Some(false) => Ok(Body::Part(bytes.to_vec())),
        },
    }
}

fn chunks(bytes: &[u8]) -> Result<Body, String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let rest = &bytes[at..];
        let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else {
            return Ok(Body::Part(body));
        };
        let line = String::from_utf8_lossy(&rest[..end]);
        let size = line.split(';').next().unwrap_or_default();
        let len =
            usize::from_str_radix(size, 16).map_err(|_| format!("invalid chunk size: {line:?}"))?;
        at += end + 2;
        let rest = &bytes[at..];
        if len == 0 {
            // The trailer section ends with an empty line.
            let Some(end) = trailers_end(rest) else { return Ok(Body::Part(body)) };
            return Ok(Body::Whole(body, at + end));
        }
        if rest.len() < len + 2 {
            body.extend_from_slice(&rest[..len.min(rest.len())]);
            return Ok(Body::Part(body));
        }
        if &rest[len..len + 2] != b"\r\n" {
            return Err("a chunk without CRLF".to_owned());
        }
        body.extend_from_slice(&rest[..len]);
        at += len + 2;
    }
}

fn trailers_end(rest: &[u8]) -> Option<usize> {
    if rest.starts_with(b"\r\n") {
        return Some(2);
    }
    rest.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)
}

/// Encodes a body in chunks of random sizes.
pub(super) fn chunked(body: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(random.within(1, rest.len() as u64) as usize);
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
        rest = left;
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}
