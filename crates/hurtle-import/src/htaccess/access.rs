//! Access control: `Require`, `Order`, `Allow`, `Deny` and passwords, as keys of mounts.

use std::net::IpAddr;

use ipnet::IpNet;

use super::sections::Section;
use crate::mount::{Keys, put, put_list};
use crate::report::Report;
use crate::syntax::Directive;

/// Names of the directives that this module translates, in lower case.
pub(super) const NAMES: [&str; 16] = [
    "<requireall>",
    "<requireany>",
    "<requirenone>",
    "allow",
    "authbasicprovider",
    "authgroupfile",
    "authmerging",
    "authname",
    "authtype",
    "authuserfile",
    "deny",
    "order",
    "require",
    "satisfy",
    "ssloptions",
    "sslrequiressl",
];

/// The clients that get a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Access {
    /// `true`: no client gets it, whatever the lists say.
    pub(super) is_closed: bool,
    allow: Vec<String>,
    deny: Vec<String>,
    needs_password: bool,
}

impl Access {
    pub(super) fn is_open(&self) -> bool {
        *self == Access::default()
    }

    /// Access with both conditions.
    fn and(self, other: Access) -> Result<Access, String> {
        if !self.allow.is_empty() && !other.allow.is_empty() && self.allow != other.allow {
            return Err("two lists of addresses are to be met".to_owned());
        }
        let join = |a: Vec<String>, b: Vec<String>| {
            let more: Vec<String> = b.into_iter().filter(|item| !a.contains(item)).collect();
            [a, more].concat()
        };
        let (allow, deny) = (join(self.allow, other.allow), join(self.deny, other.deny));
        if allow.iter().any(|network| deny.iter().any(|denied| holds(denied, network))) {
            return Err(
                "an address that one condition admits is one that another refuses".to_owned()
            );
        }
        Ok(Access {
            is_closed: self.is_closed || other.is_closed,
            allow,
            deny,
            needs_password: self.needs_password || other.needs_password,
        })
    }

    /// Access with one of both conditions.
    fn or(self, other: Access) -> Result<Access, String> {
        let all = Access::default();
        match (self, other) {
            (closed, other) | (other, closed) if closed.is_closed => Ok(other),
            (open, _) | (_, open) if open == all => Ok(all),
            (a, b) if a == b => Ok(a),
            (a, b)
                if !a.needs_password
                    && !b.needs_password
                    && a.deny.is_empty()
                    && b.deny.is_empty() =>
            {
                Ok(Access { allow: [a.allow, b.allow].concat(), ..all })
            }
            _ => Err("a password or an address is not known here: write one of them".to_owned()),
        }
    }
}

/// Settings of passwords, which sections inherit.
#[derive(Clone, Debug, Default)]
pub(super) struct Passwords<'d> {
    kind: Option<&'d Directive>,
    realm: Option<&'d str>,
    users: Option<&'d str>,
}

impl<'d> Passwords<'d> {
    /// Reads those of all requests, and then those of a section with its sections of methods, in
    /// which they are for all methods, too.
    pub(super) fn of(sections: &[Section<'d>], home: usize) -> Passwords<'d> {
        let mut passwords = Passwords::default();
        for place in [0, home] {
            let own = sections.iter().filter(|section| section.home == place);
            let mut lines: Vec<&Directive> =
                own.flat_map(|section| &section.own).copied().collect();
            lines.sort_by_key(|d| d.at.line);
            lines.into_iter().for_each(|d| passwords.read(d));
        }
        passwords
    }

    fn read(&mut self, d: &'d Directive) {
        match d.name.to_ascii_lowercase().as_str() {
            "authtype" => self.kind = Some(d),
            "authname" => self.realm = Some(d.arg(0)),
            "authuserfile" => self.users = Some(d.arg(0)),
            _ => {}
        }
    }

    /// Writes the keys of a password.
    fn put(&self, d: &Directive, keys: &mut Keys, report: &mut Report) -> Result<(), String> {
        if !self.kind.is_some_and(|kind| kind.arg(0).eq_ignore_ascii_case("basic")) {
            return Err("of passwords it knows AuthType Basic".to_owned());
        }
        let users = self.users.ok_or("it needs AuthUserFile, with an absolute path")?;
        if !users.starts_with('/') {
            return Err("write an absolute path in AuthUserFile".to_owned());
        }
        put(keys, "auth", "basic");
        put(keys, "users", users);
        if let Some(realm) = self.realm {
            put(keys, "realm", realm);
        }
        report.remark(
            d,
            &format!("hashes of passwords are of bcrypt: write {users} anew with `htpasswd -B`"),
        );
        Ok(())
    }
}

/// The access rules of a section; a part is `None` where it has none. Apache asks both.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules<'d> {
    /// `Require`, with the directive.
    authz: Option<(Access, &'d Directive)>,
    /// `Order`, `Allow` and `Deny`.
    compat: Option<(Access, &'d Directive)>,
}

impl<'d> Rules<'d> {
    /// Reads the directives of a section, and those around it.
    pub(super) fn of(
        section: &Section<'d>,
        around: &Section<'d>,
        report: &mut Report,
    ) -> Rules<'d> {
        let named = |names: &[&str]| all_of(section, names);
        let mut rules = Rules::default();
        let required = named(&REQUIRE);
        if let Some(first) = required.first() {
            match any(&required).and_then(|own| with_those_around(own, section, around, report)) {
                Ok(access) => rules.authz = Some((access, first)),
                Err((d, needs)) => report.refuse(d, needs),
            }
        }
        let mut old = named(&COMPAT);
        // <Limit> of mod_access_compat has no lists of its own: it adds to those around it.
        if section.methods.is_some() && !old.is_empty() {
            old.extend(all_of(around, &COMPAT));
            old.sort_by_key(|d| d.at.line);
        }
        if let Some(first) = old.first() {
            match compat(&old) {
                Ok(access) => rules.compat = Some((access, first)),
                Err((d, needs)) => report.refuse(d, needs),
            }
        }
        for d in named(&["satisfy"]).iter().filter(|d| !d.arg(0).eq_ignore_ascii_case("all")) {
            report.refuse(d, "a client meets all conditions here: write Satisfy All");
        }
        for d in named(&["authmerging", "sslrequiressl", "ssloptions"]) {
            report.refuse(d, "it has no counterpart");
        }
        rules
    }

    /// `true`: Apache has these rules, for some methods, stand in place of wider ones for all
    /// methods. `home`: those of the section around them.
    pub(super) fn lifts(&self, home: Option<&Rules<'_>>, wider: &Rules<'_>) -> bool {
        let guards = |rule: &Option<(Access, &Directive)>| {
            rule.as_ref().is_some_and(|(access, _)| !access.is_open())
        };
        let has_new = home.is_some_and(|home| home.authz.is_some());
        let has_old = home.is_some_and(|home| home.compat.is_some());
        (self.authz.is_some() && !has_new && guards(&wider.authz))
            || (self.compat.is_some() && !has_old && guards(&wider.compat))
    }

    /// `true`: it has directives of 2.4 alone.
    pub(super) fn is_new(&self) -> bool {
        self.compat.is_none()
    }

    /// `true`: it has directives of 2.2 alone.
    pub(super) fn is_old(&self) -> bool {
        self.authz.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.authz.is_none() && self.compat.is_none()
    }

    /// These rules, and those around them where these have none.
    pub(super) fn within(&self, outer: &Rules<'d>) -> Rules<'d> {
        let (authz, compat) = (self.authz.clone(), self.compat.clone());
        Rules {
            authz: authz.or_else(|| outer.authz.clone()),
            compat: compat.or_else(|| outer.compat.clone()),
        }
    }

    /// The clients that meet both.
    pub(super) fn access(&self) -> Result<Access, String> {
        let of = |rule: &Option<(Access, &Directive)>| {
            rule.clone().map(|(access, _)| access).unwrap_or_default()
        };
        of(&self.authz).and(of(&self.compat))
    }

    /// Writes the keys of a mount; nobody's mount is the caller's.
    pub(super) fn put(
        &self,
        passwords: &Passwords<'_>,
        keys: &mut Keys,
        report: &mut Report,
    ) -> Result<(), String> {
        let access = self.access()?;
        put_list(keys, "allow", &access.allow);
        put_list(keys, "deny", &access.deny);
        match (access.needs_password, &self.authz) {
            (true, Some((_, d))) => passwords.put(d, keys, report),
            _ => Ok(()),
        }
    }
}

/// Directives of Apache 2.4, of which a client meets one.
pub(super) const REQUIRE: [&str; 4] = ["require", "<requireall>", "<requireany>", "<requirenone>"];

/// Directives of mod_access_compat, which add to one list in the order of the lines.
pub(super) const COMPAT: [&str; 3] = ["order", "allow", "deny"];

/// The directives of a section with these names.
pub(super) fn all_of<'d>(section: &Section<'d>, names: &[&str]) -> Vec<&'d Directive> {
    let is_of = |d: &&&Directive| names.contains(&d.name.to_ascii_lowercase().as_str());
    section.own.iter().filter(is_of).copied().collect()
}

type Refused<'d> = (&'d Directive, String);

/// Adds the lines around a section of methods, which are for its methods, too: a client meets one.
fn with_those_around<'d>(
    own: Access,
    section: &Section<'d>,
    around: &Section<'d>,
    report: &mut Report,
) -> Result<Access, Refused<'d>> {
    let others = all_of(around, &REQUIRE);
    let Some(at) = section.at.filter(|_| section.methods.is_some() && !others.is_empty()) else {
        return Ok(own);
    };
    let others = any(&others)?;
    if others.is_open() && !own.is_open() {
        report.remark(
            at,
            "its Require keeps no client out, as a client meets one of its lines or of those around it, which grant all",
        );
    }
    own.or(others).map_err(|needs| {
        (at, format!("a client meets one of its lines or of those around it: {needs}"))
    })
}

/// Clients that meet one of these directives. Apache knows no negative condition among them.
fn any<'d>(directives: &[&'d Directive]) -> Result<Access, Refused<'d>> {
    let mut found: Option<Access> = None;
    for d in directives {
        if is_negative(d) {
            return Err((*d, "Apache answers 500: write it in <RequireAll>".to_owned()));
        }
        let one = require(d)?;
        found = Some(match found {
            None => one,
            Some(found) => found.or(one).map_err(|needs| (*d, needs))?,
        });
    }
    Ok(found.unwrap_or_default())
}

/// `true` if one network has all addresses of another.
fn holds(outer: &str, inner: &str) -> bool {
    let parse = |text: &str| -> Option<IpNet> {
        text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
    };
    match (parse(outer), parse(inner)) {
        (Some(outer), Some(inner)) => outer.contains(&inner),
        _ => outer == inner,
    }
}

fn is_negative(d: &Directive) -> bool {
    d.name.eq_ignore_ascii_case("<requirenone>") || d.arg(0).eq_ignore_ascii_case("not")
}

fn require(d: &Directive) -> Result<Access, Refused<'_>> {
    let children: Vec<&Directive> = d.children().iter().collect();
    match d.name.to_ascii_lowercase().as_str() {
        "<requireany>" => any(&children),
        "<requireall>" if !children.is_empty() && children.iter().all(|d| is_negative(d)) => {
            Err((d, "Apache answers 500: write `Require all granted` in it, too".to_owned()))
        }
        "<requireall>" => {
            let mut found = Access::default();
            for child in children {
                found = found.and(require(child)?).map_err(|needs| (child, needs))?;
            }
            Ok(found)
        }
        "<requirenone>" => {
            let inner = any(&children)?;
            match inner.needs_password || inner.is_closed || !inner.deny.is_empty() {
                true => Err((d, "it holds addresses only".to_owned())),
                false if inner.is_open() => Ok(Access { is_closed: true, ..inner }),
                false => Ok(Access { deny: inner.allow, ..Access::default() }),
            }
        }
        "require" => words(&d.args).map_err(|needs| (d, needs)),
        _ => Err((d, "it is no condition on clients".to_owned())),
    }
}

fn words(args: &[String]) -> Result<Access, String> {
    let (is_not, args) = match args {
        [not, rest @ ..] if not.eq_ignore_ascii_case("not") => (true, rest),
        args => (false, args),
    };
    let [kind, values @ ..] = args else { return Err("it has no condition".to_owned()) };
    let open = Access::default();
    match (kind.to_ascii_lowercase().as_str(), values, is_not) {
        ("all", [what], false) if what.eq_ignore_ascii_case("granted") => Ok(open),
        ("all", [what], false) if what.eq_ignore_ascii_case("denied") => {
            Ok(Access { is_closed: true, ..open })
        }
        ("ip", [_, ..], false) => Ok(Access { allow: networks(values)?, ..open }),
        ("ip", [_, ..], true) => Ok(Access { deny: networks(values)?, ..open }),
        ("local", [], false) => {
            Ok(Access { allow: vec!["127.0.0.0/8".to_owned(), "::1".to_owned()], ..open })
        }
        ("valid-user", [], false) => Ok(Access { needs_password: true, ..open }),
        ("user" | "group", ..) => {
            Err("write valid-user, and these users alone in the file".to_owned())
        }
        _ => Err("of conditions on clients it knows all, ip, local and valid-user".to_owned()),
    }
}

/// Translates `Order`, `Allow` and `Deny`.
fn compat<'d>(directives: &[&'d Directive]) -> Result<Access, Refused<'d>> {
    let (mut allows_first, mut allowed, mut denied) = (false, Vec::new(), Vec::new());
    for d in directives {
        let name = d.name.to_ascii_lowercase();
        if name == "order" {
            let order: String = d.args.concat().to_ascii_lowercase();
            allows_first = match order.as_str() {
                "allow,deny" | "mutual-failure" => true,
                "deny,allow" => false,
                _ => return Err((d, "write allow,deny or deny,allow".to_owned())),
            };
            continue;
        }
        let [from, values @ ..] = d.args.as_slice() else {
            return Err((d, "it names no client".to_owned()));
        };
        if !from.eq_ignore_ascii_case("from") || values.is_empty() {
            return Err((d, "it names no client".to_owned()));
        }
        let list = if name == "allow" { &mut allowed } else { &mut denied };
        for value in values {
            match value.eq_ignore_ascii_case("all") {
                true => list.extend(["0.0.0.0/0".to_owned(), "::/0".to_owned()]),
                false => {
                    list.extend(
                        networks(std::slice::from_ref(value)).map_err(|needs| (*d, needs))?,
                    );
                }
            }
        }
    }
    let is_all = |list: &[String]| list.iter().any(|network| network == "0.0.0.0/0");
    let open = Access::default();
    let closed = Access { is_closed: true, ..Access::default() };
    // The last directive of `Order` has the last word, and those that neither names.
    let at = directives[0];
    match (allows_first, is_all(&allowed), is_all(&denied)) {
        (true, _, true) => Ok(closed),
        (true, true, false) => Ok(Access { deny: denied, ..open }),
        (true, false, false) if allowed.is_empty() => Ok(closed),
        (true, false, false) if denied.is_empty() => Ok(Access { allow: allowed, ..open }),
        (false, true, _) => Ok(open),
        (false, false, true) if allowed.is_empty() => Ok(closed),
        (false, false, true) => Ok(Access { allow: allowed, ..open }),
        (false, false, false) if allowed.is_empty() => Ok(Access { deny: denied, ..open }),
        (false, false, false) if denied.is_empty() => Ok(open),
        _ => Err((
            at,
            "write either Allow or Deny with addresses, and all for the others".to_owned(),
        )),
    }
}

/// Networks of addresses, of parts such as `10.1`, and of masks.
fn networks(values: &[String]) -> Result<Vec<String>, String> {
    values.iter().map(|value| network(value)).collect()
}

fn network(value: &str) -> Result<String, String> {
    let wrong = || format!("{value} is no address or network; names of hosts are not known");
    if value.parse::<IpAddr>().is_ok() {
        return Ok(value.to_owned());
    }
    if let Ok(net) = value.parse::<IpNet>() {
        return Ok(net.trunc().to_string());
    }
    if let Some((address, mask)) = value.split_once('/') {
        let net = address.parse().ok().zip(mask.parse().ok());
        let net = net.and_then(|(address, mask)| IpNet::with_netmask(address, mask).ok());
        return net.map(|net| net.trunc().to_string()).ok_or_else(wrong);
    }
    let parts: Vec<u8> = value
        .trim_end_matches('.')
        .split('.')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    if parts.len() > 3 {
        return Err(wrong());
    }
    let mut octets = [0; 4];
    octets[..parts.len()].copy_from_slice(&parts);
    let address = std::net::Ipv4Addr::from(octets);
    Ok(format!("{address}/{}", parts.len() * 8))
}
