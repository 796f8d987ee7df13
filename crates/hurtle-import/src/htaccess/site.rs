//! The site of a .htaccess file: its directives by module, and the mounts that they make.

use toml::Value;

use super::access::{self, Passwords, Rules};
use super::expires::{self, Served};
use super::parts::{Parts, mount, named, refusal};
use super::section_guards::{self, SectionGuard};
use super::sections::{self, Section};
use super::tree::Tree;
use super::{Options, alias, headers, indexes, methods, rewrite, serving};
use crate::mount::{Keys, Mount, ServerConfig, Site, put};
use crate::report::Report;
use crate::syntax::Directive;
use hurtle_config::HostName;

/// Most other files that are named.
const NESTED_MAX: usize = 20;

/// Translates the directives of a file.
pub(super) fn translate(
    directives: &[Directive],
    options: &Options,
    tree: &Tree,
    report: &mut Report,
) -> ServerConfig {
    let sections = sections::of(directives, report);
    let mut parts = Parts::default();
    settings(&sections, &mut parts, report);
    parts.settings.has_php |= options.fastcgi.is_some();
    let [top, others @ ..] = sections.as_slice() else { return ServerConfig::default() };
    let rules = Rules::of(top, top, report);
    let inner: Vec<Rules<'_>> = others
        .iter()
        .map(|section| Rules::of(section, &sections[section.within], report))
        .collect();
    methods::check(&sections, report);
    let closed = |(section, own): (&Section<'_>, &Rules<'_>)| {
        let is_closed =
            !own.is_empty() && own.within(&rules).access().is_ok_and(|access| access.is_closed);
        section.files.as_ref().filter(|_| is_closed).map(|files| files.closing.clone())
    };
    parts.closed.extend(others.iter().zip(&inner).filter_map(closed));
    let alias_refusals = std::mem::take(&mut parts.refusals);
    rewrite::translate(&top.own, options, tree, &mut parts, report);
    parts.refusals.extend(alias_refusals);
    serving::scripts_in(tree, &mut parts, report);
    serving::other_scripts(tree, &mut parts, report);
    let links = top.own.iter().rfind(|d| d.name.eq_ignore_ascii_case("options"));
    if let Some(d) = links.filter(|_| parts.settings.has_no_links && !parts.rules.is_empty()) {
        report.refuse(d, "Apache answers 403: mod_rewrite needs FollowSymLinks");
    }
    indexes::check(&mut parts, report);
    check_rewrites(top, others.iter().zip(&inner), &rules, &parts, report);
    response_fields(&sections, &mut parts, report);
    let own: Vec<_> = others.iter().zip(&inner).filter(|(_, own)| !own.is_empty()).collect();
    let mut mounts = guarded(&sections, &own, &rules, &parts, options, tree, report);
    let passwords = Passwords::of(&sections, 0);
    let access = match rules.access() {
        Ok(access) => access,
        Err(needs) => {
            if let Some(d) = top
                .own
                .iter()
                .find(|d| access::NAMES.contains(&d.name.to_ascii_lowercase().as_str()))
            {
                report.refuse(d, needs);
            }
            return ServerConfig::default();
        }
    };
    let mut root = Vec::new();
    if access.is_closed {
        root.push(refusal(Keys::new(), 403));
    } else {
        let mut guard = Keys::new();
        if let Err(needs) = rules.put(&passwords, &mut guard, report) {
            let d = top.own.iter().find(|d| d.name.to_ascii_lowercase().contains("require"));
            d.iter().for_each(|d| report.refuse(d, needs.clone()));
        }
        for except in parts.front.iter().flat_map(|front| &front.except) {
            let place = vec![("match".to_owned(), super::file_set::regex(except.clone()))];
            let keys = serving::keys(&parts, options, tree, false, report);
            root.push(mount(place, [keys, guard.clone()].concat()));
        }
        let keys = serving::keys(&parts, options, tree, true, report);
        root.push(mount(Keys::new(), [keys, guard].concat()));
    }
    let is_guarded = !access.is_open() || !mounts.is_empty() || !parts.refusals.is_empty();
    if is_guarded && !(parts.rules.is_empty() && parts.redirects.is_empty()) {
        report.general(
            "Redirects precede passwords and refusals: a path that is redirected and refused is redirected.".to_owned(),
        );
    }
    mounts.splice(0..0, parts.refusals.drain(..));
    mounts.extend(root);
    error_pages(&mut parts, tree, report);
    mounts.append(&mut parts.named);
    nested(tree, report);
    finish(parts, mounts, options, report)
}

/// Reads directives of files, types, scripts, redirects and error pages.
fn settings<'d>(sections: &[Section<'d>], parts: &mut Parts<'d>, report: &mut Report) {
    for (at, section) in sections.iter().enumerate() {
        for d in &section.own {
            let name = d.name.to_ascii_lowercase();
            let is_access = access::NAMES.contains(&name.as_str());
            let is_field = name == "header" || expires::NAMES.contains(&name.as_str());
            let found = match at {
                _ if is_access => continue,
                0 if name.starts_with("rewrite") || is_field => continue,
                0 if name == "requestheader" && d.arg(0) == "unset" && d.arg(1).eq_ignore_ascii_case("proxy") => {
                    report.leave_out(d);
                    Ok(())
                }
                0 if name == "fallbackresource" => serving::fallback(d, parts),
                0 => parts.settings.read(d, report).or_else(|| alias::translate(d, parts)).unwrap_or_else(|| {
                    let needs = match name.as_str() {
                        "requestheader" => "a field of requests is `request_fields` of a mount",
                        _ => "it has no counterpart here",
                    };
                    Err(needs.to_owned())
                }),
                _ if section.methods.is_none() && is_field => continue,
                _ => parts.settings.read_of(section, d).unwrap_or_else(|| {
                    Err("for some files or methods it knows access; for files also Header and ExpiresDefault".to_owned())
                }),
            };
            if let Err(needs) = found {
                report.refuse(d, needs);
            }
        }
    }
}

/// Refuses rewrites where the path before them is guarded otherwise than the one behind.
fn check_rewrites<'s, 'd: 's>(
    top: &Section<'d>,
    mut others: impl Iterator<Item = (&'s Section<'d>, &'s Rules<'d>)>,
    rules: &Rules<'d>,
    parts: &Parts<'_>,
    report: &mut Report,
) {
    let has_rewrites =
        parts.rules.iter().any(|keys| keys.iter().any(|(name, _)| name == "rewrite"));
    let is_other = |(section, own): (&Section<'_>, &Rules<'_>)| {
        let access = own.within(rules).access().unwrap_or_default();
        let is_simple = access.is_closed || access.is_open();
        !own.is_empty() && (section.methods.is_some() || !is_simple)
    };
    let has_exceptions = others.any(is_other);
    if has_rewrites
        && has_exceptions
        && let Some(d) = top.own.iter().find(|d| d.name.eq_ignore_ascii_case("rewriterule"))
    {
        report.refuse(d, "Apache asks who may have the path before it is rewritten, and here it is the path behind");
    }
}

/// Translates `Header` and mod_expires.
fn response_fields(sections: &[Section<'_>], parts: &mut Parts<'_>, report: &mut Report) {
    let index = serving::index(parts);
    let front = parts.front.as_ref().map(|front| front.path.clone());
    let served = Served {
        index: &index,
        types: &parts.settings.types,
        front: front.as_deref(),
        has_php: parts.settings.has_php,
    };
    let mut all = expires::translate(sections, served, report);
    let has_expires = !all.is_empty();
    let (mut own, mut values) = (Vec::new(), headers::Values::default());
    for section in sections.iter().filter(|section| section.methods.is_none()) {
        for d in section.own.iter().filter(|d| d.name.eq_ignore_ascii_case("header")) {
            if let Err(needs) = values.add(d, section) {
                report.refuse(d, needs);
                continue;
            }
            match headers::header(d, section, &index, has_expires, report) {
                Ok(rule) => own.extend(rule),
                Err(needs) => report.refuse(d, needs),
            }
            let front = front.as_ref().and_then(|path| path.rsplit('/').next());
            if let (Some(files), Some(name)) = (&section.files, front)
                && files.has(name)
            {
                report.remark(
                    d,
                    &format!("a path that {name} answers, such as GET /x, does not have it"),
                );
            }
        }
    }
    all.extend(headers::joined(own));
    if parts.settings.has_php {
        for (ext, media) in &parts.settings.types {
            let mut keys = Keys::new();
            put(&mut keys, "match", format!("*.{ext}"));
            put(
                &mut keys,
                "set",
                toml::Table::from_iter([("Content-Type".to_owned(), Value::from(media.as_str()))]),
            );
            all.push(keys);
        }
    }
    parts.headers = all;
}

/// The mounts of sections with access of their own, in the order in which requests meet them.
fn guarded<'d>(
    all: &[Section<'d>],
    sections: &[(&Section<'d>, &Rules<'d>)],
    rules: &Rules<'d>,
    parts: &Parts<'_>,
    options: &Options,
    tree: &Tree,
    report: &mut Report,
) -> Vec<Mount> {
    let mut guards = Vec::new();
    for (section, own) in sections.iter().copied() {
        let both = own.within(rules);
        let Some(at) = section.at else { continue };
        let mut matched = toml::Table::new();
        let access = match both.access() {
            Ok(access) => access,
            Err(needs) => {
                report.refuse(at, needs);
                continue;
            }
        };
        if let Some(needs) = methods::fault((section, own), sections, rules, parts.front.as_ref()) {
            report.refuse(at, needs);
            continue;
        }
        if let Some(files) = &section.files {
            let mut text = files.closing.clone();
            let has_index = serving::index(parts).iter().any(|name| files.has(name));
            // Apache asks the rules around it for the directory first, then these for its index.
            let is_open_around = rules.access().is_ok_and(|around| around.is_open());
            if has_index && (access.is_closed || is_open_around) {
                text.push_str("|/$");
            } else if has_index && !access.is_open() {
                report.refuse(
                    at,
                    "it is for the page of a directory, too, for which other rules hold before",
                );
                continue;
            }
            matched.insert("regex".to_owned(), Value::from(text));
            let front = parts
                .front
                .as_ref()
                .filter(|front| files.has(front.path.rsplit('/').next().unwrap_or_default()));
            if !parts.suffixes.is_empty() && !files.closing.starts_with(r"/\.") {
                report.refuse(
                    at,
                    "files are found without their ending, and it may be for one of them",
                );
                continue;
            }
            if front.is_some() {
                report.refuse(at, "it is for the page or script that answers missing files, too");
                continue;
            }
        }
        // The path of a script may end with the name of a file, and is none of the section.
        let is_wider = parts.settings.has_php
            && section.files.is_some()
            && !access.is_closed
            && !rules.access().is_ok_and(|around| around.is_open());
        let beneath_scripts = section.files.as_ref().filter(|_| is_wider).map(|files| {
            let own = &files.closing;
            super::file_set::regex(format!(
                r"(?i)(?:\.php(?:/.*)?(?:{own})|(?:{own}).*\.php(?:/|$))"
            ))
        });
        let mut negated = None;
        if let Some(limited) = &section.methods {
            let names = Value::from(limited.names.clone());
            match limited.is_except {
                true => negated = Some(toml::Table::from_iter([("method".to_owned(), names)])),
                false => drop(matched.insert("method".to_owned(), names)),
            }
        }
        let mut not: Vec<Value> = negated.map(Value::Table).into_iter().collect();
        not.extend(beneath_scripts);
        let not = if not.len() > 1 { Some(Value::Array(not)) } else { not.pop() };
        matched.extend(not.map(|not| ("not".to_owned(), not)));
        let place = vec![("match".to_owned(), Value::Table(matched))];
        let made = if access.is_closed {
            refusal(place, 403)
        } else {
            let mut keys = serving::keys(parts, options, tree, !is_wider, report);
            let passwords = Passwords::of(all, section.home);
            if let Err(needs) = both.put(&passwords, &mut keys, report) {
                report.refuse(at, needs);
            }
            mount(place, keys)
        };
        guards.push(SectionGuard { at, section, own, mount: made });
    }
    if guards.iter().any(|guard| guard.section.methods.is_none()) {
        report.general(
            "A section of files is for what is beneath a directory of such a name, too: GET /a.log/x.".to_owned(),
        );
    }
    section_guards::in_order(guards, report)
}

/// Has mounts of files send pages for errors where scripts are served, and names their difference.
fn error_pages(parts: &mut Parts<'_>, tree: &Tree, report: &mut Report) {
    let is_path = |page: &Value| page.as_str().is_some_and(|page| page.starts_with('/'));
    let is_of_success = |keys: &Keys| !keys.iter().any(|(name, _)| name == "always");
    if parts.errors.values().any(is_path) && parts.headers.iter().any(is_of_success) {
        report.general(
            "Pages of ErrorDocument have the fields of `Header always` alone, and in Apache those of `Header`: GET /none."
                .to_owned(),
        );
    }
    if !parts.settings.has_php {
        return;
    }
    for (status, page) in &mut parts.errors {
        let Some(path) = page.as_str().filter(|path| path.starts_with('/')) else { continue };
        let mut keys = Keys::new();
        put(&mut keys, "name", format!("error{status}"));
        put(&mut keys, "files", tree.root.as_str());
        put(&mut keys, "try_files", vec![path.to_owned()]);
        parts.named.push(named(keys));
        let mut to = toml::Table::new();
        to.insert("to".to_owned(), Value::from(format!("@error{status}")));
        to.insert("status".to_owned(), Value::from(i64::from(*status)));
        *page = Value::Table(to);
    }
}

/// Names the other files that Apache reads.
fn nested(tree: &Tree, report: &mut Report) {
    for file in tree.nested.iter().take(NESTED_MAX) {
        let path = file.strip_suffix(".htaccess").unwrap_or(file);
        report.general(format!(
            "{file}: Apache applies this file, too, and it is not translated: GET /{path}. Import it, and write its \
             mounts with the path /{}.",
            path.trim_end_matches('/')
        ));
    }
    if tree.nested.len() > NESTED_MAX || tree.is_cut {
        report.general(
            "There may be more .htaccess files beneath the directory: GET /deep/.".to_owned(),
        );
    }
}

/// The rules of both modules: a redirect of mod_alias is for the path before it is rewritten.
fn ordered(rules: &[Keys], redirects: &[Keys], report: &mut Report) -> Vec<Keys> {
    let is_rewrite = |keys: &Keys| keys.iter().any(|(name, _)| name == "rewrite");
    let first = rules.iter().position(is_rewrite).unwrap_or(rules.len());
    let (before, behind) = rules.split_at(first);
    if !redirects.is_empty() && behind.iter().any(|keys| !is_rewrite(keys)) {
        report.general(
            "A path of Redirect and of a RewriteRule behind the first rewrite has the target of Redirect: GET /old."
                .to_owned(),
        );
    }
    [before, redirects, behind].concat()
}

fn finish(
    parts: Parts<'_>,
    mounts: Vec<Mount>,
    options: &Options,
    report: &mut Report,
) -> ServerConfig {
    let mut site = Site {
        hosts: options.hosts.clone(),
        errors: parts.errors,
        rules: ordered(&parts.rules, &parts.redirects, report),
        headers: parts.headers,
        mounts,
        ..Site::default()
    };
    if let Some(bytes) = parts.settings.body_bytes {
        put(&mut site.keys, "body_bytes", i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    let mut server = ServerConfig::default();
    if parts.secure_hosts.is_empty() {
        report.general(
            "Addresses, names and certificates are those of <VirtualHost>, which this file does not have: write \
             `listen`, `hosts` and [site.tls]; without them hurtle answers GET / at 127.0.0.1:8080, for any name."
                .to_owned(),
        );
    } else {
        if site.hosts.is_empty() {
            site.hosts = parts.secure_hosts;
            site.is_default = parts.is_default;
        }
        put(&mut server.keys, "listen", vec!["0.0.0.0:80".to_owned(), "[::]:80".to_owned()]);
        put(&mut server.keys, "listen_tls", vec!["0.0.0.0:443".to_owned(), "[::]:443".to_owned()]);
        let is_local = |host: &String| hurtle_config::is_local(&HostName::Exact(host.clone()));
        match site.hosts.iter().all(is_local) {
            true => put(&mut site.tls, "certificate", "local"),
            false => {
                let mut acme = Keys::new();
                put(&mut acme, "accept_terms", true);
                server.tables.push(("acme", acme));
                put(&mut site.tls, "certificate", "auto");
            }
        }
    }
    server.sites.push(site);
    server
}
