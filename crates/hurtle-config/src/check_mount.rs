//! Reads the mounts of a site: each has one handler and a path of its own.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use http::{HeaderValue, StatusCode};

use super::archive::archive;
use super::auth::{self, Auth};
use super::bounds::{FINAL_STATUS_MIN, STATUS_MAX};
use super::check_matcher::matcher;
use super::check_site::{headers, redirect_status, rule_location};
use super::cors::cors;
use super::defaults::{FIXED_CONTENT_TYPE, FIXED_STATUS, MOUNT_PATH, REDIRECT_STATUS};
use super::dictionary::dictionaries;
use super::error::{ValueError, shown};
use super::error_page::{ErrorPages, error_pages};
use super::field::media_type;
use super::gateway::{authorizer, cgi, fastcgi};
use super::matcher::Matcher;
use super::network::network;
use super::objects::{is_object_url, object_store, refuse_keys_of_directories};
use super::otherwise;
use super::rate_limit::mount_limits;
use super::reader::Reader;
use super::request_place;
use super::request_policy::request_policy;
use super::schema::one_of;
use super::symlinks::symlinks;
use super::table::Table;
use super::target::{location, url_path};
use super::tls::MountClientAuth;
use super::try_file::TryFile;
use super::types::{Access, Files, Mount, MountHandler};
use super::uploads::uploads;
use super::upstream::proxy;
use super::uwsgi::uwsgi;
use super::value::Value;
use super::wasm::wasm;

/// Placeholder for the requested path in `try_files`.
const PATH_PLACEHOLDER: &str = "{path}";

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

/// Reads the mounts of a site, which has this authentication and these error pages.
pub(super) fn mounts(
    tables: &[Table<'_>],
    (site, errors, pages): (Option<&Auth>, Option<Value<'_>>, &ErrorPages),
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
    otherwise::check(tables, &mounts, (errors, pages), reader);
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
    let networks = |name, reader: &mut Reader<'_>, slot: &mut Vec<_>| {
        if let Some(value) = table.get(name) {
            *slot = value.list(reader, |item, reader| item.parse(reader, network));
        }
    };
    networks("allow", reader, &mut access.allow);
    networks("deny", reader, &mut access.deny);
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

fn files(
    table: &Table<'_>,
    root: &Value<'_>,
    auth: Option<&Auth>,
    reader: &mut Reader<'_>,
) -> Option<Files> {
    let is_remote = is_object_url(root);
    let mut files = Files::new(PathBuf::new());
    let f = &mut files;
    let directory = match is_remote {
        true => {
            f.objects = object_store(table, root, reader).map(Box::new);
            f.objects.as_ref().map(|store| PathBuf::from(store.url.to_string()))
        }
        false => root.directory(reader),
    };
    if let (Some(value), false) = (table.get("object_store"), is_remote) {
        let wrong =
            ValueError::new("goes with files = \"s3://...\", \"gs://...\" or \"az://...\" only");
        value.report(reader, wrong.hint("remove it"));
    }
    table.set("index", reader, index, &mut f.index);
    table.set("try_files", reader, try_files, &mut f.try_files);
    table.set("spa", reader, |v, r| v.parse(r, url_path).map(Some), &mut f.spa);
    otherwise::set(table, f, reader);
    table.set("listing", reader, Value::flag, &mut f.listing);
    table.set("symlinks", reader, symlinks, &mut f.symlinks);
    table.set("dotfiles", reader, Value::flag, &mut f.dotfiles);
    table.set("sidecars", reader, Value::flag, &mut f.sidecars);
    table.set("sidecars_alone", reader, Value::flag, &mut f.sidecars_alone);
    if f.sidecars_alone
        && !f.sidecars
        && let Some(value) = table.get("sidecars_alone")
    {
        let wrong = ValueError::new("goes with `sidecars = true` only");
        value.report(reader, wrong.hint("remove `sidecars = false`"));
    }
    table.set("etag", reader, Value::choice, &mut f.etag);
    table.set("media_types", reader, media_types, &mut f.media_types);
    table.set("rate", reader, Value::size, &mut f.rate);
    f.archive = archive(table, f, reader);
    f.dictionaries = dictionaries(table, f, reader);
    f.uploads = uploads(table, auth, reader);
    if is_remote {
        refuse_keys_of_directories(table, f, reader);
    }
    Some(Files { root: directory?, ..files })
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
    Some(value.list(reader, |item, reader| item.parse(reader, name)))
}

fn try_files(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<TryFile>> {
    let items = value.items(reader);
    let last = items.len().saturating_sub(1);
    let mut tried = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let Some(element) = item.parse(reader, try_file) else { continue };
        if i < last && matches!(element, TryFile::Status(_)) {
            let wrong = ValueError::new("a status ends the search, so what follows is never tried");
            item.report(reader, wrong.hint("put it last"));
        }
        tried.push(element);
    }
    Some(tried)
}

fn try_file(text: &str) -> Result<TryFile, ValueError> {
    if let Some(status) = text.strip_prefix('=') {
        let known = status.parse::<u16>().ok().filter(|n| {
            status.len() == 3 && (FINAL_STATUS_MIN..=STATUS_MAX).contains(&u64::from(*n))
        });
        let known = known.and_then(|n| StatusCode::from_u16(n).ok()).map(TryFile::Status);
        return known.ok_or_else(|| {
            ValueError::new(format!("{} is not = and a final status", shown(text)))
                .hint("write for example \"=404\"")
        });
    }
    // The requested path begins with a slash and is checked separately.
    let around = text.replace(PATH_PLACEHOLDER, "x");
    if around.contains(['{', '}', '$']) {
        return Err(ValueError::new(format!("{} has an unknown placeholder", shown(text)))
            .hint(format!("the only one is {PATH_PLACEHOLDER}, the requested path")));
    }
    match text.strip_prefix(PATH_PLACEHOLDER) {
        Some(rest) => url_path(&format!("/x{}", rest.replace(PATH_PLACEHOLDER, "/x"))),
        None => url_path(&text.replace(PATH_PLACEHOLDER, "x")),
    }?;
    Ok(TryFile::Path(text.to_owned()))
}

fn media_types(
    value: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<BTreeMap<String, HeaderValue>> {
    let mut types = BTreeMap::new();
    for (extension, spot, value) in value.pairs(reader) {
        let plain = extension.trim_start_matches(['.', '*']).to_lowercase();
        if extension != plain || plain.is_empty() || plain.contains(['.', '/', '\0']) {
            let wrong = ValueError::new("not a file-name extension in lower case, without its dot");
            reader.report(&spot, wrong.hint("write it as in foo = \"text/x-foo\""));
        }
        types.extend(value.parse(reader, media_type).map(|value| (plain, value)));
    }
    Some(types)
}
