//! Maps of the media types of responses to `expires`: `map $sent_http_content_type $expires { … }`.

use std::collections::BTreeMap;

use toml::Value;

use super::block::Block;
use super::expires::cache_control;
use super::mount::{Keys, put};
use super::report::Report;
use super::syntax::Directive;

/// Values of Cache-Control by media types, as header rules have them; none: every other type.
pub(super) type TypeMap = Vec<(Option<String>, Option<String>)>;

/// Returns the maps of an `http` block that have a counterpart, by their variables.
pub(super) fn type_maps(block: &[Directive]) -> BTreeMap<String, TypeMap> {
    let maps = block.iter().filter(|d| d.name == "map" && d.arg(0) == "$sent_http_content_type");
    maps.filter_map(|d| Some((d.arg(1).to_owned(), of(d)?))).collect()
}

/// A row of a map. nginx takes a whole type before all expressions, and of these the first.
struct Row {
    types: Vec<Option<String>>,
    value: Option<String>,
    is_expression: bool,
}

fn of(map: &Directive) -> Option<TypeMap> {
    let mut rows: Vec<Row> = Vec::new();
    for d in map.children() {
        let [value] = d.args.as_slice() else { return None };
        let value = match value.as_str() {
            "off" => None,
            value => Some(cache_control(value)?),
        };
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
    // Of header rules the last one counts: the default is first, and the first expression behind the others.
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

/// Patterns of hurtle for a media type, or for an expression of one, such as `~image/` and `~*json`.
fn patterns(name: &str) -> Option<Vec<String>> {
    let is_plain = |text: &str| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/.+-".contains(&b))
            && text.matches('/').count() == 1
    };
    let pattern = match name.strip_prefix('~') {
        // Header rules do not compare parameters.
        None => name.split(';').next()?.trim_end().to_owned(),
        Some(text) => {
            let text = text.trim_start_matches(['*', '^']);
            let plain = text.replace("\\/", "/").replace("\\.", ".");
            match (plain.as_str(), plain.strip_suffix('/')) {
                ("json", _) => return Some(words(&["application/json", "*+json"])),
                ("xml", _) => return Some(words(&["application/xml", "text/xml", "*+xml"])),
                (_, Some(kind)) => format!("{kind}/*"),
                // A plus sign alone repeats the letter before it.
                _ if plain.replace("\\+", "").contains('+') => return None,
                _ => plain.replace("\\+", "+"),
            }
        }
    };
    let (kind, subtype) = pattern.split_once('/')?;
    let is_known = !kind.is_empty() && !subtype.is_empty() && is_plain(&pattern.replace('*', "x"));
    is_known.then_some(vec![pattern])
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the header rules of a map.
fn rules(map: &TypeMap) -> Vec<toml::Table> {
    let mut rules = Vec::new();
    for (media_type, value) in map {
        let mut keys = Keys::new();
        keys.extend(media_type.clone().map(|types| ("types".to_owned(), Value::from(types))));
        match (media_type, value) {
            (_, Some(value)) => {
                let set = [("cache-control".to_owned(), Value::from(value.clone()))];
                put(&mut keys, "set", toml::Table::from_iter(set));
            }
            (Some(_), None) => put(&mut keys, "remove", vec!["cache-control"]),
            (None, None) => continue,
        }
        rules.push(toml::Table::from_iter(keys));
    }
    rules
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
    report.general(
        "expires by media types: parameters, such as charset, are not compared, expressions are whole types, and json \
         and xml are the types with these names and endings: application/x-json has the default, and so has a response \
         without a type"
            .to_owned(),
    );
    let rules = rules(map).into_iter().map(Value::from);
    match keys.iter_mut().find(|(key, _)| key == "header") {
        Some((_, Value::Array(known))) => known.extend(rules),
        _ => put(keys, "header", rules.collect::<Vec<Value>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::syntax::parse;

    #[test]
    fn media_types_have_patterns() {
        let rows = [
            ("text/css max;", Some("text/css"), "one type"),
            ("~image/ max;", Some("image/*"), "a beginning"),
            ("~^font/ max;", Some("font/*"), "an anchored one"),
            ("'text/css; charset=utf-8' max;", Some("text/css"), "with a parameter"),
            ("text/css max; 'text/css; charset=utf-8' 1h;", None, "two values for one type"),
            ("~text max;", None, "no whole type"),
            ("~image/(png|gif) max;", None, "another expression"),
            ("~*image/svg\\+xml max;", Some("image/svg+xml"), "a whole type in an expression"),
            ("~*image/svg+xml max;", None, "an expression with a repeated letter"),
            ("~*json max;", Some("*+json"), "a word"),
            ("image/png 1h; ~image/ max;", Some("image/png"), "a whole type precedes expressions"),
            ("~*text/html 1h; ~*text/ max;", Some("text/html"), "the first expression precedes"),
            ("text/css modified;", None, "another value"),
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
