//! Translates a .htaccess file of Apache's httpd to hurtle's configuration.
//!
//! `syntax` parses the text, and `tree` looks at the directory, as only `include` does elsewhere.
//! `sections` decides `<IfModule>` and finds what is for some files (`file_set`) or `methods`. Each
//! module of Apache has a translation: `rewrite`, `alias`, `access`, `headers`, `expires` with
//! `media_names`, `settings`. `pattern` and `lookahead` have the expressions. `site` puts the
//! `parts` together, with the mounts of `serving`, and `section_guards` orders those of sections.
//! `partial` closes what is refused, and `harmless` knows what may be left out.

mod access;
mod alias;
mod expires;
mod file_set;
mod harmless;
mod headers;
mod indexes;
mod lookahead;
mod media_names;
mod methods;
mod partial;
mod parts;
mod pattern;
mod rewrite;
mod section_guards;
mod sections;
mod serving;
mod settings;
mod site;
mod syntax;
mod tree;

use std::path::Path;

pub use self::tree::Tree;
use super::Imported;
use super::emit::{self, Source};
use super::mount::ServerConfig;
use super::report::Report;

/// The reason for a refusal where the host of a request is needed.
const NEEDS_HOSTS: &str = "it depends on the host: name the hosts with --host";

/// Differences between the two servers that no directive controls.
const GENERAL: [&str; 6] = [
    "Names that begin with a dot are 404, and symbolic links must stay beneath the directory (dotfiles, symlinks): \
     GET /.htaccess, in Apache 403.",
    "A directory without an index is 404, in Apache 403: GET /empty/.",
    "Files have no methods but GET, HEAD and OPTIONS: POST /a.txt gets 405; Apache sends the file.",
    "Redirects, such as that of GET /dir to its slash, have the fields of `Header`, which in Apache only `Header always` \
     adds to them; refusals have those of `always`.",
    "Texts of redirects and errors are hurtle's own, and Location is a path where Apache makes it absolute.",
    "Files are compressed without a setting, and media types are those of hurtle's table.",
];

/// Settings of an import that a .htaccess file does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Names of the site, in lower case.
    pub hosts: Vec<String>,
    /// The address of PHP-FPM, as `fastcgi` has it.
    pub fastcgi: Option<String>,
}

/// Translates a file for the directory that it is in. `is_partial`: what cannot be translated is
/// left out where that opens nothing, and else its paths, its files or the site answer 403.
///
/// # Errors
/// Every directive that cannot be translated, one line each.
pub fn htaccess_file(
    file: &Path,
    options: &Options,
    is_partial: bool,
) -> Result<Imported, Vec<String>> {
    let text = tree::text_of(file).map_err(|problem| vec![problem])?;
    translate(&text, &file.display().to_string(), options, &Tree::of(file), is_partial)
}

/// Translates a text for a directory.
///
/// # Errors
/// As for `htaccess_file`.
pub fn htaccess(
    text: &str,
    tree: &Tree,
    options: &Options,
    is_partial: bool,
) -> Result<Imported, Vec<String>> {
    translate(text, ".htaccess", options, tree, is_partial)
}

fn translate(
    text: &str,
    file: &str,
    options: &Options,
    tree: &Tree,
    is_partial: bool,
) -> Result<Imported, Vec<String>> {
    let directives = syntax::parse(text, file).map_err(|e| vec![e.to_string()])?;
    if is_partial {
        return partial::translate(directives, options, tree);
    }
    let mut report = Report::default();
    let server = site::translate(&directives, options, tree, &mut report);
    match report.problems.is_empty() {
        true => written(&server, &report),
        false => Err(report.lines()),
    }
}

/// Writes a translated configuration, and checks it.
fn written(server: &ServerConfig, report: &Report) -> Result<Imported, Vec<String>> {
    let text = emit::text(server, report, Source::Apache, &GENERAL);
    match hurtle_config::check(&text, Path::new(super::FILE)) {
        Ok(_) => Ok(Imported { text, left_out: report.left_out.len() }),
        // The values of directives, such as addresses and names, are checked here.
        Err(problems) => Err(problems.iter().map(|p| format!("translated: {p}")).collect()),
    }
}
