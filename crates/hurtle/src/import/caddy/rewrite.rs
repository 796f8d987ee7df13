//! `rewrite` with a path as its target: a rule of the site.

use super::matcher::Matcher;
use super::parts::Parts;
use super::pattern::is_placeholder;
use super::redirect::{braced, groups, with_query};
use crate::import::mount::{Keys, put};
use crate::import::syntax::Directive;

/// Translates a rewrite of these requests.
///
/// # Errors
/// Targets with variables, blocks, and what Caddy would do with the former path.
pub(super) fn translate(
    d: &Directive,
    args: &[String],
    requests: Option<&Matcher>,
    is_nested: bool,
    parts: &mut Parts,
) -> Result<(), String> {
    if is_nested {
        return Err("the rules of hurtle are of the whole site, not of a block".to_owned());
    }
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
