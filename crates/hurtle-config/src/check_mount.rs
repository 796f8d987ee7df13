//! Reads the mounts of a site: each has one handler and a path of its own.

use std::collections::HashMap;

use http::StatusCode;

use super::auth::{self, Auth};
use super::check_matcher::matcher;
use super::check_site::{headers, redirect_status, rule_location};
use super::cors::cors;
use super::defaults::{FIXED_CONTENT_TYPE, FIXED_STATUS, MOUNT_PATH, REDIRECT_STATUS};
use super::error::{ValueError, shown};
use super::error_page::{ErrorPages, error_pages};
use super::field::media_type;
use super::files::files;
use super::gateway::{authorizer, cgi, fastcgi};
use super::matcher::Matcher;
use super::network::network;
use super::otherwise;
use super::rate_limit::mount_limits;
use super::reader::Reader;
use super::request_place;
use super::request_policy::request_policy;
use super::schema::one_of;
use super::table::Table;
use super::target::{location, url_path};
use super::tls::MountClientAuth;
use super::types::{Access, Mount, MountHandler};
use super::upstream::proxy;
use super::uwsgi::uwsgi;
use super::value::Value;
use super::wasm::wasm;

/// The keys that choose a handler; a mount has exactly one.
pub(super) const HANDLERS: [&str; 8] =
    ["files", "proxy", "fastcgi", "uwsgi", "cgi", "wasm", "redirect", "respond"];

/// `HANDLERS`, and the keys that choose a handler if they are `true`.
const NAMES: [&str; 10] = [
    "files",
    "proxy",
    "fastcgi",
    "uwsgi",
    "cgi",
    "wasm",
    "redirect",
    "respond",
    "abort = true",
    "status = true",
];

/// Reads the mounts of a site, which has this authentication and these error pages. `errors` is the
/// key in which the site's error pages are written.
pub(super) fn mounts(
    tables: &[Table<'_>],
    site: Option<&Auth>,
    errors: Option<Value<'_>>,
    pages: &ErrorPages,
    reader: &mut Reader<'_>,
) -> Vec<Mount> {
    let mut taken: HashMap<String, String> = HashMap::new();
    let mut mounts = Vec::new();
    for table in tables {
        let place = place(table, reader);
        let access = access(table, reader);
        let auth = auth::auth(table, reader);
        let mut client_auth = MountClientAuth::None;
        table.set("client_auth", reader, Value::choice, &mut client_auth);
        let authorizer = authorizer(table, reader);
        let limits = mount_limits(table, reader);
        let cors = cors(table, reader);
        let policy = request_policy(table, reader);
        let mut own_pages = ErrorPages::new();
        table.set("errors", reader, error_pages, &mut own_pages);
        let mut intercept_errors = false;
        table.set("intercept_errors", reader, Value::flag, &mut intercept_errors);
        let template = place.as_ref().filter(|place| place.given_name.is_some());
        let template = template.and_then(|place| place.matcher.as_ref());
        let handler = handler(table, auth.as_ref().or(site), template, reader);
        if let (
            Some(MountHandler::Proxy(proxy)),
            Some(Auth::Forward(_) | Auth::Jwt(_)),
            Some(written),
        ) = (&handler, auth.as_ref().or(site), table.get("cache"))
            && proxy.cache.is_some()
        {
            let wrong = ValueError::new("one user's responses would be stored for all users");
            written.report(reader, wrong.hint("remove it, or write auth = \"none\" in this mount"));
        }
        let Some(place) = place else { continue };
        let headers = table.get("header").map(|value| headers(&value, reader)).unwrap_or_default();
        let mut compress = None;
        table.set("compress", reader, |v, r| v.flag(r).map(Some), &mut compress);
        if let (Some(value), Some(true), true) =
            (table.get("compress"), compress, table.get("cache").is_some())
        {
            let wrong = ValueError::new("a mount with a cache does not compress");
            let hint = "have the upstream compress: the cache keeps a variant for each coding";
            value.report(reader, wrong.hint(hint));
        }
        let Some(handler) = handler else { continue };
        let Place { path, given_name, exact, matcher, is_final } = place;
        let mount = Mount {
            path,
            given_name,
            exact,
            matcher,
            is_final,
            handler,
            access,
            auth,
            client_auth,
            authorizer,
            compress,
            limits,
            policy,
            error_pages: own_pages,
            intercept_errors,
            cors,
            headers,
        };
        claim(&mount, table, &mut taken, reader);
        if mount.is_public_status_page(site) {
            let written = table.get("status");
            reader.status_pages.extend(written.map(|value| (value.spot, Vec::new())));
        }
        mounts.push(mount);
    }
    otherwise::check(tables, &mounts, errors, pages, reader);
    mounts
}

/// The requests of a mount.
struct Place {
    path: String,
    given_name: Option<String>,
    exact: bool,
    matcher: Option<Matcher>,
    is_final: bool,
}

fn place(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Place> {
    if let Some(written) = table.get("name") {
        let given_name = Some(otherwise::given_name(&written, table, reader)?);
        let path = String::new();
        let matcher = otherwise::redirected(table, reader);
        return Some(Place { path, given_name, exact: false, matcher, is_final: false });
    }
    let (mut exact, mut is_final) = (false, false);
    table.set("exact", reader, Value::flag, &mut exact);
    table.set("final", reader, Value::flag, &mut is_final);
    let parse = if exact { url_path } else { mount_path };
    let path = match table.get("path") {
        Some(value) => value.parse(reader, parse),
        None => Some(MOUNT_PATH.to_owned()),
    };
    let written = table.get("match");
    let matcher = match &written {
        Some(value) => Some(matcher(value, reader)?),
        None => None,
    };
    if let (Some(value), true, true) = (table.get("final"), is_final, exact || written.is_some()) {
        let wrong = ValueError::new("only a mount of all paths beneath its own is final");
        let other = if exact { "exact" } else { "match" };
        value.report(reader, wrong.hint(format!("remove final or {other}")));
    }
    Some(Place { path: path?, given_name: None, exact, matcher, is_final })
}

/// Reports a mount whose requests all are those of one before it.
fn claim(
    mount: &Mount,
    table: &Table<'_>,
    taken: &mut HashMap<String, String>,
    reader: &mut Reader<'_>,
) {
    let name = mount.name();
    if let Some(owner) = taken.get(&name) {
        let path = table.get("path");
        let spot = path.as_ref().map_or(&table.spot, |value| &value.spot);
        let wrong = ValueError::new(format!("the path {} is already {owner}'s", shown(&name)));
        reader.report(spot, wrong.hint("give one of them another path"));
    }
    taken.entry(name).or_insert_with(|| table.spot.key.clone());
}

/// Reads the admitted client addresses of a site or mount.
pub(super) fn access(table: &Table<'_>, reader: &mut Reader<'_>) -> Access {
    let mut access = Access::default();
    table.set("allow", reader, |v, r| v.parse_list(r, network), &mut access.allow);
    table.set("deny", reader, |v, r| v.parse_list(r, network), &mut access.deny);
    if let (Some(value), Some(both)) =
        (table.get("deny"), access.deny.iter().find(|net| access.allow.contains(net)))
    {
        let wrong = ValueError::new(format!("{both} is both allowed and denied"));
        value.report(reader, wrong.hint("remove it from one of the two"));
    }
    access
}

/// Parses a mount's path and removes a trailing slash.
pub(super) fn mount_path(text: &str) -> Result<String, ValueError> {
    let path = url_path(text)?;
    if let Some((before, _)) = path.split_once('*') {
        let prefix = match before.trim_end_matches('/') {
            "" => "/",
            prefix => prefix,
        };
        let wrong = ValueError::new(format!("{} has a wildcard: a path is a prefix", shown(text)));
        return Err(wrong.hint(format!("write {prefix}")));
    }
    Ok(match path.strip_suffix('/') {
        Some("") | None => path,
        Some(shorter) => shorter.to_owned(),
    })
}

fn handler(
    table: &Table<'_>,
    auth: Option<&Auth>,
    template: Option<&Matcher>,
    reader: &mut Reader<'_>,
) -> Option<MountHandler> {
    let status = table.get("status").filter(Value::is_true);
    let abort = table.get("abort").filter(Value::is_true);
    let written: Vec<Value<'_>> = HANDLERS.into_iter().filter_map(|name| table.get(name)).collect();
    let flags = status.clone().into_iter().chain(abort.clone());
    let written: Vec<Value<'_>> = written.into_iter().chain(flags).collect();
    match written.as_slice() {
        [] => {
            let wrong = ValueError::new("the mount has no handler");
            reader.report_missing(
                &table.spot,
                wrong.hint(
                    "write files =, proxy =, fastcgi =, uwsgi =, cgi =, wasm =, redirect =, respond =, abort = true or status = true",
                ),
            );
            return None;
        }
        [_] => table.check_companions(reader),
        [_, others @ ..] => {
            for value in others {
                let wrong = ValueError::new(format!("a mount has only one of {}", one_of(&NAMES)));
                value.report(reader, wrong.hint("remove it, or write two mounts"));
            }
        }
    }
    if status.is_some() {
        return (written.len() == 1).then_some(MountHandler::Status);
    }
    if abort.is_some() {
        return (written.len() == 1).then_some(MountHandler::Abort);
    }
    if let Some(value) = table.get("files") {
        return files(table, &value, auth, reader)
            .map(|files| MountHandler::Files(Box::new(files)));
    }
    if let Some(value) = table.get("proxy") {
        return proxy(table, &value, reader).map(|proxy| MountHandler::Proxy(Box::new(proxy)));
    }
    if let Some(value) = table.get("fastcgi") {
        return fastcgi(table, &value, reader).map(|app| MountHandler::FastCgi(Box::new(app)));
    }
    if let Some(value) = table.get("uwsgi") {
        return uwsgi(table, &value, reader).map(|app| MountHandler::Uwsgi(Box::new(app)));
    }
    if let Some(value) = table.get("cgi") {
        return cgi(table, &value, reader).map(|cgi| MountHandler::Cgi(Box::new(cgi)));
    }
    if let Some(value) = table.get("wasm") {
        return wasm(table, &value, reader).map(|app| MountHandler::Wasm(Box::new(app)));
    }
    if let Some(value) = table.get("redirect") {
        let mut status = REDIRECT_STATUS;
        table.set("status", reader, redirect_status, &mut status);
        let to = value.parse(reader, |text| match template.map(Matcher::captured) {
            Some((count, names)) => rule_location(text, count, &names),
            None => location(&request_place::example(text)).map(|()| text.to_owned()),
        })?;
        return Some(MountHandler::Redirect { status, to });
    }
    table.get("respond").and_then(|value| fixed(table, &value, reader))
}

fn fixed(table: &Table<'_>, body: &Value<'_>, reader: &mut Reader<'_>) -> Option<MountHandler> {
    let mut status = FIXED_STATUS;
    let mut content_type = FIXED_CONTENT_TYPE;
    table.set("status", reader, final_status, &mut status);
    table.set("content_type", reader, |v, r| v.parse(r, media_type), &mut content_type);
    let body_text = body.text(reader)?.to_owned();
    // These responses have no content (RFC 9110 sections 15.3.5, 15.3.6 and 15.4.5).
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    if !body_text.is_empty() && bodiless.contains(&status) {
        let wrong =
            ValueError::new(format!("a response with status {} has no body", status.as_u16()));
        body.report(reader, wrong.hint("write respond = \"\""));
    }
    Some(MountHandler::Fixed { status, body: body_text, content_type })
}

pub(super) fn final_status(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<StatusCode> {
    value.integer(reader).and_then(|status: u16| StatusCode::from_u16(status).ok())
}

/// Reads the index file names of a directory.
pub(super) fn index(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let name = |text: &str| {
        if text.contains(['/', '\0']) || matches!(text, "" | "." | "..") {
            return Err(ValueError::new(format!("{} is not a file name", shown(text)))
                .hint("write a name such as \"index.html\""));
        }
        Ok(text.to_owned())
    };
    value.parse_list(reader, name)
}
