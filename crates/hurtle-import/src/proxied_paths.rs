//! Writes a `rewrite … break` before `proxy_pass` that takes a part of the path off as the
//! `proxy_pass` with a path that it is, before anything is translated.

use super::modifier::{Modifier, modifier};
use super::syntax::Directive;

/// Rewrites the locations of a configuration, and adds what differs to the remarks.
pub(super) fn as_proxies(directives: &[Directive], remarks: &mut Vec<String>) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "location" => {
                let own = location(d, remarks);
                own.unwrap_or_else(|| as_proxies(block, remarks))
            }
            "server" | "http" => as_proxies(block, remarks),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// The block of a location with its only rewrites written otherwise; `None`: it has others.
fn location(d: &Directive, remarks: &mut Vec<String>) -> Option<Vec<Directive>> {
    let path = match modifier(d)? {
        (Modifier::Prefix | Modifier::Final, path) if path.ends_with('/') => path,
        _ => return None,
    };
    let others = ["if", "set", "return", "location", "break"];
    if d.children().iter().any(|d| others.contains(&d.name.as_str())) {
        return None;
    }
    let named = |name: &str| d.children().iter().filter(|d| d.name == name).collect::<Vec<_>>();
    let (rewrites, passes) = (named("rewrite"), named("proxy_pass"));
    let [pass] = passes[..] else { return None };
    let (removed, uri, remark) = match rewrites[..] {
        [every, own] => {
            let uri = as_sent(every, own, pass, path)?;
            let text = "GET /%61/x of a path /a/ that is written otherwise reaches the upstream without /a; nginx \
                        looks for a location of it once more";
            (vec![every, own], uri, format!("{}: {text}", own.at))
        }
        [own] => {
            let uri = of_parent(own, pass, path)?;
            let text = "redirects of the upstream to its own address stay as they are";
            (vec![own], uri, format!("{}: {text}", own.at))
        }
        _ => return None,
    };
    remarks.push(remark);
    let is_removed = |d: &Directive| removed.iter().any(|other| std::ptr::eq(*other, d));
    let kept = d.children().iter().filter(|d| !is_removed(d));
    let mut block: Vec<Directive> = kept
        .map(|d| match d.name.as_str() {
            "proxy_pass" => Directive { args: vec![uri.clone()], ..d.clone() },
            _ => d.clone(),
        })
        .collect();
    if named("proxy_redirect").is_empty() {
        // nginx translates Location only where proxy_pass has a path.
        block.push(Directive {
            name: "proxy_redirect".to_owned(),
            args: vec!["off".to_owned()],
            block: None,
            at: pass.at.clone(),
        });
    }
    Some(block)
}

/// The URL for `rewrite ^ $request_uri; rewrite ^/a(/.*) $1 break; proxy_pass http://u$uri;`: the
/// path as the client sent it, without that of the location.
fn as_sent(every: &Directive, own: &Directive, pass: &Directive, path: &str) -> Option<String> {
    let bare = path.trim_end_matches('/');
    let base = pass.arg(0).strip_suffix("$uri").filter(|base| is_address(base))?;
    let is_every = matches!(every.arg(0), "^" | "^.*" | "^.*$" | "^(.*)$");
    if !is_every || every.args[1..] != ["$request_uri"] || bare.is_empty() || !is_plain(bare) {
        return None;
    }
    let rest = own.arg(0).strip_prefix('^')?.strip_prefix(bare)?;
    let to = match rest.strip_suffix('$').unwrap_or(rest) {
        "(/.*)" => "$1",
        "/(.*)" => "/$1",
        _ => return None,
    };
    (own.args[1..] == [to, "break"]).then(|| format!("{base}/"))
}

/// The URL for a rewrite that takes off a part of the location's path: `rewrite ^/a/(.*) /$1 break`
/// in `/a/b/`.
fn of_parent(own: &Directive, pass: &Directive, path: &str) -> Option<String> {
    let base = Some(pass.arg(0)).filter(|base| is_address(base))?;
    let text = own.arg(0).strip_prefix('^')?;
    let text = text.strip_suffix('$').unwrap_or(text);
    let parent = match own.args.get(1..)? {
        [to, flag] if to == "/$1" && flag == "break" => text.strip_suffix("/(.*)")?,
        [to, flag] if to == "$1" && flag == "break" => text.strip_suffix("(/.*)")?,
        _ => return None,
    };
    let rest = path.strip_prefix(parent).filter(|rest| rest.len() > 1 && rest.starts_with('/'))?;
    (!parent.is_empty() && is_plain(path)).then(|| format!("{base}{rest}"))
}

/// `true` for a URL of a host without a path and without variables.
fn is_address(url: &str) -> bool {
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '$']))
        && !url.contains("://unix:")
}

fn is_plain(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn a_part_of_the_path_is_taken_off() {
        let rows = [
            ("/a/b/", "rewrite ^/a/(.*) /$1 break; proxy_pass http://u;", Some("http://u/b/")),
            ("/a/b/", "rewrite ^/a(/.*)$ $1 break; proxy_pass http://u;", Some("http://u/b/")),
            ("/a/b/", "rewrite ^/a/(.*) /$1 last; proxy_pass http://u;", None),
            ("/a/b/", "rewrite ^/a/(.*) /$1 break; proxy_pass http://u/x;", None),
            ("/a/b", "rewrite ^/a/(.*) /$1 break; proxy_pass http://u;", None),
            ("/a/", "rewrite ^/a/(.*) /$1 break; proxy_pass http://u;", None),
            ("/ab/c/", "rewrite ^/a/(.*) /$1 break; proxy_pass http://u;", None),
            ("/a/b/", "set $x 1; rewrite ^/a/(.*) /$1 break; proxy_pass http://u;", None),
            (
                "/a/",
                "rewrite ^ $request_uri; rewrite ^/a(/.*) $1 break; proxy_pass http://u:3$uri;",
                Some("http://u:3/"),
            ),
            (
                "/a/",
                "rewrite ^ $request_uri; rewrite ^/a(/.*) $1 break; proxy_pass http://u:3;",
                None,
            ),
            ("/a/", "rewrite ^ $uri; rewrite ^/a(/.*) $1 break; proxy_pass http://u$uri;", None),
        ];
        for (path, written, expected) in rows {
            let server = format!("server {{ location {path} {{ {written} }} }}");
            let found = as_proxies(&parse(&server, "t").unwrap(), &mut Vec::new());
            let block = found[0].children()[0].children();
            let has_rewrites = block.iter().any(|d| d.name == "rewrite");
            let pass = block.iter().find(|d| d.name == "proxy_pass").unwrap();
            let found = (!has_rewrites).then(|| pass.arg(0));
            assert_eq!(found, expected, "{path} {written}");
        }
    }
}
