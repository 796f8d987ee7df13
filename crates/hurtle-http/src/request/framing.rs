//! The length of a body (RFC 9112 section 6.3), for requests and for responses of an upstream.
//! These checks prevent request smuggling.
//!
//! Framing that two implementations could read differently is refused, even where the RFC lets a
//! recipient repair it: the next recipient may read the message differently.

use super::ParseError;

/// Largest length, in bytes. Many recipients have signed lengths, which larger ones would make
/// negative.
pub const LENGTH_MAX: u64 = i64::MAX as u64;

/// The delimitation of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BodyLength {
    /// There is no body.
    #[default]
    None,
    /// A body of this many bytes; not 0.
    Exactly(u64),
    /// A body in the chunked coding.
    Chunked,
}

/// Collects the framing fields of one message, line by line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    length: Option<u64>,
    chunked: bool,
}

impl Framing {
    /// Adds a Content-Length line (RFC 9112 section 6.2: `1*DIGIT`).
    ///
    /// # Errors
    /// A second line, even an equal one; a value that is not a decimal number of 64 bits, or
    /// exceeds
    /// [`LENGTH_MAX`].
    pub fn content_length(&mut self, value: &[u8]) -> Result<(), ParseError> {
        if self.length.is_some() {
            return Err(ParseError::LengthTwice);
        }
        if value.is_empty() {
            return Err(ParseError::LengthSyntax);
        }
        let mut length: u64 = 0;
        for &b in value {
            if !b.is_ascii_digit() {
                return Err(ParseError::LengthSyntax);
            }
            length = length
                .checked_mul(10)
                .and_then(|l| l.checked_add(u64::from(b - b'0')))
                .ok_or(ParseError::LengthSyntax)?;
        }
        if length > LENGTH_MAX {
            return Err(ParseError::BodyTooLarge);
        }
        self.length = Some(length);
        Ok(())
    }

    /// Adds a Transfer-Encoding line (RFC 9112 section 6.1), which must be exactly `chunked`, once.
    ///
    /// # Errors
    /// [`ParseError::CodingUnknown`] for another coding before `chunked`.
    /// [`ParseError::CodingNotChunked`] for any other list: the end of the body is then unknown.
    pub fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), ParseError> {
        if self.chunked {
            return Err(ParseError::CodingNotChunked);
        }
        if value.eq_ignore_ascii_case(b"chunked") {
            self.chunked = true;
            return Ok(());
        }
        let mut codings = value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
        let last_is_chunked =
            codings.next_back().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
        let known = |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"chunked");
        if last_is_chunked && !codings.any(known) {
            return Err(ParseError::CodingUnknown);
        }
        Err(ParseError::CodingNotChunked)
    }

    /// The Content-Length, if present.
    pub fn length(self) -> Option<u64> {
        self.length
    }

    /// True if either field is present. A response without both ends with its connection.
    pub fn is_present(self) -> bool {
        self.chunked || self.length.is_some()
    }

    /// Returns the body's delimitation after the last field.
    ///
    /// # Errors
    /// Both fields are present, or HTTP/1.0 has a transfer coding (RFC 9112 section 6.1: faulty
    /// framing).
    pub fn finish(self, http10: bool) -> Result<BodyLength, ParseError> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(ParseError::LengthAndCoding),
            (true, None) if http10 => Err(ParseError::CodingInHttp10),
            (true, None) => Ok(BodyLength::Chunked),
            (false, None | Some(0)) => Ok(BodyLength::None),
            (false, Some(n)) => Ok(BodyLength::Exactly(n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `c` lines are Content-Length, `t` lines Transfer-Encoding.
    fn framing(lines: &[(char, &str)], http10: bool) -> Result<BodyLength, ParseError> {
        let mut f = Framing::default();
        for (kind, value) in lines {
            match kind {
                'c' => f.content_length(value.as_bytes())?,
                _ => f.transfer_encoding(value.as_bytes())?,
            }
        }
        f.finish(http10)
    }

    #[test]
    fn table() {
        use BodyLength::*;
        let max = LENGTH_MAX.to_string();
        let above = (LENGTH_MAX + 1).to_string();
        let over = format!("{}0", u64::MAX);
        #[rustfmt::skip]
        let rows: &[(&[(char, &str)], Result<BodyLength, ParseError>, &str)] = &[
            (&[], Ok(None), "neither field: no body"),
            (&[('c', "0")], Ok(None), "an empty body is none"),
            (&[('c', "5")], Ok(Exactly(5)), "a length"),
            (&[('c', "0005")], Ok(Exactly(5)), "leading zeros are digits"),
            (&[('c', &max)], Ok(Exactly(LENGTH_MAX)), "as much as signed numbers hold"),
            (&[('c', &above)], Err(ParseError::BodyTooLarge), "one more"),
            (&[('c', &over)], Err(ParseError::LengthSyntax), "more than 64 bits hold"),
            (&[('c', "")], Err(ParseError::LengthSyntax), "no digit"),
            (&[('c', "+5")], Err(ParseError::LengthSyntax), "a sign"),
            (&[('c', "-1")], Err(ParseError::LengthSyntax), "a negative length"),
            (&[('c', "0x5")], Err(ParseError::LengthSyntax), "hexadecimal"),
            (&[('c', "5 5")], Err(ParseError::LengthSyntax), "a space inside"),
            (&[('c', "5, 5")], Err(ParseError::LengthSyntax), "an equal list in one line"),
            (&[('c', "5"), ('c', "5")], Err(ParseError::LengthTwice), "equal lengths twice"),
            (&[('c', "5"), ('c', "6")], Err(ParseError::LengthTwice), "differing lengths"),
            (&[('c', "0"), ('c', "0")], Err(ParseError::LengthTwice), "empty bodies twice"),
            (&[('t', "chunked")], Ok(Chunked), "chunked"),
            (&[('t', "ChUnKeD")], Ok(Chunked), "coding names have no case"),
            (&[('t', "chunked"), ('c', "5")], Err(ParseError::LengthAndCoding), "both, coding first"),
            (&[('c', "5"), ('t', "chunked")], Err(ParseError::LengthAndCoding), "both, length first"),
            (&[('c', "0"), ('t', "chunked")], Err(ParseError::LengthAndCoding), "both, though empty"),
            (&[('t', "gzip, chunked")], Err(ParseError::CodingUnknown), "a coding not understood"),
            (&[('t', "gzip")], Err(ParseError::CodingNotChunked), "no end"),
            (&[('t', "identity")], Err(ParseError::CodingNotChunked), "withdrawn in RFC 7230"),
            (&[('t', "chunked, gzip")], Err(ParseError::CodingNotChunked), "chunked not last"),
            (&[('t', "chunked, chunked")], Err(ParseError::CodingNotChunked), "chunked twice"),
            (&[('t', "chunked"), ('t', "chunked")], Err(ParseError::CodingNotChunked), "in two lines"),
            (&[('t', "chunked"), ('t', "gzip")], Err(ParseError::CodingNotChunked), "last in no line"),
            (&[('t', ", chunked")], Err(ParseError::CodingNotChunked), "an empty element"),
            (&[('t', "chunked,")], Err(ParseError::CodingNotChunked), "an empty element at the end"),
            (&[('t', "xchunked")], Err(ParseError::CodingNotChunked), "only looks like it"),
            (&[('t', "\"chunked\"")], Err(ParseError::CodingNotChunked), "quoted"),
            (&[('t', "chunked;q=1")], Err(ParseError::CodingNotChunked), "with a parameter"),
            (&[('t', "\x0bchunked")], Err(ParseError::CodingNotChunked), "white space that is none"),
            (&[('t', "")], Err(ParseError::CodingNotChunked), "empty"),
        ];
        for (lines, want, why) in rows {
            assert_eq!(framing(lines, false), *want, "{why}: {lines:?}");
        }
        assert_eq!(framing(&[('t', "chunked")], true), Err(ParseError::CodingInHttp10));
    }
}
