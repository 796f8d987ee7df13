//! Translates `if` with a fixed answer, such as `if ($request_method = OPTIONS) { return 204; }`, to a
//! mount with conditions.

use toml::Value;

use super::block::Block;
use super::kind::{HandlerKind, Kind, PathKind};
use super::location::{answer, fields};
use super::modifier::{Modifier, modifier};
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::path::mount_path;
use super::report::Report;
use super::syntax::Directive;
use super::tuning::needs;

const IF: Kind = Kind::Path(PathKind::If);

impl<'a> Mounts<'a, '_> {
    /// Translates the conditions of a server, which nginx asks before it chooses a location.
    pub(super) fn conditions_of_server(
        &mut self,
        server: &Block<'a>,
        locations: &[&Directive],
        report: &mut Report,
    ) {
        let of = |modifier: &Directive| super::modifier::modifier(modifier).map(|(kind, _)| kind);
        let has_expressions = locations.iter().any(|d| of(d) == Some(Modifier::Regex));
        for d in server.take_all(IF) {
            if self.maintenance(d, server, report) {
                continue;
            }
            let Some(mount) = self.condition(d, server, "/", report) else { continue };
            for location in locations {
                match of(location) {
                    Some(Modifier::Exact) => {}
                    Some(Modifier::Final) if has_expressions => {}
                    _ => continue,
                }
                let path = &location.args[location.args.len() - 1];
                report.remark(d, &format!("{path} is answered without this condition"));
            }
            self.site.mounts.push(mount);
        }
    }

    /// Translates the conditions of a location.
    pub(super) fn conditions_of(
        &mut self,
        block: &Block<'a>,
        (kind, path): (Modifier, &'a str),
        report: &mut Report,
    ) {
        for d in block.take_all(IF) {
            if path == "/" && kind == Modifier::Prefix && self.maintenance(d, block, report) {
                report.remark(d, "it holds for all locations");
                continue;
            }
            let Some(mount) = self.condition(d, block, path, report) else { continue };
            let mount = if kind == Modifier::Exact { mount.at_exactly(path) } else { mount };
            self.conditions.push((d, path, mount));
        }
    }

    /// Adds the mounts of conditions in locations, behind those of expressions.
    pub(super) fn add_conditions(&mut self, locations: &[&Directive], report: &mut Report) {
        for (d, path, mut mount) in std::mem::take(&mut self.conditions) {
            let prefixes = locations.iter().filter_map(|location| match modifier(location)? {
                (Modifier::Prefix | Modifier::Final, other) => Some(other),
                _ => None,
            });
            let is_within =
                |other: &&str| *other != path && other.starts_with(path) && !mount.is_exact();
            let within: Vec<&str> = prefixes.filter(is_within).collect();
            match mount.without(&within) {
                Ok(()) => self.site.mounts.push(mount),
                Err(path) => {
                    report.refuse(d, format!("in nginx it does not apply to the location {path}"));
                }
            }
        }
    }

    /// Translates `if (-f FILE) { return 503; }`, the usual way to take a site down. `false`: it is another
    /// condition.
    fn maintenance(&mut self, d: &Directive, around: &Block<'a>, report: &mut Report) -> bool {
        let words = d.args.join(" ");
        let file = words.strip_prefix("(-f ").and_then(|rest| rest.strip_suffix(')'));
        let [only] = d.children() else { return false };
        let is_503 = only.name == "return" && only.args == ["503"];
        let Some(file) = file.map(str::trim).filter(|_| is_503) else { return false };
        let root = around.get(|scope| &scope.root).clone();
        let file = match (file.strip_prefix("$document_root"), root) {
            (Some(name), Some(root)) => format!("{}{name}", root.trim_end_matches('/')),
            (Some(_), None) => return false,
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

    /// Returns the mount of a condition; `None` if it was refused.
    fn condition(
        &mut self,
        d: &'a Directive,
        around: &Block<'a>,
        path: &str,
        report: &mut Report,
    ) -> Option<Mount> {
        let rewrites = around.first(&[Kind::Path(PathKind::Rewrite), Kind::Path(PathKind::Set)]);
        let returns = around.first(&[Kind::Handler(HandlerKind::Return)]);
        let comes_first = returns.is_none_or(|returns| around.precedes(d, returns));
        let Some((matcher, host)) = matcher(d).filter(|_| rewrites.is_none() && comes_first) else {
            report.refuse(d, needs("if"));
            return None;
        };
        let block = Block::of(d, around.scope(), self.shared, report);
        let Some(returns) = block.take(Kind::Handler(HandlerKind::Return)) else {
            report.refuse(d, "of conditions it knows those that only return an answer");
            return None;
        };
        // The condition says which host it is.
        let mut returns = returns.clone();
        if let (Some(host), Some(text)) = (host, returns.args.last_mut()) {
            *text = text.replace("$host", host);
        }
        let mut keys = Keys::new();
        answer(&returns, path, &block, self.context, &mut keys, report)?;
        let headers = fields(&block);
        block.finish(super::block::Target::Answer, report);
        let mut mount = Mount { path: mount_path(path), place: Keys::new(), keys, headers };
        put(&mut mount.place, "match", matcher);
        Some(mount)
    }
}

impl Mount {
    /// Excepts paths of other locations from its conditions.
    ///
    /// # Errors
    /// The first of these paths, if that cannot be written.
    fn without<'p>(&mut self, paths: &[&'p str]) -> Result<(), &'p str> {
        let Some(first) = paths.first() else { return Ok(()) };
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._~-".contains(&b);
        let matcher = self.place.iter_mut().find(|(key, _)| key == "match");
        match matcher.map(|(_, value)| value) {
            Some(Value::Table(table))
                if !table.contains_key("not")
                    && paths.iter().all(|path| path.bytes().all(is_plain)) =>
            {
                let beneath = |path: &&str| {
                    let bare = path.trim_end_matches('/');
                    [Value::from(bare), Value::from(format!("{bare}/**"))]
                };
                let paths: Vec<Value> = paths.iter().flat_map(beneath).collect();
                let not = toml::Table::from_iter([("path".to_owned(), Value::from(paths))]);
                table.insert("not".to_owned(), Value::from(not));
                Ok(())
            }
            _ => Err(*first),
        }
    }
}

/// Returns a condition as the value of `match`, and the host that it requires; `None`: it is of another
/// form.
fn matcher(d: &Directive) -> Option<(toml::Table, Option<&str>)> {
    let [variable, operator, value] = words(d)?;
    let (operator, is_not) = match operator.strip_prefix('!') {
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    let values = match operator {
        "=" => vec![value],
        "~" if variable == "$request_method" => {
            let inner = value.strip_prefix('^')?.strip_suffix('$')?;
            let inner = inner.strip_prefix('(').and_then(|x| x.strip_suffix(')')).unwrap_or(inner);
            inner.split('|').collect()
        }
        _ => return None,
    };
    let is_plain = |text: &&str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:".contains(&b))
    };
    if !values.iter().all(is_plain) {
        return None;
    }
    let list: Vec<Value> = values.iter().map(|value| Value::from(*value)).collect();
    let one = || if let [one] = &list[..] { one.clone() } else { Value::from(list.clone()) };
    let named = |name: &str| toml::Table::from_iter([(name.to_owned(), one())]);
    let (key, value) = match variable {
        "$request_method" => ("method", one()),
        "$host" => ("host", one()),
        _ => {
            let by = |kind: &str| variable.strip_prefix('$')?.strip_prefix(kind);
            if let Some(name) = by("http_").filter(|name| *name != "host") {
                ("header", Value::from(named(&name.replace('_', "-"))))
            } else if let Some(name) = by("cookie_") {
                ("cookie", Value::from(named(name)))
            } else {
                ("query", Value::from(named(by("arg_")?)))
            }
        }
    };
    let table = toml::Table::from_iter([(key.to_owned(), value)]);
    let host = if key == "host" && !is_not { values.first().copied() } else { None };
    Some(match is_not {
        true => (toml::Table::from_iter([("not".to_owned(), Value::from(table))]), host),
        false => (table, host),
    })
}

/// The three words of a comparison, without its parentheses.
fn words(d: &Directive) -> Option<[&str; 3]> {
    let mut words: Vec<&str> = d.args.iter().map(String::as_str).collect();
    let first = words.first_mut()?;
    *first = first.strip_prefix('(')?;
    if words.last() == Some(&")") {
        words.pop();
    } else {
        let last = words.last_mut()?;
        *last = last.strip_suffix(')')?;
    }
    words.retain(|word| !word.is_empty());
    words.try_into().ok()
}
