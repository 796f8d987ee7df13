//! Compares the mounts of a site with locations that nginx would choose, and hurtle does not: pages,
//! regular expressions, prefixes of names, and paths beneath exact ones. hurtle must not open what
//! nginx closes there.

use toml::Value;

use super::block::{Block, Target};
use super::guard;
use super::kind::{FilesKind, GuardKind, HandlerKind, Kind, PathKind, ResponseKind};
use super::location::{fields, mount};
use super::modifier::{Modifier, holds};
use super::mount::{Keys, Mount};
use super::mounts::{Expression, Mounts, Page, Placed};
use super::path::join;
use super::regex::Regex;
use super::report::Report;

/// Keys that choose among the files of a directory.
const SEARCH: [&str; 4] = ["index", "listing", "try_files", "spa"];

impl Mounts<'_, '_> {
    /// Refuses locations that the mounts do not serve as nginx would.
    pub(super) fn check(&self, report: &mut Report) {
        for placed in &self.placed {
            self.placed(placed, report);
        }
        for page in &self.pages {
            self.page(page, report);
        }
        for expression in &self.expressions {
            match &expression.regex {
                Regex::DotFiles { has_well_known } => {
                    self.dot_files(expression, *has_well_known, report);
                }
                _ => self.extensions(expression, report),
            }
        }
    }

    fn mount_of(&self, placed: &Placed<'_>) -> Option<&Mount> {
        self.site.mounts.iter().find(|mount| mount.is_of(placed.path))
    }

    /// The mount that serves a path, other than that of `but`.
    fn holder(&self, path: &str, but: Option<&Mount>) -> Option<&Mount> {
        let others =
            self.site.mounts.iter().filter(|one| but.is_none_or(|but| one.path != but.path));
        others.filter(|mount| holds(&mount.path, path)).max_by_key(|mount| mount.path.len())
    }

    fn placed(&self, placed: &Placed<'_>, report: &mut Report) {
        let Some(mount) = self.mount_of(placed) else { return };
        if let Some((path, d)) = &placed.fallback
            && let Some(other) = self.holder(path, None)
            && !(admits_alike(&other.keys, &mount.keys) && is_part(other, mount))
        {
            let why = format!(
                "nginx sends {path} as the location {} does, with its guard and directory; name a \
                 file of this location",
                other.path
            );
            report.refuse(d, why);
        }
        let parent = self.holder(&mount.path, Some(mount));
        let Some(parent) = parent.filter(|parent| !admits_alike(&parent.keys, &mount.keys)) else {
            if placed.modifier == Modifier::Exact {
                self.beneath_exact(placed, mount, parent, report);
            }
            return;
        };
        if placed.modifier == Modifier::Exact {
            self.beneath_exact(placed, mount, Some(parent), report);
        } else if !placed.path.ends_with('/') && !is_open(mount) {
            let path = placed.path;
            report.remark(
                placed.at,
                &format!(
                    "nginx also guards names that begin with {path}, such as {path}-x and \
                     {path}.html; hurtle guards {path} and the paths beneath it"
                ),
            );
        }
        if placed.path.ends_with('/') && placed.modifier != Modifier::Exact && !is_open(parent) {
            let path = &mount.path;
            report.remark(
                placed.at,
                &format!(
                    "a request for {path} has the guard of {} in nginx; in hurtle {path} is part \
                     of this location",
                    parent.path
                ),
            );
        }
        let name = mount.path.rsplit('/').next().unwrap_or_default();
        if is_index(parent, name) && !is_open(mount) {
            let why = "it is the index of its directory, which nginx looks up with this guard";
            report.refuse(placed.at, why);
        }
    }

    /// The mount of an exact location of an application must not open paths beneath it.
    fn beneath_exact(
        &self,
        placed: &Placed<'_>,
        mount: &Mount,
        parent: Option<&Mount>,
        report: &mut Report,
    ) {
        let application = |mount: &Mount| mount.key("proxy").or(mount.key("fastcgi")).cloned();
        let Some(own) = application(mount) else { return };
        let is_same = parent.is_some_and(|parent| {
            application(parent) == Some(own) && admits_alike(&parent.keys, &mount.keys)
        });
        if !is_same {
            let path = placed.path;
            let why = format!(
                "its mount would also send paths beneath {path} to the application; write \
                 location {path} if it may get them"
            );
            report.refuse(placed.at, why);
        }
    }

    /// A page is translated if its settings are those of the mount that serves it.
    fn page(&self, page: &Page<'_>, report: &mut Report) {
        let Page { at, path, block } = page;
        let is_error_page = self.site.errors.values().any(|other| other == path);
        if is_error_page && let Some(d) = block.take(Kind::Path(PathKind::Internal)) {
            report.remark(d, "clients can request this path, too");
        }
        let Some(serving) = self.holder(path, None) else {
            return report.refuse(at, "no mount serves it; write location / or a root");
        };
        let own = block.first(&[TRY_FILES]);
        let made = mount(at, &serving.path, (block, own), self.context, report);
        let Some(wanted) = made else { return };
        let is_directory = path.ends_with('/');
        let is_ignored = |key: &str, is_wanted: bool| match key {
            "index" | "listing" => !is_directory,
            "try_files" | "spa" => !is_wanted,
            _ => false,
        };
        if !is_directory {
            leave_out_index(block, report);
        }
        if let Some(key) = difference(serving, &wanted, is_ignored) {
            let why = format!(
                "a mount of files is a directory: that of {} would serve this path, with another \
                 `{key}`; give the file a directory and a location of its own",
                serving.path
            );
            report.refuse(block.first(kinds(&key)).unwrap_or(at), why);
        } else if wanted.headers != serving.headers {
            let kinds = [Kind::Response(ResponseKind::AddHeader), EXPIRES];
            let why = "its fields are not those of the mount that serves it; write them for a directory, \
                       or by hand in [[site.header]]";
            report.refuse(block.first(&kinds).unwrap_or(at), why);
        }
    }

    fn dot_files(&self, expression: &Expression<'_>, has_well_known: bool, report: &mut Report) {
        let Expression { at, block, .. } = expression;
        block.get(|scope| &scope.access);
        let returns = Kind::Handler(HandlerKind::Return);
        if block.first(&[returns]).is_some_and(|d| matches!(d.arg(0), "403" | "404")) {
            block.take(returns);
        }
        block.finish(Target::Closed, report);
        if has_well_known {
            let why = "hurtle serves names `.well-known`; write /\\.(?!well-known)";
            return report.refuse(at, why);
        }
        let is_application = |mount: &&Mount| {
            mount.key("proxy").is_some()
                || (mount.key("fastcgi").is_some() && mount.key("root").is_none())
        };
        if let Some(mount) = self.beneath_expressions().find(is_application) {
            let path = &mount.path;
            let why = format!(
                "hurtle sends such paths to the application of {path}; have it refuse \
                               them, and remove this location"
            );
            return report.refuse(at, why);
        }
        report.remark(at, "names that begin with a dot get 404");
    }

    /// The mounts over whose locations a regular expression wins in nginx.
    fn beneath_expressions(&self) -> impl Iterator<Item = &Mount> {
        let placed = self.placed.iter().filter(|one| one.modifier == Modifier::Prefix);
        placed.filter_map(|one| self.mount_of(one)).filter(|mount| !is_closed(mount))
    }

    fn extensions(&self, expression: &Expression<'_>, report: &mut Report) {
        let Expression { at, block, .. } = expression;
        if let Some(d) = block.take(TRY_FILES)
            && d.args != ["$uri", "=404"]
        {
            report.refuse(d, "only $uri =404 has a counterpart here");
        }
        leave_out_index(block, report);
        for serving in self.beneath_expressions() {
            let path = &serving.path;
            let Some(wanted) = mount(at, path, (block, None), self.context, report) else { return };
            if serving.key("respond").is_some() || serving.key("redirect").is_some() {
                if !is_open(&wanted) && !admits_alike(&serving.keys, &wanted.keys) {
                    let why =
                        format!("its guard also holds in {path} in nginx; write ^~ before it");
                    return report.refuse(at, why);
                }
                report.remark(at, &format!("the answers of {path} have precedence"));
                continue;
            }
            let is_strict = is_open(&wanted) && !is_open(serving);
            let is_ignored = |key: &str, is_wanted: bool| {
                SEARCH.contains(&key) || (is_strict && !is_wanted && guard::KEYS.contains(&key))
            };
            if let Some(key) = difference(serving, &wanted, is_ignored) {
                let why = format!(
                    "a file extension is no mount: that of {path} would serve these files, with \
                     another `{key}`; write it in the location {path}, or ^~ before this path"
                );
                return report.refuse(block.first(kinds(&key)).unwrap_or(at), why);
            }
            if SEARCH[2..].iter().any(|key| serving.key(key).is_some()) {
                let text =
                    format!("a file that is missing gets the page of {path} in place of 404");
                report.remark(at, &text);
            }
            if is_strict {
                report.remark(at, &format!("the guard of {path} also holds for these files"));
            }
        }
        // Settings that no mount has to be compared with.
        if self.beneath_expressions().next().is_none() {
            block.get(|scope| &scope.root);
            fields(block);
            block.finish(Target::Files, report);
        }
        report.general(
            "location ~ \\.(css|js)$: its fields are set in every mount of the site, also in \
             responses of applications"
                .to_owned(),
        );
    }
}

const TRY_FILES: Kind = Kind::Handler(HandlerKind::TryFiles);
const EXPIRES: Kind = Kind::Response(ResponseKind::Expires);

/// Names settings of directories in a location of files only.
fn leave_out_index(block: &Block<'_>, report: &mut Report) {
    for kind in [FilesKind::Index, FilesKind::Autoindex] {
        for d in block.take_all(Kind::Files(kind)) {
            report.remark(d, &format!("`{d}` is left out: the location has no directory"));
        }
    }
}

/// The directives of a key of mounts.
fn kinds(key: &str) -> &'static [Kind] {
    match key {
        "allow" | "deny" => &[Kind::Guard(GuardKind::Allow), Kind::Guard(GuardKind::Deny)],
        "rate_limit" => &[Kind::Guard(GuardKind::LimitReq)],
        "auth" | "users" | "realm" | "forward" | "copy_headers" | "forward_tls" => &[
            Kind::Guard(GuardKind::AuthBasic),
            Kind::Guard(GuardKind::AuthBasicUserFile),
            Kind::Guard(GuardKind::AuthRequest),
            Kind::Guard(GuardKind::AuthRequestSet),
        ],
        "files" => &[Kind::Files(FilesKind::Root), Kind::Handler(HandlerKind::Alias)],
        "index" => &[Kind::Files(FilesKind::Index)],
        "listing" => &[Kind::Files(FilesKind::Autoindex)],
        "media_types" => &[Kind::Files(FilesKind::Types)],
        "uploads" => &[Kind::Files(FilesKind::DavMethods)],
        "rate" => &[Kind::Response(ResponseKind::LimitRate)],
        "compress" => &[Kind::Response(ResponseKind::Gzip), Kind::Response(ResponseKind::Brotli)],
        "try_files" => &[TRY_FILES],
        _ => &[],
    }
}

/// The first key in which the mount that serves a path differs from the one that it should have.
/// `is_ignored` gets a key, and `true` if the wanted mount has it.
fn difference(
    serving: &Mount,
    wanted: &Mount,
    is_ignored: impl Fn(&str, bool) -> bool,
) -> Option<String> {
    let is_scripts = serving.key("fastcgi").is_some();
    let of_serving = |key: &str| match (key, is_scripts) {
        ("files", true) => serving.key("root"),
        _ => serving.key(key),
    };
    let unlike = wanted
        .keys
        .iter()
        .find(|(key, value)| !is_ignored(key, true) && of_serving(key) != Some(value));
    if let Some((key, _)) = unlike {
        return Some(key.clone());
    }
    let is_own = |key: &str, value: &Value| match (key, is_scripts) {
        ("fastcgi" | "root" | "index" | "params" | "connect_timeout" | "send_timeout", true)
        | ("first_byte_timeout" | "read_timeout", true) => true,
        // Files are compressed without this key.
        ("compress", true) => *value == Value::from(true),
        _ => false,
    };
    let other = serving.keys.iter().find(|(key, value)| {
        wanted.key(key).is_none() && !is_ignored(key, false) && !is_own(key, value)
    });
    other.map(|(key, _)| key.clone())
}

/// `true` if a mount has the files that the other one would have at its path.
fn is_part(part: &Mount, whole: &Mount) -> bool {
    let directory = whole.key("files").and_then(Value::as_str);
    let rest = part.path.strip_prefix(whole.path.trim_end_matches('/'));
    let expected = directory.zip(rest).map(|(directory, rest)| join(directory, rest));
    part.path == whole.path || part.key("files").and_then(Value::as_str) == expected.as_deref()
}

/// `true` if two mounts admit the same clients.
pub(super) fn admits_alike(one: &Keys, other: &Keys) -> bool {
    let guards = |keys: &Keys| {
        let mut guards: Keys =
            keys.iter().filter(|(key, _)| guard::KEYS.contains(&key.as_str())).cloned().collect();
        guards.push(("status".to_owned(), Value::from(closing_status(keys))));
        guards
    };
    guards(one) == guards(other)
}

/// `true`: the mount answers every request with an error.
pub(super) fn is_closed(mount: &Mount) -> bool {
    closing_status(&mount.keys)
}

fn closing_status(keys: &Keys) -> bool {
    let status = keys.iter().find(|(key, _)| key == "status").map(|(_, value)| value);
    status.and_then(Value::as_integer).is_some_and(|status| status >= 400)
}

/// `true`: every client is admitted.
fn is_open(mount: &Mount) -> bool {
    !is_closed(mount) && !mount.keys.iter().any(|(key, _)| guard::KEYS.contains(&key.as_str()))
}

/// `true` if a directory's requests lead to this name.
fn is_index(parent: &Mount, name: &str) -> bool {
    match parent.key("index") {
        Some(Value::Array(names)) => names.iter().any(|one| one.as_str() == Some(name)),
        _ => name == "index.html",
    }
}
