//! Translates `location @name` to a mount with a name, which others reach by `otherwise`.

use toml::Value;

use super::block::{Block, Target};
use super::error_pages::put_pages;
use super::kind::{HandlerKind, Kind, PathKind};
use super::location::{mount, target};
use super::modifier::{Modifier, modifier};
use super::mount::{Mount, put};
use super::mounts::Mounts;
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;

/// A named location of a server, and what it leads to.
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    d: &'a Directive,
    /// The page to which it rewrites all paths, if it does nothing else.
    pub(super) page: Option<&'a String>,
}

/// Expressions that match every path.
pub(super) const EVERY_PATH: [&str; 7] = ["^", ".*", "^.*$", "^(.*)$", "^/(.*)$", "(.*)", "^.*"];

/// Returns the named locations among these.
pub(super) fn named_locations<'a>(locations: &[&'a Directive]) -> Vec<Named<'a>> {
    let page_of = |d: &'a Directive| {
        let [only] = d.children() else { return None };
        let is_plain = |page: &str| page.starts_with('/') && !page.contains(['$', '?']);
        let is_page = only.name == "rewrite"
            && EVERY_PATH.contains(&only.arg(0))
            && is_plain(only.arg(1))
            && matches!(only.arg(2), "last" | "break" | "");
        only.args.get(1).filter(|_| is_page)
    };
    let named = |d: &&'a Directive| match modifier(d)? {
        (Modifier::Named, name) => Some(Named { name, d, page: page_of(d) }),
        _ => None,
    };
    locations.iter().filter_map(named).collect()
}

/// Returns whether `try_files` of a location with a proxy leads to the same proxy: a file that it
/// finds is proxied, too, because the location does not send files.
pub(super) fn leads_to_itself(at: &Directive, try_files: &Directive, named: &[Named<'_>]) -> bool {
    let Some((last, paths)) = try_files.args.split_last() else { return false };
    let is_path = |path: &String| path == "$uri" || path == "$uri/";
    let other = named.iter().find(|named| last.strip_prefix('@') == Some(named.name));
    let settings = |d: &Directive| {
        let own = d.children().iter().filter(|d| d.name != "try_files");
        let mut own: Vec<String> = own.map(|d| format!("{} {:?}", d.name, d.args)).collect();
        own.sort();
        own
    };
    let is_plain = |d: &Directive| d.children().iter().all(|d| d.block.is_none());
    other.is_some_and(|other| is_plain(other.d) && settings(at) == settings(other.d))
        && is_plain(at)
        && paths.iter().all(is_path)
}

impl<'a> Mounts<'a, '_> {
    /// Translates a named location.
    pub(super) fn named(
        &mut self,
        d: &'a Directive,
        name: &'a str,
        outer: &Scope,
        report: &mut Report,
    ) {
        if self.context.named.iter().any(|named| named.name == name && named.page.is_some()) {
            return;
        }
        let block = Block::of(d, outer, self.shared, report);
        if let Some(rewrite) = block.take(Kind::Path(PathKind::Rewrite)) {
            return report
                .refuse(rewrite, "in a named location it knows one of all paths to a page");
        }
        if target(&block) == Target::Fastcgi {
            let pass = block.first(&[Kind::Handler(HandlerKind::FastcgiPass)]).unwrap_or(d);
            return report.refuse(pass, "in a named location hurtle does not know the script");
        }
        let has_spa = target(&block) == Target::Files;
        let pages = self.error_pages(&block, false, has_spa, report);
        let try_files = block.first(&[Kind::Handler(HandlerKind::TryFiles)]);
        let Some(made) = mount(d, "/", &block, try_files, self.context, report) else { return };
        let mut made = Mount { path: String::new(), ..made };
        put_pages(pages, &mut made);
        put(&mut made.place, "name", name);
        self.names.push(d);
        self.site.mounts.push(made);
    }

    /// Leaves named locations out that nothing leads to.
    pub(super) fn drop_unnamed(&mut self, report: &mut Report) {
        let leading = self.site.mounts.iter().filter_map(|mount| mount.key("otherwise").cloned());
        let leading: Vec<Value> = leading.chain(self.names_of_errors()).collect();
        for d in &self.names {
            let name = Value::from(d.arg(0).trim_start_matches('@'));
            if !leading.contains(&name) {
                let is_it =
                    |mount: &Mount| mount.place.contains(&("name".to_owned(), name.clone()));
                self.site.mounts.retain(|mount| !is_it(mount));
                report.remark(d, "it is left out: no try_files and no error_page leads to it");
            }
        }
    }
}
