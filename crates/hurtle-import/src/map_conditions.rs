//! Writes `if ($new) { return 301 $new; }` with the variable of a map as one condition for each
//! value, before anything is translated.

use super::map_value::replaced;
use super::predicate::words;
use super::set_chains::has;
use super::syntax::Directive;
use super::value_map::{ValueMap, ValueMaps, is_true, value_maps};
use super::variables::plain;

/// Rewrites the servers of a configuration.
pub(super) fn as_comparisons(directives: &[Directive]) -> Vec<Directive> {
    let directives = &with_host(directives);
    let maps = value_maps(directives);
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => block_of(block, &maps),
            "http" => as_comparisons(block),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// Writes `$http_host` in place of a map that takes `$host` where there is no such field: then
/// there is no request either, but in HTTP/1.0.
fn with_host(block: &[Directive]) -> Vec<Directive> {
    let is_it = |d: &&Directive| {
        let rows: Vec<(&str, &str)> =
            d.children().iter().map(|row| (row.name.as_str(), row.arg(0))).collect();
        let is_known = |row: &(&str, &str)| {
            matches!(row, ("default", "$http_host") | ("", "$host" | "$server_name"))
        };
        d.name == "map" && d.arg(0) == "$http_host" && rows.len() == 2 && rows.iter().all(is_known)
    };
    let names: Vec<&str> =
        block.iter().filter(is_it).filter_map(|d| d.arg(1).strip_prefix('$')).collect();
    let others = block.iter().filter(|d| !is_it(d)).cloned();
    others.map(|d| names.iter().fold(d, |d, name| with_variable(d, name, "http_host"))).collect()
}

/// Writes a variable in place of another in a directive and in its block.
fn with_variable(mut d: Directive, name: &str, other: &str) -> Directive {
    for arg in d.args.iter_mut().filter(|arg| arg.contains('$')) {
        let braced = format!("${{{name}}}");
        if arg.contains(&braced) {
            *arg = plain(&arg.replace(&braced, &format!("${{{other}}}")));
        }
        if *arg == format!("${name}") {
            *arg = format!("${other}");
        }
    }
    let inner = d.block.take();
    d.block = inner.map(|block| block.into_iter().map(|d| with_variable(d, name, other)).collect());
    d
}

/// Rewrites a server or a location.
fn block_of(block: &[Directive], maps: &ValueMaps) -> Vec<Directive> {
    let rewritten = |d: &Directive| match d.name.as_str() {
        "location" => {
            vec![Directive { block: Some(block_of(d.children(), maps)), ..d.clone() }]
        }
        "if" => compared(d, maps).unwrap_or_else(|| vec![d.clone()]),
        _ => vec![d.clone()],
    };
    block.iter().flat_map(rewritten).collect()
}

/// The conditions for the values of a map; `None`: the condition is another one, or its body does
/// not have the value.
fn compared(d: &Directive, maps: &ValueMaps) -> Option<Vec<Directive>> {
    let words = words(d)?;
    let (variable, is_met): (&str, fn(&str) -> bool) = match words.as_slice() {
        [variable] => (variable, is_true),
        [variable, "!=", ""] | [variable, "~", "."] => (variable, |value| !value.is_empty()),
        _ => return None,
    };
    let name = variable.strip_prefix('$')?;
    let map = maps.get(name)?;
    if !d.children().iter().any(|inner| has(inner, variable)) {
        return None;
    }
    let values = values(map);
    let is_known = values.iter().all(|value| !value.contains('$'));
    let of_value = |value: &&str| {
        let body = d.children().iter().map(|inner| {
            let args = inner.args.iter().map(|arg| replaced(arg, name, value)).collect();
            Directive { args, ..inner.clone() }
        });
        let args = [format!("({variable}"), "=".to_owned(), format!("{value})")].to_vec();
        Directive { args, block: Some(body.collect()), ..d.clone() }
    };
    is_known.then(|| values.iter().filter(|value| is_met(value)).map(of_value).collect())
}

/// All values of a map, each once.
fn values(map: &ValueMap) -> Vec<&str> {
    map.others().into_iter().chain([map.default.as_str()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn conditions_have_the_values_of_their_map() {
        #[rustfmt::skip]
        let rows = [
            ("if ($new) { return 301 $new; }", "if ($new = /b) return 301 /b if ($new = /d) return 301 /d", "each value"),
            ("if ($new != \"\") { return 301 https://$host${new}x; }", "if ($new = /b) return 301 https://$host/bx if ($new = 0) return 301 https://${host}0x if ($new = /d) return 301 https://$host/dx", "a value that is not empty"),
            ("if ($new) { return 301 /x; }", "if ($new) return 301 /x", "no use of the value"),
            ("if ($other) { return 301 $other; }", "if ($other) return 301 $other", "another variable"),
        ];
        for (block, expected, what) in rows {
            let text = format!("map $uri $new {{ /a /b; /c 0; /e /d; }} server {{ {block} }}");
            let written = as_comparisons(&parse(&text, "t").unwrap());
            let of_condition = |d: &Directive| {
                let own = Directive { block: None, ..d.clone() }.to_string();
                format!("{own} {}", d.children()[0])
            };
            let text: Vec<String> = written[1].children().iter().map(of_condition).collect();
            assert_eq!(text.join(" "), expected, "{what}: {block}");
        }
    }
}
