//! Guards of a mount: addresses, passwords, rate limits and servers that decide about requests.

use ipnet::IpNet;
use toml::Value;

use super::block::Block;
use super::kind::GuardKind;
use super::location::Context;
use super::mount::{Keys, put, put_list};
use super::path::{Prefix, absolute, has_variable};
use super::report::Report;
use super::satisfy;
use super::scope::{Scope, Use};
use super::shared::Shared;
use super::syntax::Directive;

/// Keys of a mount that decide which clients are admitted.
pub(super) const KEYS: [&str; 11] = [
    satisfy::KEY,
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

/// Most values of a list, beyond which a configuration is not written by people.
const LIST_MAX: usize = 10_000;

impl Scope {
    /// Applies a directive that decides which clients are admitted.
    pub(super) fn guard(
        &mut self,
        kind: GuardKind,
        d: &Directive,
        shared: &Shared,
        report: &mut Report,
    ) -> Use {
        match kind {
            GuardKind::AuthBasic if d.arg(0) == "off" => self.realm.set(None),
            GuardKind::AuthBasic if has_variable(d.arg(0)) => {
                report.refuse(d, "it needs variables");
            }
            GuardKind::AuthBasic => self.realm.set(Some(d.arg(0).to_owned())),
            GuardKind::AuthBasicUserFile => match absolute(d, Prefix::Configuration, report) {
                Some(path) => self.users.set(Some(path)),
                None => report.refuse(d, "write an absolute path"),
            },
            GuardKind::Allow | GuardKind::Deny if d.arg(0) == "unix:" => {
                report.refuse(d, "clients of unix sockets have no address");
            }
            GuardKind::Allow | GuardKind::Deny => {
                let access = self.access.edit();
                if access.len() == LIST_MAX {
                    report.refuse(d, format!("a list has {LIST_MAX} networks at most"));
                } else {
                    access.push((kind == GuardKind::Allow, d.arg(0).to_owned()));
                }
            }
            GuardKind::AuthRequest if d.arg(0) == "off" => self.auth_request.set(None),
            GuardKind::AuthRequest => {
                self.auth_request.set(Some((d.arg(0).to_owned(), d.clone())));
            }
            GuardKind::Satisfy if d.args == ["any"] => self.satisfies_any.set(true),
            GuardKind::Satisfy if !self.satisfies_any.peek() => {
                report.leave_out(d);
                return Use::Done;
            }
            GuardKind::Satisfy => self.satisfies_any.set(false),
            GuardKind::AuthRequestSet => self.auth_request_set(d, report),
            GuardKind::LimitReq => self.limit_req(d, shared, report),
        }
        Use::Held
    }

    /// `true`: the first rule for addresses refuses every client, and nothing else admits one.
    pub(super) fn denies_all(&self) -> bool {
        let is_first = |(admits, network): &(bool, String)| !admits && network == "all";
        let has_other = self.realm.peek().is_some() || self.auth_request.peek().is_some();
        let is_enough = has_other && *self.satisfies_any.peek();
        self.access.peek().first().is_some_and(is_first) && !is_enough
    }
}

/// Adds `allow`, `deny`, `auth` and `rate_limit`; `None` if they were refused.
pub(super) fn guard(
    at: &Directive,
    block: &Block<'_>,
    context: &Context<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    addresses(at, block, keys, report)?;
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

/// Adds `allow` and `deny`, or, with `satisfy any`, the addresses that need nothing else.
fn addresses(
    at: &Directive,
    block: &Block<'_>,
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let list = block.get(|scope| &scope.access);
    let is_any = *block.get(|scope| &scope.satisfies_any);
    let scope = block.scope();
    if is_any && (scope.realm.peek().is_some() || scope.auth_request.peek().is_some()) {
        return satisfy::put_admitted(at, list, keys, report);
    }
    let Some((allow, deny)) = access(list) else {
        let why = "its allow and deny overlap, and hurtle applies the more specific network";
        report.refuse(at, why);
        return None;
    };
    put_list(keys, "allow", &allow);
    put_list(keys, "deny", &deny);
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
