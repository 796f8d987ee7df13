//! Reads sites: their names, rules, header rules and error pages, and that no two sites claim the
//! same name. `check_mount` reads mounts.

use std::collections::HashMap;

use http::StatusCode;

use super::auth::auth;
use super::check_matcher::{matcher, path_matcher};
use super::check_mount::{access, mounts};
use super::check_tls::{check_mounts, tls};
use super::compress::type_pattern;
use super::cors::cors;
use super::defaults::REDIRECT_STATUS;
use super::error::{ValueError, shown};
use super::error_page::error_pages;
use super::field::{field_name, field_value};
use super::files::Files;
use super::host::{HostEntry, host_entry};
use super::matcher::Matcher;
use super::matcher::QUERY;
use super::pattern::fill_placeholders;
use super::rate_limit::site_limits;
use super::reader::{KeyPosition, Reader};
use super::request_place;
use super::request_policy::request_policy;
use super::site_listen::site_listen;
use super::table::Table;
use super::target::{authority, location, url_path};
use super::types::{HeaderRule, HostName, Listen, Rule, RuleAction, Site};
use super::value::Value;

/// Reads the sites of a file, or the single site of the shorthand `root`.
pub(super) fn sites(top: &Table<'_>, reader: &mut Reader<'_>) -> Vec<Site> {
    let root = top.get("root");
    let written = top.get("site");
    let apps = top.get("apps").is_some();
    if let (None, Some(defaults), Some(_)) = (&written, top.get("defaults"), top.get("include")) {
        let wrong = ValueError::new("there is no [[site]] that takes them");
        defaults.report(reader, wrong.hint("write a [[site]] in place of root or apps alone"));
    }
    match (root, written) {
        (Some(root), None) => shorthand(top, &root, reader).into_iter().collect(),
        (None, Some(written)) => read_sites(&written, apps, reader),
        (Some(root), Some(written)) => {
            root.report(
                reader,
                ValueError::new("stands for a single site, but there is a [[site]]")
                    .hint("write files in a [[site.mount]] instead"),
            );
            read_sites(&written, apps, reader)
        }
        // Applications may be deployed later.
        (None, None) if apps => vec![Site { default: true, ..Site::new() }],
        (None, None) => {
            reader.report_missing(&top.spot, nothing_to_serve());
            Vec::new()
        }
    }
}

fn nothing_to_serve() -> ValueError {
    ValueError::new("there is nothing to serve")
        .hint("write root = \"public\", or a [[site]] with a [[site.mount]]")
}

fn shorthand(top: &Table<'_>, root: &Value<'_>, reader: &mut Reader<'_>) -> Option<Site> {
    let mut listing = false;
    top.set("listing", reader, Value::flag, &mut listing);
    let files = Files { listing, ..Files::new(root.directory(reader)?) };
    Some(Site::of_files(files))
}

/// The listeners of a site that owns a name, and its position.
type Claim = (Vec<Listen>, KeyPosition);

/// The sites that own a name or are the default.
#[derive(Default)]
struct Claims {
    names: HashMap<HostName, Vec<Claim>>,
    defaults: Vec<Claim>,
    /// Applications may be mounted in any site.
    apps: bool,
}

fn read_sites(written: &Value<'_>, apps: bool, reader: &mut Reader<'_>) -> Vec<Site> {
    let tables = written.tables(reader);
    if written.is_empty_list() {
        reader.report_missing(&written.spot, nothing_to_serve());
    }
    let everywhere = tables.iter().filter(|table| table.get("listen").is_none()).count();
    let mut claims = Claims { apps, ..Claims::default() };
    let site = |table: &Table<'_>| {
        // The only one for its listeners, or for all others.
        let alone = everywhere == 1 || table.get("listen").is_some();
        site(table, alone, &mut claims, reader)
    };
    tables.iter().map(site).collect()
}

fn site(table: &Table<'_>, alone: bool, claims: &mut Claims, reader: &mut Reader<'_>) -> Site {
    let asked_before = reader.needs_privacy.len();
    let pages_before = reader.status_pages.len();
    let (access, auth) = (access(table, reader), auth(table, reader));
    let mut site = Site { access, auth, limits: site_limits(table, reader), ..Site::new() };
    site.listen = site_listen(table, reader);
    site.policy = request_policy(table, reader);
    table.check_companions(reader);
    names(table, alone, &mut site, claims, reader);
    site.cors = cors(table, reader);
    table.set("security_headers", reader, Value::flag, &mut site.security_headers);
    table.set("early_hints", reader, Value::choice, &mut site.early_hints);
    table.set("compress", reader, |v, r| v.flag(r).map(Some), &mut site.compress);
    if let Some(value) = table.get("rule") {
        site.rules = value.tables(reader).iter().filter_map(|t| rule(t, reader)).collect();
    }
    if let Some(value) = table.get("header") {
        site.headers = headers(&value, reader);
    }
    table.set("errors", reader, error_pages, &mut site.error_pages);
    table.set("maintenance", reader, |v, r| v.path(r).map(Some), &mut site.maintenance);
    let mount_tables = table.get("mount").map(|value| value.tables(reader)).unwrap_or_default();
    let errors = table.get("errors");
    site.mounts = mounts(&mount_tables, site.auth.as_ref(), errors, &site.error_pages, reader);
    let written_tls = table.get("tls").and_then(|value| value.table(reader));
    if let Some(table) = &written_tls {
        site.tls = tls(table, &site, reader);
    }
    check_mounts(&mount_tables, written_tls.as_ref(), site.tls.as_ref(), reader);
    if site.has_known_clients() {
        reader.status_pages.truncate(pages_before);
    }
    if site.tls.as_ref().is_some_and(|tls| tls.redirect) {
        // The site only redirects requests in clear, so it requires no password of them.
        reader.needs_privacy.truncate(asked_before);
    }
    let exposed = reader.needs_privacy.iter_mut().skip(asked_before);
    for (_, listen) in exposed.chain(reader.status_pages.iter_mut().skip(pages_before)) {
        listen.clone_from(&site.listen);
    }
    if table.get("mount").is_none() && table.get("rule").is_none() && !claims.apps {
        reader.report_missing(
            &table.spot,
            ValueError::new("the site has no mount and no rule")
                .hint("write a [[site.mount]] or a [[site.rule]] beneath it"),
        );
    }
    site
}

/// Reads `hosts` and `default`, and compares them with the other sites'.
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
            Some(HostEntry::Name(name)) => match site.owner(claims.names.get(&name)) {
                Some(owner) => {
                    let owner = reader.named(owner, &item.spot);
                    let wrong = ValueError::new(format!("the name is already taken by {owner}"));
                    item.report(reader, wrong.hint("remove one of the two"));
                }
                None => {
                    let claim = (site.listen.clone(), table.spot.clone());
                    claims.names.entry(name.clone()).or_default().push(claim);
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
        let wrong = ValueError::new("\"*\" makes this the default site, but default is false");
        reader.report(&spot, wrong.hint("remove one of the two"));
    } else if nameless && !site.default {
        let wrong = ValueError::new("no host name leads to this site");
        reader.report_missing(
            &spot,
            wrong.hint("write hosts = [\"example.org\"], or default = true for all other names"),
        );
    }
    if site.default {
        claim_default(&spot, site, &table.spot, claims, reader);
    }
}

impl Site {
    /// Returns the position of a site that claims the same on a listener of this one.
    fn owner<'c>(&self, claims: Option<&'c Vec<Claim>>) -> Option<&'c KeyPosition> {
        let mut claims = claims.into_iter().flatten();
        claims.find(|(listen, _)| self.has_listener_of(listen)).map(|(_, owner)| owner)
    }
}

fn claim_default(
    spot: &KeyPosition,
    site: &Site,
    own: &KeyPosition,
    claims: &mut Claims,
    reader: &mut Reader<'_>,
) {
    match site.owner(Some(&claims.defaults)) {
        Some(owner) => {
            let owner = reader.named(owner, spot);
            let wrong = ValueError::new(format!("{owner} is already the default site"));
            reader.report(spot, wrong.hint("only one is allowed: give this one hosts only"));
        }
        None => claims.defaults.push((site.listen.clone(), own.clone())),
    }
}

fn rule(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Rule> {
    table.check_companions(reader);
    let matched = table.get("match");
    if matched.is_none() {
        let wrong =
            ValueError::new("match is missing").hint("write for example match = \"/old/*\"");
        reader.report_missing(&table.spot, wrong);
    }
    let matcher = matched.and_then(|value| matcher(&value, reader));
    // The wildcards of a wrong pattern are unknown: accept any placeholder.
    let (count, names) = matcher.as_ref().map_or((usize::MAX, Vec::new()), Matcher::captured);
    let mut status = REDIRECT_STATUS;
    table.set("status", reader, redirect_status, &mut status);

    let action = match (table.get("redirect"), table.get("rewrite")) {
        (Some(to), None) => to
            .parse(reader, |text| rule_location(text, count, &names))
            .map(|to| RuleAction::Redirect(status, to)),
        (None, Some(to)) => to.parse(reader, |text| rewrite(text, count, &names)),
        (Some(_), Some(second)) => {
            let wrong = ValueError::new("a rule redirects or rewrites, not both");
            second.report(reader, wrong.hint("remove one, or write two rules"));
            None
        }
        (None, None) => {
            let wrong = ValueError::new("the rule does nothing");
            reader.report_missing(&table.spot, wrong.hint("write redirect = or rewrite ="));
            None
        }
    };
    Some(Rule { matcher: matcher?, action: action? })
}

/// Parses a path, and a query if there is a `?`, with placeholders.
fn rewrite(text: &str, wildcards: usize, names: &[String]) -> Result<RuleAction, ValueError> {
    let (path, query) = text.split_once('?').map_or((text, None), |(p, q)| (p, Some(q)));
    url_path(&fill_placeholders(path, wildcards, names)?)?;
    if let Some(query) = query {
        check_query(text, query, wildcards, names)?;
    }
    Ok(RuleAction::Rewrite(path.to_owned(), query.map(str::to_owned)))
}

/// Checks a query, in which `{query}` stands for that of the request.
fn check_query(
    text: &str,
    query: &str,
    wildcards: usize,
    names: &[String],
) -> Result<(), ValueError> {
    let names = [names, &[QUERY.to_owned()]].concat();
    let filled = fill_placeholders(query, wildcards, &names)?;
    match filled.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '#' | '"' | '<' | '>')) {
        None => Ok(()),
        Some(wrong) => {
            Err(ValueError::new(format!("the query of {} holds {wrong:?}", shown(text)))
                .hint("encode it, such as %20 for a space"))
        }
    }
}

/// Parses a Location with placeholders. In the host only that of the request may be, so that its
/// path cannot choose the site to which it is redirected.
pub(super) fn rule_location(
    text: &str,
    wildcards: usize,
    names: &[String],
) -> Result<String, ValueError> {
    let (target, fragment) = text.split_at(text.find('#').unwrap_or(text.len()));
    let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
    let is_used = |name: &&String| text.contains(&format!("{{{name}}}"));
    let mut used = names.iter().filter(is_used);
    if let Some(name) = used.find(|name| request_place::is_part(name)) {
        let wrong = format!("{name:?} is both a group and a part of the request");
        return Err(ValueError::new(wrong).hint("give the group another name"));
    }
    let known = request_place::example(&format!("{path}{fragment}"));
    let filled = fill_placeholders(&known, wildcards, names)?;
    location(&filled)?;
    if let Some(query) = query {
        check_query(text, &request_place::example(query), wildcards, names)?;
    }
    if authority(&known).is_some_and(|authority| authority.contains('{')) {
        return Err(ValueError::new(format!("{} lets the request choose the host", shown(text)))
            .hint("write a / before the {"));
    }
    Ok(text.to_owned())
}

/// Reads a redirect status (RFC 9110 section 15.4).
pub(super) fn redirect_status(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<StatusCode> {
    let status: u16 = value.integer(reader)?;
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        let wrong = ValueError::new(format!("{status} is not a redirect"));
        value.report(reader, wrong.hint("write 301, 302, 303, 307 or 308"));
        return None;
    }
    StatusCode::from_u16(status).ok()
}

/// Reads the header rules of a site or mount.
pub(super) fn headers(value: &Value<'_>, reader: &mut Reader<'_>) -> Vec<HeaderRule> {
    value.tables(reader).iter().filter_map(|table| header(table, reader)).collect()
}

fn header(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<HeaderRule> {
    let matcher = match table.get("match") {
        Some(value) => path_matcher(&value, reader)?,
        None => HeaderRule::default().matcher,
    };
    let mut rule = HeaderRule { matcher, ..HeaderRule::read(table, reader) };
    if let Some(value) = table.get("set") {
        for (name, spot, value) in value.pairs(reader) {
            let name = field_name(name).map_err(|wrong| reader.report(&spot, wrong)).ok();
            let Some((name, value)) = name.zip(value.parse(reader, field_value)) else { continue };
            if rule.set.iter().any(|(other, _)| *other == name) {
                let wrong = ValueError::new(format!("{name} is set twice"));
                reader.report(&spot, wrong.hint("names are case-insensitive: remove one"));
            }
            rule.set.push((name, value));
        }
    }
    if let Some(value) = table.get("types") {
        rule.types = value.list(reader, |item, reader| item.parse(reader, type_pattern));
        if rule.types.is_empty() {
            let wrong = ValueError::new("the rule is for no response");
            value.report(reader, wrong.hint("name a type, or remove the key"));
        }
    }
    if ["set", "remove", "cookie_flags"].iter().all(|name| table.get(name).is_none()) {
        let wrong = ValueError::new("the rule does nothing")
            .hint("write set =, remove = or cookie_flags =");
        reader.report_missing(&table.spot, wrong);
    }
    Some(rule)
}
