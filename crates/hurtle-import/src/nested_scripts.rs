//! Applications of PHP within a location: `location /phpmyadmin { alias /usr/share/phpmyadmin;
//! location ~ \.php$ { fastcgi_pass …; } }` becomes a FastCGI mount of the location's path.

use toml::Value;

use super::block::{Block, Target};
use super::closed::closed;
use super::expression::Expression;
use super::fastcgi::script_filename;
use super::files::check_query;
use super::kind::{HandlerKind, Kind, StructureKind};
use super::location::mount;
use super::modifier::{Modifier, modifier};
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::overlap::admits_alike;
use super::path::join;
use super::regex::{ScriptNames, script_names};
use super::report::Report;
use super::scripts::{fixed_script, unlike};
use super::syntax::Directive;

/// The location of scripts within another.
#[derive(Clone, Copy)]
pub(super) struct Inner<'a> {
    at: &'a Directive,
    /// The path of the script in its expression: `/$1` for `^/a/(.+\.php)$`; empty: none.
    group: &'static str,
}

/// Forms of an expression behind the path of the location, and the path of the script in each.
const FORMS: [(&str, &str); 8] = [
    (r"/(.+\.php)$", "/$1"),
    (r"/(.*\.php)$", "/$1"),
    (r"(/.+\.php)$", "$1"),
    (r"(.+\.php)$", "$1"),
    (r"(.*\.php)$", "$1"),
    (r"/.+\.php$", ""),
    (r".+\.php$", ""),
    (r"/.*\.php$", ""),
];

/// The scripts within a location; `None`: it has none, or other ones.
pub(super) fn within(d: &Directive) -> Option<Inner<'_>> {
    let (Modifier::Prefix | Modifier::Final, path) = modifier(d)? else { return None };
    let is_scripts = |inner: &&Directive| {
        inner.name == "location" && inner.children().iter().any(|d| d.name == "fastcgi_pass")
    };
    let mut scripts = d.children().iter().filter(is_scripts);
    let (at, None) = (scripts.next()?, scripts.next()) else { return None };
    let (Modifier::Regex, text) = modifier(at)? else { return None };
    let bare = path.trim_end_matches('/');
    let rest = text.strip_prefix('^').and_then(|rest| rest.strip_prefix(bare));
    let form = rest.and_then(|rest| FORMS.iter().find(|(form, _)| *form == rest));
    match form {
        Some((_, group)) => Some(Inner { at, group }),
        None if script_names(text) == Some(ScriptNames::All) && !bare.is_empty() => {
            let group = if text.starts_with(r"^(.+\.php)") { "$1" } else { "" };
            // The group is the whole path, not that beneath the location.
            group.is_empty().then_some(Inner { at, group })
        }
        None => None,
    }
}

impl<'a> Mounts<'a, '_> {
    /// Translates a location with scripts and other locations of expressions within it.
    pub(super) fn application(
        &mut self,
        d: &'a Directive,
        kind: Modifier,
        path: &'a str,
        block: &Block<'a>,
        scripts: Inner<'a>,
        report: &mut Report,
    ) {
        let nested = block.take_all(Kind::Structure(StructureKind::Location));
        let inner = Block::of(scripts.at, block.scope(), self.shared, report);
        if block.scope().denies_all() || inner.scope().denies_all() {
            return report.refuse(scripts.at, "write it outside of the other location");
        }
        let try_files = block.first(&[Kind::Handler(HandlerKind::TryFiles)]);
        let front = try_files.and_then(|d| front(d, path));
        if let (Some(d), Some(_)) = (try_files, &front) {
            block.take(Kind::Handler(HandlerKind::TryFiles));
            check_query(d, report);
            let script = d.args.last().and_then(|last| last.split(['?', '$']).next()).unwrap_or("");
            let text = format!(
                "GET {path} of a directory without an index, or of one beneath it, is answered by {script}; nginx answers 403"
            );
            report.remark(d, &text);
        }
        let is_alias = block.first(&[Kind::Handler(HandlerKind::Alias)]).is_some();
        let try_files = try_files.filter(|_| front.is_none());
        let Some(mut own) = mount(d, path, block, try_files, self.context, report) else {
            return;
        };
        let Some(mut keys) = self.settings(scripts.at, &inner, report) else { return };
        let Some(Value::String(directory)) = own.key("files").cloned() else {
            return report.refuse(d, "the location has no directory");
        };
        same_directory(&inner, scripts, path, is_alias, &directory, report);
        unlike(scripts.at, &inner, &own, &keys, report);
        fixed_script(scripts.at, &mut keys, &directory, &ScriptNames::All, report);
        inner.finish(Target::Fastcgi, report);
        let mut index = match own.key("index") {
            Some(Value::Array(names)) => names.clone(),
            _ => vec![Value::from("index.html")],
        };
        index.extend(front.iter().filter(|f| !index.contains(f)).cloned().collect::<Vec<_>>());
        let address = keys.iter().position(|(key, _)| key == "fastcgi").map_or(0, |at| at + 1);
        let mut directories = Keys::new();
        put(&mut directories, "root", directory);
        put(&mut directories, "index", index);
        if front.is_none() {
            put(&mut directories, "front_controller", false);
        }
        keys.splice(address..address, directories);
        own.keys = keys;
        let Some(others) = self.beside(&nested, block, scripts, path, &own, report) else {
            return;
        };
        self.within.extend(others);
        if kind == Modifier::Final {
            // Expressions of the server take none of its paths.
            self.within.push(with_match(own.clone(), super::subject::one("path", "**").into()));
        }
        self.add(d, Modifier::Prefix, path, None, own, report);
    }

    /// The mounts of expressions within the location, in the order written; `None`: one was
    /// refused.
    fn beside(
        &mut self,
        nested: &[&'a Directive],
        block: &Block<'a>,
        scripts: Inner<'a>,
        path: &str,
        own: &Mount,
        report: &mut Report,
    ) -> Option<Vec<Mount>> {
        let mut mounts = Vec::new();
        for d in nested.iter().copied() {
            let Some((Modifier::Regex, _)) = modifier(d) else {
                report.refuse(d, "write it outside of the other location");
                return None;
            };
            let expression = Expression::of(d, report)?;
            if std::ptr::eq(d, scripts.at) {
                mounts.push(with_match(own.clone(), expression.matcher(None)));
                continue;
            }
            let inner = Block::of(d, block.scope(), self.shared, report);
            let made = match inner.scope().denies_all() {
                true => closed(&inner, path, report),
                false => {
                    let try_files = inner.first(&[Kind::Handler(HandlerKind::TryFiles)]);
                    let made = mount(d, path, &inner, try_files, self.context, report)?;
                    if made.key("files").is_some_and(|files| Some(files) != own.key("root")) {
                        report.refuse(
                            d,
                            "its directory is another one; write it outside of the other location",
                        );
                    }
                    made
                }
            };
            if !admits_alike(&made.keys, &own.keys)
                && let Some(page) = guarded_index(own, path, &expression)
            {
                let why = format!(
                    "it also guards {page}, the index of its directory; write the guard in a location of that path"
                );
                report.refuse(d, why);
            }
            mounts.push(with_match(made, expression.matcher(None)));
        }
        Some(mounts)
    }

    /// Adds the mounts of expressions within locations before those of other expressions, if there
    /// are any that would take their paths.
    pub(super) fn add_within(&mut self) {
        let within = std::mem::take(&mut self.within);
        let has_match =
            |mount: &Mount| !mount.is_exact() && mount.place.iter().any(|(key, _)| key == "match");
        let scripts = |mount: &Mount| mount.key("fastcgi").is_some();
        let is_alone = within.iter().all(scripts)
            && self.site.mounts.iter().filter(|mount| has_match(mount)).count()
                == self.server_conditions;
        if is_alone {
            return;
        }
        let mut matches = 0;
        let is_behind = |mount: &Mount| {
            matches += usize::from(has_match(mount));
            matches > self.server_conditions
        };
        let at = self.site.mounts.iter().position(is_behind).unwrap_or(self.site.mounts.len());
        self.site.mounts.splice(at..at, within);
    }
}

/// The index of a directory that an expression matches, but not the directory.
fn guarded_index(own: &Mount, path: &str, expression: &Expression) -> Option<String> {
    let path = path.trim_end_matches('/');
    let index = own.key("index").and_then(Value::as_array)?;
    index.iter().filter_map(Value::as_str).find_map(|name| {
        let page = format!("{path}/{name}");
        match expression.is_in(&page) && !expression.is_in(&format!("{path}/")) {
            true => Some(page),
            false => expression.page_beneath(path, name),
        }
    })
}

/// The script at the end of `try_files` beneath the path of a location.
fn front(d: &Directive, path: &str) -> Option<Value> {
    let last = d.args.last()?.split(['?', '$']).next()?;
    let name = last.strip_prefix(path.trim_end_matches('/'))?.strip_prefix('/')?;
    let is_front = name.ends_with(".php") && !name.contains('/');
    let has_all = d.args.len() == 3 && d.args[..2] == ["$uri", "$uri/"];
    (is_front && has_all).then(|| Value::from(name))
}

/// Refuses scripts of another directory than that of the location.
fn same_directory(
    inner: &Block<'_>,
    scripts: Inner<'_>,
    path: &str,
    is_alias: bool,
    directory: &str,
    report: &mut Report,
) {
    let bare = directory.trim_end_matches('/');
    let of_group = format!("{bare}{}", scripts.group);
    let alias = inner.take(Kind::Handler(HandlerKind::Alias));
    let is_group = !scripts.group.is_empty();
    let has_root = scripts.at.children().iter().any(|d| d.name == "root");
    if let Some(d) = alias.filter(|d| !is_group || d.arg(0) != of_group) {
        return report.refuse(d, "scripts and files need the same directory");
    }
    let root = inner.get(|scope| &scope.root).clone();
    let is_other = root.as_ref().is_none_or(|root| join(root, path) != directory);
    if alias.is_none() && (has_root || !is_alias) && is_other {
        return report.refuse(scripts.at, "scripts and files need the same directory");
    }
    // Within an alias, $document_root$fastcgi_script_name has the location's path twice.
    let root = root.filter(|_| !is_alias || has_root);
    let mut known = vec!["$request_filename".to_owned()];
    if is_group {
        known.push(of_group);
        if is_alias && alias.is_none() && !has_root {
            known.push(format!("$document_root{}", scripts.group));
        }
    }
    script_filename(inner, root.as_deref(), &known, report);
}

fn with_match(mut mount: Mount, matcher: Value) -> Mount {
    put(&mut mount.place, "match", matcher);
    mount
}
