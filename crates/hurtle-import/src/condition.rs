//! Translates `if` with a fixed answer, such as `if ($request_method = OPTIONS) { return 204; }`,
//! to a mount with conditions.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::block::Block;
use super::kind::{HandlerKind, Kind, PathKind};
use super::location::{answer, fields};
use super::modifier::{Modifier, modifier};
use super::mount::{Field, Keys, Mount, put};
use super::mounts::Mounts;
use super::overlap::of_names;
use super::path::mount_path;
use super::predicate::Predicate;
use super::report::Report;
use super::syntax::Directive;
use super::tuning::needs;
use super::variables::with_values;

const IF: Kind = Kind::Path(PathKind::If);

impl<'a> Mounts<'a, '_> {
    /// Translates the conditions of a server, which nginx asks before it chooses a location.
    pub(super) fn conditions_of_server(
        &mut self,
        server: &Block<'a>,
        locations: &[&'a Directive],
        report: &mut Report,
    ) {
        let locations = locations.iter().filter_map(|location| modifier(location));
        let locations: Vec<(Modifier, &'a str)> = locations.collect();
        let has_expressions = locations.iter().any(|(kind, _)| *kind == Modifier::Regex);
        for d in server.take_all(IF) {
            if self.maintenance(d, server, report) {
                continue;
            }
            let mounts = self.condition(d, server, "/", false, report);
            let is_redirect = mounts.iter().any(Mount::is_redirect);
            for (kind, path) in &locations {
                match kind {
                    Modifier::Exact if !is_redirect => {
                        let own = mounts.iter().cloned().map(|mount| mount.at_exactly(path));
                        self.conditions.extend(own.map(|mount| (d, *path, mount)));
                    }
                    Modifier::Final if mounts.iter().any(Mount::is_refusal) => {
                        self.before_finals.push((d, path));
                    }
                    Modifier::Final if !has_expressions => {}
                    Modifier::Exact | Modifier::Final => {
                        report.remark(d, &format!("{path} is answered without this condition"));
                    }
                    _ => {}
                }
            }
            for mount in mounts {
                if mount.is_refusal() {
                    self.refusing.push((d, mount.clone()));
                }
                self.before_rewrites.push((d, mount.clone()));
                self.add_condition(mount);
            }
        }
    }

    /// Translates the conditions of a location.
    pub(super) fn conditions_of(
        &mut self,
        block: &Block<'a>,
        kind: Modifier,
        path: &'a str,
        report: &mut Report,
    ) {
        for d in block.take_all(IF) {
            if path == "/" && kind == Modifier::Prefix && self.maintenance(d, block, report) {
                report.remark(d, "it holds for all locations");
                continue;
            }
            if self.of_fields(d, block, kind, path, report) {
                continue;
            }
            for mut mount in self.condition(d, block, path, kind == Modifier::Exact, report) {
                if kind == Modifier::Exact {
                    mount = mount.at_exactly(path);
                }
                self.has_conditions_of_root |= path == "/" && kind == Modifier::Prefix;
                self.conditions.push((d, path, mount));
            }
        }
    }

    /// Adds the mounts of conditions in locations, behind those of expressions.
    pub(super) fn add_conditions(&mut self, locations: &[&Directive], report: &mut Report) {
        for (d, path) in std::mem::take(&mut self.before_finals) {
            if self.is_final(d, path, locations) {
                report.refuse(d, BESIDE_EXPRESSIONS);
            }
        }
        self.conditions_on_targets(report);
        for (d, path, mut mount) in std::mem::take(&mut self.conditions) {
            if !mount.is_exact() && self.is_final(d, path, locations) {
                report.refuse(d, BESIDE_EXPRESSIONS);
                continue;
            }
            let within = if mount.is_exact() { Vec::new() } else { beneath(path, locations) };
            match mount.without(&within) {
                Ok(()) => {
                    let is_of_server =
                        self.before_rewrites.iter().any(|(of, _)| std::ptr::eq(*of, d));
                    if mount.is_refusal() && !is_of_server {
                        if !mount.is_exact() && !path.ends_with('/') {
                            report.remark(d, &of_names(path));
                        }
                        self.refusing.push((d, mount.clone()));
                    }
                    self.add_condition(mount);
                }
                Err(path) => {
                    report.refuse(d, format!("in nginx it does not apply to the location {path}"));
                }
            }
        }
        self.add_adorned(locations, report);
    }

    /// Adds the mount of a condition, unless another with the same conditions answers before it.
    fn add_condition(&mut self, mount: Mount) {
        let is_same = |known: &Mount| (&known.path, &known.place) == (&mount.path, &mount.place);
        if !self.site.mounts.iter().any(is_same) {
            self.site.mounts.push(mount);
        }
    }

    /// Translates `if (-f FILE) { return 503; }`, the usual way to take a site down. `false`: it is
    /// another condition.
    fn maintenance(&mut self, d: &Directive, around: &Block<'a>, report: &mut Report) -> bool {
        let words = d.args.join(" ");
        let file = words.strip_prefix("(-f ").and_then(|rest| rest.strip_suffix(')'));
        let [only] = d.children() else { return false };
        let is_503 = only.name == "return" && only.args == ["503"];
        let Some(file) = file.map(str::trim).filter(|_| is_503) else { return false };
        let root = around.get(|scope| &scope.root).clone();
        let file = match (file.strip_prefix("$document_root"), root) {
            (Some(name), Some(root)) if name.starts_with('/') => {
                format!("{}{name}", root.trim_end_matches('/'))
            }
            (Some(_), _) => return false,
            (None, _) => file.to_owned(),
        };
        let has = |(name, _): &(String, Value)| name == "maintenance";
        if !file.starts_with('/') || file.contains('$') || self.site.keys.iter().any(has) {
            return false;
        }
        put(&mut self.site.keys, "maintenance", file);
        report.remark(
            d,
            "the file itself is sent with 503, or the page of 503 if it is empty; nginx sends its page",
        );
        true
    }

    /// Returns the mounts of a condition; none if it was refused.
    fn condition(
        &mut self,
        d: &'a Directive,
        around: &Block<'a>,
        path: &str,
        is_exact: bool,
        report: &mut Report,
    ) -> Vec<Mount> {
        let rewrites = around.first(&[Kind::Path(PathKind::Rewrite), Kind::Path(PathKind::Set)]);
        let returns = around.first(&[Kind::Handler(HandlerKind::Return)]);
        let comes_first = returns.is_none_or(|returns| around.precedes(d, returns));
        if rewrites.is_none()
            && comes_first
            && let Some(mounts) = self.without_www(d, around, path, report)
        {
            return mounts;
        }
        if Predicate::is_on_target(d, &around.scope().value_maps) {
            self.on_targets.push(d);
        }
        let known = (rewrites.is_none() && comes_first)
            .then(|| Predicate::of(d, &around.scope().value_maps, report));
        let Some(Predicate { any, host }) = known.flatten() else {
            report.refuse(d, needs("if"));
            return Vec::new();
        };
        let block = Block::of(d, around.scope(), self.shared, report);
        let Some(returns) = block.take(Kind::Handler(HandlerKind::Return)) else {
            report.refuse(d, "of conditions it knows those that return an answer or set fields");
            return Vec::new();
        };
        // The condition says which host it is.
        let mut returns = returns.clone();
        if let (Some(host), Some(text)) = (host, returns.args.last_mut()) {
            *text = with_values(text, |name| (name == "host").then(|| host.clone()));
        }
        let mut keys = Keys::new();
        match own_directory(&returns).filter(|_| is_exact) {
            Some((to, status)) => {
                put(&mut keys, "redirect", to);
                put(&mut keys, "status", status);
            }
            None => {
                if answer(&returns, path, &block, self.context, &mut keys, report).is_none() {
                    return Vec::new();
                }
            }
        }
        let headers = fields(&block);
        block.finish(super::block::Target::Answer, report);
        let mount =
            Mount { path: mount_path(path), place: Keys::new(), keys, headers, choice: None };
        any.into_iter().map(|matcher| mount.clone().where_met(matcher)).collect()
    }

    /// Keeps a condition of a location that sets fields only; `false`: it is another one.
    fn of_fields(
        &mut self,
        d: &'a Directive,
        block: &Block<'a>,
        kind: Modifier,
        path: &'a str,
        report: &mut Report,
    ) -> bool {
        let is_field = |d: &Directive| matches!(d.name.as_str(), "add_header" | "expires");
        let others = [PathKind::Rewrite, PathKind::Set].map(Kind::Path);
        if d.children().is_empty()
            || !d.children().iter().all(is_field)
            || block.first(&others).is_some()
        {
            return false;
        }
        let returns = block.first(&[Kind::Handler(HandlerKind::Return)]);
        if returns.is_some_and(|returns| block.precedes(returns, d)) {
            report.remark(d, "it is left out: nginx returns before it");
            return true;
        }
        let Some(predicate) = Predicate::of(d, &block.scope().value_maps, report) else {
            return false;
        };
        let inner = Block::of(d, block.scope(), self.shared, report);
        let headers = fields(&inner);
        inner.finish(super::block::Target::Files, report);
        let is_exact = kind == Modifier::Exact;
        self.adorned.push(Adorned { d, path, is_exact, any: predicate.any, headers });
        true
    }

    /// Returns whether the location of a path is final, so that its mount precedes all conditions.
    /// Without expressions it is not yet: scripts may make it so.
    fn is_final(&mut self, d: &'a Directive, path: &str, locations: &[&Directive]) -> bool {
        let is_it = |d: &&Directive| modifier(d) == Some((Modifier::Final, path));
        let is_it = locations.iter().any(is_it);
        if is_it && self.expressions.is_empty() {
            self.of_finals.push(d);
        }
        is_it && !self.expressions.is_empty()
    }

    /// Refuses the conditions of final locations, which scripts make precede all of them.
    pub(super) fn refuse_conditions_of_finals(&self, report: &mut Report) {
        self.of_finals.iter().for_each(|d| report.refuse(d, BESIDE_EXPRESSIONS));
    }

    /// Refuses conditions on `$request_uri`, the path of the client, in locations to which a
    /// rewrite leads: hurtle asks for the new path.
    fn conditions_on_targets(&self, report: &mut Report) {
        for (d, path, _) in &self.conditions {
            let is_on_target = self.on_targets.iter().any(|of| std::ptr::eq(*of, *d));
            let rule = self.rules.iter().find(|rule| rule.leads_into(path));
            if let Some(rule) = rule.filter(|_| is_on_target) {
                let why =
                    format!("`{}` changes the path before hurtle asks for it", rule.directive());
                report.refuse(d, why);
            }
        }
    }

    /// Adds the mounts of conditions that set fields: those of their locations with other fields.
    /// Of several that are met nginx takes the last.
    fn add_adorned(&mut self, locations: &[&Directive], report: &mut Report) {
        for Adorned { d, path, is_exact, any, headers } in
            std::mem::take(&mut self.adorned).into_iter().rev()
        {
            if !is_exact && self.is_final(d, path, locations) {
                report.refuse(d, BESIDE_EXPRESSIONS);
                continue;
            }
            let own = self.site.mounts.iter().find(|mount| mount.is_of(path, is_exact)).cloned();
            let Some(own) = own.filter(|_| self.scripts.is_none()) else {
                report.refuse(
                    d,
                    "beside scripts, or for a single file, hurtle has no such condition",
                );
                continue;
            };
            // nginx does not search within a condition.
            let mut keys = own.keys.clone();
            keys.retain(|(key, _)| {
                !matches!(key.as_str(), "try_files" | "otherwise" | "spa" | "index")
            });
            if keys.len() < own.keys.len() {
                report.remark(d, "a request that meets it gets the file of its path, without try_files, as by nginx");
            }
            let plain = Mount { keys, headers, ..own };
            let within = if is_exact { Vec::new() } else { beneath(path, locations) };
            for matcher in any {
                let mut made = plain.clone().where_met(matcher);
                match made.without(&within) {
                    Ok(()) => self.site.mounts.push(made),
                    Err(path) => {
                        report.refuse(
                            d,
                            format!("in nginx it does not apply to the location {path}"),
                        );
                    }
                }
            }
        }
    }
}

/// The path and the status of a redirect to a directory that keeps the query: hurtle appends it,
/// and the rest of the path, which an exact location has not.
fn own_directory(returns: &Directive) -> Option<(&str, i64)> {
    let to = returns.arg(1).strip_suffix("$is_args$args")?;
    let status = returns.arg(0).parse().ok().filter(|status| (301..=308).contains(status))?;
    let is_plain = to.starts_with('/') && to.ends_with('/') && !to.contains('$');
    is_plain.then_some((to, status))
}

/// The reason for which a condition of `^~` is refused.
const BESIDE_EXPRESSIONS: &str =
    "beside regular expressions, a location with ^~ has no conditions in hurtle";

/// The locations of prefixes beneath a path, whose paths they take from it.
fn beneath<'p>(path: &str, locations: &[&'p Directive]) -> Vec<&'p str> {
    let prefixes = locations.iter().filter_map(|location| match modifier(location)? {
        (Modifier::Prefix | Modifier::Final, other) => Some(other),
        _ => None,
    });
    prefixes.filter(|other| *other != path && other.starts_with(path)).collect()
}

/// A condition of a location that only sets fields.
pub(super) struct Adorned<'a> {
    d: &'a Directive,
    path: &'a str,
    is_exact: bool,
    any: Vec<Table>,
    headers: BTreeMap<String, Field>,
}

impl Mount {
    /// The mount for requests that meet these conditions.
    fn where_met(mut self, matcher: Table) -> Mount {
        put(&mut self.place, "match", matcher);
        self
    }

    /// Excepts paths of other locations from its conditions.
    ///
    /// # Errors
    /// The first of these paths, if that cannot be written.
    pub(super) fn without<'p>(&mut self, paths: &[&'p str]) -> Result<(), &'p str> {
        let Some(first) = paths.first() else { return Ok(()) };
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._~-".contains(&b);
        let matcher = self.place.iter_mut().find(|(key, _)| key == "match");
        match matcher.map(|(_, value)| value) {
            Some(Value::Table(table)) if paths.iter().all(|path| path.bytes().all(is_plain)) => {
                let beneath = |path: &&str| {
                    let bare = path.trim_end_matches('/');
                    [Value::from(bare), Value::from(format!("{bare}/**"))]
                };
                let paths: Vec<Value> = paths.iter().flat_map(beneath).collect();
                let not = Value::from(Table::from_iter([("path".to_owned(), Value::from(paths))]));
                match table.remove("not") {
                    None => drop(table.insert("not".to_owned(), not)),
                    Some(Value::Array(mut list)) => {
                        list.push(not);
                        table.insert("not".to_owned(), Value::from(list));
                    }
                    Some(known) => {
                        drop(table.insert("not".to_owned(), Value::from(vec![known, not])));
                    }
                }
                Ok(())
            }
            _ => Err(*first),
        }
    }
}
