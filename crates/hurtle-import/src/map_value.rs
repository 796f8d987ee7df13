//! Values of maps in fields and handlers: hurtle has a mount for each value of the map.
//!
//! A field of `add_header` or `proxy_set_header` keeps the variable as a mark until all mounts are
//! made. A handler, such as `proxy_pass http://$name`, is translated for each value at once.

use std::mem;

use toml::{Table, Value};

use super::block::{Block, Target};
use super::guard;
use super::kind::{HandlerKind, Kind};
use super::location::target;
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::predicate::joined;
use super::report::Report;
use super::subject::{Subject, one};
use super::syntax::Directive;
use super::upstream_settings::template;
use super::value_map::{ValueMap, ValueMaps};
use super::variables::with_values;

/// The begin and the end of a mark, which no configuration has.
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';

/// Most mounts that one becomes.
const COPIES_MAX: usize = 200;

/// The keys of a mount by the values of a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    variable: String,
    /// The number of keys that the mount had when it was made.
    own: usize,
    /// The keys in place of them, by the values that are not the default.
    others: Vec<(String, Keys)>,
}

/// Writes marks in place of the variables of maps.
pub(super) fn marked(text: &str, maps: &ValueMaps) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let (name, len) = variable(&rest[at..]);
        match maps.contains_key(name) {
            true => out.extend([BEGIN.to_string().as_str(), name, END.to_string().as_str()]),
            false => out.push_str(&rest[at..at + len]),
        }
        rest = &rest[at + len..];
    }
    out + rest
}

/// The name of the variable at the begin of a text, and the bytes that it takes there.
fn variable(text: &str) -> (&str, usize) {
    let after = &text[1..];
    match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        Some((name, _)) => (name, name.len() + 3),
        None => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            (&after[..end], end + 1)
        }
    }
}

/// `true` if a text has a mark.
pub(super) fn is_marked(text: &str) -> bool {
    text.contains(BEGIN)
}

/// Writes the names of variables in place of their marks.
pub(super) fn unmarked(text: &str) -> String {
    text.replace([BEGIN, END], "")
}

/// The variable of the first mark.
fn first_mark(text: &str) -> Option<&str> {
    Some(text.split_once(BEGIN)?.1.split_once(END)?.0)
}

/// Writes a value in place of the marks of its variable.
fn with_value(text: &str, name: &str, value: &str) -> String {
    text.replace(&format!("{BEGIN}{name}{END}"), value)
}

/// Writes a value in place of a variable.
pub(super) fn replaced(text: &str, name: &str, value: &str) -> String {
    with_values(text, |own| (own == name).then(|| value.to_owned()))
}

/// The handler of a block whose arguments have the variable of a map.
pub(super) struct ChosenHandler<'a> {
    kind: Kind,
    d: &'a Directive,
    /// The name of the variable, without `$`.
    variable: String,
}

/// Returns the handler of a block with the variable of a map; `None`: it has none.
pub(super) fn chosen<'a>(block: &Block<'a>) -> Option<ChosenHandler<'a>> {
    let kinds: &[HandlerKind] = match target(block) {
        Target::Answer => &[HandlerKind::Return],
        Target::Proxy => &[HandlerKind::ProxyPass, HandlerKind::GrpcPass],
        _ => &[],
    };
    let (kind, d) = kinds.iter().find_map(|kind| {
        let kind = Kind::Handler(*kind);
        Some((kind, block.first(&[kind])?))
    })?;
    let maps = &block.scope().value_maps;
    let variable = d.args.iter().find_map(|arg| first_mark(&marked(arg, maps)).map(str::to_owned));
    variable.map(|variable| ChosenHandler { kind, d, variable })
}

/// Makes a mount for each value of the map in the handler of a block. `make`: makes one of a block.
pub(super) fn mount(
    block: &Block<'_>,
    chosen: ChosenHandler<'_>,
    report: &mut Report,
    mut make: impl FnMut(&Block<'_>, &mut Report) -> Option<Mount>,
) -> Option<Mount> {
    let ChosenHandler { kind, d, variable } = chosen;
    let maps = &block.scope().value_maps;
    let map = maps.get(&variable)?;
    let mut with = |value: &str, report: &mut Report| {
        let written = handler(d, &variable, value)?;
        if is_refused(&written, kind) {
            report.refuse(d, "nginx sends the path of its URL as it is; write one without a path");
            return None;
        }
        let known = report.problems.len();
        let mut made = make(&block.with_handler(kind, &written), report);
        report.attribute(known, &written, d);
        if let Some(made) = made.as_mut().filter(|made| made.key("proxy").is_some())
            && made.key("rewrite_location").is_none()
        {
            // Without a directive of its own, nginx translates no Location of such a proxy.
            put(&mut made.keys, "rewrite_location", false);
        }
        made
    };
    let values: Vec<&str> = map.others().into_iter().chain([map.default.as_str()]).collect();
    let is_empty = |value: &&str| handler(d, &variable, value).is_none();
    let Some(first) = values.iter().rev().find(|value| !is_empty(value)) else {
        report.refuse(d, "no value of its map is an address");
        return None;
    };
    let mut own = with(first, report)?;
    if own.choice.is_some() {
        report.refuse(d, "it has the variables of two maps; write one");
        return None;
    }
    let mut others = Vec::new();
    for value in map.others() {
        let keys = match is_empty(&value) {
            true => failing(&own.keys),
            false => with(value, report)?.keys,
        };
        others.push((value.to_owned(), keys));
    }
    if is_empty(&map.default.as_str()) {
        own.keys = failing(&own.keys);
    }
    own.choice = Some(Box::new(Choice { variable, own: own.keys.len(), others }));
    Some(own)
}

/// The handler with a value of its map; `None`: its URL has no host, and nginx answers 500.
fn handler(d: &Directive, name: &str, value: &str) -> Option<Directive> {
    let args = d.args.iter().map(|arg| replaced(arg, name, value));
    let mut written = Directive { args: args.collect(), ..d.clone() };
    if d.name != "return" {
        let url = written.args.first_mut()?;
        if let Some(plain) = url.strip_suffix("$request_uri") {
            *url = plain.to_owned();
        }
        let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        if host.is_empty() || host.starts_with([':', '/']) {
            return None;
        }
    }
    Some(written)
}

/// `true` for a URL with a path.
fn is_refused(d: &Directive, kind: Kind) -> bool {
    let is_proxy = kind == Kind::Handler(HandlerKind::ProxyPass);
    let (_, rest) = d.arg(0).split_once("://").unwrap_or(("", ""));
    is_proxy && !rest.starts_with("unix:") && rest.contains('/')
}

/// The keys of a mount that answers 500, with the guards of these.
fn failing(keys: &Keys) -> Keys {
    let mut failing = Keys::new();
    put(&mut failing, "respond", "");
    put(&mut failing, "status", 500);
    let guards = keys.iter().filter(|(key, _)| guard::KEYS.contains(&key.as_str()));
    failing.extend(guards.cloned());
    failing
}

impl Mounts<'_, '_> {
    /// Makes a mount for each value of the maps that fields and handlers name.
    pub(super) fn by_values(&mut self, maps: &ValueMaps, report: &mut Report) {
        let mounts = mem::take(&mut self.site.mounts);
        let prefixes: Vec<String> = mounts
            .iter()
            .filter(|mount| mount.is_prefix())
            .map(|mount| mount.path.clone())
            .collect();
        let mut behind = Vec::new();
        for mount in mounts {
            let mut copies = Vec::new();
            let own = self.split(mount, maps, &mut copies, report);
            let has_match = own.place.iter().any(|(key, _)| key == "match");
            // Behind the conditions of the location, whose answers precede.
            let within = match own.is_prefix() {
                true => beneath(&own.path, &prefixes),
                false => Vec::new(),
            };
            for (map, mut copy) in copies {
                if let Err(path) = copy.without(&within) {
                    report.refuse(&map.at, format!("it is not for the location {path}"));
                }
                match has_match {
                    true => self.site.mounts.push(copy),
                    false => behind.push(copy),
                }
            }
            self.site.mounts.push(own);
        }
        self.site.mounts.extend(behind);
    }

    /// Returns the mount for the default of its maps; those for other values are added to `copies`.
    fn split<'m>(
        &self,
        mount: Mount,
        maps: &'m ValueMaps,
        copies: &mut Vec<(&'m ValueMap, Mount)>,
        report: &mut Report,
    ) -> Mount {
        let Some((name, map)) = variable_of(&mount).and_then(|name| maps.get_key_value(&name))
        else {
            return mount;
        };
        if let Some(why) = self.unfit(&mount) {
            report.refuse(&map.at, why);
            return mount.with(name, &map.default, self.context.name, maps, report);
        }
        remarks(map, &mount, report);
        for value in map.others() {
            let made = mount.clone().with(name, value, self.context.name, maps, report);
            for table in map.where_value(|own| own == value).unwrap_or_default() {
                let Some(copy) = made.clone().meeting(&table) else {
                    report.refuse(&map.at, NOT_JOINED);
                    continue;
                };
                if copies.len() >= COPIES_MAX {
                    report
                        .refuse(&map.at, format!("a location becomes {COPIES_MAX} mounts at most"));
                    return mount.with(name, &map.default, self.context.name, maps, report);
                }
                let copy = self.split(copy, maps, copies, report);
                copies.push((map, copy));
            }
        }
        let own = mount.with(name, &map.default, self.context.name, maps, report);
        self.split(own, maps, copies, report)
    }

    /// The reason for which a mount cannot have others beside it.
    pub(super) fn unfit(&self, mount: &Mount) -> Option<&'static str> {
        let has = |name: &str| mount.place.iter().any(|(key, _)| key == name);
        if has("name") {
            Some("hurtle has one mount for a named location; write the map's variable elsewhere")
        } else if has("final") {
            Some("beside regular expressions, a location with ^~ has no conditions in hurtle")
        } else if mount.path.starts_with("/.upstream-") {
            Some("hurtle has one mount behind a rewrite with `break`")
        } else {
            None
        }
    }
}

/// The reason for which a map is refused whose conditions cannot join those of a mount.
const NOT_JOINED: &str = "its conditions and those of a location that uses it are of one kind, of which hurtle's \
                          `match` has one";

/// The variable of the first map that a mount names.
fn variable_of(mount: &Mount) -> Option<String> {
    if let Some(choice) = &mount.choice {
        return Some(choice.variable.clone());
    }
    let fields = mount.headers.values().map(|field| field.value.as_str());
    let found = fields.chain(texts(&mount.keys)).find_map(first_mark);
    found.map(str::to_owned)
}

/// The texts of request fields.
fn texts(keys: &Keys) -> impl Iterator<Item = &str> {
    let tables = keys.iter().filter(|(key, _)| key == "request_fields");
    let sets = tables.filter_map(|(_, table)| table.get("set")?.as_table());
    sets.flat_map(|set| set.values()).filter_map(Value::as_str)
}

/// Names what differs between a map of nginx and conditions of mounts.
fn remarks(map: &ValueMap, mount: &Mount, report: &mut Report) {
    if let Some(text) = map.subject.as_ref().and_then(Subject::remark) {
        report.remark(&map.at, &text);
    }
    if map.repeats() {
        report.remark(
            &map.at,
            "a value of the request in other letters, such as Origin: HTTPS://A.EXAMPLE, is repeated as it is \
             written here",
        );
    }
    let has_pages = ["files", "root"].iter().any(|key| mount.key(key).is_some());
    if matches!(map.subject, Some(Subject::Path | Subject::File)) && has_pages {
        let text = "the path is that of the request: GET / has not the value of its page, such as /index.html, and \
                    neither have paths that the last file of try_files answers";
        report.remark(&map.at, text);
    }
}

/// The paths of mounts beneath another, which take theirs from it.
pub(super) fn beneath<'p>(path: &str, prefixes: &'p [String]) -> Vec<&'p str> {
    let is_beneath = |other: &&String| {
        let rest = other.strip_prefix(path.trim_end_matches('/'));
        *other != path && rest.is_some_and(|rest| rest.starts_with('/'))
    };
    prefixes.iter().filter(is_beneath).map(String::as_str).collect()
}

impl Mount {
    /// The mount for one value of a map.
    fn with(
        mut self,
        name: &str,
        value: &str,
        server_name: Option<&str>,
        maps: &ValueMaps,
        report: &mut Report,
    ) -> Mount {
        let Some(map) = maps.get(name) else { return self };
        if self.choice.as_ref().is_some_and(|choice| choice.variable == name)
            && let Some(choice) = self.choice.take()
            && let Some((_, keys)) = choice.others.iter().find(|(other, _)| other == value)
        {
            let later = self.keys.split_off(choice.own.min(self.keys.len()));
            self.keys = keys.clone();
            self.keys.extend(later);
        }
        for field in self.headers.values_mut().filter(|field| is_marked(&field.value)) {
            let text = with_value(&field.value, name, &marked(value, maps));
            if text.contains('$') {
                report.refuse(
                    &map.at,
                    "it has a variable, and fields of responses have none; for CORS see access.md",
                );
            }
            field.value = text.trim().to_owned();
        }
        if let Some((_, Value::Table(fields))) =
            self.keys.iter_mut().find(|(key, _)| key == "request_fields")
        {
            match template(&marked(value, maps), server_name) {
                Some(value) => set_fields(fields, name, &value),
                None => report.refuse(&map.at, "a field of requests does not know its variable"),
            }
        }
        self
    }

    /// The mount for requests that meet these conditions, too.
    pub(super) fn meeting(mut self, table: &Table) -> Option<Mount> {
        match self.place.iter_mut().find(|(key, _)| key == "match") {
            Some((_, Value::Table(known))) => *known = joined(known, table)?,
            // A pattern of paths.
            Some((_, pattern)) => {
                *pattern = Value::from(joined(&one("path", pattern.clone()), table)?);
            }
            None => put(&mut self.place, "match", table.clone()),
        }
        Some(self)
    }
}

/// Writes a value in request fields. Those that are empty then are removed.
fn set_fields(fields: &mut Table, name: &str, value: &str) {
    let Some(Value::Table(set)) = fields.get_mut("set") else { return };
    let mut gone = Vec::new();
    for (field, text) in set.iter_mut() {
        let Some(marked) = text.as_str().filter(|text| is_marked(text)) else { continue };
        let written = with_value(marked, name, value);
        if written.is_empty() {
            gone.push(field.clone());
        }
        *text = Value::from(written);
    }
    set.retain(|field, _| !gone.iter().any(|name| name == field));
    let is_empty = set.is_empty();
    let removed = fields.entry("remove").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(removed) = removed {
        removed.extend(gone.into_iter().map(Value::from));
    }
    if is_empty {
        fields.remove("set");
    }
    if fields.get("remove").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        fields.remove("remove");
    }
}
