//! mod_headers: `Header`, as header rules.

use toml::Value;

use super::file_set::FileSet;
use super::sections::Section;
use crate::mount::{Keys, put};
use crate::report::Report;
use crate::syntax::Directive;

/// Translates a directive. `has_expires`: mod_expires sets Cache-Control.
pub(super) fn header(
    d: &Directive,
    section: &Section<'_>,
    index: &[String],
    has_expires: bool,
    report: &mut Report,
) -> Result<Option<Keys>, String> {
    let (is_always, args) = match d.args.as_slice() {
        [word, rest @ ..] if word.eq_ignore_ascii_case("always") => (true, rest),
        [word, rest @ ..] if word.eq_ignore_ascii_case("onsuccess") => (false, rest),
        args => (false, args),
    };
    let [action, name, rest @ ..] = args else {
        return Err("it has an action and a field".to_owned());
    };
    let name = name.trim_end_matches(':');
    let (value, rest) = match (action.to_ascii_lowercase().as_str(), rest) {
        ("unset", rest) => (None, rest),
        (_, [value, rest @ ..]) => (Some(value), rest),
        _ => return Err("the field has a value".to_owned()),
    };
    let is_varying = name.eq_ignore_ascii_case("vary");
    let is_cache = name.eq_ignore_ascii_case("cache-control");
    let is_if_absent = match action.to_ascii_lowercase().as_str() {
        "set" | "unset" => false,
        "setifempty" => true,
        "append" | "merge" | "add"
            if is_varying
                && value.is_some_and(|value| value.eq_ignore_ascii_case("accept-encoding")) =>
        {
            // A response that can be compressed has it.
            report.leave_out(d);
            return Ok(None);
        }
        "append" | "merge" | "add"
            if is_varying
                || (is_cache && has_expires)
                || name.eq_ignore_ascii_case("set-cookie") =>
        {
            return Err(format!("{name} has other values, too: write them together in `set`"));
        }
        "append" | "merge" | "add" => {
            report.remark(
                d,
                &format!(
                    "it replaces a value of the application, if it sends {name}: GET /index.php"
                ),
            );
            false
        }
        other => {
            return Err(format!(
                "of actions it knows set, setifempty, append, merge, add and unset, not {other}"
            ));
        }
    };
    if !rest.is_empty() {
        return Err("fields depend on the path alone, not on variables and expressions".to_owned());
    }
    let mut keys = Keys::new();
    if let Some(files) = &section.files {
        put(&mut keys, "match", files.condition(index));
    }
    match value {
        None => put(&mut keys, "remove", name),
        Some(value) => {
            let value = plain(value)?;
            put(&mut keys, "set", toml::Table::from_iter([(name.to_owned(), Value::from(value))]));
        }
    }
    if is_always {
        put(&mut keys, "always", true);
    }
    if is_if_absent {
        put(&mut keys, "if_absent", true);
    }
    Ok(Some(keys))
}

/// Fields that `Header` has given a value so far, with their files; `None`: all.
#[derive(Default)]
pub(super) struct Values<'s>(Vec<(String, Option<&'s FileSet>)>);

impl<'s> Values<'s> {
    /// Adds the value of a directive.
    ///
    /// # Errors
    /// One that Apache joins with an earlier value, which a header rule would replace.
    pub(super) fn add(&mut self, d: &Directive, section: &'s Section<'_>) -> Result<(), String> {
        let is_table = |word: &&String| {
            word.eq_ignore_ascii_case("always") || word.eq_ignore_ascii_case("onsuccess")
        };
        let mut args = d.args.iter().skip_while(is_table);
        let (Some(action), Some(name)) = (args.next(), args.next()) else { return Ok(()) };
        let (action, name) = (action.to_ascii_lowercase(), name.to_ascii_lowercase());
        let name = name.trim_end_matches(':');
        let files = section.files.as_ref();
        let meets = |(known, others): &(String, Option<&FileSet>)| {
            let is_apart = files.zip(*others).is_some_and(|(one, other)| one.is_apart(other));
            known == name && !is_apart
        };
        let joins = matches!(action.as_str(), "append" | "merge" | "add");
        if joins && name != "vary" && self.0.iter().any(meets) {
            return Err(format!(
                "an earlier Header has a value of {name}: write both in one `set`"
            ));
        }
        if action != "unset" {
            self.0.push((name.to_owned(), files));
        }
        Ok(())
    }
}

/// Joins neighbours of the same requests.
pub(super) fn joined(rules: Vec<Keys>) -> Vec<Keys> {
    let mut all: Vec<Keys> = Vec::new();
    for rule in rules {
        let rest = |keys: &Keys| -> Keys {
            keys.iter().filter(|(name, _)| name != "set").cloned().collect()
        };
        let set =
            rule.iter().find(|(name, _)| name == "set").and_then(|(_, value)| value.as_table());
        let last = all.last_mut().filter(|last| rest(last) == rest(&rule));
        let known = last.and_then(|last| last.iter_mut().find(|(name, _)| name == "set"));
        match (known, set) {
            (Some((_, Value::Table(known))), Some(set)) => known.extend(set.clone()),
            _ => all.push(rule),
        }
    }
    all
}

/// A value without format specifiers.
fn plain(value: &str) -> Result<String, String> {
    let bare = value.replace("%%", "");
    if bare.contains('%') {
        return Err("its value is fixed: % begins a variable of Apache".to_owned());
    }
    if value.chars().any(|c| c.is_control() || !c.is_ascii()) {
        return Err("its value is of ASCII".to_owned());
    }
    Ok(value.replace("%%", "%"))
}
