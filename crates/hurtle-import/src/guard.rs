//! Guards of a mount: addresses, passwords, rate limits and servers that decide about requests.

use ipnet::IpNet;
use toml::Value;

use super::block::Block;
use super::location::Context;
use super::mount::{Keys, put, put_list};
use super::report::Report;
use super::syntax::Directive;

/// Keys of a mount that decide which clients are admitted.
pub(super) const KEYS: [&str; 10] = [
    "allow",
    "deny",
    "auth",
    "users",
    "realm",
    "auth_cleartext",
    "rate_limit",
    "forward",
    "copy_headers",
    "forward_tls",
];

/// Adds `allow`, `deny`, `auth` and `rate_limit`; `None` if they were refused.
pub(super) fn guard(
    at: &Directive,
    block: &Block<'_>,
    context: &Context<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let Some((allow, deny)) = access(block.get(|scope| &scope.access)) else {
        let why = "its allow and deny overlap, and hurtle applies the more specific network";
        report.refuse(at, why);
        return None;
    };
    put_list(keys, "allow", &allow);
    put_list(keys, "deny", &deny);
    let limits = block.get(|scope| &scope.rate_limits).iter().cloned().map(Value::Table);
    let limits: Vec<Value> = limits.collect();
    if !limits.is_empty() {
        put(keys, "rate_limit", limits);
    }
    let realm = block.get(|scope| &scope.realm);
    let users = block.get(|scope| &scope.users);
    if let Some((auth, at)) = block.get(|scope| &scope.auth_request) {
        let Some(server) = context.auth.iter().find(|server| server.path == *auth) else {
            report.refuse(at, format!("no location = {auth} has a proxy_pass to one server"));
            return None;
        };
        if realm.is_some() {
            report.refuse(at, "a mount has either auth_request or auth_basic");
            return None;
        }
        server.put(block.get(|scope| &scope.copied), keys);
        return Some(());
    }
    match (realm, users) {
        (None, _) if keys.iter().any(|(key, _)| key == "uploads") => {
            put(keys, "auth", "none");
            report.remark(at, "everybody may upload: write auth = \"basic\" and users");
        }
        (None, _) => {}
        (Some(_), None) => {
            report.refuse(at, "auth_basic needs auth_basic_user_file");
            return None;
        }
        (Some(realm), Some(users)) => {
            put(keys, "auth", "basic");
            put(keys, "users", users.clone());
            put(keys, "realm", realm.clone());
            if context.is_exposed {
                put(keys, "auth_cleartext", true);
            }
            report.general(
                "auth_basic: passwords are hashed with bcrypt; write the file anew with \
                 `htpasswd -B`"
                    .to_owned(),
            );
        }
    }
    Some(())
}

/// Translates `allow` and `deny`, of which nginx applies the first that matches, to networks of
/// which the most specific one is applied. `None`: the results would differ.
fn access(list: &[(bool, String)]) -> Option<(Vec<String>, Vec<String>)> {
    let all = || vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    let end = list.iter().position(|(_, network)| network == "all");
    let admits_others = end.is_none_or(|end| list[end].0);
    let list = &list[..end.unwrap_or(list.len())];
    let parse = |text: &str| -> Option<IpNet> {
        text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from))
    };
    let mut has_exceptions = false;
    for (at, (admits, network)) in list.iter().enumerate() {
        for (_, later) in list[at + 1..].iter().filter(|(other, _)| other != admits) {
            let (network, later) = (parse(network)?, parse(later)?);
            if network.contains(&later) {
                return None;
            }
            has_exceptions |= later.contains(&network);
        }
    }
    let of = |wanted: bool| {
        list.iter().filter(move |(admits, _)| *admits == wanted).map(|(_, network)| network.clone())
    };
    let (mut allow, mut deny): (Vec<String>, Vec<String>) =
        (of(true).collect(), of(false).collect());
    if admits_others {
        // `allow` admits only what it names.
        if has_exceptions { allow.extend(all()) } else { allow.clear() }
    } else if allow.is_empty() {
        deny = all();
    }
    Some((allow, deny))
}

#[cfg(test)]
mod tests {
    use super::access;

    #[test]
    fn networks() {
        let all = "0.0.0.0/0 ::/0";
        let rows = [
            ("nothing", "", Some(("", ""))),
            ("some only", "+10.0.0.0/8 +::1 -all", Some(("10.0.0.0/8 ::1", ""))),
            ("nobody", "-all", Some(("", all))),
            ("all but one", "-192.0.2.1", Some(("", "192.0.2.1"))),
            ("the same", "-192.0.2.1 +all -10.0.0.0/8", Some(("", "192.0.2.1"))),
            ("an exception", "-10.6.6.0/24 +10.0.0.0/8 -all", Some(("10.0.0.0/8", "10.6.6.0/24"))),
            ("admitted of the denied", "+10.1.0.0/16 -10.0.0.0/8", Some(("*", "10.0.0.0/8"))),
            ("hidden by a wider one", "+10.0.0.0/8 -10.6.6.0/24 -all", None),
            ("no network", "+x -y", None),
        ];
        for (sentence, written, expected) in rows {
            let list: Vec<(bool, String)> = written
                .split_whitespace()
                .map(|item| (item.starts_with('+'), item[1..].to_owned()))
                .collect();
            let found = access(&list).map(|(allow, deny)| (allow.join(" "), deny.join(" ")));
            let expected = expected.map(|(allow, deny)| {
                (allow.replace('*', &format!("10.1.0.0/16 {all}")), deny.to_owned())
            });
            assert_eq!(found, expected, "{sentence}");
        }
    }
}
