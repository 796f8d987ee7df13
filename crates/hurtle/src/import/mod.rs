//! `hurtle import`: translates nginx's configuration to hurtle's.
//!
//! `syntax` parses the text, and `include` reads the files. `kind` and `tuning` list the directives.
//! `block` holds those of a block until a translation takes them; `scope`, `setting`, `shared`,
//! `gates` and `upstream_settings` have the settings that blocks inherit. `server`, `mounts`,
//! `location`, `files`, `guard`, `scripts`, `rules` and `headers` translate; `overlap` refuses what
//! nginx would serve by another location. `sites` makes sites of the servers, and `emit` writes the
//! TOML. Only `include` touches the disk.
//!
//! A directive that changes responses is translated or refused. One that only tunes nginx is left
//! out, and a comment in the output names it.

mod block;
mod closed;
mod condition;
mod emit;
mod expression;
mod files;
mod gates;
mod guard;
mod headers;
mod https_redirect;
mod include;
pub mod kind;
mod location;
mod main_context;
mod modifier;
mod mount;
mod mounts;
mod named;
mod overlap;
mod path;
mod regex;
mod report;
mod rules;
mod scope;
mod scripts;
mod server;
mod server_keys;
mod setting;
mod shared;
mod sites;
mod slashes;
pub mod syntax;
pub mod tuning;
mod upstream;
mod upstream_settings;

use std::path::Path;

use crate::config;
use report::Report;
use syntax::Directive;

/// The file name in problems of the translated configuration.
const FILE: &str = "hurtle.toml";

/// Translates a file of nginx and the files that it includes to TOML with comments. Relative names
/// in `include` are looked up in `prefix`.
///
/// # Errors
/// Every directive that cannot be translated, one line each.
pub fn nginx_file(file: &Path, prefix: &Path) -> Result<String, Vec<String>> {
    nginx(&include::read(file, prefix)?)
}

/// Translates parsed directives. The result is a valid configuration, its files aside.
///
/// # Errors
/// Every directive that cannot be translated, one line each.
pub fn nginx(directives: &[Directive]) -> Result<String, Vec<String>> {
    let mut report = Report::default();
    let server = main_context::translate(directives, &mut report);
    let text = emit::text(&server, &report);
    if !report.problems.is_empty() {
        return Err(report.lines());
    }
    if server.sites.is_empty() {
        let file = directives.first().map_or("", |directive| &*directive.at.file);
        return Err(vec![format!("{file}: no server is in it, nor in the files that it includes")]);
    }
    match config::check(&text, Path::new(FILE)) {
        Ok(_) => Ok(text),
        // The values of directives, such as addresses and names, are checked here.
        Err(problems) => Err(problems.iter().map(|p| format!("translated: {p}")).collect()),
    }
}
