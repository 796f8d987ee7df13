//! `handle_errors`: pages for statuses.

use std::collections::BTreeMap;

use toml::Value;

use super::pattern::is_placeholder;
use crate::import::mount::ErrorPages;
use crate::import::report::Report;
use crate::import::syntax::Directive;

/// Statuses that a page without a condition is for.
const ALL: [u16; 2] = [404, 500];

/// Translates the pages of a site.
pub(super) fn translate(d: &Directive, pages: &mut ErrorPages, report: &mut Report) {
    let lines = d.children();
    let own: Vec<u16> = d.args.iter().filter_map(|arg| arg.parse().ok()).collect();
    if own.len() < d.args.len() {
        return report.refuse(d, "its statuses are numbers");
    }
    let own = if own.is_empty() { ALL.to_vec() } else { own };
    let mut conditions: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.name.starts_with('@')) {
        match statuses(line) {
            Some(statuses) => drop(conditions.insert(&line.name, statuses)),
            None => {
                report.refuse(line, "of conditions of errors it knows {err.status_code} == 404");
            }
        }
    }
    for line in lines.iter().filter(|line| !line.name.starts_with('@')) {
        let (statuses, args) = match line.args.split_first() {
            Some((name, args)) if name.starts_with('@') => match conditions.get(name.as_str()) {
                Some(statuses) => (statuses.clone(), args),
                None => continue,
            },
            Some((star, args)) if star == "*" => (own.clone(), args),
            _ => (own.clone(), &line.args[..]),
        };
        match line.name.as_str() {
            "handle" => line
                .children()
                .iter()
                .for_each(|line| page(line, &line.args, &statuses, pages, report)),
            _ => page(line, args, &statuses, pages, report),
        }
    }
}

/// Translates one directive of an error.
fn page(
    line: &Directive,
    args: &[String],
    statuses: &[u16],
    pages: &mut ErrorPages,
    report: &mut Report,
) {
    let path = args.iter().rfind(|arg| arg.as_str() != "*").map_or("", String::as_str);
    match line.name.as_str() {
        "rewrite" if path.starts_with('/') && !is_placeholder(path) => {
            for status in statuses {
                pages.entry(*status).or_insert_with(|| Value::from(path));
            }
        }
        "rewrite"
            if matches!(path, "/{err.status_code}.html" | "/{http.error.status_code}.html") =>
        {
            for status in [403, 404, 500, 502, 503] {
                pages.entry(status).or_insert_with(|| Value::from(format!("/{status}.html")));
            }
            report.remark(
                line,
                "pages are named for 403, 404, 500, 502 and 503; other errors get hurtle's own",
            );
        }
        "root" if args.iter().all(|arg| arg == "*") => {}
        "file_server" => {}
        "respond" => report.remark(line, "errors have hurtle's own page in place of this text"),
        _ => {
            report
                .refuse(line, "of errors it knows pages: `rewrite * /404.html` and `file_server`");
        }
    }
}

/// The statuses of a condition such as `expression {err.status_code} == 404`.
fn statuses(line: &Directive) -> Option<Vec<u16>> {
    let inner = line.children().first().unwrap_or(line);
    let words: String = match line.block {
        Some(_) if inner.name == "expression" => inner.args.join(" "),
        None if inner.arg(0) == "expression" => inner.args[1..].join(" "),
        None => inner.args.join(" "),
        _ => return None,
    };
    let code = words
        .strip_prefix("{err.status_code}")
        .or_else(|| words.strip_prefix("{http.error.status_code}"))?
        .trim();
    if let Some(one) = code.strip_prefix("==") {
        return one.trim().parse().ok().map(|status| vec![status]);
    }
    let list = code.strip_prefix("in")?.trim().strip_prefix('[')?.strip_suffix(']')?;
    list.split(',').map(|status| status.trim().parse().ok()).collect()
}
