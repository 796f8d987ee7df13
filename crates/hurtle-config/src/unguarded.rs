//! Finds mounts with conditions that take requests from beneath a guarded path without its guards.

use super::auth::Auth;
use super::matcher::Matcher;
use super::path_regex::PathRegex;
use super::types::{Config, Mount, Site};

/// Returns a warning for each such mount, with an example path.
pub fn unguarded_mounts(config: &Config) -> Vec<String> {
    let sites = config.sites.iter().enumerate();
    sites.flat_map(|(number, site)| unguarded_mounts_of(site, number)).collect()
}

fn unguarded_mounts_of(site: &Site, number: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    for (at, mount) in site.mounts.iter().enumerate() {
        let Some(matcher) = &mount.matcher else { continue };
        let prefixes = site.mounts.iter().filter(|other| other.is_prefix() && !other.is_final);
        for other in prefixes {
            let missing = missing_guards(other, mount);
            let paths = examples(matcher, &other.path);
            let taken = paths.into_iter().find(|path| {
                let longest = site.longest_mount(path);
                let is_longest = longest.is_some_and(|longest| longest.path == other.path);
                is_longest && mount.holds(path) && matcher.may_match(path.as_bytes())
            });
            if let (false, Some(path)) = (missing.is_empty(), taken) {
                warnings.push(format!(
                    "site[{number}].mount[{at}]: it answers {path}, which is beneath {:?}, without the {} \
                     there: write the same here, or final = true there",
                    other.path,
                    missing.join(" and "),
                ));
            }
        }
    }
    warnings
}

/// The keys of a mount that keep clients out, and that the other has not alike.
fn missing_guards(guarded: &Mount, other: &Mount) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let restricts = !guarded.access.allow.is_empty() || !guarded.access.deny.is_empty();
    if restricts && guarded.access != other.access {
        missing.push("allow or deny");
    }
    let requires = !matches!(guarded.auth, None | Some(Auth::None));
    if requires && guarded.auth != other.auth {
        missing.push("auth");
    }
    if !guarded.client_auth.is_none() && guarded.client_auth != other.client_auth {
        missing.push("client_auth");
    }
    if guarded.authorizer.is_some() && guarded.authorizer != other.authorizer {
        missing.push("authorizer");
    }
    missing
}

/// Returns paths that may be beneath a path and match.
fn examples(matcher: &Matcher, beneath: &str) -> Vec<String> {
    let beneath = beneath.trim_end_matches('/');
    let mut names: Vec<String> = matcher.regex.iter().filter_map(PathRegex::example).collect();
    for pattern in &matcher.paths {
        // The first wildcard over segments may stand for the path itself.
        names.push(pattern.0.replacen("**", &format!("{beneath}/x"), 1).replace('*', "x"));
        names.push(pattern.0.replace("**", "x").replace('*', "x"));
    }
    if names.is_empty() {
        names.push("x".to_owned());
    }
    let inside = |name: &String| format!("{beneath}/{}", name.trim_start_matches('/'));
    let inside: Vec<String> = names.iter().map(inside).collect();
    names.into_iter().chain(inside).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::check;

    #[test]
    fn a_mount_that_takes_guarded_paths_is_reported_with_one_of_them() {
        let guarded = "[[site.mount]]\npath = \"/admin\"\nfiles = \".\"\nallow = \"10.0.0.0/8\"\n";
        let table = [
            ("a pattern", "match = \"*.php\"\n", Some("/admin/x.php")),
            ("one over segments", "match = \"**.php\"\n", Some("/admin/x.php")),
            ("one of a path beneath", "match = \"/admin/*/x\"\n", Some("/admin/x/x")),
            ("one of another path", "match = \"/b/*\"\n", None),
            ("an expression", "match = { regex = \"\\\\.php$\" }\n", Some("/admin/.php")),
            ("an anchored one", "match = { regex = \"^/[a-z]+/v[0-9]\" }\n", None),
            ("one of it", "match = { regex = \"^/admin/v[0-9]\" }\n", Some("/admin/v0")),
            ("a method", "match = { method = \"POST\" }\n", Some("/admin/x")),
            ("not this path", "match = { not = { path = \"/admin/**\" } }\n", None),
            ("the same guard", "match = \"*.php\"\nallow = \"10.0.0.0/8\"\n", None),
            ("another path", "path = \"/b\"\nmatch = \"*.php\"\n", None),
        ];
        for (sentence, place, expected) in table {
            let text = format!("[[site]]\n{guarded}[[site.mount]]\nrespond = \"\"\n{place}");
            let config = check(&text, Path::new("/etc/hurtle.toml")).expect(sentence);
            let warnings = unguarded_mounts(&config);
            let found = warnings.first().is_some_and(|warning| {
                expected.is_some_and(|path| warning.contains(&format!("answers {path},")))
            });
            assert_eq!(found, expected.is_some(), "{sentence}: {warnings:?}");
            assert!(expected.is_some() || warnings.is_empty(), "{sentence}: {warnings:?}");
            let is_final = text.replace("path = \"/admin\"\n", "path = \"/admin\"\nfinal = true\n");
            let config = check(&is_final, Path::new("/etc/hurtle.toml")).expect(sentence);
            assert!(unguarded_mounts(&config).is_empty(), "{sentence}: final");
        }
    }
}
