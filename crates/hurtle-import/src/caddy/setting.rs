//! Directives of a block that answer no request, and hold for the mounts behind them.

use super::fields::{self, Edits};
use super::handlers::size_of;
use super::order;
use super::pattern::is_placeholder;
use super::scope::Scope;
use crate::report::Report;
use crate::syntax::Directive;

/// Returns a `root` of a route that Caddy skips: of several it takes the first, unless they stand
/// together, where the last one counts.
pub(super) fn skipped_root(route: &[Directive]) -> Option<&Directive> {
    let is_root = |line: &&Directive| line.name == "root";
    let lines = route.iter().filter(|line| !line.name.starts_with('@'));
    lines.skip_while(|line| !is_root(line)).skip_while(is_root).find(is_root)
}

/// Keeps a setting for the mounts behind it.
pub(super) fn setting(
    d: &Directive,
    args: &[String],
    scope: &mut Scope,
    report: &mut Report,
) -> Result<(), String> {
    match order::canonical(&d.name) {
        "root" => {
            let [root] = args else { return Err("it has one directory".to_owned()) };
            if is_placeholder(root) {
                return Err("a directory of hurtle is the same for all requests".to_owned());
            }
            scope.root = Some(root.clone());
        }
        "encode" => {
            scope.compress = true;
            report.general(
                "hurtle chooses the coding and the media types; see docs/compression.md".to_owned(),
            );
        }
        "request_body" => {
            for line in d.children() {
                match (line.name.as_str(), line.arg(0)) {
                    ("max_size", "0") => {}
                    ("max_size", size) => scope.put("body_bytes", size_of(size)?),
                    _ => report.refuse(line, "of request_body it knows max_size"),
                }
            }
        }
        "request_header" => {
            let mut edits = Edits::default();
            for line in fields::lines(d, args) {
                edits.line(&line)?;
                scope.changed.push(line.name.trim_start_matches(['+', '-', '?', '>']).to_owned());
            }
            scope.request.extend(&edits);
        }
        "uri" => match args {
            [kind, prefix] if kind == "strip_prefix" => scope.strip(prefix)?,
            _ => {
                return Err(
                    "of `uri` it knows strip_prefix, in a `handle` of that prefix".to_owned()
                );
            }
        },
        "push" | "tracing" | "log_append" | "log_name" | "log_skip" => report.leave_out(d),
        "templates" => {
            return Err("hurtle runs no templates in files; have an application answer these pages, or write \
                        them without".to_owned());
        }
        _ => return Err("hurtle has nothing of this kind".to_owned()),
    }
    Ok(())
}
