//! Writes locations of expressions that hand parts of the path on as prefixes and rewrites, before
//! anything is translated: `location ~ ^/api/(.*)$ { proxy_pass http://a/$1$is_args$args; }`.

use super::modifier::{Modifier, modifier};
use super::named::EVERY_PATH;
use super::regex::beginning;
use super::syntax::Directive;
use super::variables::{Part, parts};
use hurtle_config::PathRegex;

/// Ends of a target that hand the query on.
const QUERIES: [&str; 4] = ["$is_args$args", "?$args", "$is_args$query_string", "?$query_string"];

/// The difference of parts of a path, which nginx writes decoded.
const DECODED: &str =
    "the part of the path is as the client sent it; nginx writes it decoded: GET /a%20b";

/// Rewrites the servers of a configuration, and adds what differs to the remarks.
pub(super) fn as_prefixes(directives: &[Directive], remarks: &mut Vec<String>) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => server(block, remarks),
            "http" => as_prefixes(block, remarks),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// Rewrites the directives of a `server` block.
fn server(block: &[Directive], remarks: &mut Vec<String>) -> Vec<Directive> {
    let mut rewritten: Vec<Directive> = Vec::new();
    let mut rewrites = Vec::new();
    let is_first = |name: &str| matches!(name, "rewrite" | "return" | "if" | "set");
    let has_rewrites = block.iter().any(|d| is_first(&d.name));
    // The beginnings of expressions that nginx tries first, which may take its paths.
    let mut earlier: Vec<String> = block.iter().flat_map(nested_beginnings).collect();
    for (at, d) in block.iter().enumerate() {
        let others = || {
            let others = block.iter().enumerate().filter(|(other, _)| *other != at);
            others.flat_map(|(_, d)| with_nested(d))
        };
        let remark = |text: &str| format!("{}: {text}", d.at);
        let begin = expression(d).map(beginning);
        let is_apart = begin.as_ref().is_some_and(|own| earlier.iter().all(|o| are_apart(own, o)));
        let redirect = redirect(d, others()).filter(|_| !has_rewrites && is_apart);
        earlier.extend(begin);
        if ends_with_mark(d) {
            remarks.push(remark(
                "GET /x without a query is handed on without the ? that nginx leaves at its end",
            ));
        }
        if let Some(own) = redirect {
            remarks.push(remark(DECODED));
            rewrites.push(own);
            continue;
        }
        if let Some(own) = with_query(d).or_else(|| without_parent(d)) {
            rewritten.push(own);
        } else if let Some(own) = prefix(d, others()).filter(|_| is_apart) {
            if own.children().iter().any(|d| d.name == "proxy_pass") {
                remarks.push(remark(DECODED));
                let path = own.arg(1);
                let bare = path.trim_end_matches('/');
                remarks.push(remark(&format!(
                    "GET {bare} is redirected to {path}; nginx asks the location of shorter paths, such as /"
                )));
            }
            rewritten.push(own);
        } else {
            rewritten.push(d.clone());
        }
    }
    rewritten.extend(rewrites);
    rewritten
}

/// The expression of a location with one.
fn expression(d: &Directive) -> Option<&str> {
    match modifier(d)? {
        (Modifier::Regex, text) if d.name == "location" => Some(text),
        _ => None,
    }
}

/// The beginnings of the paths of expressions within a location of a prefix, which nginx tries
/// before those of the server.
fn nested_beginnings(outer: &Directive) -> Vec<String> {
    let path = match modifier(outer) {
        Some((Modifier::Prefix | Modifier::Final, path)) if outer.name == "location" => path,
        _ => return Vec::new(),
    };
    let of = |d: &Directive| match expression(d).map(beginning) {
        Some(begin) if begin.len() > path.len() => vec![begin],
        Some(_) => vec![path.to_owned()],
        None => nested_beginnings(d),
    };
    outer.children().iter().flat_map(of).collect()
}

/// A directive, and those within it.
fn with_nested(d: &Directive) -> Vec<&Directive> {
    std::iter::once(d).chain(d.children().iter().flat_map(with_nested)).collect()
}

/// `true` if it is known that no path has both beginnings.
fn are_apart(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    !one.starts_with(&other) && !other.starts_with(&one)
}

/// `true` if a location hands the query on behind a `?` that is there without a query, too.
fn ends_with_mark(d: &Directive) -> bool {
    let has_mark = |arg: &String| arg.ends_with("?$args") || arg.ends_with("?$query_string");
    let is_target = |d: &Directive| matches!(d.name.as_str(), "proxy_pass" | "return");
    d.name == "location" && d.children().iter().any(|d| is_target(d) && d.args.iter().any(has_mark))
}

/// A location of one answer.
fn only_return(d: &Directive) -> Option<&Directive> {
    let [only] = d.children() else { return None };
    (d.name == "location" && only.name == "return" && only.args.len() == 2).then_some(only)
}

/// The flag of a rewrite that redirects with a status.
fn flag(status: &str) -> Option<&'static str> {
    match status {
        "301" => Some("permanent"),
        "302" => Some("redirect"),
        _ => None,
    }
}

/// The rewrite of the server that redirects as a location with an expression does.
fn redirect<'d>(
    d: &Directive,
    mut others: impl Iterator<Item = &'d Directive>,
) -> Option<Directive> {
    let returned = only_return(d)?;
    let (Modifier::Regex, text) = modifier(d)? else { return None };
    let flag = flag(returned.arg(0))?;
    let regex = PathRegex::new(text).ok().filter(|_| d.arg(0) == "~")?;
    let to = returned.arg(1);
    let to = to
        .strip_prefix("$scheme://$host")
        .or(to.strip_prefix("$scheme://$http_host"))
        .unwrap_or(to);
    let query = QUERIES.iter().find_map(|query| to.strip_suffix(query));
    let target = query.unwrap_or(to);
    let has_parts = names_parts(target);
    let is_place = target.starts_with('/') || target.contains("://");
    let is_open = |other: &Directive| match modifier(other) {
        Some((Modifier::Exact, path)) => regex.is_in(path.as_bytes()),
        Some((Modifier::Final, path)) => {
            let begin = beginning(text);
            path.starts_with(&begin) || begin.starts_with(path)
        }
        _ => false,
    };
    if !has_parts || !is_place || target.contains('?') {
        return None;
    }
    if others.any(|other| other.name == "location" && is_open(other)) {
        return None;
    }
    let target = if query.is_some() { target.to_owned() } else { format!("{target}?") };
    let args = vec![text.to_owned(), target, flag.to_owned()];
    Some(Directive { name: "rewrite".to_owned(), args, block: None, at: returned.at.clone() })
}

/// `true` if all variables of a target are parts of the path, `$1` to `$9`, and of the origin.
fn names_parts(target: &str) -> bool {
    parts(target).iter().all(|part| match part {
        Part::Text(text) => !text.contains('$'),
        Part::Variable("scheme" | "http_host" | "host") => true,
        Part::Variable(name) => matches!(name.as_bytes(), [b'1'..=b'9']),
    })
}

/// A location whose redirect hands the query on, with a rewrite in its place.
fn with_query(d: &Directive) -> Option<Directive> {
    let returned = only_return(d)?;
    let flag = flag(returned.arg(0))?;
    let target = QUERIES.iter().find_map(|query| returned.arg(1).strip_suffix(query))?;
    let is_plain =
        (target.starts_with('/') || target.contains("://")) && !target.contains(['$', '?']);
    let (kind, _) = modifier(d).filter(|_| is_plain)?;
    if kind != Modifier::Exact {
        return None;
    }
    let args = vec![EVERY_PATH[0].to_owned(), target.to_owned(), flag.to_owned()];
    let rewrite = Directive { name: "rewrite".to_owned(), args, ..returned.clone() };
    Some(Directive { block: Some(vec![rewrite]), ..d.clone() })
}

/// The prefix that is a location with an expression such as `^/api/(.*)$`, whose rest is the end of
/// an upstream's URL, or of a directory.
fn prefix<'d>(d: &Directive, mut others: impl Iterator<Item = &'d Directive>) -> Option<Directive> {
    let (Modifier::Regex, text) =
        modifier(d).filter(|_| d.name == "location" && d.arg(0) == "~")?
    else {
        return None;
    };
    let path = head(text)?;
    let takes = |other: &Directive| match modifier(other) {
        Some((Modifier::Prefix, other)) => other.starts_with(path) && other != path,
        Some((Modifier::Final, other)) => other.starts_with(path) || path.starts_with(other),
        _ => false,
    };
    let is_same = |other: &Directive| modifier(other).is_some_and(|(_, other)| other == path);
    if others.any(|other| other.name == "location" && (takes(other) || is_same(other))) {
        return None;
    }
    let has_others = |d: &Directive| {
        matches!(d.name.as_str(), "rewrite" | "if" | "try_files" | "return" | "location" | "set")
    };
    if d.children().iter().any(has_others) {
        return None;
    }
    let mut block = d.children().to_vec();
    let rest = "/$1";
    let handler = block.iter_mut().find(|d| matches!(d.name.as_str(), "alias" | "proxy_pass"))?;
    let mut rewrite = None;
    match handler.name.as_str() {
        "alias" => {
            let directory = handler.arg(0).strip_suffix(rest).filter(|own| !own.contains('$'))?;
            handler.args = vec![format!("{directory}/")];
        }
        _ => {
            let query = QUERIES.iter().find_map(|query| handler.arg(0).strip_suffix(query));
            let url = query.unwrap_or(handler.arg(0)).strip_suffix(rest)?;
            let (scheme, rest) = url.split_once("://").filter(|_| !url.contains('$'))?;
            let (host, base) = match rest.find('/') {
                Some(at) => rest.split_at(at),
                None => (rest, ""),
            };
            let end = if query.is_some() { "" } else { "?" };
            let to = format!("{base}/$1{end}");
            let args = vec![format!("^{path}(.*)$"), to, "break".to_owned()];
            let at = handler.at.clone();
            rewrite = Some(Directive { name: "rewrite".to_owned(), args, block: None, at });
            handler.args = vec![format!("{scheme}://{host}")];
        }
    }
    block.extend(rewrite);
    Some(Directive {
        args: vec!["^~".to_owned(), path.to_owned()],
        block: Some(block),
        ..d.clone()
    })
}

/// A location whose upstream gets the path without a directory above that of the location,
/// `location /app/api { rewrite ^/app/(.*)$ /$1 break; … }`, with the path in the upstream's URL.
/// Redirects of the upstream are translated as the location says.
fn without_parent(d: &Directive) -> Option<Directive> {
    let (kind, path) = modifier(d).filter(|_| d.name == "location")?;
    let others = ["if", "set", "try_files", "return", "location"];
    let is_known = matches!(kind, Modifier::Prefix | Modifier::Final)
        && d.children().iter().any(|d| d.name == "proxy_redirect")
        && !d.children().iter().any(|d| others.contains(&d.name.as_str()));
    let mut rewrites = d.children().iter().filter(|d| d.name == "rewrite");
    let rewrite = rewrites.next().filter(|d| is_known && d.arg(2) == "break")?;
    let text = rewrite.arg(0).trim_start_matches('^').trim_end_matches('$');
    let parent = match rewrite.arg(1) {
        "/$1" => text.strip_suffix("/(.*)")?,
        "$1" => text.strip_suffix("(.*)")?,
        _ => return None,
    };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/_-".contains(&b);
    let rest = path.strip_prefix(parent).filter(|rest| rest.starts_with('/') && rest.len() > 1)?;
    if rewrites.next().is_some() || parent.len() < 2 || !parent.bytes().all(is_plain) {
        return None;
    }
    let mut block: Vec<Directive> =
        d.children().iter().filter(|d| d.name != "rewrite").cloned().collect();
    let pass = block.iter_mut().find(|d| d.name == "proxy_pass")?;
    pass.arg(0).split_once("://").filter(|(_, host)| !host.contains(['/', '$']))?;
    pass.args = vec![format!("{}{rest}", pass.arg(0))];
    Some(Directive { block: Some(block), ..d.clone() })
}

/// The path, with its slash, whose rest an expression has as its only part.
fn head(text: &str) -> Option<&str> {
    let text = text.strip_prefix('^')?;
    let text = text.strip_suffix('$').unwrap_or(text);
    let path = text.strip_suffix("(.*)")?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/_-".contains(&b);
    let is_path = path.len() > 1 && path.starts_with('/') && path.ends_with('/');
    (is_path && path.bytes().all(is_plain)).then_some(path)
}
