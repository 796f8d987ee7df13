//! Maps of the media types of responses to `expires` and to fields: `map $sent_http_content_type
//! $expires { … }`.

use std::collections::BTreeMap;

use toml::Value;

use super::block::Block;
use super::mount::{Field, Keys, put};
use super::report::Report;
use super::syntax::Directive;

/// Values by media types, as header rules have them; none: every other type. Of the rows that a
/// response meets the last one counts.
pub(super) type TypeMap = Vec<(Option<String>, String)>;

/// Values of Cache-Control by media types; without a value: none.
pub(super) type ExpiryMap = Vec<(Option<String>, Option<String>)>;

/// The difference that such maps have.
pub(super) const REMARK: &str = "fields by media types: parameters, such as charset, are not compared, expressions are \
    whole types, and json and xml are the types with these names and endings: GET /x of application/x-json has the \
    default, and so have a response without a type and an error of hurtle, which is plain text";

/// Returns the maps of an `http` block that have a counterpart, by their variables.
pub(super) fn type_maps(block: &[Directive]) -> BTreeMap<String, TypeMap> {
    let maps = block.iter().filter(|d| d.name == "map" && d.arg(0) == "$sent_http_content_type");
    maps.filter_map(|d| Some((d.arg(1).to_owned(), of(d)?))).collect()
}

/// A row of a map. nginx takes a whole type before all expressions, and of these the first.
struct Row {
    types: Vec<Option<String>>,
    value: String,
    is_expression: bool,
}

fn of(map: &Directive) -> Option<TypeMap> {
    let mut rows: Vec<Row> = Vec::new();
    for d in map.children() {
        let [value] = d.args.as_slice() else { return None };
        if value.contains('$') {
            return None;
        }
        let value = value.trim().to_owned();
        let types = match d.name.as_str() {
            "default" => vec![None],
            // A response without a type has no field of the others either.
            "" => continue,
            name => patterns(name)?.into_iter().map(Some).collect(),
        };
        let is_expression = d.name.starts_with('~');
        let known = rows.iter().find(|row| !is_expression && row.types == types);
        match known {
            Some(known) if known.value != value => return None,
            Some(_) => {}
            None => rows.push(Row { types, value, is_expression }),
        }
    }
    // The last one of header rules counts: the default is first, and the first expression behind
    // the others.
    let (expressions, texts): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.is_expression);
    let (default, whole): (Vec<Row>, Vec<Row>) =
        texts.into_iter().partition(|row| row.types == [None]);
    let all = default.into_iter().chain(expressions.into_iter().rev()).chain(whole);
    Some(
        all.flat_map(|row| row.types.into_iter().map(move |kind| (kind, row.value.clone())))
            .collect(),
    )
}

/// Patterns of hurtle for a media type, or for an expression of some, such as `~image/` and
/// `~*text/css|json`.
fn patterns(name: &str) -> Option<Vec<String>> {
    match name.strip_prefix('~') {
        // Header rules do not compare parameters.
        None => Some(vec![whole(name.split(';').next()?.trim_end().to_owned())?]),
        Some(text) => {
            let parts = alternatives(text.strip_prefix('*').unwrap_or(text));
            let each: Option<Vec<Vec<String>>> =
                parts.iter().map(|part| expression(part)).collect();
            Some(each?.into_iter().flatten().collect())
        }
    }
}

/// The texts of an expression whose only alternatives are at the top, or in one group of each of
/// these.
fn alternatives(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(last) if c != '|' || depth > 0 => last.push(c),
            _ => parts.push(String::new()),
        }
    }
    let in_group = |part: String| {
        let group = part.split_once('(').and_then(|(before, rest)| {
            let (inner, after) = rest.split_once(')')?;
            Some(inner.split('|').map(|word| format!("{before}{word}{after}")).collect())
        });
        group.unwrap_or(vec![part])
    };
    parts.into_iter().flat_map(in_group).collect()
}

/// The patterns of an expression without alternatives.
fn expression(text: &str) -> Option<Vec<String>> {
    let plain = text.trim_start_matches('^').replace("\\/", "/").replace("\\.", ".");
    match (plain.as_str(), plain.strip_suffix('/')) {
        ("json", _) => Some(words(&["application/json", "*+json"])),
        ("xml", _) => Some(words(&["application/xml", "text/xml", "*+xml"])),
        (_, Some(kind)) => Some(vec![whole(format!("{kind}/*"))?]),
        // A plus sign alone repeats the letter before it.
        _ if plain.replace("\\+", "").contains('+') => None,
        _ => Some(vec![whole(plain.replace("\\+", "+"))?]),
    }
}

/// A type with both of its parts.
fn whole(pattern: String) -> Option<String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".+-".contains(&b);
    let (kind, subtype) = pattern.split_once('/')?;
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_plain);
    (is_part(kind) && (subtype == "*" || is_part(subtype))).then_some(pattern)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the header rules of a field by media types.
fn rules<'m>(
    name: &str,
    rows: impl Iterator<Item = (&'m Option<String>, Option<&'m str>)>,
) -> Vec<Keys> {
    let (mut rules, mut last): (Vec<Keys>, _) = (Vec::new(), None);
    for (media_type, value) in rows {
        // Several types in a row with one value have one rule.
        if let (Some(media_type), Some(rule)) = (media_type, rules.last_mut())
            && last == Some(value)
            && let Some((_, Value::Array(types))) = rule.iter_mut().find(|(key, _)| key == "types")
        {
            types.push(Value::from(media_type.as_str()));
            continue;
        }
        last = Some(value);
        let mut keys = Keys::new();
        if let Some(media_type) = media_type {
            put(&mut keys, "types", vec![media_type.as_str()]);
        }
        match value {
            Some(value) => {
                put(
                    &mut keys,
                    "set",
                    toml::Table::from_iter([(name.to_owned(), Value::from(value))]),
                );
            }
            // There is nothing to take off.
            None if rules.is_empty() => {
                last = None;
                continue;
            }
            None => put(&mut keys, "remove", vec![name]),
        }
        rules.push(keys);
    }
    rules
}

/// The header rules of a field whose value depends on the media type.
pub(super) fn field_rules(name: &str, field: &Field) -> Vec<Keys> {
    let rows = field.types.iter();
    let rows = rows.map(|(media_type, value)| {
        (media_type, Some(value.as_str()).filter(|value| !value.is_empty()))
    });
    let mut all = rules(name, rows);
    if field.always {
        all.iter_mut().for_each(|rule| put(rule, "always", true));
    }
    all
}

/// The value for HTML, as which nginx sends redirects.
pub(super) fn of_html<V>(map: &[(Option<String>, V)]) -> Option<&V> {
    let is_html = |media_type: &Option<String>| {
        media_type.as_deref().is_none_or(|name| matches!(name, "text/html" | "text/*"))
    };
    map.iter().rev().find(|(media_type, _)| is_html(media_type)).map(|(_, value)| value)
}

/// Adds the rules of an `expires` by media types.
pub(super) fn put_rules(at: &Directive, block: &Block<'_>, keys: &mut Keys, report: &mut Report) {
    let map = block.get(|scope| &scope.typed_expires);
    if map.is_empty() {
        return;
    }
    if block.get(|scope| &scope.headers).contains_key("cache-control") {
        report.refuse(
            at,
            "it has Cache-Control by add_header and by the media type; write one of both",
        );
    }
    report.general(REMARK.to_owned());
    let all = match keys.iter().any(|(key, _)| key == "redirect") {
        true => {
            let value = of_html(map).cloned().flatten();
            rules("cache-control", [(&None, value.as_deref())].into_iter())
        }
        false => rules("cache-control", map.iter().map(|(kind, value)| (kind, value.as_deref()))),
    };
    let all: Vec<Value> =
        all.into_iter().map(|rule| Value::from(toml::Table::from_iter(rule))).collect();
    match keys.iter_mut().find(|(key, _)| key == "header") {
        Some((_, Value::Array(known))) => known.extend(all),
        _ if all.is_empty() => {}
        _ => put(keys, "header", all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn media_types_have_patterns() {
        let rows = [
            ("text/css max;", Some("text/css"), "one type"),
            ("~image/ max;", Some("image/*"), "a beginning"),
            ("~^font/ max;", Some("font/*"), "an anchored one"),
            ("'text/css; charset=utf-8' max;", Some("text/css"), "with a parameter"),
            ("text/css max; 'text/css; charset=utf-8' 1h;", None, "two values for one type"),
            ("~text max;", None, "no whole type"),
            ("~image/(png|gif) max;", Some("image/gif"), "a group"),
            ("~image/.*g max;", None, "another expression"),
            ("~*image/svg\\+xml max;", Some("image/svg+xml"), "a whole type in an expression"),
            ("~*image/svg+xml max;", None, "an expression with a repeated letter"),
            ("~*json max;", Some("*+json"), "a word"),
            ("image/png 1h; ~image/ max;", Some("image/png"), "a whole type precedes expressions"),
            ("~*text/html 1h; ~*text/ max;", Some("text/html"), "the first expression precedes"),
            ("text/css $x;", None, "a variable"),
            ("text/css 1h 2h;", None, "two values"),
        ];
        for (row, expected, sentence) in rows {
            let text = format!("map $sent_http_content_type $e {{ default off; {row} }}");
            let maps = type_maps(&parse(&text, "t").unwrap());
            let found = maps.get("$e").and_then(|map| map.last()?.0.as_deref());
            assert_eq!(found, expected, "{sentence}: {row}");
        }
    }
}
