//! Properties of a request that conditions of nginx compare, as conditions of `match`.

use std::iter::Peekable;
use std::net::IpAddr;
use std::str::Chars;

use toml::{Table, Value};

use hurtle_config::PathRegex;

/// A property of a request, named by a variable of nginx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Method,
    Host,
    Scheme,
    Client,
    /// The decoded path.
    Path,
    /// The file of the path, with its directory.
    File,
    /// The path and the query as sent.
    Target,
    /// The whole query.
    Query,
    /// A field, a cookie or a parameter: the key of `match`, and the name.
    Named(&'static str, String),
}

impl Subject {
    /// The property of a variable; `None`: it is another variable.
    pub(super) fn of(variable: &str) -> Option<Subject> {
        let named = |kind, name: &str| {
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
            let is_name = !name.is_empty() && name.bytes().all(is_plain);
            is_name.then(|| Subject::Named(kind, name.to_owned()))
        };
        let name = variable.strip_prefix('$')?;
        let name = name.strip_prefix('{').and_then(|n| n.strip_suffix('}')).unwrap_or(name);
        match name {
            "request_method" => Some(Subject::Method),
            "host" => Some(Subject::Host),
            "scheme" => Some(Subject::Scheme),
            "remote_addr" => Some(Subject::Client),
            "uri" | "document_uri" => Some(Subject::Path),
            "request_filename" => Some(Subject::File),
            "request_uri" => Some(Subject::Target),
            "args" | "query_string" | "is_args" => Some(Subject::Query),
            _ => {
                // The field Host has a port, too.
                if let Some(field) = name.strip_prefix("http_").filter(|field| *field != "host") {
                    return named("header", &field.replace('_', "-"));
                }
                if let Some(cookie) = name.strip_prefix("cookie_") {
                    return named("cookie", cookie);
                }
                named("query", name.strip_prefix("arg_")?)
            }
        }
    }

    /// The conditions of which one is met where the property is this text; `None`: hurtle has none.
    /// `ignores_case`: letters are compared in any case.
    pub(super) fn equals(&self, text: &str, ignores_case: bool) -> Option<Vec<Table>> {
        let is_plain = |extra: &[u8]| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
        };
        match self {
            Subject::Method if is_plain(b"") => {
                Some(vec![one("method", text.to_ascii_uppercase())])
            }
            Subject::Host if is_plain(b"-._") => Some(vec![one("host", text)]),
            Subject::Scheme if matches!(text, "http" | "https") => Some(vec![one("scheme", text)]),
            // nginx compares the text, so that no client is a network.
            Subject::Client if text.parse::<IpAddr>().is_ok() => Some(vec![one("client", text)]),
            Subject::Path if is_plain(b"/._~-") && text.starts_with('/') => match ignores_case {
                false => Some(vec![one("path", text)]),
                true => Some(vec![one("regex", format!("(?i)^{}$", escaped(text)))]),
            },
            Subject::Target if is_plain(b"/._~-") && text.starts_with('/') => {
                let path = match ignores_case {
                    false => ("path", Value::from(text)),
                    true => ("regex", Value::from(format!("(?i)^{}$", escaped(text)))),
                };
                Some(vec![both([path, ("query", Value::from(false))])])
            }
            Subject::Query if text.is_empty() => Some(vec![one("query", false)]),
            Subject::Named(kind, name) if text.is_empty() => {
                let empty = Table::from_iter([("regex".to_owned(), Value::from("^$"))]);
                Some(vec![value(kind, name, false), value(kind, name, empty)])
            }
            Subject::Named(kind, name) if is_plain(b"-_./: ") && !ignores_case => {
                Some(vec![value(kind, name, text)])
            }
            Subject::Named(kind, name) => {
                let regex =
                    format!("{}^{}$", if ignores_case { "(?i)" } else { "" }, escaped(text));
                Some(vec![value(
                    kind,
                    name,
                    Table::from_iter([("regex".to_owned(), Value::from(regex))]),
                )])
            }
            _ => None,
        }
    }

    /// Likewise where the property contains a match of an expression.
    pub(super) fn contains(&self, text: &str, ignores_case: bool) -> Option<Vec<Table>> {
        let flag = if ignores_case { "(?i)" } else { "" };
        let written = format!("{flag}{text}");
        let regex = PathRegex::new(&written).ok()?;
        match self {
            Subject::Method | Subject::Host | Subject::Scheme => {
                let words = words(text)?;
                let each: Option<Vec<Vec<Table>>> =
                    words.iter().map(|word| self.equals(word, ignores_case)).collect();
                Some(each?.into_iter().flatten().collect())
            }
            Subject::Path => Some(vec![one("regex", format!("{flag}{}", without_lead(text)))]),
            Subject::File => {
                // It has a directory before the path.
                let text = text.strip_prefix("^.+").unwrap_or_else(|| without_lead(text));
                is_end_of_name(text).then(|| vec![one("regex", format!("{flag}{text}"))])
            }
            Subject::Target => Subject::target(text, flag),
            Subject::Named(kind, name) => {
                let table = Table::from_iter([("regex".to_owned(), Value::from(written))]);
                let mut any = vec![value(kind, name, table)];
                if regex.is_in(b"") {
                    any.push(value(kind, name, false));
                }
                Some(any)
            }
            Subject::Client | Subject::Query => None,
        }
    }

    /// The conditions for an expression of the target. `None`: the query may decide whether it
    /// matches, of which hurtle knows parameters only.
    fn target(text: &str, flag: &str) -> Option<Vec<Table>> {
        let ends_in_text = ["(.*)$", ".*$", "(.*)", ".*"].iter();
        let mut beginning = ends_in_text.filter_map(|end| text.strip_suffix(end));
        let beginning = beginning.find(|text| !text.ends_with('\\'));
        match (beginning, text.strip_suffix('$')) {
            (Some(begin), _) => {
                is_of_path(begin).then(|| vec![one("regex", format!("{flag}{begin}"))])
            }
            (None, Some(whole)) => is_of_path(whole).then(|| {
                let regex = Value::from(format!("{flag}{text}"));
                vec![both([("regex", regex), ("query", Value::from(false))])]
            }),
            (None, None) => is_of_path(text).then(|| vec![one("regex", format!("{flag}{text}"))]),
        }
    }

    /// Likewise where the property is neither empty nor 0, as nginx asks with `if ($variable)`.
    pub(super) fn is_true(&self) -> Option<Vec<Table>> {
        match self {
            Subject::Query => Some(vec![one("query", true)]),
            Subject::Named(kind, name) => {
                let table = Table::from_iter([("regex".to_owned(), Value::from("^(?:[^0]|0.)"))]);
                Some(vec![value(kind, name, table)])
            }
            _ => None,
        }
    }

    /// The difference that such a condition of this property has, with an example.
    pub(super) fn remark(&self) -> Option<String> {
        let text = match self {
            Subject::Target => Some(
                "hurtle compares the decoded path, and nginx the target as sent: GET /%61 is /a here, and a query \
                 is no part of it",
            ),
            Subject::Query => Some("a query of 0, such as GET /?0, is one here, and none in nginx"),
            Subject::Named("query", name) => {
                let upper = name.to_ascii_uppercase();
                return (upper != *name).then(|| {
                    format!("names of parameters have a case here: GET /?{upper}=1 has no {name}, as it has in nginx")
                });
            }
            Subject::Named("cookie", name) => {
                let upper = name.to_ascii_uppercase();
                return (upper != *name).then(|| {
                    format!("names of cookies have a case here: GET / with Cookie: {upper}=1 has no {name}, as it has in nginx")
                });
            }
            _ => None,
        };
        text.map(str::to_owned)
    }
}

/// Returns a table with this key alone.
pub(super) fn one(key: &str, value: impl Into<Value>) -> Table {
    Table::from_iter([(key.to_owned(), value.into())])
}

fn both(conditions: [(&str, Value); 2]) -> Table {
    conditions.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A condition on a field, a cookie or a parameter.
fn value(kind: &str, name: &str, value: impl Into<Value>) -> Table {
    one(kind, one(name, value))
}

/// A text within an expression.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && !"/-_".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The words of an expression such as `^(GET|HEAD)$`.
fn words(text: &str) -> Option<Vec<&str>> {
    let inner = text.strip_prefix('^')?.strip_suffix('$')?;
    let inner = inner.strip_prefix('(').and_then(|x| x.strip_suffix(')')).unwrap_or(inner);
    let inner = inner.strip_prefix("?:").unwrap_or(inner);
    Some(inner.split('|').collect())
}

/// An expression without the `^.*` at its begin, which matches any directory before a path.
fn without_lead(text: &str) -> &str {
    ["^.*?", "^.*"].iter().find_map(|lead| text.strip_prefix(lead)).unwrap_or(text)
}

/// `true`: an expression begins at the begin of the target and matches no `?`. So the query does
/// not decide whether it matches.
fn is_of_path(text: &str) -> bool {
    let Some(text) = text.strip_prefix('^') else { return false };
    let mut chars = text.chars().peekable();
    let mut depth = 0_u32;
    while let Some(c) = chars.next() {
        match c {
            '\\' if !is_plain_escape(chars.next()) => return false,
            '\\' => {}
            '[' if !is_class_without_mark(&mut chars) => return false,
            '[' => {}
            '(' if chars.next_if_eq(&'?').is_some() && chars.next() != Some(':') => return false,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            // A choice outside of groups may begin anywhere.
            '|' if depth == 0 => return false,
            '.' | '$' | '^' => return false,
            c if !c.is_ascii_graphic() => return false,
            _ => {}
        }
    }
    true
}

/// `true`: what follows a backslash stands for itself, a digit or a letter.
fn is_plain_escape(next: Option<char>) -> bool {
    next.is_some_and(|c| "dw".contains(c) || (c.is_ascii_punctuation() && c != '?'))
}

/// Reads a class to its end; `true`: it names its characters, and `?` is none.
fn is_class_without_mark(chars: &mut Peekable<Chars<'_>>) -> bool {
    let mut last = '[';
    while let Some(c) = chars.next() {
        let is_range_end = |end: &char| {
            let alike: [fn(&char) -> bool; 3] =
                [char::is_ascii_digit, char::is_ascii_lowercase, char::is_ascii_uppercase];
            *end == ']' || alike.iter().any(|is| is(&last) && is(end))
        };
        match c {
            ']' => return true,
            '\\' if !is_plain_escape(chars.next()) => return false,
            '-' if last != '[' && !chars.peek().is_some_and(is_range_end) => return false,
            '^' if last == '[' => return false,
            '?' | '[' => return false,
            c if !c.is_ascii() => return false,
            _ => {}
        }
        last = c;
    }
    false
}

/// `true`: an expression matches a text by its end behind the last slash, so that it matches the
/// name of a file where it matches the path.
fn is_end_of_name(text: &str) -> bool {
    let Some(text) = text.strip_suffix('$') else { return false };
    let mut chars = text.strip_prefix('/').unwrap_or(text).chars();
    let mut depth = 0_i32;
    let mut is_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_some_and(|next| next != '/' && next.is_ascii_punctuation()) => {
            }
            '[' if !is_class => is_class = true,
            ']' if is_class => is_class = false,
            // A range such as `+-9` has the slash.
            '-' if is_class => return false,
            c if c.is_ascii_alphanumeric() || "-_".contains(c) => {}
            _ if is_class => return false,
            '(' => depth += 1,
            ')' => depth -= 1,
            // A choice outside of groups has another end.
            '|' if depth > 0 => {}
            '?' | ':' | '*' | '+' | '{' | '}' | ',' => {}
            _ => return false,
        }
    }
    true
}
