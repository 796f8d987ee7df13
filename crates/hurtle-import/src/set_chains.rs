//! Writes variables that are set under conditions, and then compared, as conditions alone, before
//! anything is translated: `set $m 0; if (-f /m) { set $m 1; } if ($m = 1) { return 503; }`.

use super::syntax::Directive;
use super::variables::with_values;

/// Most conditions of one variable.
const CONDITIONS_MAX: usize = 3;

/// Rewrites the servers of a configuration.
pub(super) fn as_conditions(directives: &[Directive]) -> Vec<Directive> {
    let rewritten = |d: &Directive| {
        let block = d.block.as_ref().map(|block| match d.name.as_str() {
            "server" => server(block),
            "http" => as_conditions(block),
            _ => block.clone(),
        });
        Directive { block, ..d.clone() }
    };
    directives.iter().map(rewritten).collect()
}

/// Rewrites a server and its locations.
fn server(block: &[Directive]) -> Vec<Directive> {
    let mut rewritten = block.to_vec();
    for name in names(block) {
        rewritten = without(&name, rewritten);
    }
    rewritten
}

/// The variables that are set in a block, or in the blocks within it.
fn names(block: &[Directive]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for d in block {
        let inner = names(d.children());
        let own = (d.name == "set").then(|| d.arg(0).to_owned());
        for name in own.into_iter().chain(inner) {
            if name.starts_with('$') && !all.contains(&name) {
                all.push(name);
            }
        }
    }
    all
}

/// Writes the conditions of a variable in place of its comparisons, if it has no other use in the
/// server and all of them are in one block.
fn without(name: &str, server: Vec<Directive>) -> Vec<Directive> {
    let uses = count(name, &server);
    if count_here(name, &server) == uses {
        return decided(name, &server).unwrap_or(server);
    }
    let mut rewritten = server.clone();
    for location in rewritten.iter_mut().filter(|d| d.name == "location") {
        let block = location.block.get_or_insert_default();
        if count_here(name, block) == uses {
            match decided(name, block) {
                Some(decided) => *block = decided,
                None => return server,
            }
        }
    }
    rewritten
}

/// The directives that name a variable, in all blocks.
fn count(name: &str, block: &[Directive]) -> usize {
    block.iter().map(|d| usize::from(has(d, name)) + count(name, d.children())).sum()
}

/// Likewise those of a block and its conditions that only set or compare the variable.
fn count_here(name: &str, block: &[Directive]) -> usize {
    let of_condition = |d: &Directive| match (d.name.as_str(), d.children()) {
        ("set", _) if d.arg(0) == name => 1,
        ("if", [set]) if set.name == "set" && set.arg(0) == name && !has(d, name) => 1,
        ("if", body) if has(d, name) && count(name, body) == 0 => 1,
        _ => 0,
    };
    block.iter().map(of_condition).sum()
}

/// `true` if a directive itself names a variable.
pub(super) fn has(d: &Directive, name: &str) -> bool {
    let bare = name.trim_start_matches('$');
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    d.args.iter().any(|arg| {
        arg.contains(&format!("${{{bare}}}"))
            || arg.match_indices(name).any(|(at, found)| is_end(&arg[at + found.len()..]))
    })
}

/// A value that is set: always, or under a condition.
struct Step<'d> {
    condition: Option<&'d Directive>,
    value: &'d str,
}

/// The block without the variable; `None`: a comparison of it has no plain form.
fn decided(name: &str, block: &[Directive]) -> Option<Vec<Directive>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let (mut rewritten, mut is_compared) = (Vec::new(), false);
    for d in block {
        match (d.name.as_str(), d.children()) {
            ("set", _) if d.arg(0) == name => {
                steps.push(Step { condition: None, value: d.arg(1) });
            }
            ("if", [set]) if set.name == "set" && set.arg(0) == name => {
                steps.push(Step { condition: Some(d), value: set.arg(1) });
            }
            ("if", _) if has(d, name) => {
                is_compared = true;
                rewritten.extend(compared(name, d, &steps)?);
            }
            _ => rewritten.push(d.clone()),
        }
    }
    is_compared.then_some(rewritten)
}

/// The conditions under which a comparison is true, each with the body of the comparison.
fn compared(name: &str, d: &Directive, steps: &[Step<'_>]) -> Option<Vec<Directive>> {
    let conditions: Vec<&Directive> = steps.iter().filter_map(|step| step.condition).collect();
    if conditions.len() > CONDITIONS_MAX {
        return None;
    }
    let choices = 0..1_usize << conditions.len();
    let met: Option<Vec<usize>> = choices
        .clone()
        .filter_map(|choice| match is_met(name, d, &value(name, steps, choice)?) {
            Some(true) => Some(Some(choice)),
            Some(false) => None,
            None => Some(None),
        })
        .collect();
    let met = met?;
    // A value with another variable is not known.
    if choices.clone().any(|choice| value(name, steps, choice).is_none()) {
        return None;
    }
    let all = choices.end - 1;
    let with = |args: Vec<String>| Directive { args, ..d.clone() };
    match met.as_slice() {
        [] => Some(Vec::new()),
        [one] if all > 0 => Some(vec![with(joined(&conditions, *one)?)]),
        // Any of them.
        _ if met.len() == all && !met.contains(&0) => {
            Some(conditions.iter().map(|condition| with(condition.args.clone())).collect())
        }
        _ => None,
    }
}

/// The value of the variable where those conditions hold whose bits are set in `choice`; `None`:
/// it has other variables.
fn value(name: &str, steps: &[Step<'_>], choice: usize) -> Option<String> {
    let (mut value, mut number) = (String::new(), 0);
    for step in steps {
        let is_set = match step.condition {
            None => true,
            Some(_) => {
                number += 1;
                choice & (1 << (number - 1)) != 0
            }
        };
        if is_set {
            let bare = name.trim_start_matches('$');
            let text = with_values(step.value, |own| (own == bare).then(|| value.clone()));
            if text.contains('$') {
                return None;
            }
            value = text;
        }
    }
    Some(value)
}

/// Compares a value; `None`: by an expression, or in another way.
fn is_met(name: &str, d: &Directive, value: &str) -> Option<bool> {
    let words = words(d)?;
    match words.as_slice() {
        [variable] if variable == name => Some(!value.is_empty() && value != "0"),
        [variable, operator, other] if variable == name && !other.contains('$') => {
            match operator.as_str() {
                "=" => Some(value == other),
                "!=" => Some(value != other),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The words of a condition.
fn words(d: &Directive) -> Option<Vec<String>> {
    let mut words = d.args.clone();
    let first = words.first_mut()?;
    *first = first.strip_prefix('(')?.to_owned();
    let last = words.last_mut()?;
    *last = last.strip_suffix(')')?.to_owned();
    let count = words.len();
    let is_word = |(at, word): &(usize, String)| !word.is_empty() || (*at == 2 && count == 3);
    Some(words.into_iter().enumerate().filter(is_word).map(|(_, word)| word).collect())
}

/// One condition of several, some of which are not to hold.
fn joined(conditions: &[&Directive], choice: usize) -> Option<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for (at, condition) in conditions.iter().enumerate() {
        let mut words = words(condition)?;
        if choice & (1 << at) == 0 {
            let operator = words.iter_mut().rev().nth(1)?;
            *operator = match operator.strip_prefix('!') {
                Some(plain) => plain.to_owned(),
                None => format!("!{operator}"),
            };
        }
        if !all.is_empty() {
            all.push(AND.to_owned());
        }
        all.extend(words);
    }
    let all = missing(&all).unwrap_or(all);
    let count = all.len();
    let around = |(at, word): (usize, String)| {
        let before = if at == 0 { "(" } else { "" };
        let behind = if at + 1 == count { ")" } else { "" };
        format!("{before}{word}{behind}")
    };
    Some(all.into_iter().enumerate().map(around).collect())
}

/// The word between two conditions that must both hold. nginx has no such condition.
pub(super) const AND: &str = "&&";

/// One condition for what is neither a file nor a directory.
fn missing(words: &[String]) -> Option<Vec<String>> {
    let [first, one, and, second, other] = words else { return None };
    let mut tests = [first.as_str(), second.as_str()];
    tests.sort_unstable();
    (and == AND && one == other && tests == ["!-d", "!-f"])
        .then(|| vec!["!-e".to_owned(), one.clone()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn chains_become_conditions() {
        #[rustfmt::skip]
        let rows = [
            ("set $m 0; if (-f /m) { set $m 1; } if ($m = 1) { return 503; }", "if (-f /m)", "one condition"),
            ("set $m 1; if ($a = b) { set $m 0; } if ($m) { return 503; }", "if ($a != b)", "its opposite"),
            ("set $m off; if ($m = on) { return 503; }", "", "never"),
            ("if ($a = b) { set $t 1; } if ($c = d) { set $t 1; } if ($t = 1) { return 403; }", "if ($a = b) if ($c = d)", "any of two"),
            ("if ($a = b) { set $t A; } if ($c = d) { set $t \"${t}B\"; } if ($t = AB) { return 403; }", "if ($a = b && $c = d)", "both of two"),
            ("if (-f /m) { set $t 1; } if ($a = b) { set $t 0; } if ($t = 1) { return 503; }", "if (-f /m && $a != b)", "one without the other"),
            ("if (!-f $r) { set $t 1$t; } if (!-d $r) { set $t 2$t; } if ($t = 21) { rewrite ^ /x last; }", "if (!-e $r)", "neither file nor directory"),
            ("set $m $b; if ($m = 1) { return 503; }", "set $m $b if ($m = 1)", "another variable"),
            ("set $m 0; if ($a = b) { set $m $mx; } if ($m = 1) { return 503; }", "set $m 0 if ($a = b) if ($m = 1)", "a longer name"),
            ("set $m 1; if ($m = 1) { return 503; }", "set $m 1 if ($m = 1)", "always"),
            ("set $m 0; if ($a = b) { set $m 1; } if ($m = 1) { return 503; } location / { add_header X $m; }", "set $m 0 if ($a = b) if ($m = 1)", "another use"),
            ("set $m 0; if ($a = b) { set $m 1; } if ($m ~ 1) { return 503; }", "set $m 0 if ($a = b) if ($m ~ 1)", "an expression"),
        ];
        for (block, expected, what) in rows {
            let server = format!("server {{ {block} }}");
            let written = as_conditions(&parse(&server, "t").unwrap());
            let own = written[0].children().iter().filter(|d| d.name != "location");
            let text: Vec<String> =
                own.map(|d| Directive { block: None, ..d.clone() }.to_string()).collect();
            assert_eq!(text.join(" "), expected, "{what}: {block}");
        }
    }
}
