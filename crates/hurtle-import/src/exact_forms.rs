//! Writes exact locations whose answer is one other path or file in plainer forms, before anything
//! is translated: a rewrite of every path is one of the server, and a fixed `try_files` is an
//! `alias`.

use super::modifier::{Modifier, modifier};
use super::named::EVERY_PATH;
use super::syntax::Directive;
use hurtle_config::PathRegex;

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
    let block = &with_words(block);
    let (mut all, mut rewrites) = (Vec::new(), Vec::new());
    for d in block {
        let Some((Modifier::Exact, path)) = modifier(d).filter(|_| d.name == "location") else {
            all.push(of_one_file(d, block).unwrap_or_else(|| d.clone()));
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

/// Writes an application for the paths of an expression, `location ~ ^/(status|ping)$ {
/// fastcgi_pass …; }`, as exact locations.
fn with_words(block: &[Directive]) -> Vec<Directive> {
    let mut all = Vec::new();
    for (at, d) in block.iter().enumerate() {
        let paths = words(d);
        let is_free = |path: &String| {
            block.iter().enumerate().all(|(other, location)| match modifier(location) {
                _ if other == at || location.name != "location" => true,
                // Expressions are tried in the order written.
                Some((Modifier::Regex, text)) => {
                    other > at || PathRegex::new(text).is_ok_and(|r| !r.is_in(path.as_bytes()))
                }
                Some((Modifier::Exact, own)) => own != path,
                Some((Modifier::Final, prefix)) => !path.starts_with(prefix),
                _ => true,
            })
        };
        match paths.is_empty() || !paths.iter().all(is_free) {
            true => all.push(d.clone()),
            false => all.extend(
                paths
                    .into_iter()
                    .map(|path| Directive { args: vec!["=".to_owned(), path], ..d.clone() }),
            ),
        }
    }
    all
}

/// The paths of an expression that has no others, in a location with `fastcgi_pass`.
fn words(d: &Directive) -> Vec<String> {
    let is_plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'|' | b'(' | b')');
    let text = match modifier(d) {
        Some((Modifier::Regex, text)) if d.name == "location" && d.arg(0) == "~" => text,
        _ => return Vec::new(),
    };
    let has_application = d.children().iter().any(|d| d.name == "fastcgi_pass");
    let inner = text.strip_prefix("^/").and_then(|text| text.strip_suffix('$'));
    let Some(inner) = inner.filter(|inner| has_application && inner.bytes().all(is_plain)) else {
        return Vec::new();
    };
    let group = inner.split_once('(').and_then(|(before, rest)| {
        let (group, after) = rest.split_once(')')?;
        let is_alone = |text: &str| !text.contains(['(', ')', '|']);
        (is_alone(before) && is_alone(after) && !group.contains('('))
            .then(|| group.split('|').map(|word| format!("/{before}{word}{after}")).collect())
    });
    match group {
        Some(paths) => paths,
        None if inner.contains(['|', '(', ')']) => Vec::new(),
        None => vec![format!("/{inner}")],
    }
}

/// Directives of a location that say how a file is sent, and admit nobody.
const OF_FILES: [&str; 10] = [
    "access_log",
    "add_header",
    "alias",
    "default_type",
    "error_log",
    "etag",
    "expires",
    "log_not_found",
    "root",
    "types",
];

/// Endings of names that directories do not have, as `pdf.js` is one.
const ENDINGS: [&str; 13] =
    ["css", "gif", "gz", "htm", "html", "ico", "jpg", "json", "pdf", "png", "svg", "txt", "xml"];

/// The exact location in place of one for the paths that begin with the name of a file, `location
/// /robots.txt { }`: hurtle would take the file for a directory.
fn of_one_file(d: &Directive, block: &[Directive]) -> Option<Directive> {
    let (Modifier::Prefix | Modifier::Final, path) = modifier(d)? else { return None };
    let is_file = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').filter(|(name, _)| !name.is_empty());
        ending.is_some_and(|(_, ext)| ENDINGS.contains(&ext.to_ascii_lowercase().as_str()))
    };
    // An exact location would precede them.
    let is_taken = |other: &Directive| match modifier(other) {
        Some((Modifier::Regex, text)) => {
            let case = if other.arg(0) == "~*" { "(?i)" } else { "" };
            let regex = PathRegex::new(&format!("{case}{text}"));
            !regex.is_ok_and(|regex| !regex.is_in(path.as_bytes()))
        }
        _ => false,
    };
    let is_final = d.arg(0) == "^~";
    let is_quiet = |d: &Directive| OF_FILES.contains(&d.name.as_str());
    let alias = d.children().iter().find(|d| d.name == "alias");
    let is_alone = block.iter().all(|other| modifier(other) != Some((Modifier::Exact, path)));
    let is_one = d.name == "location"
        && is_file(path)
        && !path.ends_with('/')
        && d.children().iter().all(is_quiet)
        && alias.is_none_or(|alias| is_file(alias.arg(0)) && !alias.arg(0).ends_with('/'))
        && (is_final || !block.iter().any(is_taken))
        && is_alone;
    is_one.then(|| Directive { args: vec!["=".to_owned(), path.to_owned()], ..d.clone() })
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
