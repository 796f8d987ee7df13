//! Writes `if (!-f $request_filename) { … }`, which hands requests without a file on, as the
//! `try_files` that it is, before anything is translated.

use super::files::TWICE;
use super::modifier::{Modifier, modifier};
use super::named::EVERY_PATH;
use super::syntax::Directive;

/// The name of the location that gets requests without a file.
const NAME: &str = "missing";

/// Beginnings of the directives of a location that hold for a proxy within its `if`; the first ones
/// are of proxies alone.
const OF_PROXIES: [&str; 6] =
    ["proxy_", "add_header", "client_max_body_size", "expires", "gzip", "limit_rate"];

/// The end of a request without a file.
enum Rest<'d> {
    /// A page or script of the site.
    Page(String),
    /// The `proxy_pass` that gets the request.
    Proxy(&'d Directive),
}

/// Rewrites the servers of a configuration.
pub(super) fn as_try_files(directives: &[Directive]) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => server(block),
            "http" => as_try_files(block),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// Rewrites a server. Its own condition is for all locations, so it becomes that of `/` if there is
/// no other.
fn server(children: &[Directive]) -> Vec<Directive> {
    let mut children = children.to_vec();
    if children.iter().filter_map(location).any(|path| path == NAMED) {
        return children;
    }
    let paths: Vec<&str> = children.iter().filter_map(location).collect();
    let is_alone = paths.iter().all(|path| *path == "/");
    if is_alone
        && let Some((at, words)) = condition(&children).filter(|(at, _)| is_page(&children[*at]))
    {
        let d = try_files(&children[at], &words);
        children.remove(at);
        let root = children.iter_mut().find(|d| location(d) == Some("/"));
        match root.and_then(|root| root.block.as_mut()) {
            Some(block) if has_try_files(block) => {}
            Some(block) => block.push(d),
            None => children.push(d),
        }
    }
    let mut named = None;
    for d in children.iter_mut().filter(|d| location(d).is_some()) {
        let Some(block) = &mut d.block else { continue };
        let Some((at, mut words)) = condition(block).filter(|_| !has_try_files(block)) else {
            continue;
        };
        if let Some(Rest::Proxy(pass)) = rest(&block[at]) {
            let is_kept = |d: &&Directive| {
                d.block.is_none() && OF_PROXIES.iter().any(|name| d.name.starts_with(name))
            };
            if named.is_some() || block.iter().any(|d| d.name == "proxy_pass") {
                continue;
            }
            let mut own: Vec<Directive> = block.iter().filter(is_kept).cloned().collect();
            own.push(pass.clone());
            named = Some(Directive {
                name: "location".to_owned(),
                args: vec![format!("@{NAME}")],
                block: Some(own),
                at: block[at].at.clone(),
            });
            words.push(format!("@{NAME}"));
            block[at] = Directive {
                name: "try_files".to_owned(),
                args: words,
                block: None,
                at: block[at].at.clone(),
            };
            block.retain(|d| !d.name.starts_with(OF_PROXIES[0]));
        } else {
            block[at] = try_files(&block[at], &words);
        }
    }
    children.extend(named);
    children
}

/// The path by which a location with the name of this module is known.
const NAMED: &str = "@missing";

/// The path of a location of a prefix, or its name.
fn location(d: &Directive) -> Option<&str> {
    if d.name != "location" {
        return None;
    }
    match modifier(d)? {
        (Modifier::Prefix | Modifier::Final, path) => Some(path),
        (Modifier::Named, _) => Some(d.arg(0)),
        (Modifier::Exact | Modifier::Regex, _) => None,
    }
}

fn has_try_files(block: &[Directive]) -> bool {
    block.iter().any(|d| d.name == "try_files")
}

/// Finds the one condition on a missing file in a block that knows where to go; returns its place,
/// and the paths that are tried before.
fn condition(block: &[Directive]) -> Option<(usize, Vec<String>)> {
    let mut conditions = block.iter().enumerate().filter(|(_, d)| d.name == "if");
    let (at, d) = conditions.next()?;
    if conditions.next().is_some() {
        return None;
    }
    let words: String = d.args.concat().split_whitespace().collect();
    let tried: &[&str] = match words.as_str() {
        "(!-e$request_filename)" => &["$uri", "$uri/"],
        "(!-f$request_filename)" => &["$uri"],
        _ => return None,
    };
    rest(d)?;
    Some((at, tried.iter().map(|word| (*word).to_owned()).collect()))
}

fn is_page(d: &Directive) -> bool {
    matches!(rest(d), Some(Rest::Page(_)))
}

/// The end of requests of a condition.
fn rest(d: &Directive) -> Option<Rest<'_>> {
    let mut body = d.children().iter().filter(|d| d.name != "break");
    let only = body.next()?;
    if body.next().is_some() {
        return None;
    }
    match only.name.as_str() {
        "proxy_pass" => Some(Rest::Proxy(only)),
        _ => page_of_rewrite(only).map(Rest::Page),
    }
}

/// The page to which a rewrite leads all paths, as the end of a `try_files` that leads to it alike;
/// `None`: it is another directive. nginx appends the query of the request to that of a rewrite,
/// and to nothing in `try_files`.
pub(super) fn page_of_rewrite(d: &Directive) -> Option<String> {
    let is_all = |text: &str| text == "." || EVERY_PATH.contains(&text);
    if d.name != "rewrite" || !is_all(d.arg(0)) || !matches!(d.arg(2), "last" | "break" | "") {
        return None;
    }
    let (path, query) = match d.arg(1).split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (d.arg(1), None),
    };
    if !path.starts_with('/') || path.contains('$') {
        return None;
    }
    let is_script = path.ends_with(".php");
    match query {
        None if is_script => Some(format!("{path}?$args")),
        Some("$args" | "$query_string") if is_script => Some(format!("{path}{TWICE}")),
        Some("") => Some(path.to_owned()),
        None | Some("$args" | "$query_string") => Some(path.to_owned()),
        Some(_) => None,
    }
}

/// The directive in place of a condition that leads to a page.
fn try_files(d: &Directive, tried: &[String]) -> Directive {
    let mut args = tried.to_vec();
    if let Some(Rest::Page(page)) = rest(d) {
        args.push(page);
    }
    Directive { name: "try_files".to_owned(), args, block: None, at: d.at.clone() }
}
