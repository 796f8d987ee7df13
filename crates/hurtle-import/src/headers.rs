//! Reads `add_header`, and makes header rules of the fields of mounts.

use std::collections::BTreeMap;

use toml::Value;

use super::cache;
use super::map_value::marked;
use super::mount::{Field, Keys, Mount, put};
use super::mounts::Mounts;
use super::path::has_variable;
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;
use super::type_map;

impl Mounts<'_, '_> {
    /// Writes the fields of all mounts in the site if they are alike, and those of each in itself
    /// else: in nginx they replace those of the blocks around, and take nothing from upstreams.
    pub(super) fn headers(&mut self, report: &mut Report) {
        let first = self.site.mounts.first().map(|mount| mount.headers.clone());
        let first = first.unwrap_or_default();
        let is_redirect = |mount: &Mount| mount.key("redirect").is_some();
        let is_typed = first.values().any(|field| !field.types.is_empty());
        let is_apart = is_typed && self.site.mounts.iter().any(is_redirect);
        if !is_apart && self.site.mounts.iter().all(|mount| mount.headers == first) {
            self.site.headers = rules(&first);
            return;
        }
        if !self.site.rules.is_empty() {
            report.general(
                "Redirects of `rewrite`, and those to a slash at the end, have no fields of add_header: they differ between \
                 locations"
                    .to_owned(),
            );
        }
        let of_pages = self.page_fields.take();
        for mount in &mut self.site.mounts {
            if is_redirect(mount) {
                mount.headers.values_mut().for_each(Field::of_html);
            }
            let own = rules(&mount.headers).into_iter().chain(of_pages.rules(mount));
            let own: Vec<toml::Table> = own.map(toml::Table::from_iter).collect();
            let known = mount.keys.iter_mut().find(|(key, _)| key == "header");
            match known {
                Some((_, Value::Array(known))) => known.extend(own.into_iter().map(Value::from)),
                _ if own.is_empty() => {}
                _ => put(&mut mount.keys, "header", own),
            }
        }
    }
}

impl Scope {
    /// Reads a field of responses, in which variables of maps are marks.
    pub(super) fn add_header(&mut self, d: &Directive, report: &mut Report) {
        // Recipients take spaces around a value off.
        let name = d.arg(0).to_ascii_lowercase();
        let value = &marked(d.arg(1).trim(), &self.value_maps);
        let types = self.type_maps.get(value).cloned().unwrap_or_default();
        let is_typed = !types.is_empty();
        let value_of_all = if is_typed { String::new() } else { value.to_owned() };
        let field = Field { value: value_of_all, always: d.arg(2) == "always", types };
        if is_typed {
            report.general(type_map::REMARK.to_owned());
        }
        if value == "$upstream_cache_status" {
            cache::status_field(d, report);
        } else if has_variable(value) && !is_typed {
            report.refuse(d, "it needs variables");
        } else if self.headers.edit().insert(name, field).is_some() {
            report.refuse(d, "a header rule sets a field once; write one line with both values");
        }
    }
}

/// The header rules that set these fields: one for successes, and one for all responses.
pub(super) fn rules(fields: &BTreeMap<String, Field>) -> Vec<Keys> {
    let mut rules = Vec::new();
    for always in [false, true] {
        let set: toml::Table = fields
            .iter()
            .filter(|(_, field)| field.always == always && field.types.is_empty())
            .filter(|(_, field)| !field.value.is_empty())
            .map(|(name, field)| (name.clone(), Value::from(field.value.clone())))
            .collect();
        if set.is_empty() {
            continue;
        }
        let mut keys = Keys::new();
        put(&mut keys, "set", set);
        if always {
            put(&mut keys, "always", true);
        }
        rules.push(keys);
    }
    rules.extend(fields.iter().flat_map(|(name, field)| type_map::field_rules(name, field)));
    rules
}

impl Field {
    /// Leaves the value for HTML alone.
    pub(super) fn of_html(&mut self) {
        if let Some(value) = type_map::of_html(&self.types) {
            self.value.clone_from(value);
        }
        self.types.clear();
    }
}
