//! Finds conditions on request fields that authentication sets. The route is chosen before a
//! request is authenticated, so such a condition sees what the client sends.

use http::HeaderName;

use super::auth::Auth;
use super::matcher::Matcher;
use super::types::{Config, Site};

/// Returns a warning for each such condition.
pub fn decided_fields(config: &Config) -> Vec<String> {
    let sites = config.sites.iter().enumerate();
    sites.flat_map(|(number, site)| decided_fields_of(site, number)).collect()
}

fn decided_fields_of(site: &Site, number: usize) -> Vec<String> {
    let of_mounts = site.mounts.iter().filter_map(|mount| mount.auth.as_ref());
    let names: Vec<&str> = site.auth.iter().chain(of_mounts).flat_map(decided).collect();
    let rules = site.rules.iter().enumerate();
    let rules = rules.map(|(at, rule)| (format!("site[{number}].rule[{at}]"), &rule.matcher));
    let mounts = site.mounts.iter().enumerate().filter_map(|(at, mount)| {
        Some((format!("site[{number}].mount[{at}]"), mount.matcher.as_ref()?))
    });
    rules
        .chain(mounts)
        .filter_map(|(place, matcher)| {
            let name = names.iter().find(|name| compares(matcher, name))?;
            Some(format!(
                "{place}.match: it sees the {name} that the client sends: requests are matched before they are \
                 authenticated"
            ))
        })
        .collect()
}

/// The names of the fields that a request gets once its client is known.
fn decided(auth: &Auth) -> Vec<&str> {
    match auth {
        Auth::None | Auth::Basic(_) => Vec::new(),
        Auth::Forward(forward) => forward.copy_headers.iter().map(HeaderName::as_str).collect(),
        Auth::Jwt(jwt) => jwt.rules.claims.iter().map(|(_, name)| name.as_str()).collect(),
    }
}

/// Returns whether a field of this name decides.
fn compares(matcher: &Matcher, name: &str) -> bool {
    matcher.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name))
        || matcher.not.iter().any(|not| compares(not, name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::check;

    #[test]
    fn a_condition_on_a_field_of_authentication_is_reported() {
        let forward = "auth = \"forward\"\nforward = \"http://127.0.0.1:1/\"\ncopy_headers = [\"Remote-Groups\"]\n";
        let jwt = "auth_cleartext = true\nauth = \"jwt\"\njwks = \"/keys.json\"\n[site.claims]\nsub = \"Remote-Groups\"\n";
        let mount = "[[site.mount]]\npath = \"/\"\nrespond = \"\"\nmatch = ";
        let table = [
            ("of a server", forward, "{ header = { remote-groups = \"*admins*\" } }", true),
            ("of a claim", jwt, "{ header = { Remote-Groups = \"a\" } }", true),
            ("not", forward, "{ not = { header = { Remote-Groups = false } } }", true),
            ("another field", forward, "{ header = { X-Groups = \"a\" } }", false),
            ("no authentication", "", "{ header = { Remote-Groups = \"a\" } }", false),
        ];
        for (sentence, auth, matcher, expected) in table {
            let text = format!("[[site]]\n{auth}{mount}{matcher}\n");
            let config = check(&text, Path::new("/etc/hurtle.toml")).expect(sentence);
            let warnings = decided_fields(&config);
            assert_eq!(warnings.len(), usize::from(expected), "{sentence}: {warnings:?}");
            assert!(warnings.iter().all(|warning| warning.starts_with("site[0].mount[0].match: ")));
        }
    }
}
