//! Translates a Caddyfile to hurtle's configuration.
//!
//! `syntax` parses the text, `include` puts in snippets and files. `global` has the options of all
//! sites, `listeners` chooses those of their listeners, `address` has the addresses of one, and
//! `matcher` the conditions with their patterns of paths (`pattern`). `order` sorts directives as
//! Caddy does, so that `block` can make mounts in the order in which Caddy tries its handlers
//! (`handlers`), with the settings of the blocks around them (`scope`), as `parts` of a site, by
//! `place`; `redirect`, `rewrite`, `tries`, `proxy`, `fields`, `access` and `errors` translate one
//! kind of directive each, and `hidden` keeps the Caddyfile from clients. `site` joins them, and
//! `sites` adds listeners. `partial` closes what is refused. Only `include` touches the disk.

mod access;
mod address;
mod block;
mod condition;
mod error_lines;
mod error_pages;
mod errors;
mod fastcgi_script;
mod fields;
mod global;
mod handlers;
mod header;
mod hidden;
mod include;
mod listeners;
mod matcher;
mod metrics;
mod order;
mod partial;
mod parts;
mod pattern;
mod place;
mod proxy;
mod redirect;
mod rewrite;
mod scope;
mod setting;
mod site;
mod sites;
mod syntax;
mod tries;

use std::path::Path;

use super::Imported;
use super::emit::{self, Source};
use super::mount::{Keys, ServerConfig, put_list};
use super::report::Report;
use super::syntax::Directive;
use hidden::ConfigFiles;

/// Differences between the two servers that no directive controls.
const GENERAL: [&str; 10] = [
    "Caddy compares paths without regard to case: /API/x meets /api/* there, and not here.",
    "Names that begin with a dot are not served, and symbolic links must stay beneath the directory (dotfiles, \
     symlinks).",
    "A directory without its slash is redirected with 301, in Caddy with 308.",
    "A method that files do not have, such as POST, gets 405, in Caddy 404 if the file is missing.",
    "A refusal by a gate, such as 401 or 403, has the fields of its mount.",
    "Files are compressed without a setting; errors have hurtle's own pages.",
    "A field of `header` replaces the upstream's own of that name, of which Caddy sends both.",
    "URLs of an upstream's own address, in Location and cookies, become this server's: `Location: http://127.0.0.1:3000/x` \
     (rewrite_location).",
    "Upstreams that fail three times get no requests for 10 seconds (ejection), and get 60 seconds for a response \
     (first_byte_timeout, read_timeout).",
    "A variable without a value and a default is an error; in Caddy it is empty.",
];

/// Translates a Caddyfile and the files that it imports. `is_partial`: what cannot be translated is
/// left out where that opens nothing, and else its site answers 403.
///
/// # Errors
/// Every directive that cannot be translated, one line each.
pub fn caddy_file(file: &Path, is_partial: bool) -> Result<Imported, Vec<String>> {
    translated(include::read(file)?, file, is_partial)
}

/// Translates a Caddyfile that imports no files.
///
/// # Errors
/// As for `caddy_file`.
pub fn caddy(text: &str, is_partial: bool) -> Result<Imported, Vec<String>> {
    let file = "Caddyfile";
    translated(include::expand(text, file, false)?, Path::new(file), is_partial)
}

fn translated(
    blocks: Vec<Directive>,
    file: &Path,
    is_partial: bool,
) -> Result<Imported, Vec<String>> {
    let files = ConfigFiles::of(file, &blocks);
    match is_partial {
        true => partial::translate_partially(blocks, &files),
        false => whole(&blocks, &files),
    }
}

fn whole(blocks: &[Directive], files: &ConfigFiles) -> Result<Imported, Vec<String>> {
    let mut report = Report::default();
    let server = translate(blocks, files, &mut report);
    match report.problems.is_empty() {
        true => written(&server, &report, blocks),
        false => Err(report.lines()),
    }
}

/// Translates the blocks of these files.
fn translate(blocks: &[Directive], files: &ConfigFiles, report: &mut Report) -> ServerConfig {
    let mut out = ServerConfig::default();
    let mut global = global::read(blocks, files, report);
    let (mut sites, mut of_metrics) = (Vec::new(), Vec::new());
    for block in blocks.iter().filter(|block| !block.name.is_empty()) {
        match block.name.starts_with(['&', '@']) {
            true => report.refuse(block, "named routes are written where they are used"),
            false => match metrics::listener(block, &global, report) {
                Some(addresses) => of_metrics.extend(addresses),
                None => sites.push(site::translate(block, &mut global, report)),
            },
        }
    }
    sites::add(&sites, &global, &mut out, report);
    if !of_metrics.is_empty() {
        let mut keys = Keys::new();
        put_list(&mut keys, "listen", &of_metrics);
        out.tables.push(("metrics", keys));
    }
    out
}

/// Writes a translated configuration, and checks it.
fn written(
    server: &ServerConfig,
    report: &Report,
    blocks: &[Directive],
) -> Result<Imported, Vec<String>> {
    if server.sites.is_empty() {
        let file = blocks.first().map_or("Caddyfile", |block| &*block.at.file);
        return Err(vec![format!("{file}: no site is in it, nor in the files that it imports")]);
    }
    let text = emit::text(server, report, Source::Caddy, &GENERAL);
    match hurtle_config::check(&stand_ins(&text), Path::new(super::FILE)) {
        Ok(_) => Ok(Imported { text, left_out: report.left_out.len() }),
        // The values of directives, such as addresses and names, are checked here.
        Err(problems) => Err(problems.iter().map(|p| format!("translated: {p}")).collect()),
    }
}

/// The text with a value in place of each variable that has no default, so that it can be checked.
fn stand_ins(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let key = line.split(" = ").next().unwrap_or_default();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{env.") {
            out.push_str(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let plain = name.to_ascii_lowercase().replace('_', "-");
            match name.split_once(':') {
                Some((_, default)) => out.push_str(default),
                None if before.ends_with(':') => out.push_str("8080"),
                None => match key {
                    "trusted_proxies" | "match" if !before.ends_with('/') => {
                        out.push_str("192.0.2.0/24");
                    }
                    "hosts" if !after.starts_with('.') => {
                        out.push_str(&format!("{plain}.example.org"));
                    }
                    "email" => out.push_str(&format!("{plain}@example.org")),
                    _ => out.push_str(&plain),
                },
            }
            rest = after;
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}
