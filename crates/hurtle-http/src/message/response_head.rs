//! Parses the field lines of an upstream's response in one pass. Like `request` it refuses what two
//! parsers could frame differently: the second parser is the client's.

use std::fmt;

use http::StatusCode;

use super::field::{Field, FieldIndex};
use super::lines::{self, FieldLine};
use crate::request::ParseError;
use crate::request::fields::{begins_as, is_same};
use crate::request::framing::{BodyLength, Framing};
use crate::semantics::fields;

/// Maximum size of a response head, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Maximum number of field lines.
pub const FIELDS_MAX: usize = 200;

/// A response head from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// The status, 100 to 599.
    pub status: StatusCode,
    /// The delimitation of the body. Responses to HEAD and some statuses have no body regardless.
    pub length: Length,
    /// The value of Content-Length, even if there is no body.
    pub content_length: Option<u64>,
    /// True if the connection may be reused.
    pub keep_alive: bool,
    /// The values of Connection, one per line.
    pub connection: Vec<&'a [u8]>,
    /// The value of Upgrade; `None` if there are two lines.
    pub upgrade: Option<&'a [u8]>,
    /// The file to send instead of the body, from X-Accel-Redirect, else X-Sendfile.
    pub file: Option<File<'a>>,
    /// `X-Accel-Buffering: no`: a slow client slows the upstream down.
    pub is_unbuffered: bool,
    /// A field may name the upstream: Location, Content-Location, Refresh or Set-Cookie.
    pub may_name_upstream: bool,
    /// The field lines, each ended by CRLF, and the empty line.
    pub field_lines: &'a [u8],
    /// Offsets of the fields for the client, as far as their names tell.
    public: FieldIndex,
}

/// The end of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The framing fields determine it.
    Framed(BodyLength),
    /// The end of the stream (RFC 9113 section 8.1).
    Frames,
    /// The end of the connection (RFC 9112 section 6.3, item 8).
    UntilClose,
}

/// A file named by an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File<'a> {
    /// X-Accel-Redirect: a URL path.
    Accel(&'a [u8]),
    /// X-Sendfile: a URL path or a file-system path.
    Sendfile(&'a [u8]),
}

/// A malformed response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `Display` explains each variant.
pub enum ResponseError {
    StatusLine,
    BareLineFeed,
    FieldSyntax,
    HeadTooLarge,
    TooManyFields,
    Length,
    LengthAndCoding,
    Coding,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::StatusLine => "its first line is not `HTTP/1.1 STATUS REASON`",
            ResponseError::BareLineFeed => "a line of its head ends in LF alone",
            ResponseError::FieldSyntax => "a header field is malformed",
            ResponseError::HeadTooLarge => "its head is too large",
            ResponseError::TooManyFields => "it has too many header fields",
            ResponseError::Length => "Content-Length is not one decimal number, written once",
            ResponseError::LengthAndCoding => "it has both Content-Length and Transfer-Encoding",
            ResponseError::Coding => "its transfer coding is not chunked, once, in HTTP/1.1",
        })
    }
}

impl std::error::Error for ResponseError {}

/// Parses the field lines of a response over HTTP/2, each ended by CRLF, and the empty line.
/// `is_end`: neither a body nor trailers follow.
///
/// # Errors
/// The first violation found; nothing is repaired.
pub fn parse_lines(
    status: StatusCode,
    field_lines: &[u8],
    is_end: bool,
) -> Result<ResponseHead<'_>, ResponseError> {
    let (mut response, framing) = read(status, field_lines)?;
    response.content_length = framing.framing.length();
    response.length = if is_end { Length::Framed(BodyLength::None) } else { Length::Frames };
    response.keep_alive = true;
    Ok(response)
}

/// Reads the field lines. The framing is still to be decided.
pub(crate) fn read(
    status: StatusCode,
    field_lines: &[u8],
) -> Result<(ResponseHead<'_>, FieldState), ResponseError> {
    let mut response = ResponseHead {
        status,
        length: Length::UntilClose,
        content_length: None,
        keep_alive: false,
        connection: Vec::new(),
        upgrade: None,
        file: None,
        is_unbuffered: false,
        may_name_upstream: false,
        field_lines,
        public: FieldIndex::default(),
    };
    let mut seen = FieldState::default();
    let (mut rest, mut count) = (field_lines, 0);
    while let Some(FieldLine { name, value, rest: behind }) =
        lines::next(rest).map_err(to_response_error)?
    {
        count += 1;
        if count > FIELDS_MAX {
            return Err(ResponseError::TooManyFields);
        }
        let range = field_lines.len() - rest.len()..field_lines.len() - behind.len();
        if !seen.field(&mut response, name, value)? && !response.public.push(range, name) {
            return Err(ResponseError::HeadTooLarge);
        }
        rest = behind;
    }
    Ok((response, seen))
}

impl<'a> ResponseHead<'a> {
    /// The fields for the client, except those that `connection` lists.
    pub(super) fn public(&self) -> impl Iterator<Item = Field<'a>> {
        self.public.fields(self.field_lines)
    }
}

#[derive(Default)]
pub(crate) struct FieldState {
    framing: Framing,
    close: bool,
    keep_alive: bool,
    upgrades: usize,
}

impl FieldState {
    /// Stores a field. `true` means that the client does not get it. Spellings of framing fields
    /// with `_` or `.` are withheld too, but do not frame the message.
    fn field<'a>(
        &mut self,
        response: &mut ResponseHead<'a>,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<bool, ResponseError> {
        let is = |known: &str| is_same(name, known.as_bytes());
        let private = match name.len() {
            2 => is("te"),
            7 if is("upgrade") => {
                self.upgrades += 1;
                response.upgrade = Some(value).filter(|_| self.upgrades == 1);
                true
            }
            7 if is("refresh") => {
                response.may_name_upstream = true;
                false
            }
            8 if is("location") => {
                response.may_name_upstream = true;
                false
            }
            10 if is("connection") => {
                self.close |= fields::has_token(value, b"close");
                self.keep_alive |= fields::has_token(value, b"keep-alive");
                response.connection.push(value);
                true
            }
            10 if is("x-sendfile") => {
                if !matches!(response.file, Some(File::Accel(_))) {
                    response.file = Some(File::Sendfile(value));
                }
                true
            }
            10 if is("set-cookie") => {
                response.may_name_upstream = true;
                false
            }
            10 => is("keep-alive"),
            14 if is("content-length") => {
                if name.eq_ignore_ascii_case(b"content-length") {
                    self.framing.content_length(value).map_err(to_response_error)?;
                }
                true
            }
            16 if is("x-accel-redirect") => {
                response.file = Some(File::Accel(value));
                true
            }
            16 if is("content-location") => {
                response.may_name_upstream = true;
                false
            }
            16 => is("proxy-connection"),
            17 if is("transfer-encoding") => {
                if name.eq_ignore_ascii_case(b"transfer-encoding") {
                    self.framing.transfer_encoding(value).map_err(to_response_error)?;
                }
                true
            }
            17 if is("x-accel-buffering") => {
                response.is_unbuffered = value.eq_ignore_ascii_case(b"no");
                true
            }
            18 => is("proxy-authenticate"),
            _ => false,
        };
        let hidden = begins_as(name, b"x-")
            && (begins_as(name, b"x-accel-") || begins_as(name, b"x-sendfile"));
        Ok(private || hidden)
    }

    /// Decides the framing of a response in text.
    pub(crate) fn finish(
        self,
        response: &mut ResponseHead<'_>,
        http10: bool,
    ) -> Result<(), ResponseError> {
        response.content_length = self.framing.length();
        let framed = self.framing.is_present();
        let length = self.framing.finish(http10).map_err(to_response_error)?;
        response.length = if framed { Length::Framed(length) } else { Length::UntilClose };
        // RFC 9112 section 9.3.
        response.keep_alive = !self.close && (!http10 || self.keep_alive);
        Ok(())
    }
}

fn to_response_error(error: ParseError) -> ResponseError {
    match error {
        ParseError::LengthSyntax | ParseError::LengthTwice | ParseError::BodyTooLarge => {
            ResponseError::Length
        }
        ParseError::LengthAndCoding => ResponseError::LengthAndCoding,
        ParseError::FieldSyntax => ResponseError::FieldSyntax,
        ParseError::BareLineFeed => ResponseError::BareLineFeed,
        _ => ResponseError::Coding,
    }
}
