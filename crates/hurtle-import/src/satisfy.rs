//! `satisfy any`: a client with an admitted address needs no password, and all others need it.
//!
//! `guard` notes the admitted addresses with a mount. Here the mount becomes two: a copy without
//! the password for these addresses, and the mount itself for all others.

use std::mem;

use toml::{Table, Value};

use super::map_value::beneath;
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::report::Report;
use super::syntax::Directive;

/// The key of a mount, until it becomes two, that has the conditions of admitted addresses.
pub(super) const KEY: &str = "satisfy any";

/// Keys of a mount that ask for a password, or a server that decides.
const OTHERS: [&str; 7] =
    ["auth", "users", "realm", "auth_cleartext", "forward", "copy_headers", "forward_tls"];

/// Adds the conditions of addresses that `allow` admits; `None` if they were refused.
pub(super) fn put_admitted(
    at: &Directive,
    list: &[(bool, String)],
    keys: &mut Keys,
    report: &mut Report,
) -> Option<()> {
    let Some(last) = list.iter().rposition(|(admits, _)| *admits) else { return Some(()) };
    // nginx applies the first that matches: those behind the last `allow` admit nobody.
    let list = &list[..=last];
    let denied = list.iter().take_while(|(admits, _)| !admits).count();
    if !list[denied..].iter().all(|(admits, _)| *admits) {
        report.refuse(at, "with `satisfy any`, write each deny before or behind all allow");
        return None;
    }
    let networks = |list: &[(bool, String)]| -> Vec<Value> {
        let each = list.iter().flat_map(|(_, network)| match network.as_str() {
            "all" => vec!["0.0.0.0/0", "::/0"],
            one => vec![one],
        });
        each.map(Value::from).collect()
    };
    let client = |list| Table::from_iter([("client".to_owned(), Value::from(networks(list)))]);
    let mut admitted = client(&list[denied..]);
    if denied > 0 {
        admitted.insert("not".to_owned(), Value::from(client(&list[..denied])));
    }
    put(keys, KEY, admitted);
    Some(())
}

impl Mounts<'_, '_> {
    /// Makes a mount for the admitted addresses of each mount that notes some.
    pub(super) fn satisfy_any(&mut self, server: &Directive, report: &mut Report) {
        let at = first_of(server).unwrap_or(server);
        let mounts = mem::take(&mut self.site.mounts);
        let prefixes: Vec<String> = mounts
            .iter()
            .filter(|mount| mount.is_prefix())
            .map(|mount| mount.path.clone())
            .collect();
        let mut behind = Vec::new();
        for mut mount in mounts {
            let note = mount.keys.extract_if(.., |(key, _)| key == KEY).next();
            let Some((_, Value::Table(admitted))) = note else {
                self.site.mounts.push(mount);
                continue;
            };
            if let Some(why) = self.unfit(&mount) {
                report.refuse(at, format!("it becomes a condition: {why}"));
            } else if mount.key("copy_headers").is_some() {
                let why = "an admitted address has none of the fields of auth_request_set, which a client \
                           could then write itself; have the application know these addresses";
                report.refuse(at, why);
            } else {
                match admitting(&mount, &admitted, &prefixes) {
                    Ok(copy) if mount.place.iter().any(|(key, _)| key == "match") => {
                        self.site.mounts.push(copy);
                    }
                    Ok(copy) => behind.push(copy),
                    Err(why) => report.refuse(at, why),
                }
            }
            self.site.mounts.push(mount);
        }
        self.site.mounts.extend(behind);
    }
}

/// The mount for admitted addresses, without the paths of other mounts beneath it.
fn admitting(mount: &Mount, admitted: &Table, prefixes: &[String]) -> Result<Mount, String> {
    const NOT_JOINED: &str = "a condition of the location is one of addresses, too";
    let mut copy = mount.clone().meeting(admitted).ok_or(NOT_JOINED)?;
    copy.keys.retain(|(key, _)| !OTHERS.contains(&key.as_str()));
    if copy.key("uploads").is_some() {
        put(&mut copy.keys, "auth", "none");
    }
    if mount.is_prefix() {
        copy.without(&beneath(&mount.path, prefixes))
            .map_err(|path| format!("in nginx it does not apply to the location {path}"))?;
    }
    Ok(copy)
}

/// The first `satisfy` of a block or of a block in it.
fn first_of(d: &Directive) -> Option<&Directive> {
    let is_it = |d: &&Directive| d.name == "satisfy" && d.args == ["any"];
    let children = d.children();
    children.iter().find(is_it).or_else(|| children.iter().find_map(first_of))
}
