//! `header`, `header_down` and `request_header`: fields of responses and of requests.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::matcher::Matcher;
use super::pattern::is_placeholder;
use crate::mount::{Keys, put};
use crate::syntax::Directive;

/// Changes of fields: of responses, or of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Edits {
    set: BTreeMap<String, String>,
    absent: BTreeMap<String, String>,
    add: BTreeMap<String, String>,
    remove: Vec<String>,
    has_deferred: bool,
}

/// The directives of fields in a `header` or `request_header`: one on its line, or those of its
/// block.
pub(super) fn lines(d: &Directive, args: &[String]) -> Vec<Directive> {
    let one = args.first().map(|name| Directive {
        name: name.clone(),
        args: args[1..].to_vec(),
        block: None,
        at: d.at.clone(),
    });
    one.into_iter().chain(d.children().iter().cloned()).collect()
}

impl Edits {
    /// Adds one line: `Name value`, `-Name`, `+Name value`, `?Name value` or `>Name value`.
    ///
    /// # Errors
    /// Signs and names without a counterpart in hurtle.
    pub(super) fn line(&mut self, line: &Directive) -> Result<(), String> {
        let (sign, name) = match line.name.split_at_checked(1) {
            Some((sign @ ("+" | "-" | "?" | ">"), name)) => (sign, name),
            _ => ("", line.name.as_str()),
        };
        if line.args.len() > 1 {
            return Err("a part of a value is not replaced in hurtle".to_owned());
        }
        if name.contains(['*', '{']) || name.is_empty() {
            return Err("names of fields have no * and no variables".to_owned());
        }
        self.has_deferred |= sign == ">";
        // Recipients take spaces around a value off.
        let value = line.arg(0).trim().to_owned();
        match sign {
            "-" => self.remove.push(name.to_owned()),
            "+" => drop(self.add.insert(name.to_owned(), value)),
            "?" => drop(self.absent.insert(name.to_owned(), value)),
            _ => drop(self.set.insert(name.to_owned(), value)),
        }
        Ok(())
    }

    /// Header rules of responses.
    ///
    /// # Errors
    /// Conditions, values and edits that rules do not have.
    pub(super) fn rules(&self, matcher: Option<&Matcher>) -> Result<Vec<Keys>, String> {
        if let Some(matcher) = matcher
            && !matcher.is_of_path()
        {
            return Err("a header rule of hurtle has conditions of the path alone".to_owned());
        }
        if !self.add.is_empty() {
            return Err("a field is set in hurtle, not added to others of its name".to_owned());
        }
        let mut values = self.set.values().chain(self.absent.values());
        if let Some(value) = values.find(|value| is_placeholder(value)) {
            return Err(format!("the value of a field is text, not {value}"));
        }
        // Files that are there: their errors get no field.
        let is_of_files = matcher.is_some_and(|matcher| matcher.file == Some(true));
        if matcher.is_some_and(|matcher| matcher.file == Some(false)) {
            return Err("a header rule of hurtle is not for missing files".to_owned());
        }
        let mut place = Keys::new();
        if let Some(matcher) = matcher
            && (!matcher.paths.is_empty() || matcher.regex.is_some() || !is_of_files)
        {
            place = matcher.key()?;
        }
        let mut rules = Vec::new();
        let mut rule = |set: &BTreeMap<String, String>, remove: &[String], if_absent: bool| {
            if set.is_empty() && remove.is_empty() {
                return;
            }
            let mut keys = place.clone();
            if !set.is_empty() {
                put(&mut keys, "set", table(set));
            }
            if !remove.is_empty() {
                put(&mut keys, "remove", remove.to_vec());
            }
            if !is_of_files {
                put(&mut keys, "always", true);
            }
            if if_absent {
                put(&mut keys, "if_absent", true);
            }
            rules.push(keys);
        };
        rule(&self.set, &self.remove, false);
        rule(&self.absent, &[], true);
        Ok(rules)
    }

    /// The value of `request_fields`; `None`: nothing changes. `has_proxies`: peers may be proxies
    /// that name their client.
    ///
    /// # Errors
    /// Variables that hurtle's templates do not have.
    pub(super) fn request_fields(
        &self,
        upstream: &str,
        has_proxies: bool,
    ) -> Result<Option<Value>, String> {
        let own = self.settled();
        if !self.absent.is_empty() {
            return Err("a field of requests has no default in hurtle".to_owned());
        }
        let mut fields = Table::new();
        for (key, values) in [("set", &own.set), ("add", &own.add)] {
            let mut written = Table::new();
            for (name, value) in values {
                if !is_default(name, value, has_proxies) {
                    let value = template(value, upstream)?;
                    written.insert(name.clone(), Value::from(value));
                }
            }
            if !written.is_empty() {
                fields.insert(key.to_owned(), Value::Table(written));
            }
        }
        if !self.remove.is_empty() {
            let names = self.remove.iter().map(|name| Value::from(name.as_str()));
            fields.insert("remove".to_owned(), Value::Array(names.collect()));
        }
        Ok((!fields.is_empty()).then_some(Value::Table(fields)))
    }

    /// `true` if Caddy makes the changes when the response begins, and not before.
    pub(super) fn is_deferred(&self) -> bool {
        !self.remove.is_empty() || !self.absent.is_empty() || self.has_deferred
    }

    /// The changes of one directive without those that it takes back: Caddy adds and sets fields,
    /// and then removes them.
    fn settled(&self) -> Edits {
        let is_removed =
            |name: &String| self.remove.iter().any(|removed| removed.eq_ignore_ascii_case(name));
        let mut edits = self.clone();
        edits.set.retain(|name, _| !is_removed(name));
        edits.add.retain(|name, _| !is_removed(name));
        edits
    }

    /// Adds the changes of a later directive, which see those before.
    pub(super) fn extend(&mut self, later: &Edits) {
        let later = later.settled();
        *self = self.settled();
        let is_in = |names: &BTreeMap<String, String>, name: &str| {
            names.keys().any(|known| known.eq_ignore_ascii_case(name))
        };
        for (name, value) in later.add {
            // Nothing is left to which it is added.
            match self.remove.iter().any(|removed| removed.eq_ignore_ascii_case(&name)) {
                true => drop(self.set.insert(name, value)),
                false => drop(self.add.insert(name, value)),
            }
        }
        let is_removed = |name: &String| {
            is_in(&later.set, name)
                || later.remove.iter().any(|removed| removed.eq_ignore_ascii_case(name))
        };
        self.set.retain(|name, _| !is_removed(name));
        self.add.retain(|name, _| !is_removed(name));
        self.set.extend(later.set);
        self.absent.extend(later.absent);
        self.remove.extend(later.remove);
        self.remove.retain(|name| !is_in(&self.set, name));
    }

    /// The field of the client that a value has, if there is one.
    pub(super) fn used_field(&self) -> Option<&str> {
        let values = self.set.values().chain(self.add.values());
        let field = |value: &&String| value.contains("{header.") || value.contains(".header.");
        values.filter(|value| field(value)).map(String::as_str).next()
    }

    /// Removes the fields of a connection, which hurtle sets by itself; returns one that was there.
    pub(super) fn take_of_connection(&mut self) -> Option<String> {
        let is_own = |name: &&String| {
            name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("upgrade")
        };
        let found = self.set.keys().find(is_own).cloned();
        self.set.retain(|name, _| !is_own(&name));
        found
    }
}

fn table(values: &BTreeMap<String, String>) -> Value {
    Value::Table(values.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect())
}

/// `true` for a field that hurtle sends with this value anyway. Those of proxies it passes on.
fn is_default(name: &str, value: &str, has_proxies: bool) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match value {
        "{hostport}" | "{http.request.hostport}" => {
            is("host") || (is("x-forwarded-host") && !has_proxies)
        }
        "{scheme}" | "{http.request.scheme}" => is("x-forwarded-proto") && !has_proxies,
        "{remote_host}" | "{http.request.remote.host}" | "{client_ip}" => {
            is("x-forwarded-for") && !has_proxies
        }
        _ => false,
    }
}

/// Translates Caddy's variables in a value to hurtle's.
fn template(value: &str, upstream: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(format!("a brace in {value}"));
        };
        let short = name.strip_prefix("http.request.").unwrap_or(name);
        let field = short.strip_prefix("header.").filter(|field| !field.is_empty());
        match short {
            "host" => out.push_str("{host}"),
            "hostport" => out.push_str("{request.Host}"),
            "scheme" => out.push_str("{scheme}"),
            "remote" | "remote_host" | "remote.host" | "client_ip" => out.push_str("{client}"),
            "tls_client_subject" | "tls.client.subject" => out.push_str("{tls.client.subject}"),
            "port" => out.push_str("{server.port}"),
            "upstream_hostport" | "http.reverse_proxy.upstream.hostport"
                if !upstream.is_empty() =>
            {
                out.push_str(upstream);
            }
            _ if field.is_some() => {
                out.push_str(&format!("{{request.{}}}", field.unwrap_or_default()));
            }
            env if env.starts_with("env.") => out.push_str(&format!("{{{env}}}")),
            _ => return Err(format!("hurtle has no variable {{{name}}}")),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
