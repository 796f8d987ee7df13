//! Keys of mounts of FastCGI applications.

use toml::Value;

use super::block::Block;
use super::kind::{HandlerKind, Kind, PathKind};
use super::location::upstream_settings;
use super::modifier::{Modifier, modifier};
use super::mount::{Keys, put};
use super::path::has_variable;
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;
use super::upstream_scope::UpstreamScope;

/// Variables of the directory of files.
const ROOTS: [&str; 2] = ["$document_root", "$realpath_root"];

/// Variables of the path of the script.
const PATHS: [&str; 3] = ["$fastcgi_script_name", "$script_name", "$uri"];

/// Adds the parameters of a script that answers every path of a location, `SCRIPT_FILENAME
/// $document_root/index.php`, and those of the script of an exact location.
pub(super) fn only_script(
    at: &Directive,
    path: &str,
    block: &Block<'_>,
    keys: &mut Keys,
    report: &mut Report,
) {
    let params = block.get(|scope| &scope.fastcgi.written);
    let own = params.iter().rev().find(|d| d.arg(0) == "SCRIPT_FILENAME");
    let Some(d) = own.filter(|d| has_variable(d.arg(1))) else { return };
    let root = block.get(|scope| &scope.root).as_deref().map(|root| root.trim_end_matches('/'));
    let fixed = ROOTS.iter().find_map(|own| d.arg(1).strip_prefix(own));
    let fixed = fixed.filter(|file| file.starts_with('/') && !has_variable(file));
    let is_exact = matches!(modifier(at), Some((Modifier::Exact, _)));
    let is_root = |directory: &str| ROOTS.contains(&directory);
    let own_file = || script_of_path(at, path, d.arg(1));
    let (directory, file) = match (directory_of_path(d.arg(1)), root) {
        (Some(of), Some(root)) if is_exact && is_root(of) => (root, own_file()),
        (Some(of), _) if is_exact && !has_variable(of) => (of.trim_end_matches('/'), own_file()),
        (Some(of), _) if !is_exact && is_root(of) => {
            let text = "SCRIPT_FILENAME is left out, without which PHP-FPM answers 404; nginx names the file of the path \
                        beneath the root: for scripts write location ~ \\.php$";
            return report.remark(d, text);
        }
        (None, Some(root)) => (root, fixed.map(str::to_owned)),
        _ => ("", None),
    };
    let Some(file) = file else {
        let why = match root {
            Some(_) => {
                "hurtle finds scripts by their paths; write location ~ \\.php$, and try_files"
            }
            None => "it has no root; write one, an absolute path",
        };
        return report.refuse(d, why);
    };
    let Some(own) = params_of(keys) else { return };
    own.insert("SCRIPT_FILENAME".to_owned(), Value::from(format!("{directory}{file}")));
    let name = Some(file.as_str()).filter(|_| fixed.is_none());
    // Constants have been taken already.
    for (param, value) in [("DOCUMENT_ROOT", root), ("SCRIPT_NAME", name), ("PATH_INFO", Some(""))]
    {
        if let Some(value) = value {
            own.entry(param).or_insert_with(|| Value::from(value));
        }
    }
}

/// Takes the search of an exact location for its script, which the application does itself, and
/// the split of its path, as `snippets/fastcgi-php.conf` has them.
pub(super) fn take_search(at: &Directive, block: &Block<'_>) {
    let params = block.get(|scope| &scope.fastcgi.written);
    let own = params.iter().rev().find(|d| d.arg(0) == "SCRIPT_FILENAME");
    let is_its_file = own.is_some_and(|d| directory_of_path(d.arg(1)).is_some());
    let is_script = |path: &str| path.ends_with(".php");
    if !matches!(modifier(at), Some((Modifier::Exact, path)) if is_script(path) && is_its_file) {
        // Without a file, another script or a page of the application itself would answer.
        return;
    }
    let try_files = Kind::Handler(HandlerKind::TryFiles);
    let is_own = |d: &&Directive| {
        matches!(d.arg(0), "$uri" | "$fastcgi_script_name") && d.args[1..] == ["=404"]
    };
    if block.first(&[try_files]).filter(is_own).is_some() {
        block.take(try_files);
    }
    let set = Kind::Path(PathKind::Set);
    if block.all(set).iter().all(|d| d.arg(1) == "$fastcgi_path_info") {
        block.take_all(set);
    }
}

/// The directory beneath which a value names the file of the path; `None`: it names another one.
fn directory_of_path(value: &str) -> Option<&str> {
    match value {
        "$request_filename" => Some(ROOTS[0]),
        _ => PATHS.iter().find_map(|name| value.strip_suffix(name)),
    }
}

/// The script of the path of an exact location, for a value that ends with its variable; `None`:
/// nginx has a part of the path for it, or none.
fn script_of_path(at: &Directive, path: &str, value: &str) -> Option<String> {
    if path.contains(".php/") {
        return None;
    }
    if !path.ends_with('/') {
        return Some(path.to_owned());
    }
    let index = at.children().iter().rev().find(|d| d.name == "fastcgi_index");
    let index = index.filter(|d| value.ends_with(PATHS[0]) && !has_variable(d.arg(0)))?;
    Some(format!("{path}{}", index.arg(0)))
}

/// The table of parameters of a mount, which is added if it is not there.
fn params_of(keys: &mut Keys) -> Option<&mut toml::Table> {
    let at = keys.iter().position(|(key, _)| key == "params").unwrap_or(keys.len());
    if at == keys.len() {
        put(keys, "params", toml::Table::new());
    }
    keys[at].1.as_table_mut()
}

/// Compares `SCRIPT_FILENAME` of a block with the path of the script beneath `root`, which hurtle
/// gives the application. `known`: other forms of that path.
pub(super) fn script_filename(
    block: &Block<'_>,
    root: Option<&str>,
    known: &[String],
    report: &mut Report,
) {
    let params = block.get(|scope| &scope.fastcgi.written);
    let own = params.iter().rev().find(|d| d.arg(0) == "SCRIPT_FILENAME");
    let pass = block.first(&[Kind::Handler(HandlerKind::FastcgiPass)]);
    if let Some(pass) = pass.filter(|_| own.is_none() && !params.is_empty()) {
        report.remark(
            pass,
            "there is no fastcgi_param SCRIPT_FILENAME, without which PHP-FPM answers 404 to GET /x.php behind nginx; \
             hurtle names the script",
        );
    }
    let Some(d) = own.filter(|d| has_variable(d.arg(1)) && !known.contains(&d.args[1])) else {
        return;
    };
    let value = d.arg(1);
    let directory = PATHS.iter().find_map(|name| value.strip_suffix(name));
    let directory = directory.map(|directory| directory.trim_end_matches('/'));
    match (directory, root) {
        (Some("$document_root" | "$realpath_root"), Some(_)) => {}
        (None, Some(_)) if value == "$request_filename" => {}
        (Some(directory), Some(root)) if !has_variable(directory) => {
            if directory != root.trim_end_matches('/') {
                let text = format!(
                    "GET /x.php runs {}/x.php; nginx has the application run {directory}/x.php: give the directory \
                     that name here, too",
                    root.trim_end_matches('/')
                );
                report.remark(d, &text);
            }
        }
        _ => report.refuse(d, "it is another file than that of the path"),
    }
}

/// Keys of the mount of an application beside its address, by the settings of its protocol.
pub(super) fn application_settings(
    block: &Block<'_>,
    of: fn(&Scope) -> &UpstreamScope,
    keys: &mut Keys,
    report: &mut Report,
) {
    upstream_settings(block, of, keys, report);
    let params = block.get(|scope| &of(scope).params);
    if !params.is_empty() {
        let params: toml::Table =
            params.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect();
        put(keys, "params", params);
    }
    let fields = block.get(|scope| &of(scope).fields);
    if !fields.is_empty() {
        let set: toml::Table =
            fields.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect();
        put(keys, "request_fields", toml::Table::from_iter([("set".to_owned(), Value::from(set))]));
    }
}
