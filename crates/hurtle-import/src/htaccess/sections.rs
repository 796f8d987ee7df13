//! Sections of a .htaccess file with the directives in them: those for all requests, and those for
//! files or methods. `<IfModule>` and `<IfVersion>` are decided here.

use super::file_set::FileSet;
use super::harmless;
use super::methods::Methods;
use crate::report::Report;
use crate::syntax::Directive;

/// The release of Apache for which `<IfVersion>` is decided.
const VERSION: [u32; 3] = [2, 4, 66];

/// Modules whose directives have a counterpart here; `<IfModule>` of others is false.
const MODULES: [&str; 20] = [
    "access_compat",
    "alias",
    "auth_basic",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "autoindex",
    "core",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "mime",
    "negotiation",
    "rewrite",
    "setenvif",
    "version",
];

/// Directives for the same requests.
#[derive(Debug)]
pub(super) struct Section<'d> {
    /// The directive that begins it; `None`: the file.
    pub(super) at: Option<&'d Directive>,
    pub(super) files: Option<FileSet>,
    pub(super) methods: Option<Methods>,
    /// The place of the section around it.
    pub(super) within: usize,
    /// The place of the section whose requests it has some methods of, or its own.
    pub(super) home: usize,
    pub(super) own: Vec<&'d Directive>,
}

/// Returns the sections in order; the first one is that of all requests.
pub(super) fn of<'d>(directives: &'d [Directive], report: &mut Report) -> Vec<Section<'d>> {
    let top = Section { at: None, files: None, methods: None, within: 0, home: 0, own: Vec::new() };
    let mut sections = vec![top];
    collect(directives, 0, &mut sections, report);
    sections
}

fn collect<'d>(
    directives: &'d [Directive],
    within: usize,
    sections: &mut Vec<Section<'d>>,
    report: &mut Report,
) {
    for d in directives {
        let begun = match d.name.to_ascii_lowercase().as_str() {
            "<ifmodule>" => {
                let (is_there, is_known) = is_module(d.arg(0));
                match (is_there, is_known) {
                    (true, is_known) => {
                        if !is_known {
                            report.remark(d, "the module is taken for absent: these lines apply");
                        }
                        collect(d.children(), within, sections, report);
                    }
                    (false, true) => {}
                    (false, false) if !harmless::is_idle(d) => {
                        report.refuse(d, "write its lines without <IfModule>, or take them out: it is not known here");
                    }
                    (false, false) => {
                        report.remark(d, "the module is taken for absent, and so are these lines");
                    }
                }
                continue;
            }
            "<ifversion>" => {
                match is_version(&d.args) {
                    Some(true) => collect(d.children(), within, sections, report),
                    Some(false) => {}
                    None => report.refuse(d, "it compares a version with =, >, >=, < or <="),
                }
                continue;
            }
            "<files>" | "<filesmatch>" => match FileSet::of(d) {
                Ok(_) if sections[within].methods.is_some() => {
                    Err("Apache answers 500: write <Limit> in the section of files".to_owned())
                }
                Ok(_) if sections[within].files.is_some() => {
                    Err("it is in a section of files".to_owned())
                }
                Ok(files) => Ok((Some(files), None)),
                Err(needs) => Err(needs),
            },
            "<limit>" | "<limitexcept>" if sections[within].methods.is_some() => {
                Err("it is in a section of methods".to_owned())
            }
            "<limit>" | "<limitexcept>" => {
                Methods::of(d).map(|methods| (sections[within].files.clone(), Some(methods)))
            }
            _ => {
                sections[within].own.push(d);
                continue;
            }
        };
        match begun {
            Ok((files, methods)) => {
                let last = sections.len();
                let home = if methods.is_some() { within } else { last };
                sections.push(Section {
                    at: Some(d),
                    files,
                    methods,
                    within,
                    home,
                    own: Vec::new(),
                });
                collect(d.children(), last, sections, report);
            }
            Err(needs) => report.refuse(d, needs),
        }
    }
}

/// `true` for a module with a counterpart, or for `!` and one without; and `true` for one with a
/// counterpart in any case.
fn is_module(written: &str) -> (bool, bool) {
    let (name, is_wanted) = match written.strip_prefix('!') {
        Some(name) => (name, false),
        None => (written, true),
    };
    let name = name.to_ascii_lowercase();
    let bare = name.strip_prefix("mod_").and_then(|name| name.strip_suffix(".c"));
    let bare = bare.or(name.strip_suffix("_module")).unwrap_or(&name);
    let is_php =
        bare.strip_prefix("php").is_some_and(|rest| rest.parse::<u8>().is_ok() || rest.is_empty());
    let is_known = MODULES.contains(&bare) || is_php;
    (is_known == is_wanted, is_known)
}

fn is_version(args: &[String]) -> Option<bool> {
    let (operator, version) = match args {
        [version] => ("=", version),
        [operator, version] => (operator.as_str(), version),
        _ => return None,
    };
    let (operator, is_wanted) = match operator.strip_prefix('!') {
        Some(operator) => (operator, false),
        None => (operator, true),
    };
    let parts: Vec<u32> = version.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let order = VERSION[..].cmp(&parts[..]);
    // `= 2.4` is every release of it.
    let is_of = VERSION.starts_with(&parts);
    let found = match operator {
        "=" | "==" => is_of,
        ">" => order.is_gt() && !is_of,
        ">=" => order.is_ge() || is_of,
        "<" => order.is_lt() && !is_of,
        "<=" => order.is_le() || is_of,
        _ => return None,
    };
    Some(found == is_wanted)
}

#[cfg(test)]
mod tests {
    use super::{is_module, is_version};

    #[test]
    fn modules_and_versions() {
        let rows = [
            ("mod_rewrite.c", true),
            ("rewrite_module", true),
            ("!mod_authz_core.c", false),
            ("mod_php7.c", true),
            ("php_module", true),
            ("mod_php.c", true),
            ("mod_phpx.c", false),
            ("pagespeed_module", false),
            ("!mod_access_compat.c", false),
            ("!mod_x.c", true),
        ];
        for (name, expected) in rows {
            assert_eq!(is_module(name).0, expected, "{name}");
        }
        let rows = [
            (">= 2.4", Some(true)),
            ("< 2.4", Some(false)),
            ("> 2.4", Some(false)),
            ("2.4", Some(true)),
            ("!< 2.3", Some(true)),
            ("~ 2.*", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(is_version(&args), expected, "{text}");
        }
    }
}
