//! Parses the file of users: a name, a colon and a bcrypt hash on each line, as `htpasswd -B`
//! writes it. `hurtle::auth` checks passwords against the hashes.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Largest file of users; ten thousand users take less.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// bcrypt's cost, the binary logarithm of its rounds: bcrypt's own minimum, and the largest that
/// checks a password within two seconds. Any client can cause that work.
const COST_MIN: u32 = 4;
const COST_MAX: u32 = 14;

/// A hash in modular crypt form: `$2y$10$`, then 22 characters of salt and 31 of digest.
const HASH_BYTES: usize = 60;

/// A user with the hash of the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name: not empty, without colons and control characters (RFC 7617 section 2).
    pub name: String,
    /// A complete bcrypt hash with a cost from 4 to 14.
    pub hash: String,
}

/// Reads a file of users.
///
/// # Errors
/// Every problem in the file, with its line number if it has one.
pub fn read_users(file: &Path) -> Result<Vec<User>, Vec<String>> {
    let mut text = String::new();
    let read = File::open(file).and_then(|f| f.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Err(e) => Err(vec![format!("{}: {e}", file.display())]),
        Ok(n) if n as u64 > FILE_BYTES_MAX => {
            Err(vec![format!("{}: more than {} KiB", file.display(), FILE_BYTES_MAX >> 10)])
        }
        Ok(_) => parse_users(&text).map_err(|problems| {
            problems.into_iter().map(|p| format!("{}:{p}", file.display())).collect()
        }),
    }
}

/// Parses one user a line; skips empty lines and lines that begin with `#`.
///
/// # Errors
/// `line: message` for each wrong line.
pub fn parse_users(text: &str) -> Result<Vec<User>, Vec<String>> {
    let mut users = Vec::new();
    let mut problems = Vec::new();
    let mut names = HashSet::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match user(line) {
            Ok(user) if !names.insert(user.name.clone()) => {
                problems.push(format!("{}: the name is listed twice; remove one", at + 1));
            }
            Ok(user) => users.push(user),
            Err(wrong) => problems.push(format!("{}: {wrong}", at + 1)),
        }
    }
    if users.is_empty() && problems.is_empty() {
        problems.push(" it has no user; add a line of `htpasswd -nB NAME`".to_owned());
    }
    if problems.is_empty() { Ok(users) } else { Err(problems) }
}

fn user(line: &str) -> Result<User, &'static str> {
    let (name, hash) = line.split_once(':').ok_or("not NAME:HASH")?;
    if name.is_empty() || name.contains(char::is_control) {
        return Err("a name is not empty and has no control characters");
    }
    match cost(hash) {
        None => Err("not a bcrypt hash; write a line of `htpasswd -nB NAME`"),
        Some(cost) if !(COST_MIN..=COST_MAX).contains(&cost) => {
            Err("the cost of the hash is not from 4 to 14; 10 or 12 is usual")
        }
        Some(_) => Ok(User { name: name.to_owned(), hash: hash.to_owned() }),
    }
}

/// The cost of a bcrypt hash; `None`: not a valid hash. Variants `a`, `b` and `y` are one
/// algorithm; `x` marks hashes of a defective implementation.
fn cost(hash: &str) -> Option<u32> {
    let rest = ["$2a$", "$2b$", "$2y$"].iter().find_map(|begin| hash.strip_prefix(begin))?;
    let (cost, digest) = rest.split_once('$')?;
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/');
    let whole = hash.len() == HASH_BYTES && cost.len() == 2 && digest.bytes().all(is_digit);
    whole.then(|| cost.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "$2y$04$TuFlz2dPZTSV8OaPGZjPpuO9xDe8l4Q2YhGhQ7EU7g7VLbz9eEc7y";

    #[test]
    fn a_line_is_a_name_and_a_complete_hash() {
        let short = &HASH[..59];
        let cost = |cost: &str| HASH.replace("$04$", &format!("${cost}$"));
        let none = " it has no user; add a line of `htpasswd -nB NAME`";
        let foreign = "1: not a bcrypt hash; write a line of `htpasswd -nB NAME`";
        let costly = "1: the cost of the hash is not from 4 to 14; 10 or 12 is usual";
        let nameless = "1: a name is not empty and has no control characters";
        let rows: [(&str, String, Result<usize, &str>); 14] = [
            ("one", format!("anna:{HASH}\n"), Ok(1)),
            ("comments and empty lines", format!("# us\n\nanna:{HASH}\r\nbo:{HASH}"), Ok(2)),
            ("the costliest", format!("anna:{}", cost("14")), Ok(1)),
            ("too costly", format!("anna:{}", cost("15")), Err(costly)),
            ("too cheap", format!("anna:{}", cost("03")), Err(costly)),
            ("no cost", format!("anna:{}", cost("ab")), Err(foreign)),
            ("a hash cut short", format!("anna:{short}"), Err(foreign)),
            ("a password", "anna:secret".into(), Err(foreign)),
            ("MD5", "anna:$apr1$abcdefgh$0123456789012345678901".into(), Err(foreign)),
            ("the defective variant", format!("anna:{}", HASH.replace("2y", "2x")), Err(foreign)),
            ("no colon", "anna".into(), Err("1: not NAME:HASH")),
            ("no name", format!(":{HASH}"), Err(nameless)),
            (
                "twice",
                format!("a:{HASH}\na:{HASH}"),
                Err("2: the name is listed twice; remove one"),
            ),
            ("no user", "# nobody\n".into(), Err(none)),
        ];
        for (sentence, text, want) in rows {
            let got = parse_users(&text).map(|users| users.len());
            assert_eq!(got, want.map_err(|e| vec![e.to_owned()]), "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, bytes in "[a:$2y./0-9\n]{0,90}") {
            let _ = parse_users(&text);
            let _ = parse_users(&bytes);
        }
    }
}
