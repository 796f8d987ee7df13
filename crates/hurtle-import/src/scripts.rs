//! Translates `location ~ \.php$`: the mount of `/` becomes one of scripts.

use std::collections::BTreeMap;

use toml::Value;

use super::block::{Block, Target};
use super::client_limits::{self, client_limits};
use super::connection_limits::connection_limits;
use super::expression::Expression;
use super::fastcgi::{application_settings, script_filename};
use super::files::{NO_UPLOADS, check_query, script_of};
use super::front_script::running;
use super::guard::{self, guard};
use super::kind::{HandlerKind, Kind, PathKind, ResponseKind};
use super::location::{compression, fields};
use super::modifier::Modifier;
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::overlap::{admits_alike, is_closed};
use super::regex::ScriptNames;
use super::report::Report;
use super::syntax::Directive;
use super::upstream::application_pass;

/// A block of scripts.
pub(super) struct Scripts<'a> {
    pub(super) at: &'a Directive,
    pub(super) block: Block<'a>,
    pub(super) names: ScriptNames,
}

impl Mounts<'_, '_> {
    /// Makes a FastCGI mount of `/` if the site has scripts.
    pub(super) fn scripts(&mut self, report: &mut Report) {
        let (root, try_files) = self.root.take().unwrap_or_default();
        let front = try_files.and_then(script_of);
        let Some(Scripts { at, block, names, .. }) = self.scripts.take() else {
            self.refuse_front_scripts(report);
            if let (Some(d), Some(_)) = (try_files, front) {
                report.refuse(d, "the site has no location ~ \\.php$ with fastcgi_pass");
            }
            return;
        };
        let internal = Kind::Path(PathKind::Internal);
        if let (ScriptNames::One(name), Some(d)) = (&names, block.first(&[internal])) {
            block.take(internal);
            report.remark(d, &format!("GET /{name} runs the script; nginx answers 404"));
        }
        let named = Mounts::take_only_named(&block, report);
        let Some(mut keys) = self.settings(at, &block, report) else { return };
        let expression = self.script_expression.clone();
        // Conditions of `/` are not for scripts.
        let has_files =
            self.beside_scripts(at, &names, &keys, report) || self.has_conditions_of_root;
        let own = self.take_place(expression.as_ref());
        let expression_place = own.as_ref().map_or(0, |(place, _)| *place);
        let Some(mount) = self.site.mounts.iter_mut().find(|mount| mount.is_of("/", false)) else {
            return report.refuse(at, "scripts need a root");
        };
        let directory = block.get(|scope| &scope.root);
        if mount.key("files").is_none() || (directory.is_some() && *directory != root) {
            return report.refuse(at, "scripts and files need the same root, in /");
        }
        let has_front = front.is_some();
        beyond_scripts(at, &names, report);
        report.general(
            "The script of a directory gets all methods, such as PROPFIND /; nginx answers 405 to others than GET, HEAD \
             and POST"
                .to_owned(),
        );
        if let (Some(d), Some(front)) = (try_files, &front) {
            check_query(d, report);
            let is_of_directories =
                block.scope().index_script.peek().as_ref().and_then(script_of).as_ref()
                    == Some(front);
            if is_of_directories {
                self.has_index_script = true;
                let text = format!(
                    "GET /dir of a directory without an index is answered by {front}; nginx redirects it to /dir/, which \
                     {front} answers"
                );
                report.remark(d, &text);
            } else if d.args.iter().any(|arg| arg == "$uri/") {
                let text = format!(
                    "GET /dir/ of a directory without an index is answered by {front}; nginx answers 403"
                );
                report.remark(d, &text);
            } else {
                let text = format!(
                    "GET /dir/ of a directory with a {front} runs it; nginx asks /{front} for it"
                );
                report.remark(d, &text);
            }
        }
        let skips =
            try_files.is_some_and(|d| has_front && !d.args.iter().any(|arg| arg == "$uri/"));
        let Some(index) = index(at, mount, front, &names, skips, report) else { return };
        if let Some(d) = try_files.filter(|_| has_front) {
            without_uploads(mount, d, report);
        }
        unlike(at, &block, mount, &keys, report);
        let Some(directory) = mount.take_text("files") else { return };
        fixed_script(at, &mut keys, &directory, &names, report);
        script_filename(&block, Some(&directory), &[], report);
        let mut all = Keys::new();
        for (key, value) in keys {
            let is_address = key == "fastcgi";
            all.push((key, value));
            if is_address {
                put(&mut all, "root", directory.clone());
                put(&mut all, "index", index.clone());
                if !has_front {
                    put(&mut all, "front_controller", false);
                }
            }
        }
        mount.keys = all;
        let main = mount.clone();
        let own = own.filter(|_| has_files).map(|(place, own)| {
            let mut keys = mount.keys.clone();
            if has_front {
                put(&mut keys, "front_controller", false);
            }
            (place, Mount { keys, headers: mount.headers.clone(), ..own })
        });
        let others = named.zip(expression).and_then(|((script, names), expression)| {
            let mut mount = running(&main, &format!("/{script}"))?;
            let Value::Table(mut matcher) = expression.matcher(None) else { return None };
            matcher.insert("not".to_owned(), names);
            put(&mut mount.place, "match", matcher);
            Some(mount)
        });
        if let Some((place, scripts)) = own {
            if self.expressions.is_empty() {
                self.refuse_conditions_of_finals(report);
                self.finals();
            }
            self.site.mounts.insert(place, scripts);
        }
        // Before the scripts that have their expression, too.
        if let Some(mount) = others {
            self.site.mounts.insert(expression_place, mount);
        }
        self.add_front_script(&names, &main, report);
        block.finish(Target::Fastcgi, report);
    }

    /// Takes the empty mount at the place of the scripts' expression among the others.
    fn take_place(&mut self, expression: Option<&Expression>) -> Option<(usize, Mount)> {
        let empty = place_of_scripts(expression?);
        let place = self.site.mounts.iter().position(|mount| *mount == empty)?;
        Some((place, self.site.mounts.remove(place)))
    }

    /// The keys of a mount of scripts without its directory.
    pub(super) fn settings(
        &self,
        at: &Directive,
        block: &Block<'_>,
        report: &mut Report,
    ) -> Option<Keys> {
        let pass = block.take(Kind::Handler(HandlerKind::FastcgiPass))?;
        let mut keys = Keys::new();
        put(&mut keys, "fastcgi", application_pass(pass, self.context.groups, report)?);
        application_settings(block, |scope| &scope.fastcgi, &mut keys, report);
        guard(at, block, self.context, &mut keys, report)?;
        client_limits(block, &mut keys, report);
        let zones = self.context.connection_zones;
        connection_limits("/", block, zones, &mut keys, report);
        compression(block, &mut keys, report);
        // hurtle runs files only, and splits the path itself.
        if let Some(d) = block.take(Kind::Handler(HandlerKind::TryFiles))
            && !(matches!(d.arg(0), "$uri" | "$fastcgi_script_name") && d.args[1..] == ["=404"])
        {
            report.refuse(d, "only $uri =404 has a counterpart here");
        }
        for d in block.take_all(Kind::Path(PathKind::Set)) {
            if d.arg(1) != "$fastcgi_path_info" {
                report.refuse(d, "it needs variables");
            }
        }
        for d in block.take_all(Kind::Response(ResponseKind::ErrorPage)) {
            report.refuse(d, "error pages are those of the whole site");
        }
        Some(keys)
    }

    /// Compares scripts with the locations over which their regular expression wins in nginx.
    /// Returns whether one of them has files: then scripts have a mount of their own, too.
    fn beside_scripts(
        &mut self,
        at: &Directive,
        names: &ScriptNames,
        keys: &Keys,
        report: &mut Report,
    ) -> bool {
        let Some(expression) = &self.script_expression else { return false };
        let mut beside = Vec::new();
        let mut has_files = false;
        for placed in self.placed.iter().filter(|one| one.modifier == Modifier::Prefix) {
            let path = placed.path;
            let is_it = |mount: &&mut Mount| mount.is_of(path, false);
            let Some(mount) = self.site.mounts.iter_mut().find(is_it) else { continue };
            if path == "/" || is_closed(mount) || !may_hold(path, names) {
                continue;
            }
            if mount.key("files").is_none() {
                beside.push(path);
                if !is_open(keys) && !admits_alike(&mount.keys, keys) {
                    let why =
                        format!("its guard also holds in {path} in nginx; write ^~ before {path}");
                    report.refuse(at, why);
                }
                continue;
            }
            has_files = true;
            without_scripts(placed.at, mount, expression, report);
        }
        for path in beside.into_iter().filter(|_| !has_files) {
            report.remark(at, &format!("scripts in {path} are handled by its mount"));
        }
        has_files
    }
}

/// Leaves the uploads of a mount of files out, which a script answers in nginx unless the file is
/// there.
fn without_uploads(mount: &mut Mount, try_files: &Directive, report: &mut Report) {
    if mount.key("uploads").is_none() {
        return;
    }
    mount.keys.retain(|(key, value)| match key.as_str() {
        "uploads" => false,
        // Without a password only uploads need a word about it.
        "auth" => value.as_str() != Some("none"),
        _ => true,
    });
    report.remark(try_files, NO_UPLOADS);
}

/// `true` if a location of a prefix may have paths of scripts.
fn may_hold(path: &str, names: &ScriptNames) -> bool {
    match names {
        ScriptNames::All => true,
        ScriptNames::One(name) => path.trim_start_matches('/').starts_with(name),
    }
}

/// The empty mount that keeps the place of the scripts' expression among those of the others.
pub(super) fn place_of_scripts(expression: &Expression) -> Mount {
    let mut place = Keys::new();
    put(&mut place, "match", expression.matcher(None));
    Mount { path: "/".to_owned(), place, keys: Keys::new(), headers: BTreeMap::new(), choice: None }
}

/// Takes scripts out of the names that a mount of files looks up itself: it would send their
/// source.
fn without_scripts(at: &Directive, mount: &mut Mount, scripts: &Expression, report: &mut Report) {
    let is_script = |value: &Value| {
        value.as_str().is_some_and(|name| scripts.is_in(&format!("/{}", name.trim_matches('/'))))
    };
    for key in ["try_files", "spa"] {
        let is_found = match mount.key(key) {
            Some(Value::Array(list)) => list.iter().any(is_script),
            Some(one) => is_script(one),
            None => false,
        };
        if is_found {
            report.refuse(at, format!("a script answers its paths; write {key} in location /"));
        }
    }
    let path = mount.path.clone();
    let index = mount.keys.iter_mut().find(|(key, _)| key == "index");
    let Some((_, Value::Array(index))) = index else { return };
    let scripts: Vec<Value> = index.extract_if(.., |name| is_script(name)).collect();
    if let Some(name) = scripts.first().and_then(Value::as_str) {
        let text = format!(
            "GET {path}/ is 404 where {name} is the only index; nginx runs that script. Write its mount, \
             or ^~ before the path"
        );
        report.remark(at, &text);
    }
}

/// Names the paths of which hurtle runs another script than nginx, or none.
fn beyond_scripts(at: &Directive, names: &ScriptNames, report: &mut Report) {
    if *names != ScriptNames::All {
        return;
    }
    if at.arg(0) == "~" {
        report.remark(
            at,
            "GET /x.PHP of a missing file is 404; nginx asks the location of shorter paths, such as /",
        );
    }
    if at.arg(1).ends_with(r"\.php$") {
        let text = "GET /x.php/y runs x.php with PATH_INFO; nginx asks the location of shorter paths, such as /";
        report.remark(at, text);
    }
}

/// `true`: every client is admitted.
fn is_open(keys: &Keys) -> bool {
    !keys.iter().any(|(key, _)| guard::KEYS.contains(&key.as_str()))
}

/// Takes `SCRIPT_FILENAME` of a constant, which hurtle makes itself.
pub(super) fn fixed_script(
    at: &Directive,
    keys: &mut Keys,
    directory: &str,
    names: &ScriptNames,
    report: &mut Report,
) {
    let params = keys.iter_mut().find(|(key, _)| key == "params");
    let Some((_, Value::Table(params))) = params else { return };
    let Some(written) = params.remove("SCRIPT_FILENAME") else { return };
    let own = match names {
        ScriptNames::One(name) => Some(format!("{}/{name}", directory.trim_end_matches('/'))),
        ScriptNames::All => None,
    };
    if written.as_str() != own.as_deref() {
        report.refuse(at, "its SCRIPT_FILENAME is another script than that of the path");
    }
    if params.is_empty() {
        keys.retain(|(key, _)| key != "params");
    }
}

/// The names of the index of `/`, and the script that answers paths without a file.
fn index(
    at: &Directive,
    mount: &Mount,
    front: Option<String>,
    scripts: &ScriptNames,
    skips_directories: bool,
    report: &mut Report,
) -> Option<Vec<String>> {
    let names = match mount.key("index") {
        Some(Value::Array(names)) => names.clone(),
        _ => vec![Value::from("index.html")],
    };
    let mut names: Vec<String> =
        names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    if let ScriptNames::One(only) = scripts {
        if front.as_ref() != Some(only) {
            report.refuse(at, format!("write try_files $uri /{only} in location /"));
            return None;
        }
        names.retain(|name| !name.ends_with(".php") || name == only);
        let text = format!(
            "a path that names another script, such as GET /x.php, or GET /docs/ with a docs/{only}, runs it, or is \
             404; nginx sends its source, or asks {only}"
        );
        report.remark(at, &text);
    }
    if skips_directories {
        names.clear();
    }
    if let Some(front) = front.filter(|front| !names.contains(front)) {
        names.push(front);
    }
    Some(names)
}

/// Refuses settings of files and of scripts that one mount cannot have both.
pub(super) fn unlike(
    at: &Directive,
    block: &Block<'_>,
    mount: &Mount,
    keys: &Keys,
    report: &mut Report,
) {
    if !admits_alike(&mount.keys, keys) {
        let why = "files and scripts have one mount and one guard; write it in the server, or \
                   alike in both locations";
        report.refuse(block.first_guard().unwrap_or(at), why);
    }
    if fields(block) != mount.headers {
        let why = "files and scripts have one mount; write add_header and expires in the server";
        report.refuse(at, why);
    }
    let is_off = |keys: &Keys| keys.contains(&("compress".to_owned(), Value::from(false)));
    if is_off(&mount.keys) != is_off(keys) {
        report.refuse(at, "files and scripts have one mount; write gzip in the server");
    }
    let only_files = mount.keys.iter().find(|(key, value)| {
        let is_shared = client_limits::KEYS.contains(&key.as_str())
            && keys.contains(&(key.clone(), value.clone()));
        let is_of_both = matches!(key.as_str(), "files" | "index" | "compress")
            || guard::KEYS.contains(&key.as_str());
        !is_of_both && !is_shared
    });
    if let Some((key, _)) = only_files {
        report.refuse(at, format!("a mount of scripts has no `{key}`"));
    }
}
