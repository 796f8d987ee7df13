//! Writes exact locations whose answer is one other path or file in plainer forms, before anything
//! is translated: a rewrite of every path is one of the server, and a fixed `try_files` is an
//! `alias`.

use super::modifier::{Modifier, modifier};
use super::named::EVERY_PATH;
use super::syntax::Directive;

/// Rewrites the servers of a configuration.
pub(super) fn plain(directives: &[Directive]) -> Vec<Directive> {
    let root = root_of(directives);
    written(directives, root)
}

fn written(directives: &[Directive], outer: Option<&str>) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => server(block, root_of(block).or(outer)),
            "http" => written(block, root_of(block).or(outer)),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// The `root` that a block has itself.
fn root_of(block: &[Directive]) -> Option<&str> {
    block.iter().find(|d| d.name == "root").map(|d| d.arg(0))
}

fn server(block: &[Directive], root: Option<&str>) -> Vec<Directive> {
    // The rewrites of a server are executed before those of its locations.
    let is_alone = !block.iter().any(|d| d.name == "rewrite");
    let (mut all, mut rewrites) = (Vec::new(), Vec::new());
    for d in block {
        let Some((Modifier::Exact, path)) = modifier(d).filter(|_| d.name == "location") else {
            all.push(d.clone());
            continue;
        };
        match jump(d, path).filter(|_| is_alone) {
            Some(rewrite) => rewrites.push(rewrite),
            None => all.push(with_alias(d, path, root).unwrap_or_else(|| d.clone())),
        }
    }
    all.extend(rewrites);
    all
}

/// The rewrite of a location that does nothing else: nginx looks up the location of the new path.
fn jump(d: &Directive, path: &str) -> Option<Directive> {
    let is_quiet = |d: &&Directive| !matches!(d.name.as_str(), "access_log" | "log_not_found");
    let mut inner = d.children().iter().filter(is_quiet);
    let rewrite = inner.next().filter(|d| d.name == "rewrite")?;
    let to = rewrite.arg(1);
    let is_path = to.starts_with('/') && !to.contains('$') && to.split('?').next() != Some(path);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    if inner.next().is_some()
        || !EVERY_PATH.contains(&rewrite.arg(0))
        || !matches!(rewrite.arg(2), "" | "last")
        || !is_path
        || !path.bytes().all(is_plain)
    {
        return None;
    }
    let args = vec![format!("^{}$", path.replace('.', "\\.")), to.to_owned(), "last".to_owned()];
    Some(Directive { args, ..rewrite.clone() })
}

/// The location with the file that its fixed `try_files` names. A location of a directory keeps the
/// name of the file in `try_files`, behind its directory.
fn with_alias(d: &Directive, path: &str, outer: Option<&str>) -> Option<Directive> {
    let block = d.children();
    let tries = block.iter().find(|d| d.name == "try_files")?;
    let [file, last] = tries.args.as_slice() else { return None };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let is_fixed = !file.starts_with('=') && !file.ends_with('/') && file.bytes().all(is_plain);
    // An endless search or an error is what the same path again leads to, if the file is not there.
    if !is_fixed || !(last == "=404" || last == file) || block.iter().any(|d| d.block.is_some()) {
        return None;
    }
    let alias = block.iter().find(|d| d.name == "alias").map(|d| d.arg(0));
    let file = match alias {
        // nginx takes the location's path off the file, if that begins with it.
        Some(directory) if directory.ends_with('/') && (path == "/" || !file.starts_with('/')) => {
            format!("{directory}{}", file.trim_start_matches('/'))
        }
        Some(_) => return None,
        None if file.starts_with('/') => {
            format!("{}{file}", root_of(block).or(outer)?.trim_end_matches('/'))
        }
        None => return None,
    };
    let is_handler = |d: &Directive| {
        matches!(d.name.as_str(), "return" | "rewrite" | "if") || d.name.ends_with("_pass")
    };
    if block.iter().any(is_handler) {
        return None;
    }
    let mut own: Vec<Directive> = block
        .iter()
        .filter(|d| !matches!(d.name.as_str(), "root" | "alias" | "try_files" | "index"))
        .cloned()
        .collect();
    let one = |name: &str, args: Vec<String>| Directive {
        name: name.to_owned(),
        args,
        block: None,
        at: tries.at.clone(),
    };
    match path.ends_with('/') {
        false => own.push(one("alias", vec![file])),
        true => {
            let (directory, name) = file.rsplit_once('/')?;
            own.push(one("alias", vec![format!("{directory}/")]));
            own.push(one("try_files", vec![name.to_owned(), "=404".to_owned()]));
        }
    }
    Some(Directive { block: Some(own), ..d.clone() })
}
