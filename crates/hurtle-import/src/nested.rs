//! Writes locations within locations as locations of the server, before anything is translated.

use super::modifier::{Modifier, modifier};
use super::nested_scripts;
use super::syntax::Directive;

/// Directives that a location within another does not inherit.
const OWN: [&str; 12] = [
    "proxy_pass",
    "grpc_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "return",
    "rewrite",
    "set",
    "if",
    "break",
    "try_files",
    "location",
];

/// Directives whose inheritance is not that of a setting: with them the location stays as it is.
const UNKNOWN: [&str; 2] = ["alias", "limit_except"];

/// Rewrites the servers of a configuration.
pub(super) fn lifted(directives: &[Directive]) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => server(block),
            "http" => lifted(block),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    match directives.iter().any(|d| d.name == "location") {
        // A file with locations alone, which a server includes.
        true => server(directives),
        false => directives.iter().map(rewritten).collect(),
    }
}

/// Rewrites the directives of a server.
fn server(block: &[Directive]) -> Vec<Directive> {
    let has_regex = block.iter().any(|d| is_of(d, |modifier| modifier == Modifier::Regex));
    let outer = |d: &&Directive| {
        if nested_scripts::within(d).is_some_and(|_| has_directory(d)) {
            return false;
        }
        let nested = d.children().iter().filter(|inner| inner.name == "location");
        d.name == "location" && nested.clone().any(|d| is_of(d, |m| m == Modifier::Regex))
    };
    // nginx tries the expressions of one location for its paths alone. So do expressions of the
    // server, if all other locations are final.
    let outers: Vec<&Directive> = block.iter().filter(outer).collect();
    let has_rest = block.iter().any(|d| prefix(d) == Some("/"));
    let (makes_final, rest) = match outers.as_slice() {
        [one] if !has_regex && !has_rest => {
            let rest = rest_of_paths(block, one);
            (rest.is_some(), rest)
        }
        outers => (outers.len() == 1 && !has_regex, None),
    };
    if !outers.is_empty() && !makes_final {
        return block.to_vec();
    }
    let paths: Vec<&str> = block.iter().filter_map(prefix).collect();
    let mut rewritten = Vec::new();
    for d in block {
        let is_outer = outer(&d);
        let is_final = is_of(d, |modifier| modifier == Modifier::Final) || makes_final;
        let own = match prefix(d) {
            None => None,
            // Its expressions are for its paths, also in nginx with `^~`.
            Some(path) if is_outer => Some(at(d, path, false)),
            Some(path) => Some(at(d, path, is_final)),
        };
        match own {
            Some(own) if can_lift(d, &paths) => {
                rewritten.extend(with_inner(&own, (!is_outer).then_some(is_final)));
            }
            Some(own) => rewritten.push(own),
            None => rewritten.push(d.clone()),
        }
    }
    rewritten.extend(rest);
    rewritten
}

/// The final location of all paths that no location of a server with files is for; `None`: they
/// are answered otherwise, or there is no directory for them. `other`: where remarks lead.
fn rest_of_paths(server: &[Directive], other: &Directive) -> Option<Directive> {
    let is_own = |d: &Directive| matches!(&*d.name, "try_files" | "return" | "if");
    let has_files = server.iter().any(|d| d.name == "root") && !server.iter().any(is_own);
    let rest = Directive {
        name: "location".to_owned(),
        args: Vec::new(),
        block: Some(Vec::new()),
        at: other.at.clone(),
    };
    has_files.then(|| at(&rest, "/", true))
}

/// Returns whether all locations within a location are for its paths, and inherit nothing but
/// settings. `paths`: those of the server's locations; nginx chooses among them first.
fn can_lift(d: &Directive, paths: &[&str]) -> bool {
    let Some((_, path)) = modifier(d) else { return false };
    let mut nested = d.children().iter().filter(|inner| inner.name == "location");
    let is_between =
        |inner: &str| paths.iter().any(|p| p.len() > path.len() && inner.starts_with(p));
    let is_known = |inner: &Directive| match modifier(inner) {
        Some((Modifier::Regex, _)) => true,
        Some((Modifier::Named, _)) | None => false,
        Some((_, inner)) => inner.starts_with(path) && inner != path && !is_between(inner),
    };
    let is_plain = !d.children().iter().any(|inner| UNKNOWN.contains(&&*inner.name));
    let is_flat = |inner: &Directive| !inner.children().iter().any(|d| d.name == "location");
    let is_application = has_directory(d) && nested_scripts::within(d).is_some();
    !is_application && is_plain && nested.all(|inner| is_known(inner) && is_flat(inner))
}

/// `true` for a location with files of its own.
fn has_directory(d: &Directive) -> bool {
    d.children().iter().any(|inner| matches!(&*inner.name, "root" | "alias"))
}

/// Returns a location without those within it, and then those. `is_final`: expressions of the
/// server take none of their paths, whatever their own modifiers say; `None`: the expressions are
/// among them.
fn with_inner(d: &Directive, is_final: Option<bool>) -> Vec<Directive> {
    let is_nested = |inner: &&Directive| inner.name == "location";
    let own = d.children().iter().filter(|inner| !is_nested(inner)).cloned().collect();
    let mut all = vec![Directive { block: Some(own), ..d.clone() }];
    for inner in d.children().iter().filter(is_nested) {
        let mut block: Vec<Directive> =
            d.children().iter().filter(|setting| is_inherited(setting, inner)).cloned().collect();
        block.extend(inner.children().iter().cloned());
        let lifted = Directive { block: Some(block), ..inner.clone() };
        all.push(match (prefix(inner), is_final) {
            (Some(path), Some(is_final)) => at(&lifted, path, is_final),
            _ => lifted,
        });
    }
    all
}

/// Returns the path of a location of a prefix.
fn prefix(d: &Directive) -> Option<&str> {
    if d.name != "location" {
        return None;
    }
    match modifier(d)? {
        (Modifier::Prefix | Modifier::Final, path) => Some(path),
        (Modifier::Exact | Modifier::Regex | Modifier::Named, _) => None,
    }
}

/// Writes a location as one of a prefix. `is_final`: expressions take none of its paths.
fn at(d: &Directive, path: &str, is_final: bool) -> Directive {
    let mut args = vec![path.to_owned()];
    if is_final {
        args.insert(0, "^~".to_owned());
    }
    Directive { args, ..d.clone() }
}

/// Returns whether a location within another inherits a directive: it is a setting, and the
/// location has none of its kind.
fn is_inherited(d: &Directive, by: &Directive) -> bool {
    let is_access = |name: &str| matches!(name, "allow" | "deny");
    let is_alike =
        |own: &Directive| own.name == d.name || is_access(&own.name) && is_access(&d.name);
    !OWN.contains(&&*d.name) && !by.children().iter().any(is_alike)
}

fn is_of(d: &Directive, is: impl Fn(Modifier) -> bool) -> bool {
    d.name == "location" && modifier(d).is_some_and(|(modifier, _)| is(modifier))
}
