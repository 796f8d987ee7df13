//! `hurtle import`: translates nginx's configuration to hurtle's, Caddyfiles (`caddy`), and
//! .htaccess files of Apache (`htaccess`).
//!
//! `syntax` parses the text, and `include` reads the files. `kind` and `tuning` list the
//! directives. `block` holds those of a block until a translation takes them; `scope`, `setting`,
//! `shared`, `gates` and `upstream_settings` have the settings that blocks inherit. `server`,
//! `mounts`, `location`, `cache`, `files`, `guard`, `scripts`, `rules` and `headers` translate;
//! `overlap` refuses what nginx would serve by another location, and `satisfy` has addresses that
//! need no password. `sites` makes sites of the servers, and `emit` writes the TOML. Only
//! `include` touches the disk.
//!
//! Before that, `set_chains`, `constants`, `captures`, `proxied_paths`, `url_rewrites`, `nested`,
//! `named_pages`, `missing_files` and `exact_forms` write variables of conditions and of
//! constants, parts of paths, redirects, locations within locations, names of pages, conditions on
//! files and exact locations in plainer forms. `predicate`, `subject` and `value_map` have the
//! conditions of `if` and the maps that they ask; `map_conditions` and `map_value` translate uses
//! of their values. `variables` reads the names of variables in arguments.
//!
//! `expressions` has the locations of regular expressions, `nested_scripts` the applications of
//! PHP within a location, `front_script` the script that answers for missing files, and
//! `behind_scripts` the guards of scripts.
//!
//! `partial` takes out what is refused, and closes what that would open.
//!
//! A directive that changes responses is translated or refused. One that only tunes nginx is left
//! out, and a comment in the output names it.

mod asked_pages;
mod behind_scripts;
mod block;
mod cache;
pub mod caddy;
mod captures;
mod client_limits;
mod closed;
mod condition;
mod connection_limits;
mod constants;
mod emit;
mod error_pages;
mod exact_forms;
mod exact_pages;
mod expires;
mod expression;
mod expressions;
mod fastcgi;
mod files;
mod front_script;
mod gates;
mod guard;
mod headers;
pub mod htaccess;
mod https_redirect;
mod include;
pub mod kind;
mod location;
mod main_context;
mod map_conditions;
mod map_value;
mod missing_files;
mod modifier;
mod mount;
mod mounts;
mod named;
mod named_pages;
mod nested;
mod nested_scripts;
mod overlap;
mod page_fields;
mod partial;
mod path;
mod predicate;
mod private_paths;
mod proxied_paths;
mod redirect;
mod regex;
mod report;
mod rewritten_paths;
mod rules;
mod satisfy;
mod scope;
mod script_sources;
mod scripts;
mod server;
mod server_keys;
mod set_chains;
mod setting;
mod shared;
mod sites;
mod slashes;
mod subject;
pub mod syntax;
pub mod tuning;
mod type_map;
mod upstream;
mod upstream_scope;
mod upstream_settings;
mod url_rewrites;
mod uwsgi;
mod value_map;
mod variables;
mod www_redirect;

use std::path::Path;

use emit::Source;
use mount::ServerConfig;
use report::Report;
use syntax::Directive;

/// The file name in problems of the translated configuration.
const FILE: &str = "hurtle.toml";

/// Differences between the two servers that no directive controls.
const GENERAL: [&str; 3] = [
    "A location /name is nginx's prefix of names, /name-other too; a mount is the path and all \
     beneath it.",
    "The directory of a location must be there when hurtle starts; if it is removed, its paths are 500, and its own \
     path is redirected to its slash. nginx answers 404.",
    "Names that begin with a dot are not served, and symbolic links must stay beneath the directory \
     (dotfiles, symlinks).",
];

/// A configuration that was translated, as a whole or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The configuration in TOML, with comments.
    pub text: String,
    /// Number of directives that it leaves out, which change responses.
    pub left_out: usize,
}

/// Translates a file of nginx and the files that it includes to TOML with comments. Relative names
/// in `include` are looked up in `prefix`. `is_partial`: what cannot be translated is left out
/// where that opens nothing, and else its location or server answers 403.
///
/// # Errors
/// Every directive that cannot be translated, one line each.
pub fn nginx_file(file: &Path, prefix: &Path, is_partial: bool) -> Result<Imported, Vec<String>> {
    let directives = include::read(file, prefix)?;
    match is_partial {
        true => nginx_partially(&directives),
        false => nginx(&directives).map(|text| Imported { text, left_out: 0 }),
    }
}

/// Translates parsed directives. The result is a valid configuration, its files aside.
///
/// # Errors
/// Every directive that cannot be translated, one line each.
pub fn nginx(directives: &[Directive]) -> Result<String, Vec<String>> {
    let (directives, remarks) = prepared(directives);
    let directives = &directives;
    let mut report = Report { remarks, ..Report::default() };
    let server = main_context::translate(directives, &mut report);
    if !report.problems.is_empty() {
        return Err(report.lines());
    }
    written(&server, &report, directives).map(|imported| imported.text)
}

/// Translates the directives that can be. Others are left out where that opens nothing; else their
/// location or server answers 403.
///
/// # Errors
/// Problems of the whole configuration, one line each.
pub fn nginx_partially(directives: &[Directive]) -> Result<Imported, Vec<String>> {
    let (directives, remarks) = prepared(directives);
    partial::translate(&directives, &remarks)
}

/// Writes what has a plainer form in that form. Returns what differs there, too.
fn prepared(directives: &[Directive]) -> (Vec<Directive>, Vec<String>) {
    let mut remarks = Vec::new();
    let plain = map_conditions::as_comparisons(directives);
    let plain = proxied_paths::as_proxies(&plain, &mut remarks);
    let plain = constants::written_out(&set_chains::as_conditions(&plain));
    let plain = url_rewrites::as_returns(&captures::as_prefixes(&plain, &mut remarks));
    let lifted = named_pages::as_pages(&nested::lifted(&plain));
    let searched = missing_files::as_try_files(&lifted, &mut remarks);
    (exact_forms::plain(&searched), remarks)
}

/// Writes a translated configuration, and checks it.
fn written(
    server: &ServerConfig,
    report: &Report,
    directives: &[Directive],
) -> Result<Imported, Vec<String>> {
    if server.sites.is_empty() {
        let file = directives.first().map_or("", |directive| &*directive.at.file);
        return Err(vec![format!("{file}: no server is in it, nor in the files that it includes")]);
    }
    let text = emit::text(server, report, Source::Nginx, &GENERAL);
    match hurtle_config::check(&text, Path::new(FILE)) {
        Ok(_) => Ok(Imported { text, left_out: report.left_out.len() }),
        // The values of directives, such as addresses and names, are checked here.
        Err(problems) => Err(problems.iter().map(|p| format!("translated: {p}")).collect()),
    }
}
