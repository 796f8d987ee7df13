//! The rule on a comment's first word. It reads lines, not Rust: a line of a text that begins with
//! `//` counts as a comment.

/// Files and directories that are checked. `cache`, `handler`, `pipeline`, `protocol`, `transport`
/// and a few files join the list once their comments are rewritten.
const CHECKED: &[&str] = &[
    "crates/apps/",
    "crates/deathmatch/",
    "crates/hurtle-http/examples/",
    "crates/hurtle-http/src/cgi/",
    "crates/hurtle-http/src/fcgi.rs",
    "crates/hurtle-http/src/h1/",
    "crates/hurtle-http/src/h2/",
    "crates/hurtle-http/src/lib.rs",
    "crates/hurtle-http/src/proxy_protocol/",
    "crates/hurtle-http/src/request/error.rs",
    "crates/hurtle-http/src/request/fields.rs",
    "crates/hurtle-http/src/request/framing.rs",
    "crates/hurtle-http/src/request/method.rs",
    "crates/hurtle-http/src/request/mod.rs",
    "crates/hurtle-http/src/semantics/",
    "crates/hurtle-http/tests/",
    "crates/hurtle/examples/",
    "crates/hurtle/src/acme/",
    "crates/hurtle/src/answer.rs",
    "crates/hurtle/src/auth/",
    "crates/hurtle/src/body",
    "crates/hurtle/src/cli",
    "crates/hurtle/src/clock.rs",
    "crates/hurtle/src/config/",
    "crates/hurtle/src/deadline.rs",
    "crates/hurtle/src/disk.rs",
    "crates/hurtle/src/explain.rs",
    "crates/hurtle/src/files/",
    "crates/hurtle/src/lib.rs",
    "crates/hurtle/src/main.rs",
    "crates/hurtle/src/observe/",
    "crates/hurtle/src/rt/",
    "crates/hurtle/src/serve/",
    "crates/hurtle/src/server/accept.rs",
    "crates/hurtle/src/server/acme.rs",
    "crates/hurtle/src/server/activation.rs",
    "crates/hurtle/src/server/admin.rs",
    "crates/hurtle/src/server/apps/",
    "crates/hurtle/src/server/certificates.rs",
    "crates/hurtle/src/server/mod.rs",
    "crates/hurtle/src/server/mount.rs",
    "crates/hurtle/src/server/process.rs",
    "crates/hurtle/src/server/protocols.rs",
    "crates/hurtle/src/server/worker.rs",
    "crates/hurtle/src/site.rs",
    "crates/hurtle/src/site/access.rs",
    "crates/hurtle/src/site/https.rs",
    "crates/hurtle/src/site/internal.rs",
    "crates/hurtle/src/site/mount.rs",
    "crates/hurtle/src/site/slashes.rs",
    "crates/hurtle/src/sys/",
    "crates/hurtle/src/tls/",
    "crates/hurtle/src/uploads/",
    "crates/hurtle/tests/",
    "crates/xtask/",
    "fuzz/",
];

/// Words that begin a clause instead of a statement, in lower case.
const RIDDLES: &[&str] = &[
    "how", "however", "of", "what", "whatever", "when", "whenever", "where", "wherever", "whether",
    "who", "whoever", "whom", "whose",
];

pub(crate) fn is_checked(path: &str) -> bool {
    path.ends_with(".rs") && CHECKED.iter().any(|checked| path.starts_with(checked))
}

/// The first line (from 1) and the first word of each comment, or paragraph of one, that begins with
/// a riddle.
pub(crate) fn riddles(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_open = true;
    for (at, line) in text.lines().enumerate() {
        let comment = comment_of(line);
        let opening = comment.filter(|comment| is_open && !comment.is_empty());
        found.extend(opening.and_then(riddle).map(|word| (at + 1, word)));
        is_open = comment.is_none_or(str::is_empty);
    }
    found
}

/// A comment line's text; `None` for a line of code or an empty one.
fn comment_of(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim())
}

fn riddle(comment: &str) -> Option<String> {
    if comment.to_lowercase().starts_with("the same ") {
        return Some("The same".into());
    }
    let word = comment.split(|c: char| !c.is_alphabetic()).next()?;
    RIDDLES.contains(&word.to_lowercase().as_str()).then(|| word.to_owned())
}
