//! The requests of a rule, as `match` of a rule or mount.

use toml::Value;

use super::super::pattern::{checked, glob, is_everything, of_path};
use super::condition::Requests;
use super::rule::Rule;
use crate::mount::{Keys, put};

/// The paths of a rule.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Everything,
    /// Those that an expression matches; `of_condition`: it is one of RewriteCond.
    Regex {
        text: String,
        of_condition: bool,
    },
}

impl Subject {
    pub(super) fn of(rule: &Rule<'_>, requests: &Requests) -> Result<Subject, String> {
        let is_all = is_everything(&rule.pattern);
        if rule.is_not {
            return match (&requests.regex, is_all) {
                (None, false) => Ok(Subject::Everything),
                _ => Err("no path meets it, or two expressions are to be met".to_owned()),
            };
        }
        match (&requests.regex, is_all) {
            (None, true) => Ok(Subject::Everything),
            (Some(text), true) => Ok(Subject::Regex { text: text.clone(), of_condition: true }),
            (Some(_), false) => {
                Err("the path is to meet two expressions: write one in RewriteRule".to_owned())
            }
            (None, false) => {
                let text = regex_of(rule)?.ok_or("no path matches it")?;
                Ok(Subject::Regex { text, of_condition: false })
            }
        }
    }

    pub(super) fn is_everything(&self) -> bool {
        matches!(self, Subject::Everything)
    }

    pub(super) fn is_of_condition(&self) -> bool {
        matches!(self, Subject::Regex { of_condition: true, .. })
    }

    /// The template of `$1`: `{n}` stands for the group of that number.
    pub(super) fn group(&self) -> Option<&str> {
        match self {
            Subject::Everything => Some("{1}"),
            Subject::Regex { of_condition: false, .. } => Some("{n}"),
            Subject::Regex { .. } => None,
        }
    }

    /// The template of the whole path.
    pub(super) fn path(&self) -> Option<&str> {
        matches!(self, Subject::Everything).then_some("/{1}")
    }

    pub(super) fn regex(&self) -> String {
        match self {
            Subject::Everything => "^/".to_owned(),
            Subject::Regex { text, .. } => text.clone(),
        }
    }

    /// The expression, if it is not for every path.
    pub(super) fn regex_alone(&self) -> Option<String> {
        match self {
            Subject::Everything => None,
            Subject::Regex { text, .. } => Some(text.clone()),
        }
    }

    /// The key `match`. `hosts`: the request has one of these, if there are any.
    pub(super) fn place(
        &self,
        requests: &Requests,
        hosts: Option<&[String]>,
    ) -> Result<Keys, String> {
        let mut table = toml::Table::new();
        let glob = match self {
            Subject::Everything => Some("/**".to_owned()),
            Subject::Regex { text, .. } => glob(text),
        };
        match (&glob, self) {
            (Some(glob), _) => table.insert("path".to_owned(), Value::from(glob.as_str())),
            (None, subject) => table.insert("regex".to_owned(), Value::from(subject.regex())),
        };
        let mut list = |name: &str, values: &[String]| match values {
            [] => {}
            [one] => drop(table.insert(name.to_owned(), Value::from(one.as_str()))),
            all => drop(table.insert(name.to_owned(), Value::from(all.to_vec()))),
        };
        list("method", &requests.methods);
        list("host", hosts.unwrap_or_default());
        list("client", &requests.clients);
        for (name, values) in [("header", &requests.header), ("query", &requests.query)] {
            if !values.is_empty() {
                table.insert(name.to_owned(), Value::Table(values.clone()));
            }
        }
        if let Some(not) = requests.not()? {
            table.insert("not".to_owned(), Value::Table(not));
        }
        let mut keys = Keys::new();
        match glob.filter(|_| table.len() == 1) {
            Some(glob) => put(&mut keys, "match", glob),
            None => put(&mut keys, "match", Value::Table(table)),
        }
        Ok(keys)
    }
}

/// The expression of a rule; `None`: no path matches it.
pub(super) fn regex_of(rule: &Rule<'_>) -> Result<Option<String>, String> {
    match of_path(&rule.pattern)? {
        Some(text) if rule.ignores_case => checked(&format!("(?i){text}")).map(Some),
        text => Ok(text),
    }
}

impl Requests {
    /// The conditions of which one must not be met: all are of one kind.
    fn not(&self) -> Result<Option<toml::Table>, String> {
        let mut kinds: Vec<(&str, Value)> = Vec::new();
        if !self.not_regex.is_empty() {
            let mut texts = self.not_regex.clone();
            texts.dedup();
            let text = match texts.as_slice() {
                [one] => one.clone(),
                all => all.iter().map(|text| format!("(?:{text})")).collect::<Vec<_>>().join("|"),
            };
            kinds.push(("regex", Value::from(checked(&text)?)));
        }
        for (name, values) in [
            ("method", &self.not_methods),
            ("host", &self.not_hosts),
            ("client", &self.not_clients),
        ] {
            if !values.is_empty() {
                kinds.push((name, Value::from(values.clone())));
            }
        }
        for (name, value) in &self.not_header {
            let field = [(name.clone(), value.clone())].into_iter().collect();
            kinds.push(("header", Value::Table(field)));
        }
        match kinds.len() {
            0 => Ok(None),
            1 => Ok(kinds.pop().map(|(name, value)| [(name.to_owned(), value)].into_iter().collect())),
            _ => Err("conditions with ! are of one kind here: paths, hosts, methods, clients or one field".to_owned()),
        }
    }

    /// The names of the hosts.
    pub(super) fn host_names(&self) -> Option<Vec<String>> {
        Some(self.hosts.as_ref()?.iter().map(|(host, _)| host.clone()).collect())
    }

    /// `true`: the path alone decides.
    pub(super) fn is_of_path(&self) -> bool {
        let bare = Requests { regex: None, not_regex: Vec::new(), ..self.clone() };
        bare == Requests::default() && self.not_regex.is_empty()
    }
}
