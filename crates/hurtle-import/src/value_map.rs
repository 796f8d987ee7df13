//! Maps of a property of the request to constants: `map $http_user_agent $is_bot { … }`, and `geo`.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::predicate::{merged, none_of};
use super::subject::{Subject, one};
use super::syntax::Directive;

/// The maps of a configuration, by their variables without `$`.
pub(super) type ValueMaps = BTreeMap<String, ValueMap>;

/// A map with a value for each request.
#[derive(Clone, Debug)]
pub(super) struct ValueMap {
    rows: Vec<Row>,
    default: String,
}

/// A row of a map: its conditions, of which one is met, and its value.
#[derive(Clone, Debug)]
struct Row {
    any: Vec<Table>,
    value: String,
    is_regex: bool,
}

/// Returns the maps of an `http` block that hurtle's conditions express.
pub(super) fn value_maps(block: &[Directive]) -> ValueMaps {
    let named = |d: &Directive| {
        let variable = d.args.last()?.strip_prefix('$')?.to_owned();
        let map = match (d.name.as_str(), d.args.as_slice()) {
            ("map", [source, _]) => of_map(&Subject::of(source)?, d)?,
            ("geo", [_]) => of_geo(d)?,
            _ => return None,
        };
        Some((variable, map))
    };
    block.iter().filter_map(named).collect()
}

fn of_map(subject: &Subject, d: &Directive) -> Option<ValueMap> {
    let mut map = ValueMap { rows: Vec::new(), default: String::new() };
    for row in d.children() {
        let pattern = row.name.as_str();
        if matches!(pattern, "hostnames" | "volatile") && row.args.is_empty() {
            continue;
        }
        let [value] = row.args.as_slice() else { return None };
        if value.contains('$') {
            return None;
        }
        if pattern == "default" {
            map.default.clone_from(value);
            continue;
        }
        let (any, is_regex) = match pattern.strip_prefix('~') {
            Some(text) => match text.strip_prefix('*') {
                Some(text) => (subject.contains(text, true)?, true),
                None => (subject.contains(text, false)?, true),
            },
            // nginx compares texts of a map without regard to case.
            None => (subject.equals(pattern.trim_start_matches('\\'), true)?, false),
        };
        map.rows.push(Row { any, value: value.clone(), is_regex });
    }
    // Texts precede expressions.
    map.rows.sort_by_key(|row| row.is_regex);
    Some(map)
}

/// A map of client addresses, all of whose networks have one value.
fn of_geo(d: &Directive) -> Option<ValueMap> {
    let mut map = ValueMap { rows: Vec::new(), default: String::new() };
    let mut networks = Vec::new();
    let mut value: Option<String> = None;
    for row in d.children() {
        let [own] = row.args.as_slice() else { return None };
        match row.name.as_str() {
            "default" => map.default.clone_from(own),
            "delete" | "include" | "proxy" | "ranges" => return None,
            network => {
                let is_other = value.as_ref().is_some_and(|known| known != own);
                if is_other || own.contains('$') {
                    return None;
                }
                value = Some(own.clone());
                networks.push(Value::from(network));
            }
        }
    }
    let any = vec![one("client", networks)];
    map.rows.push(Row { any, value: value?, is_regex: false });
    Some(map)
}

/// `true` for a value that `if` takes for true.
fn is_true(value: &str) -> bool {
    !value.is_empty() && value != "0"
}

impl ValueMap {
    /// The conditions of which one is met where the value is neither empty nor 0.
    pub(super) fn truths(&self) -> Option<Vec<Table>> {
        self.conditions(is_true)
    }

    /// The conditions of which one is met where the value is one of these.
    fn conditions(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Table>> {
        let mut any = Vec::new();
        let mut others: Vec<Table> = Vec::new();
        for row in &self.rows {
            if !is_wanted(&row.value) {
                others.extend(row.any.clone());
                continue;
            }
            for table in &row.any {
                let mut table = table.clone();
                if row.is_regex && !others.is_empty() {
                    table.extend(none_of(others.clone())?);
                }
                any.push(table);
            }
        }
        if is_wanted(&self.default) {
            match others.is_empty() {
                true => any.push(one("path", "**")),
                false => any.push(none_of(others)?),
            }
        }
        Some(merged(any))
    }
}
