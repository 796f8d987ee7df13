//! Directives without which no client gets more than with them.

use super::settings::TUNING;
use crate::syntax::Directive;

/// Directives that only add to responses, in lower case.
const HARMLESS: &[&str] = &[
    "addcharset",
    "adddefaultcharset",
    "addencoding",
    "addlanguage",
    "addoutputfilter",
    "addoutputfilterbytype",
    "addtype",
    "browsermatch",
    "browsermatchnocase",
    "checkspelling",
    "defaultlanguage",
    "directoryindex",
    "errordocument",
    "expiresactive",
    "expiresbytype",
    "expiresdefault",
    "fileetag",
    "forcelanguagepriority",
    "header",
    "indexoptions",
    "languagepriority",
    "php_flag",
    "php_value",
    "rewritebase",
    "setenv",
    "setoutputfilter",
    "unsetenv",
];

/// Beginnings of directives of other modules that compress, cache or tune, in lower case.
const OF_OTHERS: [&str; 10] = [
    "brotli",
    "cache",
    "check",
    "h2",
    "lsapi_",
    "mod_gzip_",
    "modpagespeed",
    "secruleremove",
    "setenvif",
    "suphp_configpath",
];

/// Settings of PHP that keep clients from scripts, and scripts from files and functions.
const GUARDS_OF_PHP: [&str; 4] =
    ["auto_prepend_file", "disable_functions", "engine", "open_basedir"];

/// `true`: without it no client gets more. `has_scripts`: the site runs them without it, too.
pub(super) fn is_harmless(d: &Directive, has_scripts: bool) -> bool {
    let name = d.name.to_ascii_lowercase();
    let is_condition = matches!(name.as_str(), "<if>" | "<elseif>" | "<else>" | "<ifdefine>");
    // Without it the scripts of the directory run.
    let is_engine = matches!(name.as_str(), "php_flag" | "php_value") && d.arg(0) == "engine";
    // Without it the sources of scripts are sent.
    let has = |text: &str| d.args.iter().any(|arg| arg.to_ascii_lowercase().contains(text));
    let is_of_scripts = match name.as_str() {
        "addtype" => has("x-httpd") || has("server-parsed"),
        "addoutputfilter" | "addoutputfilterbytype" | "setoutputfilter" => has("includes"),
        "directoryindex" => has(".php") && !has_scripts,
        "php_flag" | "php_value" => !has_scripts,
        _ => false,
    };
    (HARMLESS.contains(&name.as_str()) && !is_engine && !is_of_scripts)
        || (is_condition && d.children().iter().all(|inner| is_harmless(inner, has_scripts)))
}

/// `true`: a section may be left out. All its lines only add to responses, compress, cache or
/// tune, or hand a password on to scripts.
pub(super) fn is_idle(section: &Directive) -> bool {
    section.children().iter().all(|d| {
        let name = d.name.to_ascii_lowercase();
        match name.as_str() {
            "<ifmodule>" | "<ifversion>" | "<ifdefine>" | "<if>" | "<elseif>" | "<else>"
            | "<files>" | "<filesmatch>" => is_idle(d),
            "php_flag" | "php_value" => !GUARDS_OF_PHP.contains(&d.arg(0)),
            "options" => d.args.iter().all(|arg| arg.eq_ignore_ascii_case("-multiviews")),
            // Scripts get the field with a password in any case.
            "requestheader" => {
                d.arg(0).eq_ignore_ascii_case("set")
                    && d.arg(1).to_ascii_lowercase().contains("authorization")
            }
            "secfilterengine" | "secfilterscanpost" | "secruleengine" => {
                d.arg(0).eq_ignore_ascii_case("off")
            }
            name => {
                is_harmless(d, false)
                    || TUNING.contains(&name)
                    || OF_OTHERS.iter().any(|begin| name.starts_with(begin))
            }
        }
    })
}
