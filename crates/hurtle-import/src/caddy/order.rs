//! The order in which Caddy runs the directives of a block.

use super::matcher::Matcher;

/// Directives of requests, in Caddy's order.
const ORDER: [&str; 32] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "route",
    "abort",
    "error",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
];

/// The name under which a directive has its place.
pub(super) fn canonical(name: &str) -> &str {
    match name {
        "handle_path" => "handle",
        "basicauth" => "basic_auth",
        "skip_log" => "log_skip",
        name => name,
    }
}

/// `true` for a directive that Caddy knows.
pub(super) fn is_known(name: &str) -> bool {
    let known = ["acme_server", "bind", "file_server", "handle_errors", "log", "tls"];
    ORDER.contains(&canonical(name)) || known.contains(&name)
}

/// `true`: the option `order` with these arguments leaves a directive at its place, or moves one
/// that is refused wherever it is used.
pub(super) fn is_usual(args: &[String]) -> bool {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [name, ..] if !is_known(name) => true,
        [name, "first"] => place(name) == 0,
        [name, "last"] => place(name) == ORDER.len(),
        [name, "before", other] => place(name) + 1 == place(other),
        [name, "after", other] => place(other) + 1 == place(name),
        _ => false,
    }
}

fn place(name: &str) -> usize {
    let name = canonical(name);
    // `file_server` and `acme_server` are last.
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

/// The parts of a directive by which it is sorted.
#[derive(Clone, Copy)]
pub(super) struct SortKey<'d> {
    pub(super) name: &'d str,
    pub(super) matcher: Option<&'d Matcher>,
}

/// Sorts directives as Caddy does: by the kind, then longer paths first, and those without a
/// matcher last. The relation is not transitive, so the algorithm matters: an insertion sort, as
/// Go's for short lists.
pub(super) fn sort<T>(items: &mut [T], key: impl Fn(&T) -> SortKey<'_>) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && goes_before(key(&items[at]), key(&items[at - 1])) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

fn goes_before(one: SortKey<'_>, other: SortKey<'_>) -> bool {
    if place(one.name) != place(other.name) {
        return place(one.name) < place(other.name);
    }
    let single = |matcher: Option<&Matcher>| match matcher.map(|matcher| matcher.paths.as_slice()) {
        Some([path]) => Some(path.clone()),
        _ => None,
    };
    if let (Some(one), Some(other)) = (single(one.matcher), single(other.matcher)) {
        let (a, b) = (one.trim_end_matches('*'), other.trim_end_matches('*'));
        return match a == b {
            true => one.len() < other.len(),
            false => a.len() > b.len(),
        };
    }
    one.matcher.is_some() && other.matcher.is_none()
}
