//! Sites: their names, rules, header rules and error pages, and that no two claim the same. Mounts
//! are `check_mount`'s.

use std::collections::{BTreeMap, HashMap};

use http::StatusCode;

use super::auth::auth;
use super::bounds::{ERROR_STATUS_MIN, STATUS_MAX};
use super::check_mount::{access, mounts};
use super::check_tls::tls;
use super::defaults::{HEADER_PATTERN, REDIRECT_STATUS};
use super::field::{field_name, field_value};
use super::host::{HostEntry, host_entry};
use super::pattern::{filled, pattern, wildcards};
use super::problem::{Wrong, shown};
use super::reader::{Reader, Spot};
use super::table::Table;
use super::target::{authority, location, url_path};
use super::types::{Files, Glob, HeaderRule, HostName, Rule, RuleAction, Site};
use super::value::Value;

/// The sites of a file, or the one that `root` stands for.
pub(super) fn sites(top: &Table<'_>, reader: &mut Reader<'_>) -> Vec<Site> {
    let root = top.get("root");
    let written = top.get("site");
    let apps = top.get("apps").is_some();
    match (root, written) {
        (Some(root), None) => shorthand(top, &root, reader).into_iter().collect(),
        (None, Some(written)) => listed(&written, apps, reader),
        (Some(root), Some(written)) => {
            root.wrong(
                reader,
                Wrong::new("stands for a single site, but there is a [[site]]")
                    .hint("write files in a [[site.mount]] instead"),
            );
            listed(&written, apps, reader)
        }
        // What there is to serve may come later.
        (None, None) if apps => vec![Site { default: true, ..Site::new() }],
        (None, None) => {
            reader.report_missing(&top.spot, nothing_to_serve());
            Vec::new()
        }
    }
}

fn nothing_to_serve() -> Wrong {
    Wrong::new("there is nothing to serve")
        .hint("write root = \"public\", or a [[site]] with a [[site.mount]]")
}

fn shorthand(top: &Table<'_>, root: &Value<'_>, reader: &mut Reader<'_>) -> Option<Site> {
    let mut listing = false;
    top.set("listing", reader, Value::flag, &mut listing);
    let files = Files { listing, ..Files::new(root.directory(reader)?) };
    Some(Site::of_files(files))
}

/// Which site has a name, or answers for the rest, by its key.
#[derive(Default)]
struct Claims {
    names: HashMap<HostName, String>,
    default: Option<String>,
    /// Applications may come to any site.
    apps: bool,
}

fn listed(written: &Value<'_>, apps: bool, reader: &mut Reader<'_>) -> Vec<Site> {
    let tables = written.tables(reader);
    if written.is_empty_list() {
        reader.report_missing(&written.spot, nothing_to_serve());
    }
    let alone = tables.len() == 1;
    let mut claims = Claims { apps, ..Claims::default() };
    tables.iter().map(|table| site(table, alone, &mut claims, reader)).collect()
}

fn site(table: &Table<'_>, alone: bool, claims: &mut Claims, reader: &mut Reader<'_>) -> Site {
    let asked_before = reader.needs_privacy.len();
    let mut site = Site { access: access(table, reader), auth: auth(table, reader), ..Site::new() };
    table.check_companions(reader);
    names(table, alone, &mut site, claims, reader);
    table.set("early_hints", reader, Value::choice, &mut site.early_hints);
    if let Some(value) = table.get("rule") {
        site.rules = value.tables(reader).iter().filter_map(|t| rule(t, reader)).collect();
    }
    if let Some(value) = table.get("header") {
        site.headers = value.tables(reader).iter().filter_map(|t| header(t, reader)).collect();
    }
    table.set("errors", reader, error_pages, &mut site.error_pages);
    if let Some(value) = table.get("mount") {
        site.mounts = mounts(&value.tables(reader), site.auth.as_ref(), reader);
    }
    if let Some(table) = table.get("tls").and_then(|value| value.table(reader)) {
        site.tls = tls(&table, &site, reader);
    }
    if site.tls.as_ref().is_some_and(|tls| tls.redirect) {
        // In clear it asks for nothing.
        reader.needs_privacy.truncate(asked_before);
    }
    if table.get("mount").is_none() && table.get("rule").is_none() && !claims.apps {
        reader.report_missing(
            &table.spot,
            Wrong::new("the site has nothing to answer with")
                .hint("write a [[site.mount]] or a [[site.rule]] beneath it"),
        );
    }
    site
}

/// Reads `hosts` and `default`, and holds them against the other sites'.
fn names(
    table: &Table<'_>,
    alone: bool,
    site: &mut Site,
    claims: &mut Claims,
    reader: &mut Reader<'_>,
) {
    let written = table.get("default");
    let default = written.as_ref().and_then(|value| value.flag(reader));
    let hosts = table.get("hosts");
    let mut any = None;
    for item in hosts.iter().flat_map(|value| value.items(reader)).collect::<Vec<_>>() {
        match item.parse(reader, host_entry) {
            Some(HostEntry::Any) => any = Some(item.spot),
            Some(HostEntry::Name(name)) => match claims.names.get(&name) {
                Some(owner) => {
                    let wrong = Wrong::new(format!("the name is already taken by {owner}"));
                    item.wrong(reader, wrong.hint("remove one of the two"));
                }
                None => {
                    claims.names.insert(name.clone(), table.spot.key.clone());
                    site.hosts.push(name);
                }
            },
            None => {}
        }
    }
    let nameless = hosts.as_ref().is_none_or(Value::is_empty_list);
    site.default = match default {
        Some(default) => default || any.is_some(),
        None => any.is_some() || (alone && nameless),
    };
    let spot = any.clone().or(written.map(|value| value.spot)).unwrap_or(table.spot.clone());
    if default == Some(false) && any.is_some() {
        let wrong = Wrong::new("\"*\" makes this the default site, default = false does not");
        reader.report(&spot, wrong.hint("remove one of the two"));
    } else if nameless && !site.default {
        let wrong = Wrong::new("no host name leads to this site");
        reader.report_missing(
            &spot,
            wrong.hint("write hosts = [\"example.org\"], or default = true for all other names"),
        );
    }
    if site.default {
        claim_default(&spot, &table.spot.key, claims, reader);
    }
}

fn claim_default(spot: &Spot, site: &str, claims: &mut Claims, reader: &mut Reader<'_>) {
    match &claims.default {
        Some(owner) => {
            let wrong = Wrong::new(format!("{owner} is already the default site"));
            reader.report(spot, wrong.hint("there can be one: give this one hosts only"));
        }
        None => claims.default = Some(site.to_owned()),
    }
}

fn rule(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Rule> {
    table.check_companions(reader);
    let matched = table.get("match");
    if matched.is_none() {
        let wrong = Wrong::new("match is missing").hint("write for example match = \"/old/*\"");
        reader.report_missing(&table.spot, wrong);
    }
    let glob = matched.and_then(|value| value.parse(reader, pattern));
    // Without a good pattern its wildcards are not known: take what is written for granted.
    let count = glob.as_ref().map_or(usize::MAX, |glob| wildcards(&glob.0));
    let mut status = REDIRECT_STATUS;
    table.set("status", reader, redirect_status, &mut status);

    let action = match (table.get("redirect"), table.get("rewrite")) {
        (Some(to), None) => to
            .parse(reader, |text| rule_location(text, count))
            .map(|to| RuleAction::Redirect(status, to)),
        (None, Some(to)) => to
            .parse(reader, |text| url_path(&filled(text, count)?).map(|_| text.to_owned()))
            .map(RuleAction::Rewrite),
        (Some(_), Some(second)) => {
            let wrong = Wrong::new("a rule redirects or rewrites, not both");
            second.wrong(reader, wrong.hint("remove one, or write two rules"));
            None
        }
        (None, None) => {
            let wrong = Wrong::new("the rule does nothing");
            reader.report_missing(&table.spot, wrong.hint("write redirect = or rewrite ="));
            None
        }
    };
    Some(Rule { pattern: glob?, action: action? })
}

/// A Location with placeholders, none of them in the host: what a client asks for may choose the
/// path it is sent to, never the site.
fn rule_location(text: &str, wildcards: usize) -> Result<String, Wrong> {
    location(&filled(text, wildcards)?)?;
    if authority(text).is_some_and(|authority| authority.contains('{')) {
        return Err(Wrong::new(format!("{} lets the request choose the host", shown(text)))
            .hint("write a / before the {"));
    }
    Ok(text.to_owned())
}

/// A status that goes with a Location (RFC 9110, section 15.4).
pub(super) fn redirect_status(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<StatusCode> {
    let status: u16 = value.integer(reader)?;
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let wrong = Wrong::new(format!("{status} is not a redirect"));
        value.wrong(reader, wrong.hint("write 301, 302, 303, 307 or 308"));
        return None;
    }
    StatusCode::from_u16(status).ok()
}

fn header(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<HeaderRule> {
    let mut glob = Some(Glob(HEADER_PATTERN.to_owned()));
    table.set("match", reader, |value, r| Some(value.parse(r, pattern)), &mut glob);
    let mut rule = HeaderRule { pattern: glob?, set: Vec::new(), remove: Vec::new() };
    if let Some(value) = table.get("set") {
        for (name, spot, value) in value.pairs(reader) {
            let name = field_name(name).map_err(|wrong| reader.report(&spot, wrong)).ok();
            let Some((name, value)) = name.zip(value.parse(reader, field_value)) else { continue };
            if rule.set.iter().any(|(other, _)| *other == name) {
                let wrong = Wrong::new(format!("{name} is set twice"));
                reader.report(&spot, wrong.hint("case does not count in names: remove one"));
            }
            rule.set.push((name, value));
        }
    }
    if let Some(value) = table.get("remove") {
        rule.remove = value.list(reader, |item, reader| item.parse(reader, field_name));
    }
    if table.get("set").is_none() && table.get("remove").is_none() {
        let wrong = Wrong::new("the rule does nothing").hint("write set = or remove =");
        reader.report_missing(&table.spot, wrong);
    }
    Some(rule)
}

fn error_pages(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<BTreeMap<StatusCode, String>> {
    let mut pages = BTreeMap::new();
    for (name, spot, value) in value.pairs(reader) {
        let path = value.parse(reader, url_path);
        let status = name.parse::<u16>().ok().filter(|status| {
            // "+404" and "0404" would be second names of one status.
            *name == status.to_string()
                && (ERROR_STATUS_MIN..=STATUS_MAX).contains(&u64::from(*status))
        });
        match status.and_then(|status| StatusCode::from_u16(status).ok()) {
            Some(status) => pages.extend(path.map(|path| (status, path))),
            None => reader.report(
                &spot,
                Wrong::new("not an error status")
                    .hint(format!("write one from {ERROR_STATUS_MIN} to {STATUS_MAX}")),
            ),
        }
    }
    Some(pages)
}
