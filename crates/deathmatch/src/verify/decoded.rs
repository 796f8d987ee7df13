//! Checks responses whose frames and fields a library has decoded.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderName, StatusCode};

use super::{Fault, Verified, check_type};

/// Checks a head's status, coding, length and type.
pub(super) fn check_head(head: &Parts, path: &str, expected: usize) -> Result<Verified, Fault> {
    if head.status != StatusCode::OK {
        return Err(Fault::Status(head.status.to_string()));
    }
    let field = |name: HeaderName| {
        head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    if let Some(coding) = field(CONTENT_ENCODING).filter(|coding| coding != "identity") {
        return Err(Fault::Coded(format!("content-encoding: {coding}")));
    }
    let length = field(CONTENT_LENGTH);
    if length.as_ref().and_then(|length| length.parse().ok()) != Some(expected) {
        let length = length.unwrap_or_else(|| "missing".to_owned());
        return Err(Fault::Length(length, expected));
    }
    let content_type = check_type(field(CONTENT_TYPE).as_deref(), path)?;
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    Ok(Verified { content_type, head_bytes: fields.sum() })
}

/// Compares the pieces of a body with a file.
pub(super) struct Comparison<'a> {
    expected: &'a [u8],
    at: usize,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(expected: &'a [u8]) -> Comparison<'a> {
        Comparison { expected, at: 0 }
    }

    pub(super) fn add(&mut self, piece: &[u8]) -> Result<(), Fault> {
        let rest = &self.expected[self.at..];
        if let Some(n) = piece.iter().zip(rest).position(|(got, want)| got != want) {
            return Err(Fault::Byte(self.at + n, piece[n], rest[n]));
        }
        if piece.len() > rest.len() {
            return Err(Fault::Surplus(piece.len() - rest.len()));
        }
        self.at += piece.len();
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), Fault> {
        match self.at < self.expected.len() {
            true => Err(Fault::Short(self.at, self.expected.len())),
            false => Ok(()),
        }
    }
}
