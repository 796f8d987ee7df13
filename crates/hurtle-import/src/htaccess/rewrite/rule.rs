//! `RewriteRule` as it is written: its expression, its target and its flags.

use super::condition::Condition;
use crate::syntax::Directive;

/// Result of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The request goes on as it is.
    Pass,
    /// A status without a redirect.
    Status(u16),
    Redirect {
        to: String,
        status: u16,
    },
    Rewrite {
        to: String,
    },
}

/// The query of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    /// Its own, or that of the request if it has none.
    Own,
    /// Its own, and then that of the request.
    Appended,
    /// Query of the target alone (flag `QSD`).
    Discarded,
}

/// A rule with its conditions.
#[derive(Clone, Debug)]
pub(super) struct Rule<'d> {
    pub(super) d: &'d Directive,
    pub(super) conditions: Vec<Condition<'d>>,
    pub(super) pattern: String,
    /// `true`: it is for paths that do not match the expression.
    pub(super) is_not: bool,
    pub(super) ignores_case: bool,
    pub(super) action: Action,
    pub(super) query: Query,
    /// `true`: rules behind it are not applied.
    pub(super) is_last: bool,
    /// `true`: no rule is applied to its result, as Apache otherwise does anew (flag `END`).
    pub(super) is_end: bool,
    /// Variables that it sets, each as NAME:VALUE.
    pub(super) variables: Vec<String>,
}

impl<'d> Rule<'d> {
    pub(super) fn of(d: &'d Directive, conditions: Vec<Condition<'d>>) -> Result<Rule<'d>, String> {
        let (pattern, target, flags) = match d.args.as_slice() {
            [pattern, target] => (pattern, target, ""),
            [pattern, target, flags] => (pattern, target, flags.as_str()),
            _ => return Err("it has an expression, a target and perhaps flags in [ ]".to_owned()),
        };
        let (pattern, is_not) = match pattern.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (pattern.as_str(), false),
        };
        let mut rule = Rule {
            d,
            conditions,
            pattern: pattern.replace(r"\ ", " "),
            is_not,
            ignores_case: false,
            action: Action::Pass,
            query: Query::Own,
            is_last: false,
            is_end: false,
            variables: Vec::new(),
        };
        let mut status = None;
        for flag in flags.trim_start_matches('[').trim_end_matches(']').split(',').map(str::trim) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            match name.to_ascii_lowercase().as_str() {
                "l" | "last" => rule.is_last = true,
                "end" => (rule.is_last, rule.is_end) = (true, true),
                "nc" | "nocase" => rule.ignores_case = true,
                "qsa" | "qsappend" => rule.query = Query::Appended,
                "qsd" | "qsdiscard" => rule.query = Query::Discarded,
                "r" | "redirect" => status = Some(code(value)?),
                "f" | "forbidden" => status = Some(403),
                "g" | "gone" => status = Some(410),
                "e" | "env" => rule.variables.push(value.to_owned()),
                "ne" | "noescape" | "pt" | "passthrough" | "ns" | "nosubreq" | "dpi"
                | "discardpath" | "" => {}
                "p" | "proxy" => {
                    return Err("a request to another server is a mount with `proxy`".to_owned());
                }
                _ => return Err(format!("the flag {name} is not known")),
            }
        }
        let is_url = target.starts_with("http://") || target.starts_with("https://");
        let to = target.replace(r"\ ", "%20");
        rule.action = match status {
            Some(status @ 300..=399) => Action::Redirect { to, status },
            Some(status) => Action::Status(status),
            None if target == "-" => Action::Pass,
            None if is_url => Action::Redirect { to, status: 302 },
            None => Action::Rewrite { to },
        };
        if target == "-" && matches!(rule.action, Action::Redirect { .. }) {
            return Err("a redirect needs a target".to_owned());
        }
        Ok(rule)
    }
}

fn code(word: &str) -> Result<u16, String> {
    match word.to_ascii_lowercase().as_str() {
        "" | "temp" => Ok(302),
        "permanent" => Ok(301),
        "seeother" => Ok(303),
        number => match number.parse() {
            Ok(status @ (301 | 302 | 303 | 307 | 308 | 400..=599)) => Ok(status),
            _ => Err("its status is 301, 302, 303, 307, 308, or one of an error".to_owned()),
        },
    }
}
