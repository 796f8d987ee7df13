//! mod_expires: `Cache-Control` by media type, as rules for names of files.

use toml::Value;

use super::media_names::names_of;
use super::sections::Section;
use crate::mount::{Keys, put};
use crate::report::Report;

/// Directives of mod_expires in a section.
#[derive(Debug, Default)]
struct Expires {
    is_active: Option<bool>,
    default: Option<u64>,
    types: Vec<(String, u64)>,
}

/// Settings of the site on which paths of responses depend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served<'s> {
    pub(super) index: &'s [String],
    pub(super) types: &'s std::collections::BTreeMap<String, String>,
    /// The path of the page or script for missing files.
    pub(super) front: Option<&'s str>,
    pub(super) has_php: bool,
}

/// Names of the directives of this module, in lower case.
pub(super) const NAMES: [&str; 3] = ["expiresactive", "expiresbytype", "expiresdefault"];

/// Translates the directives of all sections to header rules.
pub(super) fn translate(
    sections: &[Section<'_>],
    served: Served<'_>,
    report: &mut Report,
) -> Vec<Keys> {
    let all: Vec<Expires> = sections.iter().map(|section| read(section, report)).collect();
    let is_active = all.first().and_then(|top| top.is_active).unwrap_or(false);
    let (mut defaults, mut types) = (Vec::new(), Vec::new());
    let mut inactive = Vec::new();
    for (section, expires) in sections.iter().zip(&all) {
        let matched = section.files.as_ref().map(|files| files.condition(served.index));
        if !expires.is_active.unwrap_or(is_active) {
            inactive.extend(matched.filter(|_| expires.is_active == Some(false)));
            continue;
        }
        if let Some(seconds) = expires.default {
            defaults.push(rule(matched.clone(), seconds));
        }
        for (media, seconds) in &expires.types {
            match (type_condition(media, served), &section.files) {
                (None, _) => {
                    report.general(format!("ExpiresByType {media}: no file has this type here."));
                }
                (Some(condition), None) => types.push(rule(Some(condition), *seconds)),
                (Some(_), Some(_)) => {
                    if let Some(d) =
                        section.own.iter().find(|d| d.name.eq_ignore_ascii_case("expiresbytype"))
                    {
                        report.refuse(d, "types within files: write ExpiresDefault in the section");
                    }
                }
            }
        }
    }
    if !defaults.is_empty() || !types.is_empty() {
        let scripts = match served.has_php {
            true => "; responses of scripts have those of their paths, not of their types",
            false => "",
        };
        report.general(format!(
            "Types of mod_expires are names of files, and the field is Cache-Control alone, not Expires, too: GET /a.css{scripts}."
        ));
    }
    // The first rule of a field that is not there sets it.
    let is_layered = served.has_php
        || !inactive.is_empty()
        || (!defaults.is_empty() && !types.is_empty())
        || defaults.len() > 1;
    let mut rules: Vec<Keys> = match is_layered {
        true => types.into_iter().rev().chain(defaults.into_iter().rev()).collect(),
        false => [types, defaults].concat(),
    };
    for keys in &mut rules {
        if is_layered {
            put(keys, "if_absent", true);
        }
        if let (Some(not), false) = (inactive.first(), keys.iter().any(|(name, _)| name == "match"))
        {
            let table: toml::Table = [("not".to_owned(), not.clone())].into_iter().collect();
            keys.insert(0, ("match".to_owned(), Value::Table(table)));
        }
    }
    rules
}

fn rule(matched: Option<Value>, seconds: u64) -> Keys {
    let mut keys = Keys::new();
    if let Some(matched) = matched {
        put(&mut keys, "match", matched);
    }
    let value = Value::from(format!("max-age={seconds}"));
    put(&mut keys, "set", toml::Table::from_iter([("Cache-Control".to_owned(), value)]));
    keys
}

fn read(section: &Section<'_>, report: &mut Report) -> Expires {
    let mut expires = Expires::default();
    for d in &section.own {
        let found = match d.name.to_ascii_lowercase().as_str() {
            "expiresactive" => {
                expires.is_active = Some(d.arg(0).eq_ignore_ascii_case("on"));
                Ok(())
            }
            "expiresdefault" => seconds(&d.args).map(|found| expires.default = Some(found)),
            "expiresbytype" if d.args.len() >= 2 => seconds(&d.args[1..])
                .map(|found| expires.types.push((d.arg(0).to_ascii_lowercase(), found))),
            "expiresbytype" => Err("it has a type and a time".to_owned()),
            _ => Ok(()),
        };
        if let Err(needs) = found {
            report.refuse(d, needs);
        }
    }
    expires
}

/// Translates `access plus 1 month`, or `A2592000`.
fn seconds(args: &[String]) -> Result<u64, String> {
    let text = args.join(" ");
    let mut words = text.split_whitespace();
    let base = words.next().unwrap_or_default().to_ascii_lowercase();
    if let Some(number) = base.strip_prefix('a').and_then(|number| number.parse().ok()) {
        return Ok(number);
    }
    match base.as_str() {
        "access" | "now" => {}
        "modification" => {
            return Err("a time since the last change is not known: write access".to_owned());
        }
        _ if base.starts_with('m') => {
            return Err("a time since the last change is not known: write A".to_owned());
        }
        _ => return Err("write access plus a time, such as 1 month".to_owned()),
    }
    let mut total: u64 = 0;
    let mut words = words.filter(|word| !word.eq_ignore_ascii_case("plus"));
    while let Some(number) = words.next() {
        let number: u64 = number.parse().map_err(|_| format!("{number} is not a number"))?;
        let unit = words.next().unwrap_or_default().to_ascii_lowercase();
        let factor: u64 = match unit.trim_end_matches('s') {
            "year" => 365 * 86_400,
            "month" => 30 * 86_400,
            "week" => 7 * 86_400,
            "day" => 86_400,
            "hour" => 3_600,
            "minute" => 60,
            "second" => 1,
            _ => return Err(format!("{unit} is not a unit of time")),
        };
        let part = number.checked_mul(factor).and_then(|part| total.checked_add(part));
        total = part.ok_or("the time is too long")?;
    }
    Ok(total)
}

/// The condition of paths whose responses have a type.
fn type_condition(media: &str, served: Served<'_>) -> Option<Value> {
    let names = names_of(media, served.types);
    let has = |ext: &str| names.iter().any(|name| name == ext);
    let of_index = served.index.iter().any(|name| name.rsplit('.').next().is_some_and(has));
    let of_front = served.front.and_then(|path| path.rsplit('.').next()).is_some_and(has);
    let mut patterns: Vec<String> = names.iter().map(|ext| format!("*.{ext}")).collect();
    if of_index {
        patterns.push("**/".to_owned());
    }
    if of_front {
        let text = format!(r"(\.({})|/[^./]*)$", names.join("|"));
        return Some(super::file_set::regex(text));
    }
    match patterns.as_slice() {
        [] => None,
        [one] => Some(Value::from(one.as_str())),
        _ => Some(Value::from(patterns)),
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times() {
        let rows = [
            ("access plus 1 month", Some(2_592_000)),
            ("access 1 year 2 days", Some(31_708_800)),
            ("A1209600", Some(1_209_600)),
            ("now", Some(0)),
            ("modification plus 1 day", None),
            ("M60", None),
            ("access plus 1", None),
            ("access plus 99999999999999999 years", None),
        ];
        for (text, expected) in rows {
            let found = seconds(&[text.to_owned()]);
            assert_eq!(found.ok(), expected, "{text}");
        }
    }
}
