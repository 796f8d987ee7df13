//! Translates the regular expression of a location.

use toml::Value;

use super::modifier::{Modifier, modifier};
use super::regex;
use super::report::Report;
use super::syntax::Directive;
use hurtle_config::PathRegex;

/// The regular expression of a location.
#[derive(Clone, Debug)]
pub(super) struct Expression(PathRegex);

impl Expression {
    /// The expression of a location; `None` if it was refused.
    pub(super) fn of(location: &Directive, report: &mut Report) -> Option<Expression> {
        let (Modifier::Regex, text) = modifier(location)? else { return None };
        let text = without_lookahead(text);
        let text = if location.arg(0) == "~*" { format!("(?i){text}") } else { text };
        match PathRegex::new(&text) {
            Ok(regex) => Some(Expression(regex)),
            Err(problem) => {
                report.refuse(location, problem);
                None
            }
        }
    }

    /// `true`: it is of the endings of paths alone, such as `\.php$`.
    pub(super) fn is_of_endings(&self) -> bool {
        let text = self.0.text().trim_start_matches("(?i)");
        let ends = ["$", "(/|$)", "(?:/|$)", "(?:$|/)"];
        let endings = ends.iter().find_map(|end| text.strip_suffix(end));
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"()|?:".contains(&b);
        endings
            .and_then(|text| text.strip_prefix(r"\."))
            .is_some_and(|text| text.bytes().all(is_plain))
    }

    /// An expression of hurtle; `None`: it is none.
    pub(super) fn of_text(text: &str) -> Option<Expression> {
        PathRegex::new(text).ok().map(Expression)
    }

    /// The value of `match`. `before`: an expression that has precedence.
    pub(super) fn matcher(&self, before: Option<&Expression>) -> Value {
        let table = |expression: &Expression| {
            toml::Table::from_iter([("regex".to_owned(), Value::from(expression.0.text()))])
        };
        let mut matcher = table(self);
        if let Some(before) = before {
            matcher.insert("not".to_owned(), Value::from(table(before)));
        }
        Value::from(matcher)
    }

    /// `true`: this text is in it.
    pub(super) fn has(&self, text: &str) -> bool {
        self.0.text().contains(text)
    }

    /// A directory that it matches, whose name is in it; else a name for one.
    pub(super) fn directory(&self) -> String {
        let mut named = directories(self.0.text()).into_iter();
        named.find(|directory| self.is_in(directory)).unwrap_or_else(|| "/DIRECTORY/".to_owned())
    }

    /// `true` if this is the value of its `match`.
    pub(super) fn is(&self, matcher: &Value) -> bool {
        matcher.get("regex").and_then(Value::as_str) == Some(self.0.text())
    }

    /// `true` if paths that end with this one are the location's.
    pub(super) fn is_in(&self, path: &str) -> bool {
        self.0.is_in(path.as_bytes())
    }
}

impl Expression {
    /// Returns a page of this name beneath `path` that the expression matches, and whose directory
    /// it does not match; `None`: it is not known to match one. The directories are those whose
    /// names the expression has.
    pub(super) fn page_beneath(&self, path: &str, name: &str) -> Option<String> {
        let text = self.0.text().trim_start_matches("(?i)");
        let root = path.trim_end_matches('/');
        let is_beneath = |directory: &String| directory.starts_with(&format!("{root}/"));
        let named = directories(text);
        let mut known = named.iter().filter(|directory| is_beneath(directory));
        let is_page = |directory: &&String| {
            self.is_in(&format!("{directory}{name}")) && !self.is_in(directory)
        };
        if let Some(directory) = known.find(is_page) {
            return Some(format!("{directory}{name}"));
        }
        // The end of the expression is of a name, whatever its directory is.
        let (_, end) = text.rsplit_once('/')?;
        let of_name = PathRegex::new(&format!("^(?:{end})")).ok()?;
        let any = format!("{root}/DIRECTORY/{name}");
        let ends = text.ends_with('$') && of_name.is_in(name.as_bytes());
        (ends && !self.is_in(&format!("{root}/{name}"))).then_some(any)
    }
}

impl Expression {
    /// The value of `match` for the directories whose page of this name the expression matches:
    /// `/uploads/.*\.php$` has those beneath `/uploads/`. `None`: they are not known.
    pub(super) fn directories_of(&self, page: &str) -> Option<Value> {
        let (before, name) = self.0.text().rsplit_once('/')?;
        let (_, page) = page.rsplit_once('/')?;
        let of_name = PathRegex::new(&format!("^(?:{name})")).ok()?;
        let rest = if stays_in_directory(name) { "$" } else { "(?:.*/)?$" };
        let is_closed = |text: &str| text.matches('(').count() == text.matches(')').count();
        let is_known = name.ends_with('$') && of_name.is_in(page.as_bytes());
        let regex = format!("{before}/{rest}");
        let is_plain =
            is_known && regex::has_scripts(self.0.text()) && is_closed(before) && is_closed(name);
        (is_plain && PathRegex::new(&regex).is_ok()).then(|| {
            Value::from(toml::Table::from_iter([("regex".to_owned(), Value::from(regex))]))
        })
    }
}

impl Expression {
    /// The value of `match` for the directories whose index is a page of `page_beneath`; `None`:
    /// they are not known.
    pub(super) fn closing(&self, page: &str) -> Option<Value> {
        self.directories_of(page).or_else(|| {
            let (directory, _) = page.rsplit_once('/')?;
            let (case, text) = match self.0.text().strip_prefix("(?i)") {
                Some(text) => ("(?i)", text),
                None => ("", self.0.text()),
            };
            let text = text.replace("\\-", "-").replace("\\/", "/");
            let rest = text.strip_prefix('^')?.strip_prefix(directory)?.strip_prefix('/')?;
            // It is for names in this one directory, and beneath it.
            if regex::has_choice(&text) || rest.replace(NAME, "").contains('/') {
                return None;
            }
            let deeper = if stays_in_directory(rest) { "" } else { "(?:.*/)?" };
            let regex = format!("{case}^{directory}/{deeper}$");
            let matcher = toml::Table::from_iter([("regex".to_owned(), Value::from(regex))]);
            Some(Value::from(matcher))
        })
    }
}

/// The characters of names.
const NAME: &str = "[^/]";

/// Returns whether an expression of a name is known to match no slash.
fn stays_in_directory(name: &str) -> bool {
    let rest = [NAME, r"\.", r"\w", r"\d", r"\-"]
        .iter()
        .fold(name.to_owned(), |rest, known| rest.replace(known, ""));
    rest.chars().all(|c| c.is_ascii_alphanumeric() || "_-+*?$(){}:|,".contains(c))
}

/// The directories whose names are written in an expression.
fn directories(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "/_-".contains(c);
    let plain = text.replace("\\-", "-").replace("\\/", "/");
    let names = plain.split(|c| !is_name(c)).map(|name| name.trim_matches('/'));
    names.filter(|name| !name.is_empty()).map(|name| format!("/{name}/")).collect()
}

/// Writes the first `(?!word)` without look-ahead: the text behind it ends or differs within the
/// word.
fn without_lookahead(text: &str) -> String {
    let Some((before, rest)) = text.split_once("(?!") else { return text.to_owned() };
    let Some((word, after)) = rest.split_once(')') else { return text.to_owned() };
    let word = word.replace("\\/", "/");
    let is_word = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_/".contains(&b));
    if word.is_empty() || !is_word || !matches!(after, "" | ".*") {
        return text.to_owned();
    }
    let differs = |at: usize| format!("{}(?:[^{}]|$)", &word[..at], regex_class(&word[at..=at]));
    let ways: Vec<String> = (0..word.len()).map(differs).collect();
    format!("{before}(?:{})", ways.join("|"))
}

/// A character within brackets.
fn regex_class(character: &str) -> String {
    if character == "-" { "\\-".to_owned() } else { character.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_ahead_of_a_word_is_written_without() {
        let text = without_lookahead(r"/\.(?!well-known)");
        let regex = PathRegex::new(&text).unwrap();
        for (path, expected) in [
            ("/.git", true),
            ("/.", true),
            ("/.well-known", false),
            ("/.well-known/acme", false),
            ("/.well-know", true),
            ("/.wellx", true),
            ("/.well-known/.git", true),
            ("/a", false),
        ] {
            assert_eq!(regex.is_in(path.as_bytes()), expected, "{path}");
        }
        let regex = PathRegex::new(&without_lookahead(r"/\.(?!well-known\/)")).unwrap();
        for (path, expected) in
            [("/.well-known/x", false), ("/.well-known", true), ("/.git/x", true)]
        {
            assert_eq!(regex.is_in(path.as_bytes()), expected, "{path}");
        }
        for text in [r"/\.(?!a|b)", r"(?!a)b", r"a(?!", r"a(?!b"] {
            assert_eq!(without_lookahead(text), text, "left for the reader of expressions");
        }
    }
}
