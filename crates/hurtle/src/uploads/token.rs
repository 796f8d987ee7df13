//! The token of an unfinished upload: an unguessable file name.

use std::fmt;

use rustix::io::Errno;

/// 128 random bits in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token(String);

/// Number of random bytes: 128 bits cannot be guessed.
const BYTES: usize = 16;

impl Token {
    /// Creates a random token.
    ///
    /// # Errors
    /// The system returned no random bytes.
    pub(super) fn random() -> rustix::io::Result<Token> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|_| Errno::IO)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Parses a token; `None` if it is malformed.
    pub(super) fn parse(name: &[u8]) -> Option<Token> {
        let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
        let name = std::str::from_utf8(name).ok()?;
        (name.len() == 2 * BYTES && name.as_bytes().iter().all(hex)).then(|| Token(name.to_owned()))
    }

    /// The file name of the content.
    pub(super) fn data(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    /// The file name of the record.
    pub(super) fn record(&self) -> String {
        format!("{self}{RECORD}")
    }

    /// Parses the file name of a record.
    pub(super) fn of_record(name: &[u8]) -> Option<Token> {
        Token::parse(name.strip_suffix(RECORD.as_bytes())?)
    }

    /// The temporary file name of a record that is being written.
    pub(super) fn new_record(&self) -> String {
        format!("{self}.new")
    }
}

const RECORD: &str = ".json";

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_tokens_are_parsed() {
        let token = Token::random().unwrap();
        assert_eq!(Token::parse(&token.data()), Some(token.clone()));
        assert_eq!(Token::of_record(token.record().as_bytes()), Some(token.clone()));
        assert_ne!(Token::random().unwrap(), token);
        let upper = token.to_string().to_uppercase() + "F";
        let rows: [&[u8]; 6] = [b"", b"..", b"0123", upper.as_bytes(), &[b'a'; 33], &[b'/'; 32]];
        for name in rows {
            assert_eq!(Token::parse(name), None, "{}", name.escape_ascii());
        }
    }
}
