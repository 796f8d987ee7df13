//! Translates the part of a Caddyfile that can be translated (`--partial`). A directive that cannot
//! is taken out where that opens nothing; else its site answers 403.

use super::hidden::ConfigFiles;
use super::{translate, written};
use crate::Imported;
use crate::report::{Problem, Report};
use crate::syntax::Directive;

/// Rounds in which directives are taken out or sites closed. Each leads to fewer of them.
const ROUNDS_MAX: usize = 100;

/// Directives and lines of them without which no client gets more than with them.
const HARMLESS: &[&str] = &[
    "dynamic_dns",
    "encode",
    "frankenphp",
    "handle_errors",
    "header",
    "header_down",
    "health_body",
    "health_headers",
    "health_port",
    "health_uri",
    "lb_policy",
    "log",
    "metrics",
    "on_demand",
    "on_demand_tls",
];

/// Directives that a closed site keeps.
const OF_SITE: [&str; 3] = ["bind", "log", "tls"];

/// Translates what can be.
///
/// # Errors
/// Problems of the whole configuration, one line each.
pub(super) fn translate_partially(
    mut blocks: Vec<Directive>,
    files: &ConfigFiles,
) -> Result<Imported, Vec<String>> {
    let mut left_out: Vec<String> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let mut report = Report::default();
        let server = translate(&blocks, files, &mut report);
        if report.problems.is_empty() {
            if server.sites.is_empty() && !left_out.is_empty() {
                return Err(left_out);
            }
            report.left_out = left_out;
            return written(&server, &report, &blocks);
        }
        let mut has_changed = false;
        for problem in &report.problems {
            let (fate, changed) = change(&mut blocks, problem);
            has_changed |= changed;
            let line = format!("{problem}. {fate}");
            if changed && !left_out.contains(&line) {
                left_out.push(line);
            }
        }
        if !has_changed {
            return Err(report.lines());
        }
    }
    Err(vec!["the configuration cannot be translated in parts".to_owned()])
}

/// Takes the directive of a problem out, or closes the site around it. `false`: neither is
/// possible.
fn change(blocks: &mut Vec<Directive>, problem: &Problem) -> (&'static str, bool) {
    let mut is_taken = false;
    for block in blocks.iter_mut() {
        is_taken |= take_out(block, problem);
    }
    if is_taken {
        return ("It is left out.", true);
    }
    let mut closes = false;
    // A site of which the address is wrong answers nothing.
    let before = blocks.len();
    blocks.retain(|block| !(problem.is_of(block) && is_closed(block)));
    let is_gone = blocks.len() < before;
    for block in blocks.iter_mut().filter(|block| !block.name.is_empty()) {
        if (problem.is_of(block) || holds(block, problem)) && !is_closed(block) {
            close(block);
            closes = true;
        }
    }
    match is_gone {
        true => ("Its site is left out.", true),
        false => ("Its site answers 403.", closes),
    }
}

/// Takes a harmless directive out of a block and the blocks in it.
fn take_out(d: &mut Directive, problem: &Problem) -> bool {
    let Some(block) = &mut d.block else { return false };
    let before = block.len();
    block.retain(|inner| {
        let is_own = problem.is_of(inner) || holds(inner, problem);
        !(is_own && HARMLESS.contains(&inner.name.as_str()))
    });
    let mut is_taken = block.len() < before;
    for inner in block {
        is_taken |= take_out(inner, problem);
    }
    is_taken
}

fn holds(d: &Directive, problem: &Problem) -> bool {
    d.children().iter().any(|inner| problem.is_of(inner) || holds(inner, problem))
}

fn is_closed(site: &Directive) -> bool {
    let answers = |d: &&Directive| !OF_SITE.contains(&d.name.as_str());
    let mut answers = site.children().iter().filter(answers);
    matches!((answers.next(), answers.next()), (Some(d), None) if d.name == "respond" && d.args == ["403"])
}

/// Makes a site answer 403.
fn close(site: &mut Directive) {
    let at = site.at.clone();
    let block = site.block.get_or_insert_default();
    block.retain(|d| OF_SITE.contains(&d.name.as_str()));
    let (name, args) = ("respond".to_owned(), vec!["403".to_owned()]);
    block.push(Directive { name, args, block: None, at });
}
