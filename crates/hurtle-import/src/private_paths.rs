//! `rewrite … break` before `proxy_pass`: the upstream gets another path, and nginx stays in the
//! location. In hurtle a rule leads to a path of its own, whose mount takes it off again. No client
//! reaches that path.

use toml::Value;

use super::block::Block;
use super::kind::{Kind, PathKind};
use super::modifier::Modifier;
use super::mount::{Keys, Mount, put};
use super::mounts::Mounts;
use super::report::Report;
use super::rules::{Rule, rewrites};
use super::syntax::Directive;
use super::uwsgi;

/// The path of requests for such a path that a client has sent.
const CLOSED: &str = "/.upstream-closed";

/// The rules of a location, and its mount.
pub(super) struct Private {
    pub(super) rules: Vec<Keys>,
    pub(super) mount: Mount,
}

/// Takes the rewrites of a proxy that all end with `break`; `None`: it has none, or others.
pub(super) fn take<'a>(
    block: &Block<'a>,
    modifier: Modifier,
    path: &str,
    report: &mut Report,
) -> Option<Vec<Rule<'a>>> {
    let all = block.all(Kind::Path(PathKind::Rewrite));
    let is_break = all.iter().all(|d| d.arg(2) == "break" && d.arg(1).starts_with('/'));
    (is_break && !all.is_empty()).then(|| rewrites(block, Some((modifier, path)), report))
}

/// Has the upstream of a mount get paths without that of the mount, for a rewrite.
pub(super) fn strip_prefix(mount: &mut Mount, rewrite: &Directive, report: &mut Report) {
    let url = mount.key("proxy").and_then(Value::as_str).and_then(|url| url.split_once("://"));
    if mount.key("strip_prefix").is_some() || url.is_some_and(|(_, rest)| rest.contains('/')) {
        return report.refuse(rewrite, "proxy_pass has a path, too; write one of both");
    }
    put(&mut mount.keys, "strip_prefix", true);
    if mount.key("uwsgi").is_some() {
        return uwsgi::hide_prefix(mount);
    }
    // nginx translates Location only where proxy_pass has a path.
    if mount.key("rewrite_location").is_none() {
        put(&mut mount.keys, "rewrite_location", false);
        report.remark(rewrite, "redirects of the upstream to its own address stay as they are");
    }
}

impl<'a> Mounts<'a, '_> {
    /// Keeps the rules of a location and the mount to which they lead.
    pub(super) fn keep_private(
        &mut self,
        rules: &[Rule<'a>],
        path: &str,
        mount: &Mount,
        report: &mut Report,
    ) {
        let Some(first) = rules.first() else { return };
        let at = first.directive();
        let within = |(modifier, other): &&(Modifier, &str)| match modifier {
            Modifier::Regex => true,
            _ => *other != path && other.starts_with(path),
        };
        if let Some((_, other)) = self.paths.iter().find(within) {
            return report
                .refuse(at, format!("in nginx it does not apply to the location {other}"));
        }
        let mut mount = mount.clone();
        strip_prefix(&mut mount, at, report);
        let rules = rules.iter().map(|rule| rule.keys.clone()).collect();
        self.private.push(Private { rules, mount });
    }

    /// Adds them: the rules behind all others, but for one that closes their paths to clients.
    pub(super) fn add_private(&mut self) {
        let mut own_rules = Vec::new();
        for (number, Private { rules, mut mount }) in
            std::mem::take(&mut self.private).into_iter().enumerate()
        {
            let own = format!("/.upstream-{}", number + 1);
            let mut closing = Keys::new();
            put(&mut closing, "match", vec![own.clone(), format!("{own}/**")]);
            put(&mut closing, "rewrite", CLOSED);
            // Behind all rules that may lead there.
            self.site.rules.push(closing);
            for mut rule in rules {
                for (_, value) in rule.iter_mut().filter(|(key, _)| key == "rewrite") {
                    *value = Value::from(format!("{own}{}", value.as_str().unwrap_or_default()));
                }
                own_rules.push(rule);
            }
            mount.path = own;
            self.site.mounts.push(mount);
        }
        self.site.rules.extend(own_rules);
        let is_used = self.site.mounts.iter().any(|mount| mount.path.starts_with("/.upstream-"));
        if is_used {
            let mut keys = Keys::new();
            put(&mut keys, "respond", "");
            put(&mut keys, "status", 404);
            let headers = std::collections::BTreeMap::new();
            let path = CLOSED.to_owned();
            self.site.mounts.push(Mount { path, place: Keys::new(), keys, headers, choice: None });
        }
    }
}
