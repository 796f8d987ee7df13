//! HTTP/1.1 messages as a client or an upstream reads them: written for these tests, so that a mistake
//! of the server's own parser is not repeated here.

use crate::transport::memory::Random;

/// The bytes of the body of request `id`.
pub(super) fn pattern(id: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(id, 7);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// What is asked for: the last three segments of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) id: u64,
    pub(super) len: usize,
    pub(super) mode: String,
}

impl Wanted {
    /// Of a path that ends with them.
    pub(super) fn of(path: &str) -> Option<Wanted> {
        let mut parts = path.rsplit('/');
        let mode = parts.next()?.to_owned();
        let len = parts.next()?.parse().ok()?;
        Some(Wanted { mode, len, id: parts.next()?.parse().ok()? })
    }
}

/// A message's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    /// Its first line.
    pub(super) start: String,
    fields: Vec<(String, String)>,
    /// Its length in bytes.
    pub(super) len: usize,
}

impl Head {
    /// The head that `bytes` begin with; `None`: there is more to come.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Head>, String> {
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is no text")?;
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let mut fields = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(format!("no field: {line:?}"))?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Some(Head { start, fields, len: end + 4 }))
    }

    /// The value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The status of a response.
    pub(super) fn status(&self) -> Result<u16, String> {
        let status = self.start.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        status.and_then(|s| s.parse().ok()).ok_or(format!("no status line: {:?}", self.start))
    }

    fn length(&self) -> Result<Option<usize>, String> {
        let values: Vec<_> = self.fields.iter().filter(|(n, _)| n == "content-length").collect();
        match &values[..] {
            [] => Ok(None),
            [(_, value)] => value.parse().map(Some).map_err(|_| format!("a length of {value:?}")),
            _ => Err("two lengths".to_owned()),
        }
    }

    fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }
}

/// What there is of a body, and how many bytes it takes with its framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Whole(Vec<u8>, usize),
    /// Its end is missing.
    Part(Vec<u8>),
}

/// The body behind a head. `bodiless`: there is none, whatever the head says. `until_end`: one that
/// nothing else delimits goes on to the end of the connection, of which this says whether it was
/// seen, and in good order; `None`: it is empty.
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
        (true, Some(_)) => Err("both a length and chunks".to_owned()),
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
        let len = usize::from_str_radix(size, 16).map_err(|_| format!("a chunk of {line:?}"))?;
        at += end + 2;
        let rest = &bytes[at..];
        if len == 0 {
            // Trailers, up to an empty line.
            let Some(end) = trailers_end(rest) else { return Ok(Body::Part(body)) };
            return Ok(Body::Whole(body, at + end));
        }
        if rest.len() < len + 2 {
            body.extend_from_slice(&rest[..len.min(rest.len())]);
            return Ok(Body::Part(body));
        }
        if &rest[len..len + 2] != b"\r\n" {
            return Err("a chunk that does not end".to_owned());
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

/// A body in chunks of any size.
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
