//! The keys of the mount that serves the directory: files, or the scripts of PHP.

use toml::Value;

use super::Options;
use super::file_set::regex;
use super::parts::Parts;
use super::rewrite::Front;
use super::tree::Tree;
use crate::mount::{Keys, put, put_list};
use crate::report::Report;
use crate::script_sources::is_script;
use crate::syntax::Directive;

/// The address of PHP-FPM where none is named.
const FASTCGI: &str = "unix:/run/php/php-fpm.sock";

/// Translates `FallbackResource`.
pub(super) fn fallback<'d>(d: &'d Directive, parts: &mut Parts<'d>) -> Result<(), String> {
    let path = d.arg(0);
    if path.eq_ignore_ascii_case("disabled") {
        return Ok(());
    }
    if parts.front.is_some() {
        return Err("another page or script answers missing files already".to_owned());
    }
    let is_plain = path.starts_with('/') && !path.contains(['?', '#', '%']) && !path.contains("/.");
    if !is_plain {
        return Err("write a path that begins with a slash".to_owned());
    }
    let is_script = path.ends_with(".php");
    if is_script && path[1..].contains('/') {
        return Err(
            "the script is in this directory: import the .htaccess of its own one".to_owned()
        );
    }
    check_page(path)?;
    parts.settings.has_php |= is_script;
    let path = path.to_owned();
    parts.front =
        Some(Front { d, path, takes_directories: false, except: Vec::new(), is_end: false });
    Ok(())
}

/// Refuses a page that is a script by its name, but none that is run here.
///
/// # Errors
/// Its source would be sent.
pub(super) fn check_page(path: &str) -> Result<(), String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_run = name.ends_with(".php") || !is_script(name);
    // A handler of .php may be one of this name, too.
    match is_run && !name.to_ascii_lowercase().contains(".php.") {
        true => Ok(()),
        false => {
            Err(format!("the source of {name} would be sent: of scripts those of .php are run"))
        }
    }
}

/// Refuses the target of a rewrite for the same reason, also where more follows the script.
///
/// # Errors
/// The source of a script would be sent, or the script would not run.
pub(super) fn check_target(path: &str, tree: &Tree) -> Result<(), String> {
    let is_file = |name: &&str| tree.files.iter().any(|file| file == name);
    let mut programs = path.split('/').filter(|name| name.ends_with("cgi") || is_file(name));
    programs.try_for_each(check_page)?;
    check_page(path)
}

/// Has scripts run that are in the directory. Where files are served that a mount of scripts does
/// not find, or where not all directories are known, the names of scripts answer 403.
pub(super) fn scripts_in(tree: &Tree, parts: &mut Parts<'_>, report: &mut Report) {
    if parts.settings.has_php || !(tree.has_scripts || tree.is_cut) {
        return;
    }
    let is_of_files = parts.front.is_some() || !parts.suffixes.is_empty();
    if tree.has_scripts && !is_of_files {
        parts.settings.has_php = true;
        return;
    }
    let place = vec![("match".to_owned(), regex(r"(?i)\.php(/|$)".to_owned()))];
    parts.refuse(place, 403);
    report.general(
        "Scripts of PHP are not run, as no directive is about them, and their names are 403: GET /x.php; \
         --fastcgi names the address of PHP-FPM."
            .to_owned(),
    );
}

/// Closes the names of scripts that are not found as such, whose sources would be sent.
pub(super) fn other_scripts(tree: &Tree, parts: &mut Parts<'_>, report: &mut Report) {
    if parts.settings.has_inner_php {
        let names = regex(r"(?i)\.php\.[^/]*$".to_owned());
        parts.refuse(vec![("match".to_owned(), names)], 403);
        report.general(
            "Names with .php before another ending are 403; Apache runs them for AddHandler, and for AddType if the \
             ending has no type: GET /x.php.bak."
                .to_owned(),
        );
    }
    if !(tree.has_other_scripts || tree.is_cut) {
        return;
    }
    let names = regex(r"(?i)\.(?:phtml|phar|phps|php[3-8])(/|$)".to_owned());
    parts.refuse(vec![("match".to_owned(), names)], 403);
    report.general(
        "Of scripts those with .php alone are run, and names such as x.phtml are 403: GET /x.phtml."
            .to_owned(),
    );
}

/// The names of indexes.
pub(super) fn index(parts: &Parts<'_>) -> Vec<String> {
    match &parts.settings.index {
        Some(names) => names.clone(),
        None if parts.settings.has_php => vec!["index.html".to_owned(), "index.php".to_owned()],
        None => vec!["index.html".to_owned()],
    }
}

/// The keys of a mount; `has_front`: it has the page or script for missing files.
pub(super) fn keys(
    parts: &Parts<'_>,
    options: &Options,
    tree: &Tree,
    has_front: bool,
    report: &mut Report,
) -> Keys {
    let front = parts.front.as_ref().filter(|_| has_front);
    let mut keys = match parts.settings.has_php {
        true => scripts(parts, front, options, tree, report),
        false => files(parts, front, tree, report),
    };
    if parts.settings.has_no_links {
        put(&mut keys, "symlinks", "never");
    }
    keys
}

fn files(parts: &Parts<'_>, front: Option<&Front<'_>>, tree: &Tree, report: &mut Report) -> Keys {
    let settings = &parts.settings;
    let mut keys = Keys::new();
    put(&mut keys, "files", tree.root.as_str());
    let names = index(parts);
    if front.is_some_and(|front| front.takes_directories) {
        put(&mut keys, "index", Vec::<String>::new());
    } else if names != ["index.html"] {
        put(&mut keys, "index", names);
    }
    let mut tried = vec!["{path}".to_owned()];
    tried.extend(parts.suffixes.iter().map(|(_, suffix)| format!("{{path}}{suffix}")));
    tried.extend(front.map(|front| front.path.clone()));
    if tried.len() > 1 {
        put(&mut keys, "try_files", tried);
    }
    if let Some(front) = front {
        report.remark(
            front.d,
            &format!("a request of another method for a missing path is not answered by {}: POST /x gets 405", front.path),
        );
    }
    if settings.lists && settings.hides_names {
        report.general(
            "Directories are not listed, as a list would have the names that IndexIgnore hides: GET /dir/."
                .to_owned(),
        );
    } else if settings.lists {
        put(&mut keys, "listing", true);
    }
    if settings.has_no_etag {
        put(&mut keys, "etag", "off");
    }
    if !settings.types.is_empty() {
        let types =
            settings.types.iter().map(|(ext, media)| (ext.clone(), Value::from(media.as_str())));
        put(&mut keys, "media_types", types.collect::<toml::Table>());
    }
    keys
}

fn scripts(
    parts: &Parts<'_>,
    front: Option<&Front<'_>>,
    options: &Options,
    tree: &Tree,
    report: &mut Report,
) -> Keys {
    let settings = &parts.settings;
    let mut keys = Keys::new();
    let address = match options.fastcgi.as_ref().or(settings.fastcgi.as_ref()) {
        Some(address) => address.as_str(),
        None => {
            report.general(format!(
                "Scripts are run by PHP-FPM at {FASTCGI}: GET /index.php is 502 if it is elsewhere; --fastcgi names \
                 another address."
            ));
            FASTCGI
        }
    };
    put(&mut keys, "fastcgi", address);
    put(&mut keys, "root", tree.root.as_str());
    let mut names = index(parts);
    if settings.index.is_none() {
        report.general(
            "The indexes are index.html and index.php, as in Debian's configuration, for this file has no \
             DirectoryIndex: GET /."
                .to_owned(),
        );
    }
    for (d, _) in &parts.suffixes {
        report.refuse(d, "a mount of scripts finds files by their whole names");
    }
    let page = front.filter(|front| front.script().is_none());
    if let Some(page) = page {
        report.refuse(page.d, "a page for missing files beside scripts of PHP: write a script");
    }
    let script = front.and_then(Front::script);
    match (script, front) {
        (Some(script), Some(front)) => {
            if front.takes_directories {
                names.clear();
            }
            let first = names.iter().position(|name| name.ends_with(".php"));
            match first {
                Some(at) if names[at] == script => {}
                at => names.insert(at.unwrap_or(names.len()), script.to_owned()),
            }
            report.remark(
                front.d,
                &format!(
                    "directories without an index are answered by {script}, and a directory gets its slash first: GET \
                     /dir"
                ),
            );
            // Apache hands scripts that are not there on, too.
            put(&mut keys, "front_for_scripts", true);
        }
        _ => put(&mut keys, "front_controller", false),
    }
    match names.as_slice() {
        [] => put(&mut keys, "index", names),
        names if names != ["index.php"] => put_list(&mut keys, "index", names),
        _ => {}
    }
    let mut params = toml::Table::new();
    for (name, value) in &settings.variables {
        params.insert(name.clone(), Value::from(value.as_str()));
    }
    if !settings.php_values.is_empty() {
        params.insert("PHP_VALUE".to_owned(), Value::from(settings.php_values.join("\n")));
    }
    if !params.is_empty() {
        put(&mut keys, "params", params);
    }
    if settings.compresses {
        put(&mut keys, "compress", true);
    }
    if settings.lists {
        report.general("A mount of scripts lists no directories: GET /dir/ is 404.".to_owned());
    }
    if settings.has_no_etag {
        report.general("A mount of scripts has entity-tags for files: GET /a.css.".to_owned());
    }
    keys
}
