//! Filling in the names in a contender's texts.

use std::collections::BTreeMap;

/// What stands at the beginning of a line that counts only when started by root.
const ROOT_LINE: &str = "{ROOT}";
/// Filled in when a file is asked for, not before.
const LATER: &str = "FILE";

/// Values by name.
pub(super) type Names = BTreeMap<String, String>;

/// The text with every `{NAME}` replaced. A name is capitals and underscores, so the braces of
/// configuration languages stay; one that has no value is an error, and values are not filled in
/// again.
pub(super) fn fill(text: &str, names: &Names, is_root: bool) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let line = match line.strip_prefix(ROOT_LINE) {
            Some(_) if !is_root => continue,
            Some(rest) => rest,
            None => line,
        };
        fill_line(line, names, &mut filled)?;
    }
    Ok(filled)
}

fn fill_line(line: &str, names: &Names, filled: &mut String) -> Result<(), String> {
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').filter(|(name, _)| is_name(name) && *name != LATER) {
            Some((name, behind)) => {
                let value = names.get(name);
                filled.push_str(value.ok_or_else(|| format!("`{{{name}}}` has no value here"))?);
                rest = behind;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_other_braces_stay() {
        let names = [("PORT", "80"), ("ODD", "{PORT}")];
        let names = names.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let rows: &[(&str, &str, bool, Result<&str, &str>)] = &[
            ("a name", "listen {PORT};", false, Ok("listen 80;")),
            ("a block", "server { listen {PORT}; }", false, Ok("server { listen 80; }")),
            (
                "Erlang's and Haskell's",
                "{port, {PORT}} s { f = 1 }",
                false,
                Ok("{port, 80} s { f = 1 }"),
            ),
            ("a value is not filled in again", "{ODD}", false, Ok("{PORT}")),
            ("the file comes later", "/files/{FILE}", false, Ok("/files/{FILE}")),
            ("root's line, as root", "a\n{ROOT}user x\nb\n", true, Ok("a\nuser x\nb\n")),
            ("root's line, as another", "a\n{ROOT}user x\nb\n", false, Ok("a\nb\n")),
            ("no value", "{PROT}", false, Err("`{PROT}` has no value here")),
            ("never closed", "a {PORT", false, Ok("a {PORT")),
        ];
        for (sentence, text, is_root, expected) in rows {
            let got = fill(text, &names, *is_root);
            assert_eq!(got.as_deref().map_err(|e| &**e), *expected, "{sentence}");
        }
    }
}
