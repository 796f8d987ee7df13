//! Keys of mounts of FastCGI applications.

use toml::Value;

use super::block::Block;
use super::kind::{HandlerKind, Kind, UpstreamKind};
use super::location::upstream_settings;
use super::mount::{Keys, put};
use super::path::has_variable;
use super::report::Report;
use super::scope::Scope;
use super::upstream_scope::UpstreamScope;

/// Adds the parameters of a script that answers every path of a location: `SCRIPT_FILENAME
/// $document_root/index.php`.
pub(super) fn only_script(block: &Block<'_>, keys: &mut Keys, report: &mut Report) {
    let params = block.all(Kind::Upstream(UpstreamKind::FastcgiParam));
    let named = |name: &str| params.iter().rev().find(|d| d.arg(0) == name);
    let Some(d) = named("SCRIPT_FILENAME") else { return };
    let roots = ["$document_root/", "$realpath_root/"];
    let script = roots.iter().find_map(|root| d.arg(1).strip_prefix(root));
    let root = block.get(|scope| &scope.root).as_deref().map(|root| root.trim_end_matches('/'));
    match (script, root) {
        _ if matches!(
            d.arg(1),
            "$document_root$fastcgi_script_name" | "$realpath_root$fastcgi_script_name"
        ) => {}
        (Some(script), Some(root)) if !has_variable(script) => {
            let own = match keys.iter_mut().find(|(key, _)| key == "params") {
                Some((_, Value::Table(own))) => own,
                _ => {
                    put(keys, "params", toml::Table::new());
                    let Some((_, Value::Table(own))) = keys.last_mut() else { return };
                    own
                }
            };
            own.insert("SCRIPT_FILENAME".to_owned(), Value::from(format!("{root}/{script}")));
            own.insert("DOCUMENT_ROOT".to_owned(), Value::from(root));
            let name = named("SCRIPT_NAME").map(|d| d.arg(1)).filter(|name| !has_variable(name));
            if let Some(name) = name {
                own.insert("SCRIPT_NAME".to_owned(), Value::from(name));
            }
            own.insert("PATH_INFO".to_owned(), Value::from(""));
        }
        _ if has_variable(d.arg(1)) => report.refuse(
            d,
            "hurtle finds scripts by their paths; write location ~ \\.php$, and try_files",
        ),
        _ => {}
    }
}

/// Compares `SCRIPT_FILENAME` of a block with the path of the script beneath `root`, which hurtle
/// gives the application. `known`: other forms of that path.
pub(super) fn script_filename(
    block: &Block<'_>,
    root: Option<&str>,
    known: &[String],
    report: &mut Report,
) {
    let params = block.all(Kind::Upstream(UpstreamKind::FastcgiParam));
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
    let names = ["$fastcgi_script_name", "$script_name", "$uri"];
    let directory = names.iter().find_map(|name| value.strip_suffix(name));
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
