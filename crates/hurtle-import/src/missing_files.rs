//! Writes `if (!-f $request_filename) { … }`, which hands requests without a file on, as the
//! `try_files` that it is, before anything is translated.

use super::files::TWICE;
use super::modifier::{Modifier, modifier};
use super::named::EVERY_PATH;
use super::regex::{has_scripts, script_names};
use super::syntax::Directive;
use super::tuning::is_tuning;
use super::variables::with_values;

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

/// Rewrites the servers of a configuration, and adds what differs to the remarks.
pub(super) fn as_try_files(directives: &[Directive], remarks: &mut Vec<String>) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => server(block, remarks),
            "http" => as_try_files(block, remarks),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// Rewrites the directives of a server.
fn server(children: &[Directive], remarks: &mut Vec<String>) -> Vec<Directive> {
    let mut children = children.to_vec();
    if children.iter().filter_map(location).any(|path| path == NAMED) {
        return children;
    }
    of_server(&mut children, remarks);
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

/// Writes the condition of a server, which nginx asks before it chooses a location, as that of `/`,
/// if all other directives allow that. Else it stays, and is refused.
fn of_server(children: &mut Vec<Directive>, remarks: &mut Vec<String>) {
    let found = condition(children).filter(|(at, _)| is_page(&children[*at]));
    let Some((at, words)) = found else { return };
    let own = try_files(&children[at], &words);
    let mut differences = Vec::new();
    for (other, d) in children.iter().enumerate().filter(|(other, _)| *other != at) {
        match beside(d, other < at, &own) {
            Beside::Alike => {}
            Beside::Unlike(text) => differences.push(format!("{}: {text}", d.at)),
            Beside::Untold => return,
        }
    }
    remarks.append(&mut differences);
    children.remove(at);
    let root = children.iter_mut().find(|d| location(d) == Some("/"));
    match root.and_then(|root| root.block.as_mut()) {
        // The location searches in this way itself.
        Some(block) if has_try_files(block) => {}
        Some(block) => block.push(own),
        None => children.push(own),
    }
}

/// The effect of another directive of a server on its condition.
enum Beside {
    /// The condition is the same without it.
    Alike,
    /// The difference that a remark names.
    Unlike(String),
    /// The condition cannot be that of `/`.
    Untold,
}

/// Compares a directive of a server with the `try_files` that its condition would become.
fn beside(d: &Directive, is_before: bool, own: &Directive) -> Beside {
    let page = page_of(own);
    match d.name.as_str() {
        "rewrite" if is_before && matches!(d.arg(2), "last" | "break") && !is_url(d.arg(1)) => {
            Beside::Unlike(format!(
                "a path to which it leads is answered by {page} if there is no such file; nginx does not ask the \
                 condition on missing files for it"
            ))
        }
        "rewrite" if is_before => Beside::Alike,
        "rewrite" | "return" | "break" | "try_files" => Beside::Untold,
        "location" => location_beside(d, own, page),
        _ => Beside::Alike,
    }
}

/// Likewise for a location.
fn location_beside(d: &Directive, own: &Directive, page: &str) -> Beside {
    let has_application = d.children().iter().any(|d| d.name == "fastcgi_pass");
    match modifier(d) {
        Some((Modifier::Prefix | Modifier::Final, "/")) if has_files_of_server(d, own) => {
            Beside::Alike
        }
        Some((Modifier::Exact, path)) if path == page => Beside::Alike,
        Some((Modifier::Exact, path))
            if is_quiet(d) || (has_application && path.ends_with(".php") && !rewrites(d)) =>
        {
            Beside::Unlike(format!(
                "GET {path} may be answered by this location if there is no such file; nginx answers {page} then"
            ))
        }
        Some((Modifier::Regex, text))
            if has_application && (has_scripts(text) || script_names(text).is_some()) =>
        {
            Beside::Unlike(format!(
                "GET /gone.php of no script may be 404, and GET /x.php/y runs x.php with PATH_INFO; nginx answers {page}"
            ))
        }
        Some((Modifier::Regex, _)) if is_quiet(d) && refuses(d) => Beside::Unlike(format!(
            "paths of it are refused if there is no such file, too; nginx answers {page} then"
        )),
        Some((Modifier::Regex, _)) if is_quiet(d) => {
            Beside::Unlike(format!("paths of it without a file are 404; nginx answers {page} then"))
        }
        _ => Beside::Untold,
    }
}

/// Directives of a location that neither answer nor lead elsewhere.
const QUIET: [&str; 13] = [
    "access_log",
    "add_header",
    "allow",
    "auth_basic",
    "auth_basic_user_file",
    "deny",
    "error_log",
    "etag",
    "expires",
    "internal",
    "log_not_found",
    "root",
    "satisfy",
];

fn is_quiet(d: &Directive) -> bool {
    let is_error = |d: &Directive| d.name == "return" && d.arg(0).starts_with('4');
    let mut children = d.children().iter();
    children.all(|d| QUIET.contains(&d.name.as_str()) || is_tuning(&d.name) || is_error(d))
}

/// `true`: every request of a location gets an error.
fn refuses(d: &Directive) -> bool {
    let is_refusal = |d: &Directive| d.name == "return" || d.name == "deny" && d.arg(0) == "all";
    d.children().iter().any(is_refusal)
}

fn rewrites(d: &Directive) -> bool {
    d.children().iter().any(|d| matches!(d.name.as_str(), "rewrite" | "return" | "if"))
}

/// `true`: the location has the files of the server, and searches as `own` does, or not itself.
fn has_files_of_server(d: &Directive, own: &Directive) -> bool {
    let is_other = |d: &Directive| match d.name.as_str() {
        "try_files" => words_of(d) != words_of(own),
        "alias" | "break" | "if" | "limit_except" | "location" | "return" | "rewrite" | "root"
        | "stub_status" => true,
        name => name.ends_with("_pass"),
    };
    !d.children().iter().any(is_other)
}

/// The words of a `try_files`, with one name for the query.
fn words_of(d: &Directive) -> Vec<String> {
    let value = |name: &str| match name {
        "query_string" => Some("$args".to_owned()),
        "is_args" => Some("?".to_owned()),
        _ => None,
    };
    d.args.iter().map(|arg| with_values(arg, value)).collect()
}

/// The path at the end of the `try_files` of a condition.
fn page_of(own: &Directive) -> &str {
    let last = own.args.last().map_or("", String::as_str);
    last.split('?').next().unwrap_or_default()
}

fn is_url(text: &str) -> bool {
    ["http://", "https://", "$scheme://"].iter().any(|begin| text.starts_with(begin))
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
