//! A script that answers for missing files of a location: `location ~ \.css$ { try_files $uri
//! /index.php?$args; }` leads to a mount with a name that runs it.

use toml::{Table, Value};

use super::block::{Block, Target};
use super::files::{check_query, script_of};
use super::kind::{HandlerKind, Kind, PathKind};
use super::location::target;
use super::modifier::Modifier;
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::regex::ScriptNames;
use super::report::Report;
use super::syntax::Directive;
use hurtle_config::PathRegex;

/// A script that a location names in `try_files`.
#[derive(Clone, Copy)]
pub(super) struct FrontScript<'a> {
    at: &'a Directive,
    has_directories: bool,
}

/// The name of its mount.
const NAME: &str = "script";

/// Takes `try_files` of a location of files that ends with a script; `None`: it has another one.
pub(super) fn take<'a>(block: &Block<'a>) -> Option<FrontScript<'a>> {
    let kind = Kind::Handler(HandlerKind::TryFiles);
    let at = block.first(&[kind]).filter(|d| script_of(d).is_some())?;
    let (_, before) = at.args.split_last()?;
    let has_directories = before == ["$uri", "$uri/"];
    if target(block) != Target::Files || !(has_directories || before == ["$uri"]) {
        return None;
    }
    block.take(kind);
    Some(FrontScript { at, has_directories })
}

impl<'a> Mounts<'a, '_> {
    /// Leads requests without a file from a mount to the script.
    pub(super) fn lead_to_script(
        &mut self,
        script: FrontScript<'a>,
        mount: &mut Mount,
        report: &mut Report,
    ) {
        check_query(script.at, report);
        if mount.key("spa").or(mount.key("otherwise")).is_some() {
            report.refuse(script.at, "try_files leads elsewhere, and so does error_page 404");
        }
        if !script.has_directories {
            mount.keys.retain(|(key, _)| key != "index" && key != "listing");
            put(&mut mount.keys, "index", Vec::<String>::new());
        }
        put(&mut mount.keys, "otherwise", NAME);
        self.front_scripts.push(script.at);
    }

    /// Takes `rewrite ^/(?!index|remote) /index.php$request_uri` of the location of scripts, which
    /// has the script answer for all others but those named. Returns the conditions of the named
    /// ones.
    pub(super) fn take_only_named(
        block: &Block<'_>,
        report: &mut Report,
    ) -> Option<(String, Value)> {
        let kind = Kind::Path(PathKind::Rewrite);
        let [d] = block.all(kind)[..] else { return None };
        let names = d.arg(0).strip_prefix("^/(?!")?.strip_suffix(')')?;
        let script = d.arg(1).strip_prefix('/')?.strip_suffix("$request_uri")?;
        let regex = format!("^/(?:{})", names.replace("\\/", "/"));
        let is_script = script.ends_with(".php") && !script.contains(['/', '$']);
        let is_own =
            PathRegex::new(&regex).is_ok_and(|regex| regex.is_in(format!("/{script}").as_bytes()));
        if !is_script || !is_own || d.args.len() != 2 {
            return None;
        }
        block.take(kind);
        report.remark(
            d,
            "the script gets the path of GET /x.php/y in REQUEST_URI; nginx gives it in PATH_INFO, too",
        );
        let text =
            format!("GET /dir/ of a directory with an index.php runs it; nginx runs {script}");
        report.remark(d, &text);
        Some((
            script.to_owned(),
            Value::from(Table::from_iter([("regex".to_owned(), Value::from(regex))])),
        ))
    }

    /// Adds the mount that runs the script. `scripts`: the directory, the keys and the names of
    /// the site's scripts.
    pub(super) fn add_front_script(
        &mut self,
        names: &ScriptNames,
        own: &Mount,
        report: &mut Report,
    ) {
        let all = std::mem::take(&mut self.front_scripts);
        let Some(name) = all.first().and_then(|d| script_of(d)) else { return };
        let path = format!("/{name}");
        let is_exact = |placed: &super::mounts::Placed<'_>| {
            placed.modifier == Modifier::Exact && placed.path == path
        };
        let is_other = all.iter().any(|d| script_of(d).as_ref() != Some(&name));
        let is_known =
            matches!(names, ScriptNames::All) || *names == ScriptNames::One(name.clone());
        let has_name = self.context.named.iter().any(|named| named.name == NAME);
        let is_taken =
            has_name || self.expressions.iter().any(|(_, expression)| expression.is_in(&path));
        if is_other || !is_known || is_taken || self.placed.iter().any(is_exact) {
            let why = "all locations lead to one script, which the location of scripts alone runs";
            return all.iter().for_each(|d| report.refuse(d, why));
        }
        let Some(mut mount) = running(own, &path) else { return };
        put(&mut mount.place, "name", NAME);
        self.site.mounts.push(Mount { path: String::new(), ..mount });
    }

    /// Compares the script at the end of `index` with that of `/`.
    pub(super) fn check_index_script(&self, d: &Directive, report: &mut Report) {
        if !self.has_index_script {
            return report.refuse(d, "a script for directories is that of try_files in location /");
        }
        let others = self.site.mounts.iter().filter(|mount| {
            mount.key("files").is_some() && mount.key("index") != Some(&Value::Array(Vec::new()))
        });
        if let Some(path) = others.map(|mount| mount.path.trim_end_matches('/')).next() {
            let text = format!(
                "GET {path}/ is 404 where that directory has no index, and so are others outside of location /; nginx \
                 runs the script"
            );
            report.remark(d, &text);
        }
    }

    /// Refuses them in a site without scripts.
    pub(super) fn refuse_front_scripts(&self, report: &mut Report) {
        for d in &self.front_scripts {
            report.refuse(d, "the site has no location ~ \\.php$ with fastcgi_pass");
        }
    }
}

/// The mount that runs one script of a mount, whatever the path is.
pub(super) fn running(own: &Mount, path: &str) -> Option<Mount> {
    let root = own.key("root").and_then(Value::as_str)?;
    let root = root.trim_end_matches('/');
    let is_own = |key: &str| matches!(key, "root" | "index" | "front_controller" | "params");
    let mut keys: Keys = own.keys.iter().filter(|(key, _)| !is_own(key)).cloned().collect();
    let mut params = match own.key("params") {
        Some(Value::Table(known)) => known.clone(),
        _ => Table::new(),
    };
    params.insert("SCRIPT_FILENAME".to_owned(), Value::from(format!("{root}{path}")));
    // Others may be constants.
    for (name, value) in [("SCRIPT_NAME", path), ("DOCUMENT_ROOT", root), ("PATH_INFO", "")] {
        params.entry(name).or_insert_with(|| Value::from(value));
    }
    put(&mut keys, "params", params);
    let headers = own.headers.clone();
    Some(Mount { path: "/".to_owned(), place: Keys::new(), keys, headers, choice: None })
}
