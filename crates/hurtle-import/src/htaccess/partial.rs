//! Translates the part of a .htaccess file that can be translated (`--partial`). What cannot is
//! taken out where that opens nothing; else its paths, its files or the whole site answer 403.

use super::harmless::is_harmless;
use super::tree::Tree;
use super::{Options, site, written};
use crate::Imported;
use crate::report::{Problem, Report};
use crate::syntax::Directive;

/// Rounds in which directives are taken out or closed. Each leads to fewer of them.
const ROUNDS_MAX: usize = 200;

/// Translates what can be.
///
/// # Errors
/// Problems of the whole file, one line each.
pub(super) fn translate(
    mut directives: Vec<Directive>,
    options: &Options,
    tree: &Tree,
) -> Result<Imported, Vec<String>> {
    let mut left_out: Vec<String> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let mut report = Report::default();
        let server = site::translate(&directives, options, tree, &mut report);
        if report.problems.is_empty() {
            report.left_out = left_out;
            return match written(&server, &report) {
                Err(_) if !report.left_out.is_empty() => {
                    report.remarks.clear();
                    let closed = closed(&directives);
                    let server = site::translate(&closed, options, tree, &mut report);
                    written(&server, &report)
                }
                result => result,
            };
        }
        let mut has_changed = false;
        let has_scripts = options.fastcgi.is_some() || tree.has_scripts;
        for problem in &report.problems {
            let fate = change(&mut directives, problem, has_scripts);
            has_changed |= fate.is_some();
            let line = format!("{problem}. {}", fate.unwrap_or_default());
            if fate.is_some() && !left_out.contains(&line) {
                left_out.push(line);
            }
        }
        if !has_changed {
            let line = "The site answers 403.";
            left_out.extend(report.problems.iter().map(|problem| format!("{problem}. {line}")));
            let shut = closed(&directives);
            if shut == directives {
                return Err(report.lines());
            }
            directives = shut;
        }
    }
    Err(vec!["the file cannot be translated in parts".to_owned()])
}

/// Takes the directive of a problem out, or closes what is about it; returns what became of it.
/// `None`: it is not there any more. `has_scripts`: the site runs them in any case.
fn change(
    directives: &mut Vec<Directive>,
    problem: &Problem,
    has_scripts: bool,
) -> Option<&'static str> {
    let is_harmless = |d: &Directive| is_harmless(d, has_scripts);
    let at = directives.iter().position(|d| problem.is_of(d));
    if let Some(at) = at {
        let name = directives[at].name.to_ascii_lowercase();
        return Some(match name.as_str() {
            _ if is_harmless(&directives[at]) => {
                directives.remove(at);
                "It is left out."
            }
            "rewriterule" | "rewritecond" => rewrite(directives, at),
            "<files>" | "<filesmatch>" if !has_access(&directives[at]) => {
                directives.remove(at);
                "It is left out."
            }
            _ => {
                *directives = closed(directives);
                "The site answers 403."
            }
        });
    }
    for index in 0..directives.len() {
        let block = directives[index].children();
        let name = directives[index].name.to_ascii_lowercase();
        if !block.iter().any(|d| problem.is_of(d) || holds(d, problem)) {
            continue;
        }
        let is_files = matches!(name.as_str(), "<files>" | "<filesmatch>");
        let own = block.iter().find(|d| problem.is_of(d)).map(is_harmless);
        let Some(block) = directives[index].block.as_mut() else { continue };
        return match own {
            Some(false) if is_files => {
                let denied = closed(block);
                *block = denied;
                Some("Its files answer 403.")
            }
            _ => {
                let fate = change(block, problem, has_scripts);
                // Within <IfModule> and the like the whole site is meant.
                if fate == Some("The site answers 403.") {
                    *directives = closed(directives);
                }
                fate
            }
        };
    }
    None
}

/// Closes the paths of a rule in place of what it does.
fn rewrite(directives: &mut Vec<Directive>, at: usize) -> &'static str {
    let is = |d: &Directive, name: &str| d.name.eq_ignore_ascii_case(name);
    let rule = (at..directives.len()).find(|index| is(&directives[*index], "rewriterule"));
    let Some(rule) = rule else {
        directives.remove(at);
        return "It is left out.";
    };
    let mut begin = rule;
    while begin > 0 && is(&directives[begin - 1], "rewritecond") {
        begin -= 1;
    }
    let pattern = directives[rule].arg(0).to_owned();
    let flags = if ignores_case(&directives[rule]) { CLOSED_IN_ANY_CASE } else { CLOSED };
    let args = vec![pattern, "-".to_owned(), flags.to_owned()];
    if pattern_is_closed(&directives[rule], begin == rule) || args[0].starts_with('!') {
        *directives = closed(directives);
        return "The site answers 403.";
    }
    directives[rule].args = args;
    directives.drain(begin..rule);
    "Its paths answer 403."
}

/// Flags of a rule that refuses its paths.
const CLOSED: &str = "[F]";
const CLOSED_IN_ANY_CASE: &str = "[F,NC]";

fn ignores_case(rule: &Directive) -> bool {
    let flags = rule.arg(2).trim_matches(['[', ']']).to_ascii_lowercase();
    flags.split(',').any(|flag| matches!(flag.trim(), "nc" | "nocase"))
}

fn pattern_is_closed(rule: &Directive, is_alone: bool) -> bool {
    is_alone && rule.arg(1) == "-" && [CLOSED, CLOSED_IN_ANY_CASE].contains(&rule.arg(2))
}

fn holds(d: &Directive, problem: &Problem) -> bool {
    d.children().iter().any(|inner| problem.is_of(inner) || holds(inner, problem))
}

fn has_access(d: &Directive) -> bool {
    let is_access =
        |d: &Directive| super::access::NAMES.contains(&d.name.to_ascii_lowercase().as_str());
    d.children().iter().any(|inner| is_access(inner) || has_access(inner))
}

/// Directives that keep all requests out.
fn closed(directives: &[Directive]) -> Vec<Directive> {
    let at = directives.first().map(|d| d.at.clone());
    let name = "Require".to_owned();
    let args = vec!["all".to_owned(), "denied".to_owned()];
    at.map(|at| Directive { name, args, block: None, at }).into_iter().collect()
}
