//! The mounts that handlers make.

use toml::Value;

use super::block::Item;
use super::matcher::Matcher;
use super::parts::Parts;
use super::rewrite::Rewritten;
use super::scope::Scope;
use super::{proxy, redirect};
use crate::mount::{Keys, put};
use crate::report::Report;

pub(super) fn reverse_proxy(
    item: &Item<'_>,
    scope: &mut Scope,
    parts: &mut Parts,
    report: &mut Report,
) -> Result<bool, String> {
    if !scope.try_files.is_empty() && item.matcher.is_none() {
        return Err("the paths of try_files are of files, not of an upstream".to_owned());
    }
    let Some(mut proxy) = proxy::translate(item.d, item.args, report) else { return Ok(false) };
    let mut request = scope.request.clone();
    request.extend(&proxy.request);
    let mut own = scope.clone();
    let requests = scope.requests(item.matcher.as_ref())?;
    match &scope.rewritten {
        None if scope.prefix.is_empty() => {}
        None => put(&mut proxy.keys, "strip_prefix", true),
        Some(rewritten) => {
            let only = requests.as_ref().and_then(Matcher::only_path);
            let only = only.filter(|_| scope.prefix.is_empty());
            rewritten.of_upstreams(&mut proxy.keys, only)?;
            if matches!(rewritten, Rewritten::Beneath(_)) {
                report.remark(
                    item.d,
                    "behind a rewrite the upstream gets the path as the client sent it, and in Caddy written anew: GET \
                     /%2B is /+ there",
                );
            }
            if let (Rewritten::Page(_), Some(path)) = (rewritten, only) {
                path.clone_into(&mut own.prefix);
            }
        }
    }
    if !scope.prefix.is_empty() || scope.rewritten.is_some() {
        // Caddy passes the upstream's URLs and the paths of its cookies on as they are.
        put(&mut proxy.keys, "rewrite_location", false);
    }
    if let Some(value) = request.used_field() {
        report.remark(
            item.d,
            &format!("where the client sends no such field, {value} is no field; Caddy sends an empty one"),
        );
    }
    if let Some(fields) = request.request_fields(&proxy.upstream, scope.has_proxies)? {
        put(&mut proxy.keys, "request_fields", fields);
    }
    own.headers.add(proxy.response.rules(None)?, true);
    push(proxy.keys, item, &mut own, parts)
}

/// Adds a mount. `true`: it is for every request of its block.
pub(super) fn push(
    handler: Keys,
    item: &Item<'_>,
    scope: &mut Scope,
    parts: &mut Parts,
) -> Result<bool, String> {
    let mut requests = scope.requests(item.matcher.as_ref())?;
    let mut keys = handler;
    if scope.compress && keys.iter().any(|(name, _)| name == "proxy" || name == "fastcgi") {
        put(&mut keys, "compress", true);
    }
    keys.extend(scope.mounted());
    let file = requests.as_mut().and_then(|matcher| matcher.file.take());
    let is_handed_on = file.is_some() || parts.missing.is_some();
    if is_handed_on && !scope.conditional.is_empty() {
        return Err("files that hand on what is missing have no fields by conditions".to_owned());
    }
    match file {
        None => {}
        Some(false)
            if requests.clone().unwrap_or_default()
                == scope.matcher.clone().unwrap_or_default()
                && parts.missing.is_none() =>
        {
            // A mount of files hands on to it what is not there.
            let name = format!("missing-{}", item.d.at.line);
            let place = vec![("name".to_owned(), Value::from(name.as_str()))];
            let place = parts.mount(String::new(), place, keys);
            parts.mounts.push(place);
            parts.missing = Some(name);
            return Ok(false);
        }
        Some(_) => {
            return Err(
                "a mount of hurtle does not look at files; `@missing not file` is known".to_owned()
            );
        }
    }
    if keys.iter().any(|(name, _)| name == "files")
        && item.matcher.is_none()
        && let Some(name) = parts.missing.take()
    {
        // A directory is no file, but other paths than those of a redirect have their index.
        if !name.starts_with(redirect::MOVED) {
            keys.retain(|(name, _)| name != "index");
            put(&mut keys, "index", Vec::<String>::new());
        }
        put(&mut keys, "otherwise", name);
    }
    for (gate, gate_keys) in &scope.gates {
        let guarded = match &requests {
            None => Some(gate.clone()),
            Some(requests) => requests.meet(gate)?,
        };
        if let Some(guarded) = guarded {
            let all = [keys.clone(), gate_keys.clone()].concat();
            for (requests, keys) in scope.by_condition(Some(guarded), all)? {
                parts.add(requests.as_ref(), &scope.prefix, keys)?;
            }
        }
    }
    for (requests, keys) in scope.by_condition(requests, keys)? {
        parts.add(requests.as_ref(), &scope.prefix, keys)?;
    }
    Ok(item.matcher.is_none())
}
