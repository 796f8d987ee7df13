//! Translates a location of files, and its `try_files`.

use toml::Value;

use super::block::Block;
use super::kind::{FilesKind, HandlerKind, Kind};
use super::mount::{Keys, put};
use super::path::{has_variable, join};
use super::report::Report;
use super::syntax::Directive;

/// Adds the keys of a mount of files; `None` if it was refused.
pub(super) fn files(
    at: &Directive,
    path: &str,
    (block, try_files): (&Block<'_>, Option<&Directive>),
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let alias = block.take(Kind::Handler(HandlerKind::Alias));
    let root = || block.get(|scope| &scope.root).clone();
    let directory = match (alias, if alias.is_some() { None } else { root() }) {
        (Some(alias), _) if has_variable(alias.arg(0)) || !alias.arg(0).starts_with('/') => {
            report.refuse(alias, "write an absolute path without variables");
            return None;
        }
        (Some(alias), _) if alias.arg(0).ends_with('/') != path.ends_with('/') => {
            report.refuse(alias, "end the location and the alias with /, or neither");
            return None;
        }
        (Some(alias), _) => join(alias.arg(0), ""),
        (None, Some(root)) => join(&root, path),
        (None, None) => {
            report.refuse(at, "it has no root; write one, an absolute path");
            return None;
        }
    };
    put(keys, "files", directory);
    let index = block.get(|scope| &scope.index);
    if !index.is_empty() && *index != ["index.html"] {
        put(keys, "index", index.clone());
    }
    if let Some(d) = try_files {
        block.take(Kind::Handler(HandlerKind::TryFiles));
        let list = candidates(d, path, report)?;
        if list.len() > 1 || list.first().is_some_and(|one| one != "{path}") {
            put(keys, "try_files", list);
        }
    }
    if let Some(spa) = block.get(|scope| &scope.spa) {
        put(keys, "spa", spa.clone());
    }
    if *block.get(|scope| &scope.listing) {
        put(keys, "listing", true);
    }
    let types = block.get(|scope| &scope.media_types);
    if !types.is_empty() {
        let types: toml::Table =
            types.iter().map(|(ext, media)| (ext.clone(), Value::from(media.clone()))).collect();
        put(keys, "media_types", types);
    }
    let rate = *block.get(|scope| &scope.rate);
    if rate > 0 {
        put(keys, "rate", i64::try_from(rate).unwrap_or(i64::MAX));
    }
    if *block.get(|scope| &scope.uploads) {
        put(keys, "uploads", toml::Table::new());
    }
    if let Some(d) = block.first(&[Kind::Files(FilesKind::DefaultType)]) {
        block.take(Kind::Files(FilesKind::DefaultType));
        report.remark(d, "default_type: files of other extensions get no media type by location");
    }
    Some(())
}

/// The script that answers paths without a file: the last element of `try_files`, such as
/// `/index.php?$query_string`.
pub(super) fn script_of(try_files: &Directive) -> Option<String> {
    let last = try_files.args.last()?;
    let path = last.split(['?', '$']).next().unwrap_or_default();
    let name = path.strip_prefix('/')?;
    (name.ends_with(".php") && !name.contains('/')).then(|| name.to_owned())
}

/// Translates `try_files` of files; `None` if it was refused.
fn candidates(d: &Directive, path: &str, report: &mut Report) -> Option<Vec<String>> {
    let mut list = Vec::new();
    if !d.args.iter().any(|arg| arg == "$uri/") {
        report.remark(d, "a directory is answered by its index, as with $uri/; nginx has 404");
    }
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
