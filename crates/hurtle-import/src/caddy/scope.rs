//! Settings that a block has for the mounts in it.

use toml::Value;

use super::fields::Edits;
use super::matcher::{Matcher, Named};
use super::parts::{Parts, Rules};
use super::rewrite::Rewritten;
use crate::mount::{Keys, put};

/// Settings of the mounts of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Requests of the blocks around it.
    pub(super) matcher: Option<Matcher>,
    /// A prefix that `handle_path` or `uri strip_prefix` takes off.
    pub(super) prefix: String,
    pub(super) root: Option<String>,
    pub(super) try_files: Vec<String>,
    /// The path that handlers get, if it is another one.
    pub(super) rewritten: Option<Rewritten>,
    pub(super) compress: bool,
    pub(super) request: Edits,
    /// Fields of requests that Caddy has changed: conditions behind are for the new values.
    pub(super) changed: Vec<String>,
    /// Header rules of mounts; those of the site itself are not here.
    pub(super) headers: Rules,
    /// Keys of mounts, such as gates.
    pub(super) keys: Keys,
    /// Gates of some of the requests.
    pub(super) gates: Vec<(Matcher, Keys)>,
    /// Header rules of some of the requests, by more than their paths.
    pub(super) conditional: Vec<(Matcher, Vec<Keys>)>,
    pub(super) named: Named,
    /// `true`: peers may be proxies that name their client.
    pub(super) has_proxies: bool,
    /// `true` in a block within the site's.
    pub(super) is_nested: bool,
    /// `true` in a block behind which a handler gets what the block does not answer.
    pub(super) goes_on: bool,
}

impl Scope {
    /// A matcher of a directive, as it is for the whole path.
    pub(super) fn own(&self, own: Option<&Matcher>) -> Result<Option<Matcher>, String> {
        match own {
            Some(own) if !self.prefix.is_empty() => own.clone().beneath(&self.prefix).map(Some),
            own => Ok(own.cloned()),
        }
    }

    /// The requests of a directive in this block.
    pub(super) fn requests(&self, own: Option<&Matcher>) -> Result<Option<Matcher>, String> {
        match (&self.matcher, self.own(own)?) {
            (Some(outer), Some(own)) => outer.clone().and(&own).map(Some),
            (Some(outer), None) => Ok(Some(outer.clone())),
            (None, own) => Ok(own),
        }
    }

    /// The keys that every mount of the block gets.
    pub(super) fn mounted(&self) -> Keys {
        let mut keys = self.keys.clone();
        add_rules(&mut keys, self.headers.all());
        keys
    }

    /// The mounts of these requests and keys: those with fields by a condition before the one
    /// without.
    pub(super) fn by_condition(
        &self,
        requests: Option<Matcher>,
        keys: Keys,
    ) -> Result<Vec<(Option<Matcher>, Keys)>, String> {
        let mut all = vec![(requests, keys)];
        for (condition, rules) in &self.conditional {
            let mut both = Vec::new();
            for (requests, keys) in all {
                let met = match &requests {
                    None => Some(condition.clone()),
                    Some(requests) => requests.meet(condition)?,
                };
                if let Some(met) = met {
                    let mut keys = keys.clone();
                    add_rules(&mut keys, rules.clone());
                    both.push((Some(met), keys));
                }
                both.push((requests, keys));
            }
            all = both;
        }
        Ok(all)
    }

    pub(super) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.keys.retain(|(known, _)| known != name);
        put(&mut self.keys, name, value);
    }

    /// `true` if a gate is for some of these requests already; `None`: for all of the block.
    pub(super) fn is_guarded(&self, own: Option<&Matcher>, parts: &Parts) -> bool {
        let has = |keys: &Keys| keys.iter().any(|(name, _)| name == "auth");
        let is_apart = |gate: &Matcher| own.is_some_and(|own| own.is_apart(gate));
        has(&self.keys) || has(&parts.keys) || self.gates.iter().any(|(gate, _)| !is_apart(gate))
    }

    /// Adds a gate: to the site, or to the mounts of a block.
    pub(super) fn gate(&mut self, keys: Keys, parts: &mut Parts) {
        match self.is_nested {
            true => {
                self.keys.retain(|(known, _)| !keys.iter().any(|(name, _)| name == known));
                self.keys.extend(keys);
            }
            // Mounts before it are for everybody.
            false => {
                for mount in &mut parts.mounts {
                    put(&mut mount.keys, "auth", "none");
                }
                parts.keys.extend(keys);
            }
        }
    }

    /// Takes a prefix off, where all requests have it.
    pub(super) fn strip(&mut self, prefix: &str) -> Result<(), String> {
        let paths = self.matcher.as_ref().map_or(&[][..], |matcher| &matcher.paths);
        let has =
            |path: &String| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        if paths.is_empty() || !paths.iter().all(has) || !self.prefix.is_empty() {
            return Err(format!("a prefix is taken off in `handle {prefix}/*`"));
        }
        self.prefix = prefix.to_owned();
        Ok(())
    }
}

/// Adds header rules to those of a mount.
fn add_rules(keys: &mut Keys, rules: Vec<Keys>) {
    if rules.is_empty() {
        return;
    }
    let rules = rules.into_iter().map(|rule| Value::Table(rule.into_iter().collect()));
    match keys.iter_mut().find(|(name, _)| name == "header") {
        Some((_, Value::Array(known))) => known.extend(rules),
        _ => put(keys, "header", Value::Array(rules.collect())),
    }
}
