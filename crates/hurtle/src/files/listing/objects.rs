//! A page of the names beneath a prefix of an object store. Sizes and times came with the names.

use std::collections::HashMap;

use super::view::{Facts, page_with};
use super::{Builder, Filter, Kind, Page, View, visible};

/// Selects and orders the entries of a page.
pub(crate) fn page_of_objects(
    listed: &hurtle_objects::Listing,
    dotfiles: bool,
    filter: &Filter,
    view: &View,
) -> Page {
    let mut builder = Builder::default();
    // An object and a prefix may have the same name; a directory has only one of them.
    let mut facts: HashMap<&[u8], Facts> = HashMap::new();
    for one in &listed.names {
        let name = one.name.as_bytes();
        let fact = match one.file {
            None => Facts { kind: Kind::Directory, size: 0, modified: None, modified_ordinal: 0 },
            Some((size, secs)) => Facts {
                kind: Kind::File,
                size,
                modified: i64::try_from(secs).ok(),
                modified_ordinal: secs,
            },
        };
        if !visible(name, dotfiles) || facts.contains_key(name) {
            continue;
        }
        if !builder.push(fact.kind, name) {
            break;
        }
        facts.insert(name, fact);
    }
    let mut listing = builder.finish();
    if !filter.is_empty() {
        listing = filter.apply(&listing);
    }
    let page = page_with(&listing, &|name| facts.get(name).copied(), view);
    Page { truncated: page.truncated || listed.is_truncated, ..page }
}
