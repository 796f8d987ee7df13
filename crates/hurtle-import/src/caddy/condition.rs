//! The conditions of a matcher, line by line.

use toml::{Table, Value};

use super::matcher::Matcher;
use super::pattern::{fixed, has_variable};
use crate::report::Report;
use crate::syntax::Directive;
use hurtle_config::PathRegex;

/// The networks that Caddy calls `private_ranges`.
pub(super) const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];

/// Adds the condition of a line.
///
/// # Errors
/// Conditions that hurtle does not have.
pub(super) fn condition(
    matcher: &mut Matcher,
    line: &Directive,
    has_proxies: bool,
    report: &mut Report,
) -> Result<(), String> {
    let args = || line.args.iter().cloned();
    match line.name.as_str() {
        "path" => {
            line.args.iter().try_for_each(|path| fixed(path))?;
            matcher.paths.extend(args());
        }
        "path_regexp" => {
            let (name, text) = match line.args.as_slice() {
                [text] => (String::new(), text.clone()),
                [name, text] => (name.clone(), text.clone()),
                _ => return Err("it has an expression, and perhaps a name before it".to_owned()),
            };
            PathRegex::new(&text).map_err(|reason| format!("hurtle's expressions: {reason}"))?;
            if matcher.regex.replace((name, text)).is_some() {
                return Err("a match of hurtle has one expression".to_owned());
            }
        }
        "method" if line.args.iter().any(|name| has_variable(name)) => {
            return Err("the methods of a condition have no variable: write its value".to_owned());
        }
        "method" => matcher.add("method", args().map(|name| name.to_ascii_uppercase()))?,
        "host" => matcher.add("host", args())?,
        "remote_ip" | "client_ip" => {
            let is_peer = has_proxies && line.name == "remote_ip";
            let name = if is_peer { "peer" } else { "client" };
            matcher.add(name, networks(&line.args, line, report)?)?;
        }
        "header" => matcher.header(line)?,
        "query" => {
            for pair in &line.args {
                let Some((name, value)) = pair.split_once('=') else {
                    return Err("a parameter is written NAME=VALUE".to_owned());
                };
                matcher.named("query", name, value)?;
            }
        }
        "file" if line.args.is_empty() && line.block.is_none() => matcher.file = Some(true),
        "not" => matcher.not(line, has_proxies, report)?,
        "header_regexp" => {
            let (field, text) = match line.args.as_slice() {
                [field, text] | [_, field, text] => (field, text),
                _ => return Err("it has a field and an expression".to_owned()),
            };
            PathRegex::new(text).map_err(|reason| format!("hurtle's expressions: {reason}"))?;
            let regex = Table::from_iter([("regex".to_owned(), Value::from(text.as_str()))]);
            matcher.set("header", field, Value::from(regex))?;
        }
        "protocol" => match line.args.as_slice() {
            [scheme] if scheme == "http" || scheme == "https" => {
                if matcher
                    .others
                    .insert("scheme".to_owned(), Value::from(scheme.as_str()))
                    .is_some()
                {
                    return Err("it has a scheme already".to_owned());
                }
            }
            _ => return Err("of protocols it knows http and https".to_owned()),
        },
        "expression" => matcher.expression(&line.args.join(" "))?,
        _ => return Err("hurtle's match has no such condition".to_owned()),
    }
    Ok(())
}

/// The networks of a list, with Caddy's short name for private ones.
pub(super) fn networks(
    list: &[String],
    d: &Directive,
    report: &mut Report,
) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for network in list {
        match network.as_str() {
            "private_ranges" => all.extend(PRIVATE.map(str::to_owned)),
            "forwarded" => return Err("the address is that of trusted proxies' clients".to_owned()),
            network => all.push(network.to_owned()),
        }
    }
    let has_variable = all.iter().any(|network| network.contains("{env."));
    if has_variable && all.len() > 1 {
        report.remark(
            d,
            "the variable has one network; several are one variable, and no other beside it",
        );
    } else if has_variable {
        report.remark(d, "networks of a variable are separated by commas or spaces");
    }
    Ok(all)
}

impl Matcher {
    /// Adds a comparison of one property, such as `{method} == 'POST'` or `{query} != ''`.
    fn expression(&mut self, text: &str) -> Result<(), String> {
        let wrong =
            || "of expressions it knows a comparison of {method}, {host} or {query}".to_owned();
        let (variable, is_equal, value) = match (text.split_once("=="), text.split_once("!=")) {
            (Some((variable, value)), None) => (variable.trim(), true, value.trim()),
            (None, Some((variable, value))) => (variable.trim(), false, value.trim()),
            _ => return Err(wrong()),
        };
        let value = value.trim_matches(['"', '\'', '`']);
        if !value.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b)) {
            return Err(wrong());
        }
        let variable = variable.trim_matches(['{', '}']).trim_start_matches("http.request.");
        let key = match variable {
            "query" | "uri.query" if value.is_empty() => {
                // An empty query is none, in both.
                let known = self.others.insert("query".to_owned(), Value::from(!is_equal));
                return if known.is_some() { Err(wrong()) } else { Ok(()) };
            }
            "method" | "host" if !value.is_empty() => variable,
            _ => return Err(wrong()),
        };
        if is_equal {
            return self.add(key, [value.to_owned()]);
        }
        let not = Table::from_iter([(key.to_owned(), Value::from(value))]);
        match self.others.insert("not".to_owned(), Value::Table(not)) {
            None => Ok(()),
            Some(_) => Err(wrong()),
        }
    }
}
