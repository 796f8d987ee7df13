//! Translates `if ($host ~* ^www\.(.*)) { return 301 https://$1$request_uri; }`, which takes `www.`
//! off, for the names of the server.

use toml::Value;

use super::block::Block;
use super::location::{answer, fields};
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::named::EVERY_PATH;
use super::path::mount_path;
use super::report::Report;
use super::syntax::Directive;

/// Expressions of hosts that begin with `www.`, whose part is the rest.
const PATTERNS: [&str; 5] =
    [r"^www\.(.*)$", r"^www\.(.+)$", r"^www\.(.*)", r"^www\.(.+)", r"^(?:www\.)(.*)$"];

/// The beginning of such hosts.
const BEGINNING: &str = "www.";

impl<'a> Mounts<'a, '_> {
    /// Returns the mounts of such a condition, one for each name; `None`: it is another one.
    pub(super) fn without_www(
        &mut self,
        d: &'a Directive,
        around: &Block<'a>,
        path: &str,
        report: &mut Report,
    ) -> Option<Vec<Mount>> {
        let [variable, operator, pattern] = d.args.as_slice() else { return None };
        let is_it = variable == "($host"
            && matches!(operator.as_str(), "~" | "~*")
            && pattern.strip_suffix(')').is_some_and(|text| PATTERNS.contains(&text));
        let returned = returned(d).filter(|_| is_it)?;
        let is_open = |name: &String| name.contains('*');
        if self.site.hosts.is_empty() || self.site.hosts.iter().any(is_open) {
            return None;
        }
        let names = self.site.hosts.clone();
        let mut mounts = Vec::new();
        for name in names.iter().filter_map(|name| name.strip_prefix(BEGINNING)) {
            let mut own = returned.clone();
            own.args[1] = own.args[1].replace("$1", name);
            let block = Block::of(d, around.scope(), self.shared, report);
            let mut keys = Keys::new();
            answer(&own, path, &block, self.context, &mut keys, report)?;
            let mut place = Keys::new();
            let host = Value::from(format!("{BEGINNING}{name}"));
            put(&mut place, "match", toml::Table::from_iter([("host".to_owned(), host)]));
            mounts.push(Mount {
                path: mount_path(path),
                place,
                keys,
                headers: fields(&block),
                choice: None,
            });
        }
        report.remark(
            d,
            "a host that server_name does not have, such as GET / of www.b.example, is not redirected; nginx \
             redirects it where this server is the default",
        );
        Some(mounts)
    }
}

/// The redirect of the condition, with `$1` for the rest of the host: a `return`, or a `rewrite` of
/// all paths to a URL with a variable of that part.
fn returned(d: &Directive) -> Option<Directive> {
    match d.children() {
        [only] if only.name == "return" && only.args.len() == 2 => Some(only.clone()),
        [set, rewrite] if set.name == "set" && rewrite.name == "rewrite" && set.arg(1) == "$1" => {
            let status = match rewrite.arg(2) {
                "permanent" => "301",
                "redirect" => "302",
                _ => return None,
            };
            let url = rewrite.arg(1);
            // `^/(.*)$` has the slash outside of its part.
            let rest = match rewrite.arg(0) {
                "^/(.*)$" => "/$1",
                "^(.*)$" | "(.*)" => "$1",
                _ => return None,
            };
            let origin = url.strip_suffix(rest)?.strip_suffix(set.arg(0))?;
            let is_known = EVERY_PATH.contains(&rewrite.arg(0)) && origin.contains("://");
            let args = vec![status.to_owned(), format!("{origin}$1$request_uri")];
            is_known.then(|| Directive { name: "return".to_owned(), args, ..rewrite.clone() })
        }
        _ => None,
    }
}
