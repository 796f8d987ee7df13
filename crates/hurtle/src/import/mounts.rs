//! Makes the mounts and header rules of a site from the locations of a server.

use std::collections::BTreeMap;

use toml::Value;

use super::guard::guard;
use super::location::{Context, Handlers, compression, fastcgi_settings, fields, mount, pattern};
use super::mount::{Field, Keys, Mount, Site, put, put_list};
use super::path::mount_path;
use super::regex::{self, Regex};
use super::report::Report;
use super::scope::Scope;
use super::server_keys::rewrite;
use super::shared::Shared;
use super::syntax::Directive;
use super::upstream::fastcgi_pass;

/// The extensions of a regular expression, with the fields of their responses.
struct Extensions {
    extensions: Vec<String>,
    headers: BTreeMap<String, Field>,
}

/// A block of scripts: `location ~ \.php$`.
struct Scripts<'a> {
    at: &'a Directive,
    pass: &'a Directive,
    scope: Scope,
}

/// The mounts of a site, as its locations are translated.
pub(super) struct Mounts<'a, 'b> {
    site: &'b mut Site,
    context: &'b Context<'b>,
    shared: &'b mut Shared,
    extensions: Vec<Extensions>,
    scripts: Option<Scripts<'a>>,
    /// The root directory of `/`, and `try_files` there.
    root: Option<(Option<String>, Option<&'a Directive>)>,
    /// Locations of files in which regular expressions are tried.
    plain: Vec<&'a Directive>,
}

impl<'a, 'b> Mounts<'a, 'b> {
    pub(super) fn new(
        site: &'b mut Site,
        context: &'b Context<'b>,
        shared: &'b mut Shared,
    ) -> Mounts<'a, 'b> {
        Mounts {
            site,
            context,
            shared,
            extensions: Vec::new(),
            scripts: None,
            root: None,
            plain: Vec::new(),
        }
    }

    pub(super) fn locations(
        &mut self,
        locations: &[&'a Directive],
        outer: &Scope,
        report: &mut Report,
    ) {
        for d in locations {
            let (kind, path) = match d.args.as_slice() {
                [path] => ("", path.as_str()),
                [kind, path] => (kind.as_str(), path.as_str()),
                _ => {
                    report.refuse(d, "write a path");
                    continue;
                }
            };
            match kind {
                "~" | "~*" => self.regex(d, path, outer, report),
                "" | "^~" | "=" if path.starts_with('/') => {
                    self.prefix(d, (kind, path), outer, report);
                }
                _ => {
                    report.refuse(d, "a location has a path, =, ^~, ~ or ~*; names are not called");
                }
            }
        }
    }

    fn prefix(
        &mut self,
        d: &'a Directive,
        (kind, path): (&str, &str),
        outer: &Scope,
        report: &mut Report,
    ) {
        if self.context.auth.iter().any(|server| server.path == path) {
            return;
        }
        let mut scope = outer.enter(d.children());
        let mut handlers = Handlers::default();
        let mut has_rules = false;
        for inner in d.children() {
            match inner.name.as_str() {
                "rewrite" => {
                    self.site.rules.extend(rewrite(inner, path, report));
                    has_rules = true;
                }
                "internal" => report.remark(inner, "clients can request this path, too"),
                "location" => report.refuse(inner, "write it outside of the other location"),
                _ if handlers.take(inner) => {}
                _ => scope.apply(inner, self.shared, report),
            }
        }
        // The first rule refuses everybody.
        if scope.access.first().is_some_and(|(admits, net)| !admits && net == "all") {
            let path = mount_path(path);
            let mut keys = Keys::new();
            put(&mut keys, "respond", "");
            put(&mut keys, "status", 403);
            let headers = fields(&scope);
            self.add(d, Mount { pattern: pattern(&path), path, keys, headers }, report);
            return;
        }
        let is_bare = handlers.is_files() && handlers.alias.is_none();
        if kind == "=" && is_bare {
            let is_same = scope.root == outer.root && scope.access == outer.access;
            // A page in the directory of the server, such as /50x.html: the mount of / has it.
            if is_same && fields(&scope) == fields(outer) && scope.realm == outer.realm {
                return;
            }
            let page = scope.root.clone().unwrap_or_default();
            let same_root =
                self.root.as_ref().is_some_and(|(root, _)| root.as_ref() == Some(&page));
            if !same_root {
                report.refuse(d, "a mount of files is a directory; put the file beneath the root");
            }
            return;
        }
        if kind == "=" && handlers.is_files() {
            report.refuse(d, "a mount of files is a directory; put the file beneath the root");
            return;
        }
        if scope.errors != outer.errors {
            match path {
                "/" => self.site.errors = scope.errors.clone(),
                _ => report.refuse(d, "error pages are those of the whole site"),
            }
        }
        if has_rules && is_bare {
            return;
        }
        if kind == "=" {
            report.remark(d, "the mount also answers paths beneath it");
        }
        if path == "/" && kind != "=" {
            self.root = Some((scope.root.clone(), handlers.try_files));
            // Scripts are added later, with the try_files of this location.
            if self.is_front_controller(handlers.try_files) {
                handlers.try_files = None;
            }
        }
        if kind.is_empty() && handlers.is_files() && path != "/" {
            self.plain.push(d);
        }
        if let Some(mount) = mount(d, path, (&handlers, &scope), self.context, report) {
            self.add(d, mount, report);
        }
    }

    fn add(&mut self, d: &Directive, mount: Mount, report: &mut Report) {
        if self.site.mounts.iter().any(|other| other.path == mount.path) {
            report.refuse(d, format!("a second location of {}", mount.path));
        } else {
            self.site.mounts.push(mount);
        }
    }

    fn regex(&mut self, d: &'a Directive, text: &str, outer: &Scope, report: &mut Report) {
        let mut scope = outer.enter(d.children());
        let mut handlers = Handlers::default();
        for inner in d.children() {
            let is_path_info = inner.name == "set" && inner.arg(1) == "$fastcgi_path_info";
            match inner.name.as_str() {
                _ if handlers.take(inner) || is_path_info => {}
                _ => scope.apply(inner, self.shared, report),
            }
        }
        let denies = scope.access.first().is_some_and(|(admits, net)| !admits && net == "all")
            || handlers.returns.is_some_and(|d| matches!(d.arg(0), "403" | "404"));
        match (regex::location(text), handlers.fastcgi) {
            (Regex::Scripts(_), Some(pass)) if self.scripts.is_none() => {
                self.scripts = Some(Scripts { at: d, pass, scope });
            }
            (Regex::DotFiles, _) if denies => {
                report.remark(d, "names that begin with a dot get 404");
            }
            (Regex::Extensions(extensions), _)
                if handlers.is_files() && scope.root == outer.root && !denies =>
            {
                if let Some(d) = handlers.try_files
                    && d.args != ["$uri", "=404"]
                {
                    report.refuse(d, "only $uri =404 has a counterpart here");
                }
                report.general(
                    "location ~ \\.(css|js)$: its fields are set in every mount of the site, also \
                     in responses of applications"
                        .to_owned(),
                );
                self.extensions.push(Extensions { extensions, headers: fields(&scope) });
            }
            _ => report.refuse(
                d,
                "of regular expressions it knows \\.php$ with fastcgi_pass, \\.(css|js)$ with \
                 fields, and /\\. with deny all",
            ),
        }
    }

    /// Adds the mount of `/`, if no location is it.
    pub(super) fn root(
        &mut self,
        at: &'a Directive,
        (handlers, scope): (&Handlers<'a>, &Scope),
        report: &mut Report,
    ) {
        if self.site.mounts.iter().any(|mount| mount.path == "/") || self.root.is_some() {
            return;
        }
        // Without a root of its own, other paths have nothing (404).
        let has_files = scope.root.is_some() || handlers.returns.is_some();
        let is_empty = self.site.mounts.is_empty() && self.site.rules.is_empty();
        if !has_files && !is_empty {
            return;
        }
        self.root = Some((scope.root.clone(), handlers.try_files));
        let mut own = Handlers { try_files: handlers.try_files, ..Handlers::default() };
        own.returns = handlers.returns;
        if self.is_front_controller(own.try_files) {
            own.try_files = None;
        }
        let mount = mount(at, "/", (&own, scope), self.context, report);
        self.site.mounts.splice(0..0, mount);
    }

    fn is_front_controller(&self, try_files: Option<&Directive>) -> bool {
        try_files.and_then(|d| d.args.last()).is_some_and(|last| script_of(last).is_some())
    }

    /// Makes a FastCGI mount of `/` if the site has scripts.
    pub(super) fn scripts(&mut self, report: &mut Report) {
        let (root, try_files) = self.root.take().unwrap_or_default();
        let front = try_files.and_then(|d| d.args.last()).and_then(|last| script_of(last));
        let Some(Scripts { at, pass, scope }) = self.scripts.take() else {
            if let (Some(d), Some(_)) = (try_files, front) {
                report.refuse(d, "the site has no location ~ \\.php$ with fastcgi_pass");
            }
            return;
        };
        // A mount of files would send the source of scripts.
        for d in self.plain.drain(..) {
            report.refuse(d, "scripts beneath it run; if there are none, write ^~ before its path");
        }
        let Some(index) = self.site.mounts.iter().position(|mount| mount.path == "/") else {
            return report.refuse(at, "scripts need a root");
        };
        let mount = &mut self.site.mounts[index];
        if mount.key("files").is_none() || (scope.root.is_some() && scope.root != root) {
            return report.refuse(at, "scripts and files need the same root, in /");
        }
        let Some(directory) = mount.take_text("files") else { return };
        let names = match mount.key("index") {
            Some(Value::Array(names)) => names.clone(),
            _ => vec![Value::from("index.html")],
        };
        let mut names: Vec<String> =
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        match front {
            Some(front) if !names.contains(&front) => names.push(front),
            Some(_) => {}
            None if names.iter().any(|name| name.ends_with(".php")) => {
                return report.refuse(
                    at,
                    "a script in `index` also answers paths without a file; write try_files $uri \
                     $uri/ /index.php; in location /, or leave scripts out of `index`",
                );
            }
            None => {}
        }
        let Some(address) = fastcgi_pass(pass, self.context.groups, report) else { return };
        let mut keys = Keys::new();
        put(&mut keys, "fastcgi", address);
        put(&mut keys, "root", directory);
        put(&mut keys, "index", names);
        fastcgi_settings(&scope, &mut keys);
        guard(at, &scope, self.context, &mut keys, report);
        compression(&scope, &mut keys, report);
        let only_files = mount.keys.iter().find(|(key, _)| {
            !matches!(key.as_str(), "index" | "allow" | "deny" | "auth" | "users" | "realm")
                && !matches!(key.as_str(), "auth_cleartext" | "rate_limit" | "compress")
                && !matches!(key.as_str(), "forward" | "copy_headers" | "forward_tls")
        });
        if let Some((key, _)) = only_files {
            report.refuse(at, format!("a mount of scripts has no `{key}`"));
        }
        mount.keys = keys;
    }

    /// Makes header rules of the fields of the mounts. Each replaces those of the mount above it.
    pub(super) fn headers(&mut self, report: &mut Report) {
        let mut mounts: Vec<&Mount> = self.site.mounts.iter().collect();
        mounts.sort_by_key(|mount| mount.path.len());
        let none = BTreeMap::new();
        let mut rules = Vec::new();
        for (index, mount) in mounts.iter().enumerate() {
            let above = mounts[..index].iter().rev().find(|above| {
                above.path == "/" || mount.path.starts_with(&format!("{}/", above.path))
            });
            let above = above.map_or(&none, |above| &above.headers);
            rules.extend(rule(&mount.pattern, &mount.headers, above));
            if mount.path != "/" && mount.key("files").is_none() {
                rules.extend(rule(&mount.path, &mount.headers, above));
            }
        }
        let mut every = BTreeMap::new();
        for mount in &mounts {
            every.extend(mount.headers.clone());
        }
        for Extensions { extensions, headers } in &self.extensions {
            for extension in extensions {
                rules.extend(rule(&format!("*.{extension}"), headers, &every));
            }
        }
        if self.extensions.iter().any(|one| one.headers.is_empty()) && !every.is_empty() {
            report
                .general("location ~ \\.(css|js)$: fields of other locations are kept".to_owned());
        }
        self.site.headers = rules;
    }
}

/// The header rules that change the fields `above` to `fields`: one for successes, and one for all
/// responses.
fn rule(
    pattern: &str,
    fields: &BTreeMap<String, Field>,
    above: &BTreeMap<String, Field>,
) -> Vec<Keys> {
    let mut rules = Vec::new();
    for always in [false, true] {
        let of_kind = |(_, field): &(&String, &Field)| field.always == always;
        let set: toml::Table = fields
            .iter()
            .filter(|(name, field)| above.get(*name) != Some(field))
            .filter(of_kind)
            .map(|(name, field)| (name.clone(), Value::from(field.value.clone())))
            .collect();
        let gone = above.iter().filter(of_kind).filter(|(name, _)| !fields.contains_key(*name));
        let remove: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        if set.is_empty() && remove.is_empty() {
            continue;
        }
        let mut keys = Keys::new();
        if pattern != "**" {
            put(&mut keys, "match", pattern);
        }
        if !set.is_empty() {
            put(&mut keys, "set", set);
        }
        put_list(&mut keys, "remove", &remove);
        if always {
            put(&mut keys, "always", true);
        }
        rules.push(keys);
    }
    rules
}

/// The script that a last element of `try_files` names: `/index.php?$query_string`.
fn script_of(last: &str) -> Option<String> {
    let path = last.split(['?', '$']).next().unwrap_or_default();
    let name = path.strip_prefix('/')?;
    (name.ends_with(".php") && !name.contains('/')).then(|| name.to_owned())
}
