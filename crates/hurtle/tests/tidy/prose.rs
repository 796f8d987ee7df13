//! Checks the first word and the width of comments. It reads lines, not Rust: a line of a string
//! literal that begins with `//` counts as a comment.

/// Directories whose Rust files are checked.
const CHECKED: &[&str] = &["crates/", "fuzz/"];

/// Words that begin a clause or a fragment instead of a statement, in lower case.
const RIDDLES: &[&str] = &[
    "how", "however", "no", "of", "what", "whatever", "when", "whenever", "where", "wherever",
    "whether", "who", "whoever", "whom", "whose",
];

/// Most characters of a line, as rustfmt has it for code.
const WIDTH_MAX: usize = 100;

/// Returns whether the comments of this file are checked.
pub(crate) fn is_checked(path: &str) -> bool {
    path.ends_with(".rs") && CHECKED.iter().any(|checked| path.starts_with(checked))
}

/// Returns the line (from 1) and the first word of each comment paragraph that begins with one of
/// `RIDDLES` or with `The same`.
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

/// Returns the lines (from 1) whose comments are wider than code may be. A long word, such as an
/// address, cannot be broken.
pub(crate) fn wide(text: &str) -> Vec<usize> {
    let is_wide = |line: &str| {
        let words = comment_of(line).map(|comment| comment.split(' ').count());
        words.is_some_and(|words| words > 1) && line.chars().count() > WIDTH_MAX
    };
    text.lines().zip(1..).filter(|(line, _)| is_wide(line)).map(|(_, at)| at).collect()
}

/// Returns the text of a comment line; `None` for any other line.
fn comment_of(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim())
}

/// Returns the first word of a comment if it begins a clause instead of a statement.
fn riddle(comment: &str) -> Option<String> {
    if comment.to_lowercase().starts_with("the same ") {
        return Some("The same".into());
    }
    let word = comment.split(|c: char| !c.is_alphabetic()).next()?;
    RIDDLES.contains(&word.to_lowercase().as_str()).then(|| word.to_owned())
}
