//! Fills in the names in a contender's texts.

use std::collections::BTreeMap;

/// Prefix of a line that counts only if started by root.
pub(super) const ROOT: &str = "ROOT";
/// Prefix of a line that counts only if the work uploads.
pub(super) const UPLOADS: &str = "UPLOADS";
/// Filled in for each request, not in advance.
const LATER: &str = "FILE";

/// Values by name.
pub(super) type Names = BTreeMap<String, String>;

/// The text with every `{NAME}` replaced. A name consists of capitals and underscores, so the
/// braces of configuration languages stay. A name without a value is an error; values are not
/// expanded again. A line that begins with a condition counts only if the condition is among the
/// names.
pub(super) fn fill(text: &str, names: &Names) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let condition = [ROOT, UPLOADS].into_iter().find_map(|name| {
            let rest = line.strip_prefix('{')?.strip_prefix(name)?.strip_prefix('}')?;
            Some((name, rest))
        });
        match condition {
            Some((name, rest)) if names.contains_key(name) => fill_line(rest, names, &mut filled)?,
            Some(_) => {}
            None => fill_line(line, names, &mut filled)?,
        }
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
        let names: Names = names.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let rows: &[(&str, &str, &str, Result<&str, &str>)] = &[
            ("a name", "listen {PORT};", "", Ok("listen 80;")),
            ("a block", "server { listen {PORT}; }", "", Ok("server { listen 80; }")),
            (
                "Erlang's and Haskell's",
                "{port, {PORT}} s { f = 1 }",
                "",
                Ok("{port, 80} s { f = 1 }"),
            ),
            ("a value is not filled in again", "{ODD}", "", Ok("{PORT}")),
            ("the file comes later", "/files/{FILE}", "", Ok("/files/{FILE}")),
            ("root's line, as root", "a\n{ROOT}user x\nb\n", ROOT, Ok("a\nuser x\nb\n")),
            ("root's line, as another", "a\n{ROOT}user x\nb\n", "", Ok("a\nb\n")),
            ("a line for uploads, with", "{UPLOADS}at {PORT}\n", UPLOADS, Ok("at 80\n")),
            ("a line for uploads, without", "{UPLOADS}at {PORT}\n", ROOT, Ok("")),
            ("no value", "{PROT}", "", Err("`{PROT}` has no value here")),
            ("never closed", "a {PORT", "", Ok("a {PORT")),
        ];
        for (sentence, text, condition, expected) in rows {
            let mut names = names.clone();
            names.insert((*condition).to_owned(), String::new());
            let got = fill(text, &names);
            assert_eq!(got.as_deref().map_err(|e| &**e), *expected, "{sentence}");
        }
    }
}
