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
    pub(super) at: Directive,
    /// The property that it asks; `None`: the address of the client.
    pub(super) subject: Option<Subject>,
    rows: Vec<Row>,
    pub(super) default: String,
}

/// A row of a map: its conditions, of which one is met, and its value.
#[derive(Clone, Debug)]
struct Row {
    any: Vec<Table>,
    value: String,
    /// Rows of a lower rank precede it: 0 for texts, then names with wildcards, then expressions.
    rank: usize,
}

/// The rank of regular expressions.
const REGEX_RANK: usize = usize::MAX;

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
    let mut map = ValueMap {
        at: d.clone(),
        subject: Some(subject.clone()),
        rows: Vec::new(),
        default: String::new(),
    };
    let has_names = d.children().iter().any(|row| row.name == "hostnames" && row.args.is_empty());
    for row in d.children() {
        let pattern = row.name.as_str();
        if matches!(pattern, "hostnames" | "volatile") && row.args.is_empty() {
            continue;
        }
        let [value] = row.args.as_slice() else { return None };
        if pattern == "default" {
            map.default.clone_from(value);
            continue;
        }
        let (any, rank) = match pattern.strip_prefix('~') {
            // Groups of the expression are variables of the value.
            Some(text) if value.contains('$') && (text.contains("(?") || has_group(value)) => {
                return None;
            }
            Some(text) => match text.strip_prefix('*') {
                Some(text) => (subject.contains(text, true)?, REGEX_RANK),
                None => (subject.contains(text, false)?, REGEX_RANK),
            },
            None if has_names => named(subject, pattern)?,
            // nginx compares texts of a map without regard to case.
            None => (subject.equals(pattern.trim_start_matches('\\'), true)?, 0),
        };
        // The text is that of the variable, but for the case of letters.
        let is_repeated = value == d.arg(0) && rank == 0 && !pattern.is_empty();
        let value = if is_repeated { pattern.to_owned() } else { value.clone() };
        map.rows.push(Row { any, value, rank });
    }
    // Expressions keep the order in which they are written.
    map.rows.sort_by_key(|row| row.rank);
    Some(map)
}

/// `true` if a value has the text of a group, such as `$1`.
fn has_group(value: &str) -> bool {
    value.as_bytes().windows(2).any(|two| two[0] == b'$' && two[1].is_ascii_digit())
}

/// The conditions and the rank of a name in a map with `hostnames`: longer wildcards precede
/// shorter ones, and those at the begin precede those at the end.
fn named(subject: &Subject, pattern: &str) -> Option<(Vec<Table>, usize)> {
    const LENGTH_MAX: usize = 1_000;
    let length = pattern.len().min(LENGTH_MAX);
    if *subject != Subject::Host {
        return None;
    }
    if let Some(domain) = pattern.strip_prefix('.') {
        let mut any = subject.equals(domain, true)?;
        any.push(one("host", format!("*.{domain}")));
        return Some((any, 2 * LENGTH_MAX - length));
    }
    if let Some(domain) = pattern.strip_prefix("*.") {
        subject.equals(domain, true)?;
        return Some((vec![one("host", pattern)], 2 * LENGTH_MAX - length));
    }
    if let Some(begin) = pattern.strip_suffix(".*") {
        subject.equals(begin, true)?;
        return Some((vec![one("host", pattern)], 4 * LENGTH_MAX - length));
    }
    Some((subject.equals(pattern, true)?, 0))
}

/// A map of client addresses, all of whose networks have one value.
fn of_geo(d: &Directive) -> Option<ValueMap> {
    let mut map =
        ValueMap { at: d.clone(), subject: None, rows: Vec::new(), default: String::new() };
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
    map.rows.push(Row { any, value: value?, rank: 0 });
    Some(map)
}

/// `true` for a value that `if` takes for true.
pub(super) fn is_true(value: &str) -> bool {
    !value.is_empty() && value != "0"
}

impl ValueMap {
    /// The conditions of which one is met where the value is neither empty nor 0.
    pub(super) fn truths(&self) -> Option<Vec<Table>> {
        self.conditions(is_true)
    }

    /// The values that requests may have beside the default, each once.
    pub(super) fn others(&self) -> Vec<&str> {
        let mut others: Vec<&str> = Vec::new();
        for row in &self.rows {
            if row.value != self.default && !others.contains(&row.value.as_str()) {
                others.push(&row.value);
            }
        }
        others
    }

    /// `true` if a value repeats the text of its row, which a request may have in other letters.
    pub(super) fn repeats(&self) -> bool {
        self.at.children().iter().any(|row| row.arg(0) == self.at.arg(0) && row.name != "default")
    }

    /// The conditions of which one is met where the value is wanted; `None`: a value is not known,
    /// or hurtle cannot express them.
    pub(super) fn conditions(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Table>> {
        let mut values = self.rows.iter().map(|row| &row.value).chain([&self.default]);
        values.all(|value| !value.contains('$')).then_some(())?;
        self.where_value(is_wanted)
    }

    /// Likewise, by the values as they are written.
    pub(super) fn where_value(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<Table>> {
        let mut any = Vec::new();
        let mut others: Vec<(usize, Table)> = Vec::new();
        for row in &self.rows {
            if !is_wanted(&row.value) {
                others.extend(row.any.iter().map(|table| (row.rank, table.clone())));
                continue;
            }
            // Texts exclude each other; of wildcards and expressions the first one counts.
            let is_before = |(rank, _): &&(usize, Table)| *rank < row.rank || row.rank > 0;
            let before: Vec<Table> =
                others.iter().filter(is_before).map(|(_, table)| table.clone()).collect();
            for table in &row.any {
                let mut table = table.clone();
                if !before.is_empty() {
                    table.extend(none_of(before.clone())?);
                }
                any.push(table);
            }
        }
        if is_wanted(&self.default) {
            let others: Vec<Table> = others.into_iter().map(|(_, table)| table).collect();
            match others.is_empty() {
                true => any.push(one("path", "**")),
                false => any.push(none_of(others)?),
            }
        }
        Some(merged(any))
    }
}
