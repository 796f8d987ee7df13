//! Writes the values of variables that `set` gives a constant value in place of the variables,
//! before anything is translated.

use std::collections::BTreeMap;

use super::modifier::{Modifier, modifier};
use super::syntax::Directive;
use super::variables::with_values;

/// Values by names, in lower case.
type Constants = BTreeMap<String, String>;

/// Rewrites the servers of a configuration.
pub(super) fn written_out(directives: &[Directive]) -> Vec<Directive> {
    let outer = Outer { known: Constants::new(), has_redirects: has_redirects(directives) };
    // A file with locations alone, which a server includes.
    if directives.iter().any(|d| d.name == "location") {
        return block_of(directives, &outer, true);
    }
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => block_of(block, &outer, true),
            "http" => written_out(block),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// The constants and directives that a block has from those around it.
struct Outer {
    known: Constants,
    /// `true`: there is a `proxy_redirect` among their directives.
    has_redirects: bool,
}

fn has_redirects(block: &[Directive]) -> bool {
    block.iter().any(|d| d.name == "proxy_redirect")
}

/// Rewrites the directives of a server or a location.
fn block_of(block: &[Directive], outer: &Outer, is_server: bool) -> Vec<Directive> {
    let known = constants(block, &outer.known);
    let inner =
        Outer { known: known.clone(), has_redirects: outer.has_redirects || has_redirects(block) };
    let (mut rewritten, mut rewrites) = (Vec::new(), Vec::new());
    for d in block {
        let is_known = |name: &str| known.contains_key(name);
        match d.name.as_str() {
            "set" if name_of(d).is_some_and(|name| is_known(&name)) => {}
            "location" => {
                let own = d.block.as_ref().map(|block| block_of(block, &inner, false));
                let mut location = Directive { block: own, ..d.clone() };
                if is_server {
                    rewrites.extend(one_url(d, block, &mut location, &known));
                }
                rewritten.push(location);
            }
            _ => rewritten.push(directive(d, &known)),
        }
    }
    rewritten.extend(rewrites);
    let variable = block.iter().find(|d| d.name == "proxy_pass" && d.arg(0).contains('$'));
    if let Some(d) = variable.filter(|_| !inner.has_redirects) {
        // nginx translates no Location by default where the URL has a variable.
        let (name, args) = ("proxy_redirect".to_owned(), vec!["off".to_owned()]);
        rewritten.push(Directive { name, args, block: None, at: d.at.clone() });
    }
    rewritten
}

/// Writes the URL of a constant, to which nginx sends every request of the location as it is,
/// without the query: the rewrite of the server that it returns makes all of them the path of the
/// location.
fn one_url(
    d: &Directive,
    siblings: &[Directive],
    location: &mut Directive,
    outer: &Constants,
) -> Option<Directive> {
    let (kind, path) = modifier(d)?;
    // A rewrite of the server takes their paths from locations beneath it, and from expressions.
    let is_beneath = |other: &Directive| match modifier(other) {
        Some((Modifier::Regex, _)) => kind == Modifier::Prefix,
        Some((Modifier::Named, _)) | None => false,
        Some((other_kind, other)) => {
            other.starts_with(path) && (other != path || other_kind == Modifier::Exact)
        }
    };
    if kind != Modifier::Exact && siblings.iter().any(|d| d.name == "location" && is_beneath(d)) {
        return None;
    }
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let known = constants(d.children(), outer);
    let written = d.children().iter().find(|d| d.name == "proxy_pass")?;
    let url = with_constants(written.arg(0), &known);
    if !written.arg(0).contains('$')
        || url.contains('$')
        || !has_path(&url)
        || !path.bytes().all(is_plain)
        || d.children().iter().any(|d| matches!(d.name.as_str(), "rewrite" | "if" | "location"))
    {
        return None;
    }
    let pattern = path.replace('.', "\\.");
    let pattern = match kind {
        Modifier::Exact => format!("^{pattern}$"),
        Modifier::Prefix | Modifier::Final => format!("^{pattern}"),
        Modifier::Regex | Modifier::Named => return None,
    };
    let pass = location.block.as_mut()?.iter_mut().find(|d| d.name == "proxy_pass")?;
    pass.args = vec![url];
    Some(Directive {
        name: "rewrite".to_owned(),
        args: vec![pattern, format!("{path}?"), "last".to_owned()],
        block: None,
        at: written.at.clone(),
    })
}

/// The constants in force in a block: those of `outer`, and its own. A variable that the block sets
/// more than once, or under a condition, is none.
fn constants(block: &[Directive], outer: &Constants) -> Constants {
    let mut known = outer.clone();
    let own = block.iter().filter(|d| d.name == "set").filter_map(|d| Some((name_of(d)?, d)));
    let mut seen = Vec::new();
    for (name, d) in own {
        let value = with_constants(d.arg(1), &known);
        let is_constant = d.args.len() == 2 && !value.contains('$') && !seen.contains(&name);
        match is_constant {
            true => known.insert(name.clone(), value),
            false => known.remove(&name),
        };
        seen.push(name);
    }
    for name in block.iter().filter(|d| d.name == "if").flat_map(set_within) {
        known.remove(&name);
    }
    known
}

/// The variables that a block within a block sets.
fn set_within(d: &Directive) -> Vec<String> {
    let own = d.children().iter().filter(|d| d.name == "set").filter_map(name_of);
    own.chain(d.children().iter().flat_map(set_within)).collect()
}

/// The name of the variable that a `set` sets.
fn name_of(d: &Directive) -> Option<String> {
    d.arg(0).strip_prefix('$').map(str::to_ascii_lowercase)
}

/// Rewrites a directive that is not a location. Expressions and conditions stay as they are.
fn directive(d: &Directive, known: &Constants) -> Directive {
    let mut rewritten = d.clone();
    let first = match d.name.as_str() {
        "if" => d.args.len(),
        "rewrite" | "set" => 1,
        _ => 0,
    };
    for arg in rewritten.args.iter_mut().skip(first) {
        *arg = with_constants(arg, known);
    }
    if d.name == "proxy_pass" {
        let url = d.arg(0);
        let plain = rewritten.arg(0).strip_suffix("$request_uri").filter(|rest| !has_path(rest));
        rewritten.args = match plain {
            // The upstream gets the path as the client wrote it, anyway.
            Some(plain) => vec![plain.to_owned()],
            // nginx sends a path of a variable as it is, whatever the client asked for.
            None if url.contains('$')
                && has_path(rewritten.arg(0))
                && !rewritten.arg(0).contains('$') =>
            {
                d.args.clone()
            }
            None => rewritten.args,
        };
    }
    rewritten.block =
        d.block.as_ref().map(|block| block.iter().map(|inner| directive(inner, known)).collect());
    rewritten
}

/// Returns whether something follows the host of a URL.
fn has_path(url: &str) -> bool {
    url.split_once("://").is_none_or(|(_, rest)| rest.contains('/'))
}

/// Replaces the variables that are known.
fn with_constants(text: &str, known: &Constants) -> String {
    with_values(text, |name| known.get(&name.to_ascii_lowercase()).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn constants_take_the_place_of_variables() {
        #[rustfmt::skip]
        let rows = [
            ("set $a x; location / { proxy_pass http://$a:80; }", "proxy_pass http://x:80", "of the server"),
            ("location / { set $a x; proxy_pass http://${a}y; }", "proxy_pass http://xy", "in braces"),
            ("set $a x; set $b $a.org; location / { proxy_pass http://$b; }", "proxy_pass http://x.org", "of another"),
            ("set $A x; location / { proxy_pass http://$a; }", "proxy_pass http://x", "names have no case"),
            ("set $a x; location / { set $a y; proxy_pass http://$a; }", "proxy_pass http://y", "the nearer one"),
            ("location / { set $a x; set $a y; proxy_pass http://$a; }", "proxy_pass http://$a", "set twice"),
            ("set $a x; if ($b) { set $a y; } location / { proxy_pass http://$a; }", "proxy_pass http://$a", "under a condition"),
            ("set $a $b; location / { proxy_pass http://$a; }", "proxy_pass http://$a", "no constant"),
            ("set $a x; location / { proxy_pass http://$ab; }", "proxy_pass http://$ab", "another name"),
            ("location /a { set $a x; } location / { proxy_pass http://$a; }", "proxy_pass http://$a", "of another location"),
            ("set $a http://x/y; location / { proxy_pass $a; }", "proxy_pass http://x/y", "a path for every request"),
            ("set $a http://x/y; location / { if ($b) { return 404; } proxy_pass $a; }", "proxy_pass $a", "under a condition"),
            ("set $a http://x/y; location ~ a { proxy_pass $a; }", "proxy_pass $a", "in an expression"),
            ("set $a http://x/y; location = / { proxy_pass $a; }", "proxy_pass http://x/y", "a path for one path"),
            ("location / { proxy_pass http://x$request_uri; }", "proxy_pass http://x", "the path of the request"),
            ("location / { proxy_pass http://x/y$request_uri; }", "proxy_pass http://x/y$request_uri", "behind another path"),
            ("set $a x; location / { proxy_pass http://$; }", "proxy_pass http://$", "a sign alone"),
            ("set $a name; location / { proxy_pass http://$host$a; }", "proxy_pass http://${host}name", "behind another variable"),
        ];
        for (block, expected, what) in rows {
            let server = format!("server {{ {block} }}");
            let written = written_out(&parse(&server, "t").unwrap());
            let locations = written[0].children().iter().filter(|d| d.name == "location");
            let passes = locations.flat_map(Directive::children).filter(|d| d.name == "proxy_pass");
            let passes: Vec<String> = passes.map(ToString::to_string).collect();
            assert_eq!(passes, [expected], "{what}: {block}");
        }
    }
}
