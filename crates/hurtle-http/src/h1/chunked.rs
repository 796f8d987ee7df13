//! The chunked transfer coding (RFC 9112 section 7.1): encoder and decoder. The decoder is a state
//! machine; input may be split anywhere. It returns data as ranges of the input and copies nothing.

use crate::request::ParseError;
use crate::semantics::set::is_token;

/// Maximum size of all chunk extensions of a body, in bytes. They are ignored and only cost time.
pub const EXTENSION_BYTES_MAX: usize = 4 << 10;

/// Maximum number of digits in a chunk size: 64 bits need no more. Implementations disagree on
/// leading zeros, which could also go on without end.
const SIZE_DIGITS_MAX: u8 = 16;

/// Maximum size of a trailer section, in bytes.
pub const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Decodes one body in the chunked coding (RFC 9112 section 7.1).
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    state: ChunkState,
    extension_bytes: usize,
    trailers: Vec<u8>,
}

/// The part of the coding that the next byte belongs to. Numbers are the size of the current chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    /// The first digit of a size.
    #[default]
    SizeStart,
    /// Further digits, `;` or CR. Holds the size so far and its number of digits.
    Size(u64, u8),
    /// Blanks after the size. Only `;` may follow (RFC 9112 section 7.1.1: BWS before an
    /// extension).
    SizeBlank(u64),
    /// The name of an extension, after `;`.
    ExtensionName(u64),
    /// The value of an extension, after `=`.
    ExtensionValue(u64),
    /// The rest of an extension, up to CR.
    Extension(u64),
    /// A quoted extension value; true if the next byte is escaped.
    Quoted(u64, bool),
    /// LF at the end of the size line.
    SizeLf(u64),
    /// This number of data bytes.
    Data(u64),
    DataCr,
    DataLf,
    /// A trailer line, stored until the empty line.
    Trailer,
    /// The end, after the empty line.
    Done,
}

/// Result of decoding a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `input[skip..skip + len]` is data. Both parts are consumed. `len` is not 0.
    Data {
        /// Bytes of framing before the data.
        skip: usize,
        /// Bytes of data.
        len: usize,
    },
    /// All of the input was framing; more input is needed.
    NeedMore,
    /// The body has ended; this number of input bytes belonged to it.
    End(usize),
}

impl Decoder {
    /// Decodes the next bytes of the body.
    ///
    /// # Errors
    /// The input violates RFC 9112 section 7.1, which includes bare LF and bare CR, or exceeds a
    /// limit.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, ParseError> {
        let mut at = 0;
        while at < input.len() {
            if let ChunkState::Data(left) = self.state {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                let left = left - len as u64;
                self.state = if left == 0 { ChunkState::DataCr } else { ChunkState::Data(left) };
                return Ok(Step::Data { skip: at, len });
            }
            self.state = self.next(input[at])?;
            at += 1;
            if self.state == ChunkState::Done {
                return Ok(Step::End(at));
            }
        }
        Ok(Step::NeedMore)
    }

    /// Number of data bytes left in the current chunk; 0 if framing is next. It can be as large as
    /// `u64::MAX`, so additions can overflow.
    pub fn data_left(&self) -> u64 {
        if let ChunkState::Data(left) = self.state { left } else { 0 }
    }

    /// The trailer lines, each ended by CRLF, and the empty line. They are complete after
    /// [`Step::End`].
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    fn next(&mut self, byte: u8) -> Result<ChunkState, ParseError> {
        Ok(match (self.state, byte) {
            (ChunkState::SizeStart, b) => ChunkState::Size(hex(b).ok_or(ParseError::ChunkSize)?, 1),
            (
                ChunkState::Size(n, _) | ChunkState::SizeBlank(n) | ChunkState::Extension(n),
                b'\r',
            ) => {
                if matches!(self.state, ChunkState::SizeBlank(_)) {
                    return Err(ParseError::ChunkSize);
                }
                ChunkState::SizeLf(n)
            }
            (
                ChunkState::Size(n, _) | ChunkState::SizeBlank(n) | ChunkState::Extension(n),
                b';',
            ) => self.extension(ChunkState::ExtensionName(n))?,
            (ChunkState::Size(n, _) | ChunkState::SizeBlank(n), b' ' | b'\t') => {
                self.extension(ChunkState::SizeBlank(n))?
            }
            (ChunkState::Size(_, SIZE_DIGITS_MAX), _) => return Err(ParseError::ChunkSize),
            (ChunkState::Size(n, digits), b) => {
                ChunkState::Size(n << 4 | hex(b).ok_or(ParseError::ChunkSize)?, digits + 1)
            }
            (ChunkState::SizeBlank(_), _) => return Err(ParseError::ChunkSize),
            (ChunkState::Extension(n), b'=') => self.extension(ChunkState::ExtensionValue(n))?,
            (ChunkState::ExtensionValue(n), b'"') => {
                self.extension(ChunkState::Quoted(n, false))?
            }
            (ChunkState::ExtensionName(_) | ChunkState::ExtensionValue(_), b' ' | b'\t') => {
                self.extension(self.state)?
            }
            (ChunkState::Extension(n), b' ' | b'\t') => self.extension(ChunkState::Extension(n))?,
            (
                ChunkState::ExtensionName(n)
                | ChunkState::ExtensionValue(n)
                | ChunkState::Extension(n),
                b,
            ) if is_token(b) => self.extension(ChunkState::Extension(n))?,
            (ChunkState::Quoted(n, false), b'"') => self.extension(ChunkState::Extension(n))?,
            (ChunkState::Quoted(n, false), b'\\') => self.extension(ChunkState::Quoted(n, true))?,
            (ChunkState::Quoted(n, _), b'\t' | b' '..=b'~' | 0x80..) => {
                self.extension(ChunkState::Quoted(n, false))?
            }
            (ChunkState::ExtensionName(_) | ChunkState::ExtensionValue(_), _)
            | (ChunkState::Extension(_) | ChunkState::Quoted(..), _) => {
                return Err(ParseError::ChunkSize);
            }
            (ChunkState::SizeLf(0), b'\n') => ChunkState::Trailer,
            (ChunkState::SizeLf(n), b'\n') => ChunkState::Data(n),
            (ChunkState::SizeLf(_), _) => return Err(ParseError::ChunkSize),
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::SizeStart,
            (ChunkState::DataCr | ChunkState::DataLf, _) => return Err(ParseError::ChunkEnd),
            (ChunkState::Trailer, b) => self.trailer(b)?,
            // `decode` consumes data itself and returns at the end.
            (ChunkState::Data(_) | ChunkState::Done, _) => self.state,
        })
    }

    fn extension(&mut self, next: ChunkState) -> Result<ChunkState, ParseError> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(ParseError::ChunkExtensionsTooLong);
        }
        Ok(next)
    }

    fn trailer(&mut self, byte: u8) -> Result<ChunkState, ParseError> {
        if self.trailers.len() >= TRAILER_BYTES_MAX {
            return Err(ParseError::TrailersTooLarge);
        }
        let after_cr = self.trailers.last() == Some(&b'\r');
        if (byte == b'\n') != after_cr {
            return Err(if byte == b'\n' {
                ParseError::BareLineFeed
            } else {
                ParseError::FieldSyntax
            });
        }
        self.trailers.push(byte);
        if byte != b'\n' {
            return Ok(ChunkState::Trailer);
        }
        let whole = &self.trailers;
        if whole.len() == 2 || whole.ends_with(b"\r\n\r\n") {
            check_trailers(whole)?;
            return Ok(ChunkState::Done);
        }
        Ok(ChunkState::Trailer)
    }
}

/// Checks trailer lines, which have the syntax of header lines (RFC 9112 section 7.1.2).
fn check_trailers(section: &[u8]) -> Result<(), ParseError> {
    for line in section.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let colon = memchr::memchr(b':', line).ok_or(ParseError::FieldSyntax)?;
        let name_ok = colon > 0 && line[..colon].iter().all(|&b| is_token(b));
        let value_ok = line[colon + 1..].iter().all(|&b| matches!(b, b'\t' | b' '..=b'~' | 0x80..));
        if !name_ok || !value_ok {
            return Err(ParseError::FieldSyntax);
        }
    }
    Ok(())
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

/// Appends a chunk's size line for `len` bytes (not 0). The caller appends the data and CRLF.
pub fn encode_size(len: usize, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{len:x}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes `input` in pieces of at most `piece` bytes; returns the data and the number of bytes
    /// used.
    fn run(input: &[u8], piece: usize) -> Result<Option<(Vec<u8>, usize, Vec<u8>)>, ParseError> {
        let (mut decoder, mut data, mut at) = (Decoder::default(), Vec::new(), 0);
        while at < input.len() {
            let end = input.len().min(at + piece);
            match decoder.decode(&input[at..end])? {
                Step::Data { skip, len } => {
                    data.extend_from_slice(&input[at + skip..at + skip + len]);
                    at += skip + len;
                }
                Step::NeedMore => at = end,
                Step::End(n) => {
                    return Ok(Some((data, at + n, decoder.trailers().to_vec())));
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn table() {
        let long = format!("1;{}\r\n", "x".repeat(EXTENSION_BYTES_MAX));
        let trailers = format!("0\r\n{}", "A: b\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1));
        #[rustfmt::skip]
        let rows: &[(&str, Result<Option<&str>, ParseError>, &str)] = &[
            ("5\r\nhello\r\n0\r\n\r\n", Ok(Some("hello")), "one chunk"),
            ("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nGET", Ok(Some("hello!")), "two chunks, then a request"),
            ("0\r\n\r\n", Ok(Some("")), "empty"),
            ("0000\r\n\r\n", Ok(Some("")), "zeros"),
            ("A\r\n0123456789\r\n0\r\n\r\n", Ok(Some("0123456789")), "upper-case hexadecimal"),
            ("5;a=b;c\r\nhello\r\n0\r\n\r\n", Ok(Some("hello")), "extensions are ignored"),
            ("5;a=\"b;\\\"c\"\r\nhello\r\n0\r\n\r\n", Ok(Some("hello")), "quoted ones too"),
            ("5 ;a\r\nhello\r\n0\r\n\r\n", Ok(Some("hello")), "a blank before an extension"),
            ("0\r\nA: b\r\n\r\n", Ok(Some("")), "trailers"),
            ("5\r\nhello\r\n", Ok(None), "the last chunk is missing"),
            ("0\r\n", Ok(None), "the empty line is missing"),
            ("g\r\n", Err(ParseError::ChunkSize), "not hexadecimal"),
            ("\r\n", Err(ParseError::ChunkSize), "no size"),
            ("-1\r\n", Err(ParseError::ChunkSize), "a sign"),
            ("+5\r\nhello", Err(ParseError::ChunkSize), "a plus sign"),
            ("0x5\r\nhello", Err(ParseError::ChunkSize), "a radix prefix"),
            (" 5\r\nhello", Err(ParseError::ChunkSize), "a leading blank"),
            ("5 \r\nhello", Err(ParseError::ChunkSize), "a trailing blank"),
            ("5_0\r\n", Err(ParseError::ChunkSize), "a separator"),
            ("11111111111111111\r\n", Err(ParseError::ChunkSize), "more than 64 bits"),
            ("0000000000000005\r\nhello\r\n0\r\n\r\n", Ok(Some("hello")), "as many digits as there may be"),
            ("00000000000000005\r\nhello", Err(ParseError::ChunkSize), "one more, though it is a zero"),
            ("5;\r\nhello", Err(ParseError::ChunkSize), "an extension without a name"),
            ("5;;a\r\nhello", Err(ParseError::ChunkSize), "another"),
            ("5;=a\r\nhello", Err(ParseError::ChunkSize), "a value without a name"),
            ("5;a=\r\nhello", Err(ParseError::ChunkSize), "a name without its value"),
            ("5;\"a\"\r\nhello", Err(ParseError::ChunkSize), "a quoted name"),
            ("5; a = b ;c\r\nhello\r\n0\r\n\r\n", Ok(Some("hello")), "blanks around both"),
            ("5\nhello", Err(ParseError::ChunkSize), "LF alone after the size"),
            ("5\rXhello", Err(ParseError::ChunkSize), "CR alone after the size"),
            ("5;a\nhello", Err(ParseError::ChunkSize), "LF alone after an extension"),
            ("5;a\rb\r\nhello", Err(ParseError::ChunkSize), "CR inside an extension"),
            ("5\r\nhelloX", Err(ParseError::ChunkEnd), "data longer than its size"),
            ("5\r\nhello\n0\r\n\r\n", Err(ParseError::ChunkEnd), "LF alone after data"),
            ("5\r\nhello\r0", Err(ParseError::ChunkEnd), "CR alone after data"),
            ("0\r\nA: b\n\r\n", Err(ParseError::BareLineFeed), "LF alone in a trailer"),
            ("0\r\nA: b\rc\r\n\r\n", Err(ParseError::FieldSyntax), "CR alone in a trailer"),
            ("0\r\nA : b\r\n\r\n", Err(ParseError::FieldSyntax), "a blank before a trailer's colon"),
            ("0\r\n A: b\r\n\r\n", Err(ParseError::FieldSyntax), "a folded trailer"),
            ("0\r\nA\0: b\r\n\r\n", Err(ParseError::FieldSyntax), "NUL"),
            ("0\r\nGET / HTTP/1.1\r\n\r\n", Err(ParseError::FieldSyntax), "a request is no trailer"),
            (&long, Err(ParseError::ChunkExtensionsTooLong), "extensions without end"),
            (&trailers, Err(ParseError::TrailersTooLarge), "trailers without end"),
        ];
        for (input, want, why) in rows {
            for piece in [1, 2, 3, 7, usize::MAX / 2] {
                let got = run(input.as_bytes(), piece).map(|o| o.map(|(data, ..)| data));
                let want = want.map(|o| o.map(|s| s.as_bytes().to_vec()));
                assert_eq!(got, want, "{why}, in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_chunk_size_is_known_at_the_end_of_its_line() {
        let rows = [
            ("1000001", 0x100_0001),
            ("7fffffffffffffff", i64::MAX as u64),
            ("8000000000000000", 1 << 63),
            ("ffffffffffffffff", u64::MAX),
            ("0000000000000005;a=\"b\"", 5),
        ];
        for (line, size) in rows {
            let mut decoder = Decoder::default();
            assert_eq!(decoder.decode(line.as_bytes()), Ok(Step::NeedMore), "{line}");
            assert_eq!(decoder.data_left(), 0, "{line}: more digits may come");
            assert_eq!(decoder.decode(b"\r\n"), Ok(Step::NeedMore), "{line}");
            assert_eq!(decoder.data_left(), size, "{line}");
            assert_eq!(decoder.decode(b"abc"), Ok(Step::Data { skip: 0, len: 3 }), "{line}");
            assert_eq!(decoder.data_left(), size - 3, "{line}");
        }
    }

    #[test]
    fn bytes_after_the_body_are_not_consumed() {
        let (_, consumed, trailers) = run(b"1\r\na\r\n0\r\nB: c\r\n\r\nGET", 4).unwrap().unwrap();
        assert_eq!(consumed, b"1\r\na\r\n0\r\nB: c\r\n\r\n".len());
        assert_eq!(trailers, b"B: c\r\n\r\n");
    }

    proptest! {
        #[test]
        fn any_bytes_any_split(input in proptest::collection::vec(any::<u8>(), 0..80), piece in 1usize..9) {
            prop_assert_eq!(run(&input, piece), run(&input, usize::MAX / 2));
        }

        #[test]
        fn encoded_is_decoded(chunks in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..40), 0..5), piece in 1usize..50)
        {
            let mut coded = Vec::new();
            for chunk in &chunks {
                encode_size(chunk.len(), &mut coded);
                coded.extend_from_slice(chunk);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\n\r\n");
            let (data, consumed, _) = run(&coded, piece).unwrap().unwrap();
            prop_assert_eq!(data, chunks.concat());
            prop_assert_eq!(consumed, coded.len());
        }
    }
}
