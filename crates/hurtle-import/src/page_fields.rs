//! Fields of pages that answer other paths of their directory, which nginx takes from the location
//! of the page: `location = /index.html` and `location ~ \\.html$`.

use std::collections::BTreeMap;

use toml::Value;

use super::headers::rules;
use super::mount::{Field, Keys, Mount, put};

/// The fields of HTML in mounts of files, by the paths of the mounts.
#[derive(Debug, Default)]
pub(super) struct PageFields(BTreeMap<String, Page>);

/// The fields of HTML in a mount.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    fields: BTreeMap<String, Field>,
    /// `true`: HTML has none of the mount's other fields.
    is_all: bool,
}

impl PageFields {
    /// Takes the fields of `page`, which answers other paths of `mount`, from those of `own`.
    /// `is_all`: so does all HTML there. Returns `false` where hurtle cannot tell its responses
    /// from others.
    pub(super) fn add(&mut self, page: &str, mount: &Mount, own: &Mount, is_all: bool) -> bool {
        let is_html = page.ends_with(".html") || page.ends_with(".htm");
        let new = Page { fields: own.headers.clone(), is_all };
        let is_new = self.0.get(&mount.path).is_none_or(|known| *known == new);
        let is_known = is_html && is_new && mount.is_prefix() && mount.key("files").is_some();
        if is_known {
            self.0.insert(mount.path.clone(), new);
        }
        is_known
    }

    /// Returns the rules for HTML of a mount, behind those for all of its responses.
    pub(super) fn rules(&self, mount: &Mount) -> Vec<Keys> {
        let Some(Page { fields, is_all }) = self.0.get(&mount.path).filter(|_| mount.is_prefix())
        else {
            return Vec::new();
        };
        let is_new = |(name, field): &(&String, &Field)| mount.headers.get(*name) != Some(*field);
        let new = fields.iter().filter(is_new);
        let of_html = |(name, field): (&String, &Field)| {
            let mut field = field.clone();
            field.of_html();
            (name.clone(), field)
        };
        let new: BTreeMap<String, Field> = new.map(of_html).collect();
        let mut rules = rules(&new);
        let has_none = |name: &String| match new.get(name) {
            Some(field) => field.value.is_empty(),
            None => *is_all && !fields.contains_key(name),
        };
        let gone = mount.headers.keys().filter(|name| has_none(name));
        let gone: Vec<String> = gone.cloned().collect();
        if !gone.is_empty() {
            let mut keys = Keys::new();
            put(&mut keys, "remove", gone);
            rules.push(keys);
        }
        for keys in &mut rules {
            keys.insert(0, ("types".to_owned(), Value::from("text/html")));
        }
        rules
    }
}
