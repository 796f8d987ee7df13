//! Makes header rules of the fields of mounts.

use std::collections::BTreeMap;

use toml::Value;

use super::mount::{Field, Keys, Mount, put, put_list};
use super::mounts::Mounts;

impl Mounts<'_, '_> {
    /// Makes header rules of the fields of the mounts. Each replaces those of the mount above it.
    pub(super) fn headers(&mut self) {
        let mut mounts: Vec<&Mount> =
            self.site.mounts.iter().filter(|mount| mount.is_prefix()).collect();
        mounts.sort_by_key(|mount| mount.path.len());
        let none = BTreeMap::new();
        let mut rules = Vec::new();
        for (index, mount) in mounts.iter().enumerate() {
            let above = mounts[..index].iter().rev().find(|above| {
                above.path == "/" || mount.path.starts_with(&format!("{}/", above.path))
            });
            let above = above.map_or(&none, |above| &above.headers);
            rules.extend(rule(&mount.pattern, &mount.headers, above));
            if mount.path != "/" && mount.key("files").is_none() {
                rules.extend(rule(&mount.path, &mount.headers, above));
            }
        }
        let mut every = BTreeMap::new();
        for mount in &mounts {
            every.extend(mount.headers.clone());
        }
        self.site.headers = rules;
        // The paths of the others are also those of prefixes.
        for mount in self.site.mounts.iter_mut().filter(|mount| !mount.is_prefix()) {
            let mut others = every.clone();
            others.retain(|name, _| !mount.headers.contains_key(name));
            let own = rule("**", &mount.headers, &others);
            let own: Vec<toml::Table> = own.into_iter().map(toml::Table::from_iter).collect();
            let rules = mount.keys.iter_mut().find(|(key, _)| key == "header");
            match rules {
                Some((_, Value::Array(rules))) => rules.extend(own.into_iter().map(Value::from)),
                _ if own.is_empty() => {}
                _ => put(&mut mount.keys, "header", own),
            }
        }
    }
}

/// The header rules that change the fields `above` to `fields`: one for successes, and one for all
/// responses.
fn rule(
    pattern: &str,
    fields: &BTreeMap<String, Field>,
    above: &BTreeMap<String, Field>,
) -> Vec<Keys> {
    let mut rules = Vec::new();
    for always in [false, true] {
        let of_kind = |(_, field): &(&String, &Field)| field.always == always;
        let set: toml::Table = fields
            .iter()
            .filter(|(name, field)| above.get(*name) != Some(field))
            .filter(of_kind)
            .map(|(name, field)| (name.clone(), Value::from(field.value.clone())))
            .collect();
        let gone = above.iter().filter(of_kind).filter(|(name, _)| !fields.contains_key(*name));
        let remove: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        if set.is_empty() && remove.is_empty() {
            continue;
        }
        let mut keys = Keys::new();
        if pattern != "**" {
            put(&mut keys, "match", pattern);
        }
        if !set.is_empty() {
            put(&mut keys, "set", set);
        }
        put_list(&mut keys, "remove", &remove);
        if always {
            put(&mut keys, "always", true);
        }
        rules.push(keys);
    }
    rules
}
