//! Translates a location of files, and its `try_files`.

use toml::Value;

use super::location::Handlers;
use super::mount::{Keys, put};
use super::path::{has_variable, join};
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;

/// Adds the keys of a mount of files; `None` if it was refused.
pub(super) fn files(
    at: &Directive,
    path: &str,
    handlers: &Handlers<'_>,
    scope: &Scope,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let directory = match (handlers.alias, &scope.root) {
        (Some(alias), _) if has_variable(alias.arg(0)) || !alias.arg(0).starts_with('/') => {
            report.refuse(alias, "write an absolute path without variables");
            return None;
        }
        (Some(alias), _) if alias.arg(0).ends_with('/') != path.ends_with('/') => {
            report.refuse(alias, "end the location and the alias with /, or neither");
            return None;
        }
        (Some(alias), _) => join(alias.arg(0), ""),
        (None, Some(root)) => join(root, path),
        (None, None) => {
            report.refuse(at, "it has no root; write one, an absolute path");
            return None;
        }
    };
    put(keys, "files", directory);
    if !scope.index.is_empty() && scope.index != ["index.html"] {
        put(keys, "index", scope.index.clone());
    }
    if let Some(d) = handlers.try_files {
        let list = try_files(d, path, report)?;
        if list.len() > 1 || list.first().is_some_and(|one| one != "{path}") {
            put(keys, "try_files", list);
        }
    }
    if let Some(spa) = &scope.spa {
        put(keys, "spa", spa.clone());
    }
    if scope.listing {
        put(keys, "listing", true);
    }
    if !scope.media_types.is_empty() {
        let types = scope.media_types.iter();
        let types: toml::Table =
            types.map(|(ext, media)| (ext.clone(), Value::from(media.clone()))).collect();
        put(keys, "media_types", types);
    }
    if scope.rate > 0 {
        put(keys, "rate", i64::try_from(scope.rate).unwrap_or(i64::MAX));
    }
    if scope.uploads {
        put(keys, "uploads", toml::Table::new());
    }
    Some(())
}

/// Translates `try_files` of files; `None` if it was refused.
fn try_files(d: &Directive, path: &str, report: &mut Report) -> Option<Vec<String>> {
    let mut list = Vec::new();
    let last = d.args.len().saturating_sub(1);
    for (at, arg) in d.args.iter().enumerate() {
        if arg.starts_with('@') {
            report.refuse(
                d,
                "no fallback to a named location: mount the files at paths of their own",
            );
            return None;
        }
        if let Some(status) = arg.strip_prefix('=') {
            // A search without a hit ends with 404 anyway.
            if status != "404" {
                list.push(arg.clone());
            }
            continue;
        }
        let item = match arg.strip_prefix("$uri") {
            // Directories are found by the path, too.
            Some("/") => continue,
            Some(rest) => format!("{{path}}{rest}"),
            // Paths of the last element are those of the site, the others beneath the root.
            None => match path.trim_end_matches('/') {
                "" => arg.clone(),
                prefix => match arg.strip_prefix(prefix) {
                    Some(rest) if rest.starts_with('/') => rest.to_owned(),
                    _ => {
                        report.refuse(d, format!("write paths beneath {path}"));
                        return None;
                    }
                },
            },
        };
        if has_variable(&item) || item.contains('?') {
            let needs = if at == last { "a script; see fastcgi" } else { "variables" };
            report.refuse(d, format!("it needs {needs}"));
            return None;
        }
        list.push(item);
    }
    Some(list)
}
