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

fn of(map: &Directive) -> Option<TypeMap> {
    let mut rows = TypeMap::new();
    for d in map.children() {
        let [value] = d.args.as_slice() else { return None };
        let value = match value.as_str() {
            "off" => None,
            value => Some(cache_control(value)?),
        };
        let media_type = match d.name.as_str() {
            "default" => None,
            name => Some(pattern(name)?),
        };
        match rows.iter().find(|(known, _)| *known == media_type) {
            Some((_, known)) if *known != value => return None,
            Some(_) => {}
            None => rows.push((media_type, value)),
        }
    }
    // That for other types is first, so that the others replace it.
    rows.sort_by_key(|(media_type, _)| media_type.is_some());
    Some(rows)
}

/// A pattern of hurtle for a media type, or for an expression of the beginning of one, such as `~image/`.
fn pattern(name: &str) -> Option<String> {
    let is_plain = |text: &str| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/.+-".contains(&b))
            && text.matches('/').count() == 1
    };
    let pattern = match name.strip_prefix('~') {
        // Header rules do not compare parameters.
        None => name.split(';').next()?.trim_end().to_owned(),
        Some(text) => {
            let text = text.trim_start_matches(['*', '^']).replace("\\/", "/");
            format!("{}/*", text.strip_suffix('/')?)
        }
    };
    let (kind, subtype) = pattern.split_once('/')?;
    let is_known = !kind.is_empty() && !subtype.is_empty() && is_plain(&pattern.replace('*', "x"));
    is_known.then_some(pattern)
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
        "expires by media types: parameters, such as charset, are not compared".to_owned(),
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
