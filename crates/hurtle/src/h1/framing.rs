//! How long a body is (RFC 9112 6.3): the file that keeps request smuggling out, and its mirror
//! image in an upstream's responses.
//!
//! Anything two implementations could read differently is refused, even where the RFC would let
//! a recipient repair it: a repaired request looks different to whoever reads it next.

use super::Sin;

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BodyLength {
    /// There is none.
    #[default]
    None,
    /// This many bytes; not 0.
    Exactly(u64),
    /// As the chunks say.
    Chunked,
}

/// The framing fields of one message, gathered line by line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    length: Option<u64>,
    chunked: bool,
}

impl Framing {
    /// Takes a Content-Length line (RFC 9112 6.2: `1*DIGIT`).
    ///
    /// # Errors
    /// A second line, equal or not, and anything but digits that fit 64 bits.
    pub fn content_length(&mut self, value: &[u8]) -> Result<(), Sin> {
        if self.length.is_some() {
            return Err(Sin::LengthTwice);
        }
        if value.is_empty() {
            return Err(Sin::LengthSyntax);
        }
        let mut length: u64 = 0;
        for &b in value {
            if !b.is_ascii_digit() {
                return Err(Sin::LengthSyntax);
            }
            length = length
                .checked_mul(10)
                .and_then(|l| l.checked_add(u64::from(b - b'0')))
                .ok_or(Sin::LengthSyntax)?;
        }
        self.length = Some(length);
        Ok(())
    }

    /// Takes a Transfer-Encoding line (RFC 9112 6.1): exactly `chunked`, once.
    ///
    /// # Errors
    /// Another coding before `chunked` is not implemented; one after it, or `chunked` twice, or
    /// no `chunked` at all, leaves the body without an end.
    pub fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Sin> {
        if self.chunked {
            return Err(Sin::CodingNotChunked);
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
            return Err(Sin::CodingUnknown);
        }
        Err(Sin::CodingNotChunked)
    }

    /// The Content-Length, if there was one.
    pub fn length(self) -> Option<u64> {
        self.length
    }

    /// Whether either field was there: a response without both ends with its connection.
    pub fn is_said(self) -> bool {
        self.chunked || self.length.is_some()
    }

    /// The body's delimitation, once every field has been seen.
    ///
    /// # Errors
    /// Both fields, or a transfer coding in HTTP/1.0 (RFC 9112 6.1: faulty framing).
    pub fn finish(self, http10: bool) -> Result<BodyLength, Sin> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(Sin::LengthAndCoding),
            (true, None) if http10 => Err(Sin::CodingInHttp10),
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
    fn framing(lines: &[(char, &str)], http10: bool) -> Result<BodyLength, Sin> {
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
        let max = u64::MAX.to_string();
        let over = format!("{max}0");
        #[rustfmt::skip]
        let rows: &[(&[(char, &str)], Result<BodyLength, Sin>, &str)] = &[
            (&[], Ok(None), "neither field: no body"),
            (&[('c', "0")], Ok(None), "an empty body is none"),
            (&[('c', "5")], Ok(Exactly(5)), "a length"),
            (&[('c', "0005")], Ok(Exactly(5)), "leading zeros are digits"),
            (&[('c', &max)], Ok(Exactly(u64::MAX)), "as much as 64 bits hold"),
            (&[('c', &over)], Err(Sin::LengthSyntax), "more than 64 bits hold"),
            (&[('c', "")], Err(Sin::LengthSyntax), "no digit"),
            (&[('c', "+5")], Err(Sin::LengthSyntax), "a sign"),
            (&[('c', "-1")], Err(Sin::LengthSyntax), "a negative length"),
            (&[('c', "0x5")], Err(Sin::LengthSyntax), "hexadecimal"),
            (&[('c', "5 5")], Err(Sin::LengthSyntax), "a space inside"),
            (&[('c', "5, 5")], Err(Sin::LengthSyntax), "an equal list in one line"),
            (&[('c', "5"), ('c', "5")], Err(Sin::LengthTwice), "equal lengths twice"),
            (&[('c', "5"), ('c', "6")], Err(Sin::LengthTwice), "differing lengths"),
            (&[('c', "0"), ('c', "0")], Err(Sin::LengthTwice), "empty bodies twice"),
            (&[('t', "chunked")], Ok(Chunked), "chunked"),
            (&[('t', "ChUnKeD")], Ok(Chunked), "coding names have no case"),
            (&[('t', "chunked"), ('c', "5")], Err(Sin::LengthAndCoding), "both, coding first"),
            (&[('c', "5"), ('t', "chunked")], Err(Sin::LengthAndCoding), "both, length first"),
            (&[('c', "0"), ('t', "chunked")], Err(Sin::LengthAndCoding), "both, though empty"),
            (&[('t', "gzip, chunked")], Err(Sin::CodingUnknown), "a coding not understood"),
            (&[('t', "gzip")], Err(Sin::CodingNotChunked), "no end"),
            (&[('t', "identity")], Err(Sin::CodingNotChunked), "withdrawn in RFC 7230"),
            (&[('t', "chunked, gzip")], Err(Sin::CodingNotChunked), "chunked not last"),
            (&[('t', "chunked, chunked")], Err(Sin::CodingNotChunked), "chunked twice"),
            (&[('t', "chunked"), ('t', "chunked")], Err(Sin::CodingNotChunked), "in two lines"),
            (&[('t', "chunked"), ('t', "gzip")], Err(Sin::CodingNotChunked), "last in no line"),
            (&[('t', ", chunked")], Err(Sin::CodingNotChunked), "an empty element"),
            (&[('t', "chunked,")], Err(Sin::CodingNotChunked), "an empty element at the end"),
            (&[('t', "xchunked")], Err(Sin::CodingNotChunked), "only looks like it"),
            (&[('t', "\"chunked\"")], Err(Sin::CodingNotChunked), "quoted"),
            (&[('t', "chunked;q=1")], Err(Sin::CodingNotChunked), "with a parameter"),
            (&[('t', "\x0bchunked")], Err(Sin::CodingNotChunked), "white space that is none"),
            (&[('t', "")], Err(Sin::CodingNotChunked), "empty"),
        ];
        for (lines, want, why) in rows {
            assert_eq!(framing(lines, false), *want, "{why}: {lines:?}");
        }
        assert_eq!(framing(&[('t', "chunked")], true), Err(Sin::CodingInHttp10));
    }
}
