//! Writes `rewrite ^(.*)$ https://example.org$1 permanent`, which redirects every path to another
//! host, as the `return` that it is, before anything is translated.

use super::named::EVERY_PATH;
use super::syntax::Directive;

/// Rewrites the servers of a configuration.
pub(super) fn as_returns(directives: &[Directive]) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => block_of(block),
            "http" => as_returns(block),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// Rewrites a server, a location or a condition. In a server that has other directives which
/// answer, the order is that of nginx: first its own, then the locations.
fn block_of(block: &[Directive]) -> Vec<Directive> {
    let is_alone = block.iter().filter(|d| d.name == "rewrite").count() == 1
        && !block.iter().any(|d| matches!(d.name.as_str(), "return" | "if" | "set"));
    let rewritten = |d: &Directive| match d.name.as_str() {
        "rewrite" if is_alone => returned(d).unwrap_or_else(|| d.clone()),
        "location" | "if" => {
            Directive { block: d.block.as_ref().map(|b| block_of(b)), ..d.clone() }
        }
        _ => d.clone(),
    };
    let mut all: Vec<Directive> = block.iter().map(rewritten).collect();
    // nginx looks for no location of a server that returns.
    let is_server = block.iter().any(|d| d.name == "listen" || d.name == "server_name");
    if is_server && is_alone && all.iter().any(|d| d.name == "return") {
        all.retain(|d| d.name != "location");
    }
    // `break` behind it is never reached.
    if is_alone && all.iter().any(|d| d.name == "return") {
        all.retain(|d| d.name != "break");
    }
    all
}

/// The `return` of a rewrite.
fn returned(d: &Directive) -> Option<Directive> {
    let [pattern, to, rest @ ..] = d.args.as_slice() else { return None };
    let status = match rest {
        [flag] if flag == "permanent" => "301",
        [flag] if flag == "redirect" => "302",
        [] => "302",
        _ => return None,
    };
    let is_url = ["http://", "https://", "$scheme://"].iter().any(|scheme| to.starts_with(scheme));
    if !is_url || !EVERY_PATH.contains(&pattern.as_str()) {
        return None;
    }
    // A group with the slash, and one without.
    let ends: &[&str] = match pattern.as_str() {
        "^/(.*)$" => &["/$1"],
        "^(.*)$" | "(.*)" => &["$1"],
        _ => &[],
    };
    let base = ends
        .iter()
        .chain(&["$request_uri?", "$uri?$args?", "$uri$is_args$args?"])
        .find_map(|end| to.strip_suffix(end))?;
    let args = vec![status.to_owned(), format!("{base}$request_uri")];
    Some(Directive { name: "return".to_owned(), args, block: None, at: d.at.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn a_redirect_of_all_paths_is_a_return() {
        let rows = [
            (
                "rewrite ^ https://a.org$request_uri? permanent;",
                "return 301 https://a.org$request_uri",
            ),
            ("rewrite ^(.*)$ https://$host$1 permanent;", "return 301 https://$host$request_uri"),
            ("rewrite ^/(.*)$ https://a.org/$1 redirect;", "return 302 https://a.org$request_uri"),
            ("rewrite ^/(.*)$ https://a.org/$1;", "return 302 https://a.org$request_uri"),
            ("rewrite ^/a/(.*)$ https://a.org/$1;", "rewrite ^/a/(.*)$ https://a.org/$1"),
            ("rewrite ^(.*)$ /index.php?$1 last;", "rewrite ^(.*)$ /index.php?$1 last"),
            ("rewrite ^ https://a.org/x permanent;", "rewrite ^ https://a.org/x permanent"),
        ];
        for (written, expected) in rows {
            let server = format!("server {{ listen 80; {written} }}");
            let found = as_returns(&parse(&server, "t").unwrap());
            assert_eq!(found[0].children()[1].to_string(), expected, "{written}");
        }
    }
}
