//! Adds the keys of `[defaults.site]` and `[defaults.mount]` to the sites and mounts that do not
//! have them, before values are read: so each is read, checked and printed as if it stood there.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check_mount::HANDLERS;
use super::error::ValueError;
use super::reader::Reader;
use super::schema::DefaultValue::Words;
use super::schema::{Key, Kind, SITE, Section};
use super::schema_mount::MOUNT;
use super::table::Table;

/// Keys that each site has for itself.
const OF_ONE_SITE: [&str; 3] = ["hosts", "default", "mount"];

/// Keys that each mount has for itself, besides its handler.
const OF_ONE_MOUNT: [&str; 7] = ["path", "name", "exact", "match", "final", "status", "abort"];

#[rustfmt::skip] // One paragraph for each key.
pub(super) static DEFAULTS: Section = Section {
    header: "[defaults]",
    doc: "Keys for every site and every mount that does not set them itself. A key is taken whole: a \
          site with one `[[site.header]]` of its own has none of `[[defaults.site.header]]`. A key that \
          goes with another one is taken where that one is: `spa` by mounts with `files`, and `users` \
          not by a site with its own `auth`. Both tables are for all files of the configuration.",
    keys: &[&[
        Key::new("site", Kind::Table(&SITE_DEFAULTS), Words("see below"),
            "{ security_headers = true }",
            "The keys of `[[site]]` but `hosts`, `default` and `mount`, also as tables: \
             `[[defaults.site.header]]`, `[defaults.site.errors]`."),
        Key::new("mount", Kind::Table(&MOUNT_DEFAULTS), Words("see below"),
            "{ sidecars = false }",
            "The keys of `[[site.mount]]` but its path or name, its conditions and the keys that choose a \
             handler."),
    ]],
};

static SITE_DEFAULTS: Section =
    Section { header: "[defaults.site]", doc: "See `[defaults]`.", keys: SITE.keys };

static MOUNT_DEFAULTS: Section =
    Section { header: "[defaults.mount]", doc: "See `[defaults]`.", keys: MOUNT.keys };

/// Adds the defaults to the sites and mounts of a document.
pub(super) fn apply(document: &mut DeTable<'_>, reader: &mut Reader<'_>) {
    let Some(DeValue::Table(defaults)) = document.get("defaults").map(Spanned::get_ref) else {
        return;
    };
    let defaults_of = |name, is_refused: fn(&str) -> bool| {
        let table = defaults.get(name).and_then(|value| value.get_ref().as_table());
        let keys = table.into_iter().flatten().filter(|(name, _)| !is_refused(name.get_ref()));
        keys.map(|(name, value)| (name.clone(), value.clone())).collect::<DeTable<'_>>()
    };
    let of_site = defaults_of("site", is_of_one_site);
    let of_mount = defaults_of("mount", is_of_one_mount);
    let mut positions = Vec::new();
    collect(&of_site, &mut positions);
    reader.inherited.extend(positions.drain(..).map(|at| (at, "site")));
    collect(&of_mount, &mut positions);
    reader.inherited.extend(positions.drain(..).map(|at| (at, "mount")));
    for site in tables(document, "site") {
        inherit(site, &of_site, &SITE);
        for mount in tables(site, "mount") {
            inherit(mount, &of_mount, &MOUNT);
        }
    }
}

/// Reports the defaults that no site or mount can take. Their values are checked where they are
/// taken.
pub(super) fn check(top: &Table<'_>, reader: &mut Reader<'_>) {
    let Some(defaults) = top.get("defaults").and_then(|value| value.table(reader)) else { return };
    let rows: [(&str, fn(&str) -> bool, &str); 2] = [
        ("site", is_of_one_site, "each site has its own"),
        ("mount", is_of_one_mount, "each mount has its own"),
    ];
    for (name, is_refused, what) in rows {
        let Some(table) = defaults.get(name).and_then(|value| value.table(reader)) else {
            continue;
        };
        for spot in table.key_spots(is_refused) {
            let hint =
                format!("write it in each [[site{}]]", if name == "mount" { ".mount" } else { "" });
            reader.report(&spot, ValueError::new(what).hint(hint));
        }
    }
}

fn is_of_one_site(name: &str) -> bool {
    OF_ONE_SITE.contains(&name)
}

fn is_of_one_mount(name: &str) -> bool {
    OF_ONE_MOUNT.contains(&name) || HANDLERS.contains(&name)
}

/// The tables of a list, mutable.
fn tables<'d, 't>(
    table: &'d mut DeTable<'t>,
    name: &str,
) -> impl Iterator<Item = &'d mut DeTable<'t>> {
    let items = table.get_mut(name).and_then(|value| match value.get_mut() {
        DeValue::Array(items) => Some(items.iter_mut()),
        _ => None,
    });
    items.into_iter().flatten().filter_map(|item| match item.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    })
}

/// Adds the keys that a table does not have and can take.
fn inherit<'t>(table: &mut DeTable<'t>, defaults: &DeTable<'t>, section: &Section) {
    // A key may go with one that is added after it.
    loop {
        let before = table.len();
        for (name, value) in defaults {
            let text: &str = name.get_ref();
            let Some(key) = section.key(text) else { continue };
            let is_taken = |with: &&str| match (table.get(*with), defaults.get(*with)) {
                (Some(own), Some(default)) => own.span() == default.span(),
                (own, _) => own.is_some(),
            };
            let applies = key.with.is_empty() || key.with.iter().any(is_taken);
            if applies && !table.contains_key(text) {
                table.insert(name.clone(), value.clone());
            }
        }
        if table.len() == before {
            return;
        }
    }
}

/// Collects the positions of the keys and values in a table.
fn collect(table: &DeTable<'_>, positions: &mut Vec<usize>) {
    for (name, value) in table {
        positions.push(name.span().start);
        collect_value(value, positions);
    }
}

fn collect_value(value: &Spanned<DeValue<'_>>, positions: &mut Vec<usize>) {
    positions.push(value.span().start);
    match value.get_ref() {
        DeValue::Table(table) => collect(table, positions),
        DeValue::Array(items) => items.iter().for_each(|item| collect_value(item, positions)),
        _ => {}
    }
}
