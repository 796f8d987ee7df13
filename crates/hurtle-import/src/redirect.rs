//! Locations of `return`: paths and URLs, with parts of the request.

use super::location::Context;
use super::path::has_variable;
use super::report::Report;
use super::syntax::Directive;
use super::variables::{Part, parts, plain, with_values};

/// The difference of redirects to the path of the request.
pub(super) const AS_SENT: &str = "A redirect to the path of the request is 404 for GET /a%2Fb, and leads from /./a \
                                  or /%61 to /a; nginx writes the path as the client did";

/// The path of a redirect within the origin that was asked.
pub(super) fn own_path(to: &str) -> Option<&str> {
    let own_origins = ["$scheme://$host", "$scheme://$http_host"];
    let path = own_origins.iter().find_map(|origin| to.strip_prefix(origin)).unwrap_or(to);
    (path.starts_with('/') && !has_variable(path) && !has_brace(path)).then_some(path)
}

/// The Location of a redirect.
pub(super) fn destination(
    d: &Directive,
    text: &str,
    path: &str,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<String> {
    let to = match own_path(text) {
        Some(path) => path.to_owned(),
        None => with_parts(d, text, context, report)?,
    };
    // The whole target behind a host: the rest of the path and the query are appended to a value
    // that ends with a slash.
    let base = to.strip_suffix("{uri}").filter(|base| path == "/" && !base.ends_with('/'));
    if let Some(base) = base {
        return Some(format!("{base}/"));
    }
    // Without $request_uri the destination is one URL.
    if to.ends_with('/') {
        let origin = to.trim_end_matches('/').to_owned();
        let is_origin = origin.split_once("://").is_some_and(|(_, host)| !host.contains('/'));
        if !is_origin {
            report.refuse(d, "to a redirect that ends with / the rest of the path is appended");
            return None;
        }
        return Some(origin);
    }
    Some(to)
}

/// Ends of a Location that are the target of the request.
const TARGETS: [&str; 4] =
    ["$uri$is_args$args", "$uri?$args", "$uri?$query_string", "$uri$is_args$query_string"];

/// Writes the variables of a Location as parts of the request.
fn with_parts(
    d: &Directive,
    text: &str,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<String> {
    let text = plain(text);
    if parts(&text).iter().any(|part| matches!(part, Part::Text(text) if has_brace(text))) {
        report.refuse(d, "in a redirect of hurtle braces have a part of the request");
        return None;
    }
    let base = TARGETS.iter().find_map(|end| text.strip_suffix(end));
    if base.is_some() {
        report.remark(
            d,
            "the path in Location is as the client sent it; nginx writes it decoded: GET /a%20b",
        );
    }
    let mut to = with_values(base.unwrap_or(&text), |name| {
        let part = match name {
            "request_uri" => "{uri}",
            "scheme" => context.scheme.unwrap_or("{scheme}"),
            "http_host" => "{request.host}",
            "host" => "{host}",
            "server_name" => context.name?,
            _ => return None,
        };
        Some(part.to_owned())
    });
    if base.is_some() {
        to.push_str("{uri}");
    }
    if has_variable(&to) {
        report.refuse(
            d,
            "of variables it knows $scheme, $host, $http_host, $server_name and $request_uri",
        );
        return None;
    }
    if to.contains("{uri}") {
        report.general(AS_SENT.to_owned());
    }
    if to.contains("{host}") || to.contains("{request.host}") {
        report.general(
            "A redirect to $host of a request of HTTP/1.0 without a Host field is 400".to_owned(),
        );
    }
    Some(to)
}

fn has_brace(text: &str) -> bool {
    text.contains(['{', '}'])
}
