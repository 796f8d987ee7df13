//! Conditions of `if` as conditions of `match`: comparisons of a property of the request, and
//! variables of `map` and `geo`.

use toml::{Table, Value};

use super::report::Report;
use super::set_chains::AND;
use super::subject::{Subject, one};
use super::syntax::Directive;
use super::value_map::{ValueMap, ValueMaps};
use hurtle_config::PathRegex;

/// Requests that a condition selects.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Predicate {
    /// The values of `match`, one of which a request meets.
    pub(super) any: Vec<Table>,
    /// The host that all of them have.
    pub(super) host: Option<String>,
}

/// Most values of `match` for one condition.
const ANY_MAX: usize = 32;

impl Predicate {
    /// The condition of an `if`; `None`: hurtle has no such condition.
    pub(super) fn of(d: &Directive, maps: &ValueMaps, report: &mut Report) -> Option<Predicate> {
        let words = words(d)?;
        let parts = words.split(|word| *word == AND).map(|part| part_of(d, part, maps, report));
        let mut parts: Vec<Predicate> = parts.collect::<Option<_>>()?;
        let first = parts.pop()?;
        parts.into_iter().rev().try_fold(first, both)
    }

    /// `true` if a condition asks for the target as the client sent it.
    pub(super) fn is_on_target(d: &Directive, maps: &ValueMaps) -> bool {
        let words = words(d).unwrap_or_default();
        words.iter().any(|word| {
            let map = maps.get(word.trim_start_matches('$'));
            let subject = map.map_or_else(|| Subject::of(word), |map| map.subject.clone());
            subject == Some(Subject::Target)
        })
    }
}

/// The condition of one of the parts that must all hold.
fn part_of(
    d: &Directive,
    words: &[&str],
    maps: &ValueMaps,
    report: &mut Report,
) -> Option<Predicate> {
    let known = match words {
        [variable] => match maps.get(variable.trim_start_matches('$')) {
            Some(map) => {
                map.subject.iter().for_each(|subject| remark(subject, &map.at, report));
                map.truths()
            }
            None => {
                let subject = Subject::of(variable)?;
                remark(&subject, d, report);
                subject.is_true()
            }
        },
        [variable, operator, value] => match maps.get(variable.trim_start_matches('$')) {
            Some(map) => {
                map.subject.iter().for_each(|subject| remark(subject, &map.at, report));
                of_map(map, operator, value)
            }
            None => return compared(d, [variable, operator, value], report),
        },
        _ => None,
    };
    let any = known.filter(|any| !any.is_empty() && any.len() <= ANY_MAX)?;
    Some(Predicate { any, host: None })
}

/// The conditions for values of a map that a comparison selects.
fn of_map(map: &ValueMap, operator: &str, value: &str) -> Option<Vec<Table>> {
    if value.contains('$') && !operator.contains('~') {
        return None;
    }
    let (operator, is_not) = match operator.strip_prefix('!') {
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    match operator {
        "=" => map.conditions(|own| (own == value) != is_not),
        "~" | "~*" => {
            let flag = if operator == "~*" { "(?i)" } else { "" };
            let regex = PathRegex::new(&format!("{flag}{value}")).ok()?;
            map.conditions(|own| regex.is_in(own.as_bytes()) != is_not)
        }
        _ => None,
    }
}

/// The requests that meet both; `None`: both have conditions of one kind, of which `match` has one.
fn both(one: Predicate, other: Predicate) -> Option<Predicate> {
    let mut any = Vec::new();
    for first in &one.any {
        for second in &other.any {
            any.push(joined(first, second)?);
        }
    }
    let host = one.host.or(other.host);
    (any.len() <= ANY_MAX).then_some(Predicate { any, host })
}

/// The value of `match` for requests that meet both; `None`: both have conditions of one kind.
pub(super) fn joined(one: &Table, other: &Table) -> Option<Table> {
    let mut all = one.clone();
    for (key, value) in other {
        match (key.as_str(), all.get_mut(key), value) {
            (_, None, _) => drop(all.insert(key.clone(), value.clone())),
            (_, Some(known), _) if known == value => {}
            ("not", Some(known), _) => {
                let list = |value: Value| match value {
                    Value::Array(list) => list,
                    one => vec![one],
                };
                *known = Value::Array([list(known.clone()), list(value.clone())].concat());
            }
            ("header" | "cookie" | "query", Some(Value::Table(known)), Value::Table(more))
                if more.iter().all(|(name, value)| known.get(name).is_none_or(|k| k == value)) =>
            {
                known.extend(more.clone());
            }
            _ => return None,
        }
    }
    Some(all)
}

fn remark(subject: &Subject, d: &Directive, report: &mut Report) {
    if let Some(text) = subject.remark() {
        report.remark(d, &text);
    }
}

/// The condition of a comparison.
fn compared(
    d: &Directive,
    [variable, operator, value]: [&str; 3],
    report: &mut Report,
) -> Option<Predicate> {
    let subject = Subject::of(variable)?;
    let (operator, is_not) = match operator.strip_prefix('!') {
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    if value.contains('$') && operator == "=" {
        return None;
    }
    let any = match operator {
        "=" => subject.equals(value, false),
        "~" => subject.contains(value, false),
        "~*" => subject.contains(value, true),
        _ => None,
    };
    let any = any.filter(|any| !any.is_empty() && any.len() <= ANY_MAX)?;
    remark(&subject, d, report);
    if is_not {
        return Some(Predicate { any: vec![none_of(any)?], host: None });
    }
    let host = (subject == Subject::Host && operator == "=").then(|| value.to_owned());
    Some(Predicate { any, host })
}

/// The value of `match` for requests that meet none of these.
pub(super) fn none_of(any: Vec<Table>) -> Option<Table> {
    if any.iter().any(|table| table.contains_key("not")) {
        return None;
    }
    let not = match merged(any) {
        mut tables if tables.len() == 1 => Value::from(tables.remove(0)),
        tables => Value::from(tables),
    };
    Some(one("not", not))
}

/// Joins conditions of one kind, such as several methods, to one with a list.
pub(super) fn merged(any: Vec<Table>) -> Vec<Table> {
    const LISTS: [&str; 4] = ["method", "host", "client", "path"];
    let mut out: Vec<Table> = Vec::new();
    for table in any {
        let key =
            table.keys().next().filter(|key| table.len() == 1 && LISTS.contains(&key.as_str()));
        let Some(key) = key.cloned() else {
            out.push(table);
            continue;
        };
        let known = out.iter_mut().find(|known| known.len() == 1 && known.contains_key(&key));
        match (known.and_then(|known| known.get_mut(&key)), table.get(&key)) {
            (Some(Value::Array(list)), Some(value)) => list.push(value.clone()),
            (Some(single), Some(value)) => {
                *single = Value::from(vec![single.clone(), value.clone()]);
            }
            _ => out.push(table),
        }
    }
    out
}

/// The words of a condition without its parentheses.
pub(super) fn words(d: &Directive) -> Option<Vec<&str>> {
    let mut words: Vec<&str> = d.args.iter().map(String::as_str).collect();
    let first = words.first_mut()?;
    *first = first.strip_prefix('(')?;
    if words.last() == Some(&")") {
        words.pop();
    } else {
        let last = words.last_mut()?;
        *last = last.strip_suffix(')')?;
    }
    // An empty text in quotes is a value, the space behind a parenthesis is none.
    let is_value = |(at, word): &(usize, &str)| !word.is_empty() || *at >= 2;
    Some(words.iter().copied().enumerate().filter(is_value).map(|(_, word)| word).collect())
}
