//! The name of an unfinished upload: unguessable, and a file's name as it is.

use std::fmt;

use rustix::io::Errno;

/// 128 bits from the system, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token(String);

/// Random bytes in it: nobody guesses one of a few in 2^128.
const BYTES: usize = 16;

impl Token {
    /// One that nobody knows.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(super) fn random() -> rustix::io::Result<Token> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|_| Errno::IO)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// `None`: none of ours looks like that.
    pub(super) fn parse(name: &[u8]) -> Option<Token> {
        let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
        let name = std::str::from_utf8(name).ok()?;
        (name.len() == 2 * BYTES && name.as_bytes().iter().all(hex)).then(|| Token(name.to_owned()))
    }

    /// What the file of its bytes is called.
    pub(super) fn data(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    /// What the file of its record is called.
    pub(super) fn record(&self) -> String {
        format!("{self}{RECORD}")
    }

    /// The upload whose record a file of that name is.
    pub(super) fn of_record(name: &[u8]) -> Option<Token> {
        Token::parse(name.strip_suffix(RECORD.as_bytes())?)
    }

    /// What its record is called before it is whole.
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
    fn a_name_is_read_back_and_nothing_else_is() {
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
