//! `RewriteCond`: conditions as Apache has them, and as those of rules and mounts.

use toml::Value;

use super::super::pattern::{alternatives, checked, texts};
use super::super::{Options, lookahead};
use crate::syntax::Directive;
use hurtle_config::PathRegex;

/// Most alternatives of the conditions of a rule.
const ALTERNATIVES_MAX: usize = 32;

/// Methods that no other method begins with, so that an expression may leave their end open.
const METHODS: [&str; 16] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "TRACK",
    "CONNECT",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "DEBUG",
];

const NEEDS_HOST: &str = "it depends on the host: name the hosts with --host";

/// A RewriteCond, with its test read.
#[derive(Clone, Debug)]
pub(super) struct Condition<'d> {
    pub(super) d: &'d Directive,
    variable: String,
    pub(super) pattern: String,
    pub(super) is_not: bool,
    pub(super) ignores_case: bool,
    is_or: bool,
}

impl<'d> Condition<'d> {
    pub(super) fn of(d: &'d Directive) -> Result<Condition<'d>, String> {
        let (variable, pattern, flags) = match d.args.as_slice() {
            [variable, pattern] => (variable, pattern, ""),
            [variable, pattern, flags] => (variable, pattern, flags.as_str()),
            _ => return Err("it has a text, an expression and perhaps flags".to_owned()),
        };
        let (mut ignores_case, mut is_or) = (false, false);
        for flag in flags.trim_matches(['[', ']']).split(',').map(str::trim) {
            match flag.to_ascii_lowercase().as_str() {
                "nc" | "nocase" => ignores_case = true,
                "or" | "ornext" => is_or = true,
                "nv" | "novary" | "" => {}
                _ => return Err(format!("the flag {flag} is not known")),
            }
        }
        let (pattern, is_not) = match pattern.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (pattern.as_str(), false),
        };
        let pattern = pattern.replace(r"\ ", " ");
        Ok(Condition { d, variable: variable.clone(), pattern, is_not, ignores_case, is_or })
    }

    /// `true` for the test that finds the path of a directory of an application, which is empty
    /// here.
    pub(super) fn finds_base(&self) -> bool {
        self.variable == "%{REQUEST_URI}::$0" || self.variable == "%{REQUEST_URI}::$1"
    }

    /// An expression of the condition, or a text that is compared as a whole.
    pub(super) fn expression(&self) -> Result<String, String> {
        let text = match self.pattern.strip_prefix('=') {
            Some(text) => format!("^{}$", super::super::pattern::escaped(text.trim_matches('"'))),
            None => self.pattern.clone(),
        };
        let text = lookahead::without(&text);
        checked(&if self.ignores_case { format!("(?i){text}") } else { text })
    }

    /// The texts that meet it: whole ones, or also longer ones. `None`: it has too many.
    pub(super) fn patterns(&self, begins: bool, ends: bool) -> Option<Vec<String>> {
        let text = match self.pattern.strip_prefix('=') {
            Some(text) => format!("^{}$", super::super::pattern::escaped(text.trim_matches('"'))),
            None => self.pattern.replace(".*", "\u{1}"),
        };
        if text.contains('*') || text.contains(r"\*") {
            return None;
        }
        let mut all = Vec::new();
        let inner = text.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$"));
        let whole = inner.filter(|inner| alternatives(inner).len() > 1 && texts(inner).is_some());
        let parts = match whole {
            Some(inner) => alternatives(inner).iter().map(|part| format!("^{part}$")).collect(),
            None => alternatives(&text).iter().map(|part| (*part).to_owned()).collect::<Vec<_>>(),
        };
        for part in parts {
            let (part, is_begin) = match part.strip_prefix('^') {
                Some(rest) => (rest.to_owned(), true),
                None => (part, false),
            };
            let (part, is_end) = match part.strip_suffix('$').filter(|rest| !rest.ends_with('\\')) {
                Some(rest) => (rest.to_owned(), true),
                None => (part, false),
            };
            if (begins && !is_begin) || (ends && !is_end) {
                return None;
            }
            for text in texts(&part)? {
                let begin = if is_begin { "" } else { "*" };
                let end = if is_end { "" } else { "*" };
                all.push(format!("{begin}{}{end}", text.replace('\u{1}', "*")));
            }
        }
        Some(all)
    }
}

/// The combinations of conditions of which one is to be met.
pub(super) fn combinations<'c, 'd>(
    conditions: &'c [Condition<'d>],
) -> Result<Vec<Vec<&'c Condition<'d>>>, String> {
    if conditions.last().is_some_and(|last| last.is_or) {
        return Err("Apache applies it whatever its last condition says: take OR off".to_owned());
    }
    let mut all: Vec<Vec<&Condition<'d>>> = vec![Vec::new()];
    let mut group: Vec<&Condition<'d>> = Vec::new();
    for condition in conditions {
        group.push(condition);
        if condition.is_or {
            continue;
        }
        let with = |one: &Vec<&'c Condition<'d>>| {
            group
                .iter()
                .map(|condition| [one.as_slice(), &[*condition]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
        if all.len() > ALTERNATIVES_MAX {
            return Err("it has too many alternatives".to_owned());
        }
        group.clear();
    }
    Ok(all)
}

/// Requests that meet conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// An expression of paths, with groups for `%1`.
    pub(super) regex: Option<String>,
    pub(super) not_regex: Vec<String>,
    pub(super) methods: Vec<String>,
    pub(super) not_methods: Vec<String>,
    pub(super) header: toml::Table,
    pub(super) not_header: toml::Table,
    /// Fields that are not there, or have no value.
    pub(super) empty_fields: Vec<String>,
    pub(super) query: toml::Table,
    /// Hosts of which the request has one, each with the groups of an expression.
    pub(super) hosts: Option<Vec<(String, Vec<String>)>>,
    pub(super) not_hosts: Vec<String>,
    pub(super) clients: Vec<String>,
    pub(super) not_clients: Vec<String>,
    pub(super) is_no_file: bool,
    pub(super) is_no_directory: bool,
    pub(super) is_file: bool,
    pub(super) is_directory: bool,
    /// The ending with which there is a file, such as `.html`.
    pub(super) suffix: Option<String>,
    /// The connection is not encrypted.
    pub(super) is_clear: bool,
    /// A proxy says so.
    pub(super) is_forwarded_clear: bool,
    /// They are those of a second round only, which there is not here.
    pub(super) is_never: bool,
    /// A difference that a remark is to name.
    pub(super) remark: Option<String>,
}

impl Requests {
    pub(super) fn of(conditions: &[&Condition<'_>], options: &Options) -> Result<Requests, String> {
        let mut requests = Requests::default();
        for condition in conditions {
            requests.add(condition, options)?;
        }
        let Requests { hosts, not_hosts, .. } = &mut requests;
        if let Some(hosts) = hosts {
            hosts.retain(|(host, _)| !not_hosts.contains(host));
            not_hosts.clear();
        }
        Ok(requests)
    }

    fn add(&mut self, condition: &Condition<'_>, options: &Options) -> Result<(), String> {
        let Condition { variable, pattern, is_not, .. } = condition;
        let name = variable.strip_prefix("%{").and_then(|rest| rest.strip_suffix('}'));
        if let "-f" | "-d" | "-l" | "-s" | "-F" = pattern.as_str() {
            return self.add_file(variable, pattern, *is_not);
        }
        let Some(name) = name.filter(|name| !name.contains(['%', '{'])) else {
            return Err(format!(
                "of variables it knows one, such as %{{REQUEST_URI}}, not {variable}"
            ));
        };
        match name {
            "HTTPS"
            | "SERVER_PORT"
            | "REQUEST_SCHEME"
            | "HTTP:X-Forwarded-Proto"
            | "HTTP:X-FORWARDED-PROTO" => self.add_channel(name, condition),
            "HTTP_HOST" | "SERVER_NAME" | "HTTP:Host" => self.add_host(condition, options),
            "REQUEST_URI" => {
                let text = condition.expression()?;
                if *is_not {
                    self.not_regex.push(text);
                } else if self.regex.replace(text).is_some() {
                    return Err("two expressions of the path are to be met".to_owned());
                }
                Ok(())
            }
            "REQUEST_METHOD" => {
                let known =
                    condition.patterns(true, false).ok_or("write methods, such as ^(GET|HEAD)$")?;
                let list = if *is_not { &mut self.not_methods } else { &mut self.methods };
                for text in known {
                    let text = match condition.ignores_case {
                        true => text.to_ascii_uppercase(),
                        false => text,
                    };
                    // An open end: each of METHODS is the beginning of itself alone.
                    let method = text.trim_end_matches('*');
                    if method.contains('*') || method != text && !METHODS.contains(&method) {
                        return Err(format!(
                            "write whole methods, such as ^(GET|HEAD)$, not {method}"
                        ));
                    }
                    list.push(method.to_owned());
                }
                Ok(())
            }
            "QUERY_STRING" => self.add_query(condition),
            "REMOTE_ADDR" | "REMOTE_HOST" => self.add_client(condition),
            "ENV:REDIRECT_STATUS" => {
                let regex = PathRegex::new(&condition.expression()?)?;
                self.is_never |= regex.is_in(b"") == *is_not;
                Ok(())
            }
            _ => match name.strip_prefix("HTTP:").or(name.strip_prefix("HTTP_")) {
                Some(field) => self.add_field(&field.replace('_', "-"), condition),
                None => Err(format!("the variable {name} is not known in conditions")),
            },
        }
    }

    fn add_file(&mut self, variable: &str, test: &str, is_not: bool) -> Result<(), String> {
        let suffix =
            variable.strip_prefix("%{REQUEST_FILENAME}").map(|rest| rest.replace('\\', ""));
        if let Some(suffix) = suffix.filter(|rest| rest.starts_with('.') && test == "-f" && !is_not)
        {
            self.suffix = Some(suffix);
            return Ok(());
        }
        let is_own = matches!(
            variable,
            "%{REQUEST_FILENAME}"
                | "%{SCRIPT_FILENAME}"
                | "%{DOCUMENT_ROOT}%{REQUEST_URI}"
                | "%{DOCUMENT_ROOT}/%{REQUEST_URI}"
        );
        if !is_own {
            return Err("of files it knows that of the request, %{REQUEST_FILENAME}".to_owned());
        }
        match (test, is_not) {
            ("-f" | "-F" | "-s", true) => self.is_no_file = true,
            ("-d", true) => self.is_no_directory = true,
            // A link is what it leads to.
            ("-l", true) => {}
            ("-d", false) => self.is_directory = true,
            _ => self.is_file = true,
        }
        Ok(())
    }

    fn add_channel(&mut self, name: &str, condition: &Condition<'_>) -> Result<(), String> {
        let regex = PathRegex::new(&condition.expression()?)?;
        let (clear, secure): (&[u8], &[u8]) = match name {
            "HTTPS" => (b"off", b"on"),
            "SERVER_PORT" => (b"80", b"443"),
            _ => (b"http", b"https"),
        };
        let meets = |value: &[u8]| regex.is_in(value) != condition.is_not;
        match (meets(clear), meets(secure), name.starts_with("HTTP:")) {
            (true, false, false) => self.is_clear = true,
            // A request without the field is one in clear, too.
            (true, false, true) if meets(b"") => self.is_forwarded_clear = true,
            (true, false, true) => {
                self.header.insert("X-Forwarded-Proto".to_owned(), Value::from("http"));
            }
            (false, true, true) => {
                self.header.insert("X-Forwarded-Proto".to_owned(), Value::from("https"));
            }
            (true, true, _) => {}
            _ => return Err("a rule for HTTPS alone is not known".to_owned()),
        }
        Ok(())
    }

    fn add_host(&mut self, condition: &Condition<'_>, options: &Options) -> Result<(), String> {
        let regex = format!("(?i){}", condition.expression()?);
        let regex = PathRegex::new(&regex)?;
        let known =
            condition.patterns(true, true).filter(|all| !all.iter().any(|one| one.contains('*')));
        let found: Vec<(String, Vec<String>)> = match (known, condition.is_not) {
            (Some(known), false) => known
                .into_iter()
                .map(|host| host.to_ascii_lowercase())
                .map(|host| (host.clone(), regex.groups(&host)))
                .collect(),
            (Some(known), true) if options.hosts.is_empty() => {
                self.not_hosts.extend(known.iter().map(|host| host.to_ascii_lowercase()));
                return Ok(());
            }
            _ if options.hosts.is_empty() => return Err(NEEDS_HOST.to_owned()),
            _ => options
                .hosts
                .iter()
                .filter(|host| regex.is_in(host.as_bytes()) != condition.is_not)
                .map(|host| {
                    (host.clone(), if condition.is_not { Vec::new() } else { regex.groups(host) })
                })
                .collect(),
        };
        self.hosts = Some(match self.hosts.take() {
            None => found,
            // The last expression that matches has the groups.
            Some(known) => found
                .into_iter()
                .filter_map(|(host, groups)| {
                    let before = known.iter().find(|(other, _)| *other == host)?;
                    Some((host, if groups.is_empty() { before.1.clone() } else { groups }))
                })
                .collect(),
        });
        Ok(())
    }

    fn add_query(&mut self, condition: &Condition<'_>) -> Result<(), String> {
        let text = condition.pattern.as_str();
        let bare = ["(^|&)", "(?:^|&)", "^"].iter().find_map(|begin| text.strip_prefix(begin));
        let ends = ["(&|$)", "($|&)", "(?:&|$)", "(?:$|&)", "$"];
        let bare = bare.and_then(|rest| ends.iter().find_map(|end| rest.strip_suffix(end)));
        let pair = bare.and_then(|bare| bare.split_once('='));
        let pair = pair.and_then(|(name, value)| Some((one(name)?, one(value)?)));
        let Some((name, value)) = pair.filter(|_| !condition.is_not && !condition.ignores_case)
        else {
            return Err("of queries it knows one parameter: (^|&)name=value(&|$)".to_owned());
        };
        if text.starts_with('^') {
            self.remark =
                Some(format!("other parameters may be there too: GET /?{name}={value}&x=1"));
        }
        self.query.insert(name, Value::from(value));
        Ok(())
    }

    fn add_client(&mut self, condition: &Condition<'_>) -> Result<(), String> {
        let wrong = "write an address, or its first numbers: ^10\\.0\\.";
        let known = condition.patterns(true, false).ok_or(wrong)?;
        for text in known {
            let is_whole = !text.ends_with('*');
            let text = text.trim_end_matches('*');
            let parts: Vec<&str> = text.trim_end_matches('.').split('.').collect();
            let is_number = parts.iter().all(|part| part.parse::<u8>().is_ok());
            let network = match (is_whole, parts.len(), text.ends_with('.')) {
                _ if !is_number => return Err(wrong.to_owned()),
                (true, 4, false) => text.to_owned(),
                (false, count @ 1..=3, true) => {
                    format!("{}{}/{}", parts.join("."), ".0".repeat(4 - count), count * 8)
                }
                _ => return Err(wrong.to_owned()),
            };
            let list = if condition.is_not { &mut self.not_clients } else { &mut self.clients };
            list.push(network);
        }
        Ok(())
    }
}

fn one(text: &str) -> Option<String> {
    match texts(text)?.as_slice() {
        [one] if !one.contains(['*', '&']) => Some(one.clone()),
        _ => None,
    }
}
