//! Reads matchers: a pattern, a list of patterns, or a table of conditions.

use ipnet::IpNet;

use super::error::{ValueError, shown};
use super::field::{any_field_name, cookie_name};
use super::host::{HostEntry, host_entry};
use super::matcher::{Matcher, ValueMatcher};
use super::network::network;
use super::path_regex::PathRegex;
use super::pattern::pattern;
use super::reader::Reader;
use super::schema::DefaultValue::Words;
use super::schema::Kind::{List, Map, Table as TableKind, Text};
use super::schema::{Key, Section};
use super::table::Table;
use super::types::{Glob, HostName};
use super::value::Value;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static MATCH: Section = Section {
    header: "[site.mount.match]",
    doc: "Conditions on requests, for a mount (`[site.mount.match]`) or a rule (`[site.rule.match]`); header \
          rules have `path`, `regex` and `not` of these. All must be met, and of several values of a condition one. A pattern alone, `match = \"*.php\"`, \
          means `path`. See [routing.md](routing.md).",
    keys: &[&[
        Key::new("path", List("patterns"), Words("every path"), "[\"*.php\", \"/devices/*/x\"]",
            "Patterns of the whole path, compared decoded and without the query."),
        Key::new("regex", Text("a regular expression"), Words("every path"), "\"^/api/v[0-9]+/\"",
            "A regular expression that the decoded path contains a match of; `^` and `$` are its ends, and \
             `(?i)` at the front ignores case."),
        Key::new("method", List("methods"), Words("every method"), "[\"GET\", \"HEAD\"]", "Methods."),
        Key::new("header", Map("a table of names and values"), Words("any"), "{ X-Beta = \"1\", Origin = true }",
            "Fields of the request: a pattern in which `*` stands for any text, a list of them, \
             `{ regex = \"...\" }` for an expression that a value contains a match of, `true` for a field that is \
             there, `false` for one that is not."),
        Key::new("cookie", Map("a table of names and values"), Words("any"), "{ beta = true }",
            "Cookies, likewise."),
        Key::new("query", Map("a table of names and values, true or false"), Words("any"), "{ format = \"json\" }",
            "Parameters of the query, decoded, likewise. `true`: requests with any query, `false`: those \
             without one; an empty query is none."),
        Key::new("host", List("host names"), Words("each of the site"), "\"*.example.org\"",
            "Host names, without a port."),
        Key::new("client", List("networks"), Words("all"), "\"10.0.0.0/8\"", "Addresses of clients; behind \
             `trusted_proxies` those that they name."),
        Key::new("peer", List("networks"), Words("all"), "\"173.245.48.0/20\"", "Addresses at the other end of the \
             connection, also where that is a trusted proxy; those that a PROXY protocol header names."),
        Key::new("scheme", Text("`http` or `https`"), Words("both"), "\"https\"",
            "The scheme of the connection: `https` with TLS, `http` without."),
        Key::new("not", TableKind(&MATCH), Words("none"), "{ path = \"/api/**\" }",
            "Conditions of which at least one must not be met. A list of such tables: none of them must be met \
             whole."),
    ]],
};

/// Reads the matcher of a mount or a rule: a pattern, a list of patterns, or a table of conditions.
pub(super) fn matcher(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Matcher> {
    read(value, false, reader)
}

/// Reads a matcher of paths, as header rules have it: the fields of a file are made once.
pub(super) fn path_matcher(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Matcher> {
    let matcher = read(value, false, reader)?;
    if !matcher.is_of_path() {
        let wrong = ValueError::new("a header rule is for paths: path, regex, and not of these");
        value.report(reader, wrong.hint("write a mount with this match, and its header in it"));
        return None;
    }
    Some(matcher)
}

/// `is_in_not`: the matcher is the value of `not`.
fn read(value: &Value<'_>, is_in_not: bool, reader: &mut Reader<'_>) -> Option<Matcher> {
    if value.is_text() || value.is_list() {
        return Some(Matcher { paths: patterns(value, reader)?, ..Matcher::default() });
    }
    let table = value.table(reader)?;
    let problems = reader.problem_count();
    let mut matcher = Matcher::default();
    if let Some(value) = table.get("path") {
        matcher.paths = patterns(&value, reader).unwrap_or_default();
    }
    table.set("regex", reader, |v, r| v.parse(r, PathRegex::parse).map(Some), &mut matcher.regex);
    if let Some(value) = table.get("method") {
        refuse_empty(&value, "no method", "write methods such as \"GET\"", reader);
        matcher.methods = value.list(reader, |item, reader| item.parse(reader, method));
    }
    let field = |name: &str| any_field_name(name).map(|name| name.as_str().to_owned());
    let parameter = |name: &str| Ok(name.to_owned());
    conditions(&table, "header", field, &mut matcher.fields, reader);
    conditions(&table, "cookie", cookie_name, &mut matcher.cookies, reader);
    match table.get("query") {
        Some(value) if value.is_true() => matcher.has_query = Some(true),
        Some(value) if value.is_false() => matcher.has_query = Some(false),
        _ => conditions(&table, "query", parameter, &mut matcher.query, reader),
    }
    if let Some(value) = table.get("host") {
        refuse_empty(&value, "no host", "write names such as \"*.example.org\"", reader);
        matcher.hosts = value.list(reader, |item, reader| item.parse(reader, host));
    }
    if let Some(value) = table.get("client") {
        matcher.clients = networks(&value, reader);
    }
    if let Some(value) = table.get("peer") {
        matcher.peers = networks(&value, reader);
    }
    table.set("scheme", reader, |v, r| v.parse(r, scheme).map(Some), &mut matcher.is_tls);
    if let Some(value) = table.get("not") {
        if is_in_not {
            let wrong = ValueError::new("there is a not around it");
            value.report(reader, wrong.hint("write its conditions without either"));
        } else {
            matcher.not = excluded(&value, reader);
        }
    }
    if reader.problem_count() > problems {
        return None;
    }
    if matcher.is_empty() {
        let wrong = ValueError::new("there is no condition in it");
        value.report(reader, wrong.hint("write one such as path = \"*.php\""));
        return None;
    }
    Some(matcher)
}

/// Reads the value of `not`: conditions, or a list of tables of conditions.
fn excluded(value: &Value<'_>, reader: &mut Reader<'_>) -> Vec<Matcher> {
    let tables = value.items_or_table(reader);
    match value.is_list() && !tables.iter().any(Value::is_text) && !tables.is_empty() {
        true => tables.iter().filter_map(|table| read(table, true, reader)).collect(),
        false => read(value, true, reader).into_iter().collect(),
    }
}

fn patterns(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<Glob>> {
    if value.is_empty_list() {
        let wrong = ValueError::new("no path is in an empty list");
        value.report(reader, wrong.hint("\"**\" matches every path"));
        return None;
    }
    let written = value.items(reader).len();
    let patterns = value.list(reader, |item, reader| item.parse(reader, pattern));
    (patterns.len() == written).then_some(patterns)
}

/// Reads the networks of a condition.
fn networks(value: &Value<'_>, reader: &mut Reader<'_>) -> Vec<IpNet> {
    refuse_empty(value, "no address", "write networks such as \"10.0.0.0/8\"", reader);
    value.list(reader, |item, reader| item.parse(reader, network))
}

/// Refuses an empty list, which every request would meet.
fn refuse_empty(value: &Value<'_>, nothing: &str, hint: &str, reader: &mut Reader<'_>) {
    if value.is_empty_list() {
        let wrong = ValueError::new(format!("{nothing} is in an empty list"));
        value.report(reader, wrong.hint(hint));
    }
}

/// Reads the conditions on values with names.
fn conditions(
    table: &Table<'_>,
    key: &str,
    read_name: impl Fn(&str) -> Result<String, ValueError>,
    conditions: &mut Vec<(String, ValueMatcher)>,
    reader: &mut Reader<'_>,
) {
    let Some(value) = table.get(key) else { return };
    for (name, spot, value) in value.pairs(reader) {
        let name = read_name(name).map_err(|wrong| reader.report(&spot, wrong)).ok();
        let condition = match (value.is_true(), value.is_false()) {
            (true, _) => ValueMatcher::Present,
            (_, true) => ValueMatcher::Absent,
            _ if value.is_table() => match expression(&value, reader) {
                Some(regex) => ValueMatcher::Regex(regex),
                None => continue,
            },
            _ if value.is_empty_list() => {
                let wrong = ValueError::new("no value is in an empty list");
                value.report(reader, wrong.hint("true matches every value, false none"));
                continue;
            }
            _ => ValueMatcher::OneOf(
                value.list(reader, |item, reader| item.text(reader).map(str::to_owned)),
            ),
        };
        let Some(name) = name else { continue };
        if conditions.iter().any(|(other, _)| *other == name) {
            let wrong = ValueError::new(format!("{name} is there twice"));
            reader.report(&spot, wrong.hint("write a list of its values"));
        }
        conditions.push((name, condition));
    }
}

/// Reads the expression of a value, `{ regex = "..." }`.
fn expression(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<PathRegex> {
    let pairs = value.pairs(reader);
    match pairs.as_slice() {
        [("regex", _, text)] => text.parse(reader, PathRegex::parse),
        _ => {
            let wrong = ValueError::new("the condition is a pattern, or a table with regex");
            value.report(reader, wrong.hint("write { regex = \"(?i)bot\" }"));
            None
        }
    }
}

/// Parses a scheme; `true` is the one with TLS.
fn scheme(text: &str) -> Result<bool, ValueError> {
    match text {
        "http" => Ok(false),
        "https" => Ok(true),
        _ => Err(ValueError::new(format!("{} is not a scheme of requests", shown(text)))
            .hint("write \"http\" or \"https\"")),
    }
}

/// Parses a method, a token (RFC 9110 section 9.1).
fn method(text: &str) -> Result<String, ValueError> {
    let wrong = || ValueError::new(format!("{} is not a method", shown(text)));
    if http::Method::from_bytes(text.as_bytes()).is_err() {
        return Err(wrong().hint("write one such as \"GET\""));
    }
    let upper = text.to_ascii_uppercase();
    if text != upper {
        return Err(wrong().hint(format!("methods are case-sensitive: write \"{upper}\"")));
    }
    Ok(text.to_owned())
}

fn host(text: &str) -> Result<HostName, ValueError> {
    match host_entry(text)? {
        HostEntry::Name(name) => Ok(name),
        HostEntry::Any => {
            Err(ValueError::new("\"*\" is every host").hint("leave the condition out"))
        }
    }
}
