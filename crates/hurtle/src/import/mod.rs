//! `hurtle import`: translates nginx's configuration to hurtle's.
//!
//! `syntax` parses the text, `include` reads the files, `scope` collects the settings that
//! directives inherit, `shared` those of the whole server, `gates` those of limits, authentication,
//! TLS to upstreams and compression. `location`, `files`, `guard`, `mounts` and `server` translate
//! blocks, `sites` makes sites of the servers, and `emit` writes the TOML. Only `include` touches the disk.
//!
//! A directive that changes responses is translated or refused. One that only tunes nginx is left
//! out, and a comment in the output names it.

mod emit;
mod files;
mod gates;
mod guard;
mod include;
mod location;
mod main_context;
mod mount;
mod mounts;
mod path;
mod regex;
mod report;
mod scope;
mod server;
mod server_keys;
mod shared;
mod sites;
pub mod syntax;
mod tuning;
mod upstream;

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
    match config::check(&text, Path::new(FILE)) {
        Ok(_) => Ok(text),
        // The values of directives, such as addresses and names, are checked here.
        Err(problems) => Err(problems.iter().map(|p| format!("translated: {p}")).collect()),
    }
}
