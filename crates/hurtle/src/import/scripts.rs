//! Translates `location ~ \.php$`: the mount of `/` becomes one of scripts.

use toml::Value;

use super::block::{Block, Target};
use super::client_limits::{self, client_limits};
use super::connection_limits::connection_limits;
use super::fastcgi::fastcgi_settings;
use super::files::script_of;
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
use super::upstream::fastcgi_pass;

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
        let Some(mut keys) = self.settings(at, &block, report) else { return };
        self.beside_scripts(at, &keys, report);
        let Some(mount) = self.site.mounts.iter_mut().find(|mount| mount.is_of("/", false)) else {
            return report.refuse(at, "scripts need a root");
        };
        let own = block.get(|scope| &scope.root);
        if mount.key("files").is_none() || (own.is_some() && *own != root) {
            return report.refuse(at, "scripts and files need the same root, in /");
        }
        let has_front = front.is_some();
        let skips =
            try_files.is_some_and(|d| has_front && !d.args.iter().any(|arg| arg == "$uri/"));
        let Some(index) = index(at, mount, (front, &names, skips), report) else { return };
        unlike(at, &block, (mount, &keys), report);
        let Some(directory) = mount.take_text("files") else { return };
        fixed_script(at, &mut keys, (&directory, &names), report);
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
        block.finish(Target::Fastcgi, report);
    }

    /// The keys of a mount of scripts without its directory.
    fn settings(&self, at: &Directive, block: &Block<'_>, report: &mut Report) -> Option<Keys> {
        let pass = block.take(Kind::Handler(HandlerKind::FastcgiPass))?;
        let mut keys = Keys::new();
        put(&mut keys, "fastcgi", fastcgi_pass(pass, self.context.groups, report)?);
        fastcgi_settings(block, &mut keys, report);
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
    fn beside_scripts(&self, at: &Directive, keys: &Keys, report: &mut Report) {
        for placed in self.placed.iter().filter(|one| one.modifier == Modifier::Prefix) {
            let Some(mount) = self.site.mounts.iter().find(|mount| mount.is_of(placed.path, false))
            else {
                continue;
            };
            let path = placed.path;
            if path == "/" || is_closed(mount) {
                continue;
            }
            if mount.key("files").is_some() {
                // It would send the source of scripts.
                let why = "scripts beneath it run; if there are none, write ^~ before its path";
                report.refuse(placed.at, why);
            } else if !is_open(keys) && !admits_alike(&mount.keys, keys) {
                let why =
                    format!("its guard also holds in {path} in nginx; write ^~ before {path}");
                report.refuse(at, why);
            } else {
                report.remark(at, &format!("scripts in {path} are handled by its mount"));
            }
        }
    }
}

/// `true`: every client is admitted.
fn is_open(keys: &Keys) -> bool {
    !keys.iter().any(|(key, _)| guard::KEYS.contains(&key.as_str()))
}

/// Takes `SCRIPT_FILENAME` of a constant, which hurtle makes itself.
fn fixed_script(
    at: &Directive,
    keys: &mut Keys,
    (directory, names): (&str, &ScriptNames),
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
    (front, scripts, skips_directories): (Option<String>, &ScriptNames, bool),
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
            "a path that names another script, such as GET /x.php, runs it, or is 404; nginx sends its \
             source, or asks {only}"
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
fn unlike(at: &Directive, block: &Block<'_>, (mount, keys): (&Mount, &Keys), report: &mut Report) {
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
