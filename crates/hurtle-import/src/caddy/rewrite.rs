//! `rewrite`: a rule of the site, or another path for the only handler of a block.

use super::matcher::Matcher;
use super::parts::Parts;
use super::pattern::is_placeholder;
use super::redirect::{braced, groups, with_query};
use crate::mount::{Keys, put};
use crate::syntax::Directive;

/// Translates a rewrite of these requests.
///
/// # Errors
/// Targets with variables, blocks, and what Caddy would do with the former path.
pub(super) fn translate(
    d: &Directive,
    args: &[String],
    requests: Option<&Matcher>,
    parts: &mut Parts,
) -> Result<(), String> {
    let has = |rule: &Keys, name: &str| rule.iter().any(|(key, _)| key == name);
    if parts.rules.iter().any(|rule| has(rule, "rewrite")) {
        return Err(
            "rules of hurtle follow each other; Caddy takes the first rewrite only".to_owned()
        );
    }
    if !parts.mounts.is_empty() || parts.headers.all().iter().any(|rule| has(rule, "match")) {
        return Err("redirects and fields are for the path as it was before".to_owned());
    }
    let [to] = args else { return Err("it has a target".to_owned()) };
    let name = requests.and_then(|matcher| matcher.regex.as_ref()).map_or("", |(name, _)| name);
    let target = groups(&with_query(to), name);
    if is_placeholder(&target) || !target.starts_with('/') {
        return Err(format!("the target is a path, perhaps with {{re.NAME.1}}, not {to}"));
    }
    let mut keys: Keys = match requests {
        Some(matcher) if matcher.file.is_some() => {
            return Err(format!("a rule of hurtle does not look at files: {d}"));
        }
        Some(matcher) => matcher.key()?,
        None => vec![("match".to_owned(), toml::Value::from("**"))],
    };
    put(&mut keys, "rewrite", braced(&target));
    parts.rules.push(keys);
    Ok(())
}

/// The path that the handler of a block gets.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Rewritten {
    /// The path of one file, for every request.
    Page(String),
    /// That of the request, behind this one.
    Beneath(String),
}

impl Rewritten {
    /// The path that a `rewrite` of all requests of a block makes.
    ///
    /// # Errors
    /// Targets with other variables, or with a query.
    pub(super) fn of(args: &[String]) -> Result<Rewritten, String> {
        let [to] = args else { return Err("it has a target".to_owned()) };
        let ends = ["{uri}", "{path}", "{http.request.uri}", "{http.request.uri.path}"];
        let base = ends.iter().find_map(|end| to.strip_suffix(end));
        let path = base.unwrap_or(to.strip_suffix("?{query}").unwrap_or(to));
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._~-".contains(&b);
        if !path.starts_with('/') || path.ends_with('/') || !path.bytes().all(is_plain) {
            return Err(format!(
                "in a block it knows the path of a file, and {{uri}} behind a path, not {to}"
            ));
        }
        Ok(match base {
            Some(_) => Rewritten::Beneath(path.to_owned()),
            None => Rewritten::Page(path.to_owned()),
        })
    }

    /// Changes the keys of a mount of files.
    pub(super) fn of_files(&self, keys: &mut Keys) {
        match self {
            Rewritten::Page(page) => {
                keys.retain(|(name, _)| name != "index" && name != "listing");
                put(keys, "try_files", vec![page.as_str()]);
            }
            Rewritten::Beneath(base) => {
                for (_, root) in keys.iter_mut().filter(|(name, _)| name == "files") {
                    let root_of_all = root.as_str().unwrap_or_default().trim_end_matches('/');
                    *root = toml::Value::from(format!("{root_of_all}{base}"));
                }
            }
        }
    }

    /// Changes the upstreams of a mount. `path`: the only one that the mount has, if that is known.
    ///
    /// # Errors
    /// Upstreams without a path of their own, and one path for all requests.
    pub(super) fn of_upstreams(&self, keys: &mut Keys, path: Option<&str>) -> Result<(), String> {
        let base = match (self, path) {
            (Rewritten::Beneath(base), _) => format!("{base}/"),
            (Rewritten::Page(page), Some(_)) => page.clone(),
            (Rewritten::Page(_), None) => {
                return Err(
                    "an upstream of hurtle gets one path in place of one other, not of many".into(),
                );
            }
        };
        let add = |url: &mut toml::Value| match url.as_str() {
            Some(text) if text.contains("://") => {
                *url = toml::Value::from(format!("{text}{base}"));
                Ok(())
            }
            _ => Err("of upstreams by TCP it knows another path".to_owned()),
        };
        for (_, value) in keys.iter_mut().filter(|(name, _)| name == "proxy") {
            match value {
                toml::Value::Array(list) => {
                    for one in list {
                        match one.as_table_mut().and_then(|server| server.get_mut("url")) {
                            Some(url) => add(url)?,
                            None => add(one)?,
                        }
                    }
                }
                url => add(url)?,
            }
        }
        Ok(())
    }
}
