//! Matchers of Caddy as conditions of `match`.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::condition::condition;
use super::pattern::{expression, fixed, holds, is_placeholder, may_be_matcher, pattern};
use crate::mount::Keys;
use crate::report::Report;
use crate::syntax::Directive;

/// Conditions on requests. All must be met.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Matcher {
    /// Patterns of paths in Caddy's words; of several any.
    pub(super) paths: Vec<String>,
    /// An expression of paths, with the name by which its groups are used.
    pub(super) regex: Option<(String, String)>,
    /// Other conditions of `match`, by their names.
    pub(super) others: Table,
    /// `Some`: there is such a file (`true`), or none (`false`).
    pub(super) file: Option<bool>,
}

/// The named matchers of a block and of those around it.
pub(super) type Named = BTreeMap<String, Matcher>;

/// Collects the definitions of a block. `has_proxies`: peers may be proxies that name their client.
pub(super) fn definitions(
    block: &[Directive],
    outer: &Named,
    has_proxies: bool,
    report: &mut Report,
) -> Named {
    let mut named = outer.clone();
    for d in block.iter().filter(|d| d.name.starts_with('@')) {
        let lines = match &d.block {
            Some(lines) if d.args.is_empty() => lines.clone(),
            Some(_) => {
                // `@name not { … }`.
                let name = d.arg(0).to_owned();
                let args = d.args.get(1..).unwrap_or_default().to_vec();
                vec![Directive { name, args, block: d.block.clone(), at: d.at.clone() }]
            }
            None => {
                let name = d.arg(0).to_owned();
                let args = d.args.get(1..).unwrap_or_default().to_vec();
                vec![Directive { name, args, block: None, at: d.at.clone() }]
            }
        };
        if let Some(matcher) = conditions(&lines, d, has_proxies, report) {
            named.insert(d.name.clone(), matcher);
        }
    }
    named
}

/// Directives that have no matcher.
const MATCHED_NEVER: [&str; 6] = ["bind", "handle_errors", "log", "tls", "try_files", "vars"];

/// Directives without words behind their matcher.
const HAVE_NO_WORDS: [&str; 5] = ["abort", "handle", "handle_path", "request_body", "route"];

/// Takes the matcher off the arguments of a directive: `*`, a path, or a name. `None`: every
/// request.
///
/// # Errors
/// A name without a definition that could be translated, paths with a variable, and words behind
/// the matcher of a directive that has none.
pub(super) fn split<'d>(
    d: &'d Directive,
    named: &Named,
) -> Result<(Option<Matcher>, &'d [String]), String> {
    let rest = d.args.get(1..).unwrap_or_default();
    let is_value = match d.name.as_str() {
        // Their only argument is a directory or a target.
        "redir" | "rewrite" | "root" => rest.is_empty(),
        name => MATCHED_NEVER.contains(&name),
    };
    let (matcher, args) = match d.args.first().filter(|_| !is_value).map(String::as_str) {
        Some("*") => (None, rest),
        Some(path) if may_be_matcher(path) => {
            fixed(path)?;
            let paths = vec![path.to_owned()];
            (Some(Matcher { paths, ..Matcher::default() }), rest)
        }
        Some(name) if name.starts_with('@') => match named.get(name) {
            Some(matcher) => (Some(matcher.clone()), rest),
            None => return Err(format!("the matcher {name} is not known")),
        },
        _ => (None, d.args.as_slice()),
    };
    match args.first().filter(|_| HAVE_NO_WORDS.contains(&d.name.as_str())) {
        Some(other) => Err(format!("{other} is no matcher, such as /path/*, * or @name")),
        None => Ok((matcher, args)),
    }
}

/// Translates the conditions of a named matcher. `at`: the directive that has them.
fn conditions(
    lines: &[Directive],
    at: &Directive,
    has_proxies: bool,
    report: &mut Report,
) -> Option<Matcher> {
    let mut matcher = Matcher::default();
    let mut is_whole = true;
    for line in lines {
        if let Err(needs) = condition(&mut matcher, line, has_proxies, report) {
            report.refuse(at, format!("`{line}`: {needs}"));
            is_whole = false;
        }
    }
    is_whole.then_some(matcher)
}

impl Matcher {
    /// Adds values of a condition, any of which suffices.
    pub(super) fn add(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = String>,
    ) -> Result<(), String> {
        let values: Vec<String> = values.into_iter().collect();
        // The value of a variable may be a list only where it is the whole value of the key.
        if let [only] = values.as_slice()
            && only.contains("{env.")
        {
            return match self.others.insert(name.to_owned(), Value::from(only.as_str())) {
                None => Ok(()),
                Some(_) => Err("the variable may have several values: write it alone".to_owned()),
            };
        }
        let list = self.others.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return Err("the condition is not alone".to_owned()) };
        list.extend(values.into_iter().map(Value::String));
        Ok(())
    }

    pub(super) fn header(&mut self, line: &Directive) -> Result<(), String> {
        match line.args.as_slice() {
            [name] if name.starts_with('!') => self.set("header", &name[1..], Value::from(false)),
            [name] => self.set("header", name, Value::from(true)),
            [name, value] if value == "*" => self.set("header", name, Value::from(true)),
            [name, value] => self.named("header", name, value),
            _ => Err("it has a field and a value".to_owned()),
        }
    }

    /// Adds a value of a field or parameter.
    pub(super) fn named(&mut self, kind: &str, name: &str, value: &str) -> Result<(), String> {
        if value == "*" {
            return self.set(kind, name, Value::from(true));
        }
        fixed(name)?;
        let inner = value.trim_matches('*');
        if inner.contains('*') || is_placeholder(value) {
            return Err("the value is text, perhaps with * at its ends".to_owned());
        }
        let known = self.others.entry(kind).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(known) = known else { return Err("unexpected".to_owned()) };
        match known.get_mut(name) {
            None => {
                known.insert(name.to_owned(), Value::Array(vec![Value::from(value)]));
            }
            Some(Value::Array(values)) => values.push(Value::from(value)),
            Some(_) => return Err("the field has another condition".to_owned()),
        }
        Ok(())
    }

    pub(super) fn set(&mut self, kind: &str, name: &str, value: Value) -> Result<(), String> {
        fixed(name)?;
        let known = self.others.entry(kind).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(known) = known else { return Err("unexpected".to_owned()) };
        match known.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err("the field has another condition".to_owned()),
        }
    }

    pub(super) fn not(
        &mut self,
        line: &Directive,
        has_proxies: bool,
        report: &mut Report,
    ) -> Result<(), String> {
        let lines = match &line.block {
            Some(lines) if line.args.is_empty() => lines.clone(),
            None if !line.args.is_empty() => vec![Directive {
                name: line.arg(0).to_owned(),
                args: line.args.get(1..).unwrap_or_default().to_vec(),
                block: None,
                at: line.at.clone(),
            }],
            _ => return Err("it has a condition, or a block of conditions".to_owned()),
        };
        if let [only] = lines.as_slice()
            && only.name == "file"
            && only.args.is_empty()
        {
            self.file = Some(false);
            return Ok(());
        }
        let mut inner = Matcher::default();
        for line in &lines {
            condition(&mut inner, line, has_proxies, report)?;
        }
        if inner.file.is_some() {
            return Err("a file is one condition of several".to_owned());
        }
        // In any case of letters, as Caddy compares paths: an exception may be a guard's.
        let Value::Table(table) = inner.in_any_case()?.table()? else {
            return Err("it has no condition".to_owned());
        };
        match self.others.get_mut("not") {
            None => {
                self.others.insert("not".to_owned(), Value::Table(table));
            }
            // None of two is met where neither is: those of paths are one list.
            Some(Value::Table(known)) => {
                match (known.len(), known.get_mut("path"), table.get("path")) {
                    (1, Some(Value::Array(known)), Some(Value::Array(more)))
                        if table.len() == 1 =>
                    {
                        known.extend(more.iter().cloned());
                    }
                    _ => {
                        let both = vec![Value::Table(known.clone()), Value::Table(table)];
                        self.others.insert("not".to_owned(), Value::Array(both));
                    }
                }
            }
            Some(Value::Array(known)) => known.push(Value::Table(table)),
            Some(_) => return Err("unexpected".to_owned()),
        }
        Ok(())
    }

    /// Returns whether paths are compared, alone or beside others.
    pub(super) fn has_paths(&self) -> bool {
        let is_of_path = |not: &Table| not.contains_key("path") || not.contains_key("regex");
        !self.paths.is_empty() || self.regex.is_some() || self.nots().any(is_of_path)
    }

    /// Returns whether a field of this name is compared.
    pub(super) fn has_field(&self, name: &str) -> bool {
        let is_in = |table: &Table| {
            let fields = table.get("header").and_then(Value::as_table);
            let mut names = fields.into_iter().flat_map(Table::keys);
            names.any(|key| key.eq_ignore_ascii_case(name))
                || (name.eq_ignore_ascii_case("host") && table.contains_key("host"))
        };
        is_in(&self.others) || self.nots().any(is_in)
    }

    /// The conditions none of which must be met.
    fn nots(&self) -> impl Iterator<Item = &Table> {
        let not = self.others.get("not");
        let list = not.and_then(Value::as_array).into_iter().flatten();
        not.and_then(Value::as_table).into_iter().chain(list.filter_map(Value::as_table))
    }

    /// `true` if requests over TLS never meet it.
    pub(super) fn is_of_clear(&self) -> bool {
        self.others.get("scheme").and_then(Value::as_str) == Some("http")
    }

    /// The one path that it is about, without a pattern.
    pub(super) fn only_path(&self) -> Option<&str> {
        match self.paths.as_slice() {
            [path] if !path.contains('*') && self.regex.is_none() => Some(path),
            _ => None,
        }
    }

    /// `true` if it is about paths alone.
    pub(super) fn is_of_path(&self) -> bool {
        self.others.keys().all(|name| name == "not") && self.not_is_of_path()
    }

    fn not_is_of_path(&self) -> bool {
        let of_path = |name: &String| name == "path" || name == "regex";
        let is_of_path = |not: &Value| not.as_table().is_some_and(|not| not.keys().all(of_path));
        match self.others.get("not") {
            None => true,
            Some(Value::Array(list)) => list.iter().all(is_of_path),
            Some(one) => is_of_path(one),
        }
    }

    /// The requests that meet both.
    ///
    /// # Errors
    /// Conditions of one kind in both.
    pub(super) fn and(self, other: &Matcher) -> Result<Matcher, String> {
        let clash = || "conditions of one kind in the matchers around it".to_owned();
        let mut both = self;
        both.paths = match (both.paths.as_slice(), other.paths.as_slice()) {
            (_, []) => both.paths,
            ([], _) => other.paths.clone(),
            (outer, inner) if inner.iter().all(|path| outer.iter().any(|o| holds(o, path))) => {
                inner.to_vec()
            }
            _ => return Err(clash()),
        };
        if let Some(regex) = &other.regex
            && both.regex.replace(regex.clone()).is_some()
        {
            return Err(clash());
        }
        if other.file.is_some() {
            both.file = other.file;
        }
        for (name, value) in &other.others {
            if both.others.insert(name.clone(), value.clone()).is_some() {
                return Err(clash());
            }
        }
        Ok(both)
    }

    /// The requests that meet both this and a gate; `None`: none does.
    ///
    /// # Errors
    /// Conditions of which that is not known.
    pub(super) fn meet(&self, gate: &Matcher) -> Result<Option<Matcher>, String> {
        let within = |inner: &[String], outer: &[String]| {
            inner.iter().all(|path| outer.iter().any(|other| holds(other, path)))
        };
        if self.paths.is_empty() || gate.paths.is_empty() {
            return self.clone().and(gate).map(Some);
        }
        let rest = Matcher { paths: Vec::new(), ..gate.clone() };
        if within(&self.paths, &gate.paths) {
            return self.clone().and(&rest).map(Some);
        }
        if within(&gate.paths, &self.paths) {
            let own = Matcher { paths: gate.paths.clone(), ..self.clone() };
            return own.and(&rest).map(Some);
        }
        // A path without `*` is one path only.
        let is_in = |begin: &str, path: &str| match path.strip_suffix('*') {
            Some(prefix) => begin.starts_with(prefix),
            None => begin == path,
        };
        let are_apart = |one: &String, other: &String| {
            let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
            let begin = |path: &str| path.strip_suffix('*').unwrap_or(path).to_owned();
            let (a, b) = (begin(&one), begin(&other));
            let is_plain = [&a, &b].iter().all(|begin| !begin.contains('*') && !begin.is_empty());
            is_plain && !is_in(&a, &other) && !is_in(&b, &one)
        };
        match self.paths.iter().all(|one| gate.paths.iter().all(|other| are_apart(one, other))) {
            true => Ok(None),
            false => Err("paths of which some have the gate and some do not".to_owned()),
        }
    }

    /// `true` if it is known that no request meets both.
    pub(super) fn is_apart(&self, other: &Matcher) -> bool {
        let begin = self.regex.as_ref().and_then(|(_, text)| text.strip_prefix('^'));
        // An alternative may begin with other text.
        let begin = begin.filter(|text| !text.contains('|')).map(|text| {
            let is_literal = |c: char| c.is_ascii_alphanumeric() || "/_-".contains(c);
            let end = text.find(|c| !is_literal(c)).unwrap_or(text.len());
            // A character before `?` or `*` may be missing.
            let is_repeated = text[end..].starts_with(['?', '*', '{']);
            text[..end - usize::from(is_repeated && end > 0)].to_ascii_lowercase()
        });
        let is_elsewhere = |begin: &str| {
            let misses = |path: &String| match path.to_ascii_lowercase().strip_suffix('*') {
                Some(prefix) => {
                    !prefix.contains('*')
                        && !prefix.starts_with(begin)
                        && !begin.starts_with(prefix)
                }
                None => !path.to_ascii_lowercase().starts_with(begin),
            };
            !other.paths.is_empty() && other.paths.iter().all(misses)
        };
        matches!(self.meet(other), Ok(None)) || begin.is_some_and(|begin| is_elsewhere(&begin))
    }

    /// Returns these conditions with paths in any case.
    ///
    /// # Errors
    /// Patterns beside an expression.
    pub(super) fn in_any_case(&self) -> Result<Matcher, String> {
        if self.paths.iter().all(|path| !path.contains(|c: char| c.is_ascii_alphabetic())) {
            return Ok(self.clone());
        }
        if self.regex.is_some() {
            return Err("patterns beside an expression, in any case of letters".to_owned());
        }
        let expressions: Result<Vec<String>, String> = self
            .paths
            .iter()
            .map(|path| pattern(path).map(|pattern| expression(&pattern)))
            .collect();
        let all = expressions?;
        let text = match all.as_slice() {
            [one] => format!("(?i)^{one}$"),
            all => format!("(?i)^(?:{})$", all.join("|")),
        };
        Ok(Matcher { paths: Vec::new(), regex: Some((String::new(), text)), ..self.clone() })
    }

    /// The matcher for paths of which a prefix was taken off.
    ///
    /// # Errors
    /// Other conditions of paths than patterns.
    pub(super) fn beneath(mut self, prefix: &str) -> Result<Matcher, String> {
        if self.regex.is_some() || self.others.contains_key("not") {
            return Err(format!("a condition of paths behind {prefix}, which is taken off"));
        }
        for path in &mut self.paths {
            if !path.starts_with('/') {
                return Err(format!("a condition of paths behind {prefix}, which is taken off"));
            }
            path.insert_str(0, prefix);
        }
        Ok(self)
    }

    /// The value of `match`: a pattern, a list, or a table.
    ///
    /// # Errors
    /// Patterns that hurtle's do not express.
    pub(super) fn value(&self) -> Result<Value, String> {
        let Value::Table(mut table) = self.table()? else { return Ok(Value::from("**")) };
        match (table.len(), table.get("path")) {
            (1, Some(Value::Array(list))) if list.len() == 1 => Ok(list[0].clone()),
            (1, Some(_)) => Ok(table.remove("path").unwrap_or_else(|| Value::from("**"))),
            _ => Ok(Value::Table(table)),
        }
    }

    fn table(&self) -> Result<Value, String> {
        let mut table = Table::new();
        if !self.paths.is_empty() {
            let paths: Result<Vec<Value>, String> =
                self.paths.iter().map(|path| pattern(path).map(Value::String)).collect();
            table.insert("path".to_owned(), Value::Array(paths?));
        }
        if let Some((_, regex)) = &self.regex {
            table.insert("regex".to_owned(), Value::from(regex.as_str()));
        }
        table.extend(self.others.iter().map(|(name, value)| (name.clone(), value.clone())));
        Ok(Value::Table(table))
    }

    pub(super) fn key(&self) -> Result<Keys, String> {
        Ok(vec![("match".to_owned(), self.value()?)])
    }
}
