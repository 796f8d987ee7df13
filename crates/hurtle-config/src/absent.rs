//! Comments on the keys that a printed configuration leaves out because they have no value: limits
//! that are unlimited, features that are off.

use std::collections::{HashMap, VecDeque};

use toml::{Table, Value};

use super::check_matcher::MATCH;
use super::config::TOP;
use super::schema::{DefaultValue, Kind, Section};

/// Beginnings of defaults that say nothing of their own: another key decides.
const SET_ELSEWHERE: [&str; 5] = ["see ", "required ", "where ", "302 ", "true "];

/// Adds the comments to a printed configuration, behind the keys of each table.
pub(super) fn add_comments(printed: &str) -> String {
    let mut comments = HashMap::new();
    if let Ok(root) = printed.parse::<Table>() {
        collect(&root, &TOP, &mut comments);
    }
    let mut take = |header: &str| comments.get_mut(header).and_then(VecDeque::pop_front);
    let mut out = String::with_capacity(printed.len() * 2);
    let mut pending = take("");
    for line in printed.lines() {
        if line.is_empty() {
            out.extend(pending.take());
        }
        if line.starts_with('[') {
            pending = take(line);
        }
        out.push_str(line);
        out.push('\n');
    }
    out.extend(pending);
    out
}

/// Collects the comments of a table and of those in it, under the headers of the tables. Tables
/// with the same header are in the order of the file.
fn collect(
    table: &Table,
    section: &'static Section,
    comments: &mut HashMap<&'static str, VecDeque<String>>,
) {
    // A matcher has no other conditions than it says.
    if section.header == MATCH.header {
        return;
    }
    let absent = section.keys().filter(|key| {
        let applies = key.with.is_empty() || key.with.iter().any(|with| table.contains_key(*with));
        applies && !table.contains_key(key.name)
    });
    let lines = absent.filter_map(|key| match key.absent {
        DefaultValue::Words(words) if !SET_ELSEWHERE.iter().any(|of| words.starts_with(of)) => {
            Some(format!("# {}: {words}\n", key.name))
        }
        _ => None,
    });
    comments.entry(section.header).or_default().push_back(lines.collect());
    for key in section.keys() {
        match (&key.kind, table.get(key.name)) {
            (Kind::Table(inner), Some(Value::Table(table))) => collect(table, inner, comments),
            (Kind::Tables(inner), Some(Value::Array(tables))) => {
                for table in tables.iter().filter_map(Value::as_table) {
                    collect(table, inner, comments);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_a_value_is_a_comment_in_its_table() {
        let printed = "workers = 1\n\n[limits]\nprograms = 32\n\n[[site]]\nhosts = []\n\n\
                       [[site.mount]]\nfiles = \"a\"\n\n[[site.mount]]\nproxy = \"b\"\n\n\
                       [site.mount.cache]\n";
        let text = add_comments(printed);
        let tables: Vec<&str> = text.split("\n[").collect();
        let has = |table: usize, line: &str| tables[table].lines().any(|found| found == line);
        assert!(has(0, "# access_log: off"), "{text}");
        assert!(has(1, "# connections_per_address: unlimited"), "{text}");
        assert!(!text.contains("# programs"), "{text}");
        assert!(!has(3, "# cache: off"), "only a proxy has a cache: {text}");
        assert!(!has(4, "# cache: off"), "it is on: {text}");
        assert_eq!(text.parse::<Table>().unwrap(), printed.parse::<Table>().unwrap());
    }
}
