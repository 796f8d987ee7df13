//! Checks the licences of all dependencies against the list in deny.toml, on every run. If
//! cargo-deny is installed, it checks the rest, known vulnerabilities among it.

use std::fs;

use crate::command::{cargo, output, root};
use crate::console::Console;
use crate::steps::{Failure, Outcome};

/// The systems we ship for; the same as in deny.toml.
const TARGETS: [&str; 3] =
    ["x86_64-unknown-linux-gnu", "x86_64-apple-darwin", "x86_64-unknown-freebsd"];

/// Optional features that bring dependencies.
const FEATURES: &str = "hurtle/object-store,hurtle/wasm";

/// Separates a crate from its licence in cargo's output; occurs in neither.
const SEPARATOR: char = '|';

pub(crate) fn check(console: &Console<'_>) -> Result<Outcome, Failure> {
    let config = fs::read_to_string(root().join("deny.toml"))
        .map_err(|error| Failure(format!("deny.toml: {error}")))?;
    let allowed = allowed(&config);
    let mut tree = cargo(&["tree", "--workspace", "--edges", "normal,build,dev"]);
    tree.args(["--prefix", "none", "--format", "{p}|{l}", "--features", FEATURES]);
    tree.args(TARGETS.iter().flat_map(|target| ["--target", target]));
    let mut crates: Vec<String> = output(&mut tree)?.lines().map(String::from).collect();
    crates.sort();
    crates.dedup();
    let refused: Vec<String> = crates
        .iter()
        .filter_map(|line| line.trim_end_matches(" (*)").split_once(SEPARATOR))
        .filter(|(_, licence)| !is_allowed(licence, &allowed))
        .map(|(name, licence)| format!("{name}: {licence:?}"))
        .collect();
    if !refused.is_empty() {
        return Err(Failure(format!(
            "deny.toml allows no licence of these; leave them out, or add theirs to the list:\n  {}",
            refused.join("\n  ")
        )));
    }
    console.say(&format!("{} crates, each under one of: {}", crates.len(), allowed.join(", ")));
    if has_cargo_deny() {
        console.run(&mut cargo(&["deny", "check", "licenses", "bans", "sources"]))?;
    }
    Ok(Outcome::Passed)
}

pub(crate) fn advisories(console: &Console<'_>) -> Result<Outcome, Failure> {
    if !has_cargo_deny() {
        let remedy = "cargo-deny is not installed (cargo install --locked cargo-deny)";
        return Ok(Outcome::NotRun(remedy.into()));
    }
    // A separate step, because a missing network is not an error of the code.
    if let Err(Failure(why)) = output(&mut cargo(&["deny", "fetch", "db"])) {
        return Ok(Outcome::NotRun(format!("the advisory database cannot be fetched: {why}")));
    }
    console.run(&mut cargo(&["deny", "check", "--disable-fetch", "advisories"]))?;
    Ok(Outcome::Passed)
}

fn has_cargo_deny() -> bool {
    output(&mut cargo(&["deny", "--version"])).is_ok()
}

/// The elements of the list `allow` in `[licenses]`.
fn allowed(config: &str) -> Vec<&str> {
    let list = config.lines().skip_while(|line| *line != "[licenses]");
    let list = list.skip_while(|line| !line.starts_with("allow = [")).skip(1);
    let items = list.take_while(|line| !line.starts_with(']'));
    items.filter_map(|line| line.split('"').nth(1)).collect()
}

/// `true` if these licences satisfy an SPDX expression. `/` is the old way to write OR.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest, allowed) == Some(true) && rest.is_empty()
}

/// Parses `a OR b`; AND binds tighter. `None`: not an expression.
fn either(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut met = both(words, allowed)?;
    while take(words, "OR") {
        met |= both(words, allowed)?;
    }
    Some(met)
}

fn both(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while take(words, "AND") {
        met &= one(words, allowed)?;
    }
    Some(met)
}

/// Parses `( ... )`, `a` or `a WITH exception`.
fn one(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    if take(words, "(") {
        let met = either(words, allowed)?;
        return take(words, ")").then_some(met);
    }
    let (licence, rest) = words.split_first()?;
    *words = rest;
    if !take(words, "WITH") {
        return Some(allowed.contains(licence));
    }
    let (exception, rest) = words.split_first()?;
    *words = rest;
    Some(allowed.contains(&format!("{licence} WITH {exception}").as_str()))
}

fn take(words: &mut &[&str], word: &str) -> bool {
    match words.split_first() {
        Some((first, rest)) if *first == word => {
            *words = rest;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{allowed, is_allowed};

    #[test]
    fn expressions() {
        let rows = [
            ("a licence of the list", "MIT", true),
            ("one that is not", "GPL-3.0-only", false),
            ("none at all", "", false),
            ("a choice with one of the list", "GPL-3.0-only OR MIT", true),
            ("the old way to write it", "GPL-3.0-only/MIT", true),
            ("both are needed", "MIT AND GPL-3.0-only", false),
            ("AND binds tighter than OR", "MIT OR Zlib AND GPL-3.0-only", true),
            ("unless in parentheses", "(MIT OR Zlib) AND GPL-3.0-only", false),
            ("and they nest", "((MIT) OR (GPL-3.0-only)) AND Zlib", true),
            ("an exception is its own licence", "MIT WITH Strings-exception", false),
            ("beside another it does no harm", "MIT WITH Strings-exception OR Zlib", true),
            ("what cannot be read is not allowed", "MIT OR (Zlib", false),
            ("nor what goes on after its end", "MIT) OR Zlib", false),
        ];
        for (sentence, expression, expected) in rows {
            assert_eq!(is_allowed(expression, &["MIT", "Zlib"]), expected, "{sentence}");
        }
    }

    #[test]
    fn the_list_is_read_as_it_is_written() {
        let config = "[bans]\nallow = [\n \"x\",\n]\n[licenses]\nallow = [\n  \"MIT\",\n  \
                      \"Zlib\", # foldhash\n]\n[[licenses.exceptions]]\nallow = [\"GPL-3.0\"]\n";
        assert_eq!(allowed(config), ["MIT", "Zlib"]);
        assert!(!allowed(include_str!("../../../deny.toml")).is_empty());
    }
}
