//! Makes the mounts of a site from the locations of a server. `overlap` compares them afterwards
//! with the locations that became no mount of their own.

use std::cell::RefCell;

use super::block::{Block, Target};
use super::closed::{behind_rewrite, closed, unreachable};
use super::condition::Adorned;
use super::error_pages::{beneath, place_of, put_pages};
use super::expression::Expression;
use super::files::script_of;
use super::front_script;
use super::kind::{HandlerKind, Kind, PathKind, StructureKind};
use super::location::{Context, mount, target};
use super::modifier::{Modifier, modifier};
use super::mount::{ErrorPages, Keys, Mount, Site, put};
use super::named::Named;
use super::nested_scripts;
use super::page_fields::PageFields;
use super::private_paths::{self, Private};
use super::report::Report;
use super::rules::{self, Rule, rewrites};
use super::scope::Scope;
use super::scripts::Scripts;
use super::shared::Shared;
use super::slashes::slash_redirect;
use super::syntax::Directive;

const INTERNAL: Kind = Kind::Path(PathKind::Internal);

/// A location that became a mount.
pub(super) struct Placed<'a> {
    pub(super) at: &'a Directive,
    pub(super) modifier: Modifier,
    /// The path as written.
    pub(super) path: &'a str,
    /// A path for which nginx looks up a location once more, with its directive.
    pub(super) fallback: Option<(String, &'a Directive)>,
}

/// A location that another mount must serve: a page (`=`) of files, or a rewrite within a location.
pub(super) struct Page<'a> {
    pub(super) at: &'a Directive,
    pub(super) path: String,
    pub(super) block: Block<'a>,
    /// Its own error pages.
    pub(super) errors: ErrorPages,
}

/// The mounts of a site, as its locations are translated.
pub(super) struct Mounts<'a, 'b> {
    pub(super) site: &'b mut Site,
    pub(super) context: &'b Context<'b>,
    pub(super) shared: &'b mut Shared,
    pub(super) placed: Vec<Placed<'a>>,
    pub(super) pages: Vec<Page<'a>>,
    /// The expressions of mounts with one, with their locations.
    pub(super) expressions: Vec<(&'a Directive, Expression)>,
    pub(super) scripts: Option<Scripts<'a>>,
    /// The expression of the scripts.
    pub(super) script_expression: Option<Expression>,
    /// Conditions that set fields.
    pub(super) adorned: Vec<Adorned<'a>>,
    /// Rewrites before proxies, with the mounts to which they lead.
    pub(super) private: Vec<Private>,
    /// `true`: the script of `index` answers for directories of `/` without an index.
    pub(super) has_index_script: bool,
    /// `try_files` of locations that lead to a script.
    pub(super) front_scripts: Vec<&'a Directive>,
    /// Mounts of expressions within locations.
    pub(super) within: Vec<Mount>,
    /// Number of mounts for conditions of the server.
    pub(super) server_conditions: usize,
    pub(super) rules: Vec<Rule<'a>>,
    /// Rewrites with `break` to paths that are not fixed.
    pub(super) stays: Vec<Page<'a>>,
    /// Conditions of locations with `^~`, beside scripts.
    pub(super) of_finals: Vec<&'a Directive>,
    /// Conditions on `$request_uri`, of all locations.
    pub(super) on_targets: Vec<&'a Directive>,
    /// Rules of exact locations.
    redirects: Vec<Keys>,
    /// Conditions of the server that refuse requests, with the final locations that they are for.
    pub(super) before_finals: Vec<(&'a Directive, &'a str)>,
    /// Conditions of the server, with their mounts.
    pub(super) before_rewrites: Vec<(&'a Directive, Mount)>,
    /// Conditions that refuse requests, with their mounts.
    pub(super) refusing: Vec<(&'a Directive, Mount)>,
    /// Conditions in locations, with their paths and mounts.
    pub(super) conditions: Vec<(&'a Directive, &'a str, Mount)>,
    /// `true`: the location `/` has one.
    pub(super) has_conditions_of_root: bool,
    /// The named locations that became mounts.
    pub(super) names: Vec<&'a Directive>,
    /// The paths of its locations, as written.
    pub(super) paths: Vec<(Modifier, &'a str)>,
    /// `true`: there are several locations.
    pub(super) has_others: bool,
    /// Fields of pages that answer other paths.
    pub(super) page_fields: RefCell<PageFields>,
    /// The root directory of `/`, and `try_files` there.
    pub(super) root: Option<(Option<String>, Option<&'a Directive>)>,
}

impl<'a, 'b> Mounts<'a, 'b> {
    pub(super) fn new(
        site: &'b mut Site,
        context: &'b Context<'b>,
        shared: &'b mut Shared,
    ) -> Mounts<'a, 'b> {
        Mounts {
            site,
            context,
            shared,
            placed: Vec::new(),
            pages: Vec::new(),
            expressions: Vec::new(),
            scripts: None,
            script_expression: None,
            has_index_script: false,
            front_scripts: Vec::new(),
            within: Vec::new(),
            server_conditions: 0,
            rules: Vec::new(),
            stays: Vec::new(),
            of_finals: Vec::new(),
            on_targets: Vec::new(),
            redirects: Vec::new(),
            before_finals: Vec::new(),
            before_rewrites: Vec::new(),
            refusing: Vec::new(),
            has_conditions_of_root: false,
            conditions: Vec::new(),
            adorned: Vec::new(),
            private: Vec::new(),
            names: Vec::new(),
            paths: Vec::new(),
            has_others: false,
            page_fields: RefCell::default(),
            root: None,
        }
    }

    /// Translates the locations and the rewrites of a server.
    pub(super) fn server(&mut self, server: &Block<'a>, report: &mut Report) {
        self.rules = rewrites(server, None, report);
        let locations = server.take_all(Kind::Structure(StructureKind::Location));
        if server.first(&[Kind::Handler(HandlerKind::Return)]).is_some() {
            for d in &locations {
                report.refuse(d, "nginx sends `return` of the server first; remove the location");
            }
        }
        self.has_others = locations.len() > 1;
        self.conditions_of_server(server, &locations, report);
        self.server_conditions = self.site.mounts.len();
        let is_of_path = |(modifier, _): &(Modifier, &str)| *modifier != Modifier::Named;
        let paths = locations.iter().filter_map(|d| modifier(d)).filter(is_of_path);
        self.paths = paths.collect();
        for d in locations.iter().copied() {
            match modifier(d) {
                Some((Modifier::Regex, text)) => {
                    self.regex(d, text, server.scope(), report);
                }
                Some((Modifier::Named, name)) => self.named(d, name, server.scope(), report),
                Some((modifier, path)) => {
                    self.path(d, modifier, path, server.scope(), report);
                }
                None => {
                    let path = d.args.last().map_or("", String::as_str);
                    match matches!(d.args.first().map(String::as_str), Some("~" | "~*")) {
                        false if d.args.len() <= 2 && !path.is_empty() => report.remark(
                            d,
                            &format!(
                                "it is left out: paths begin with a slash, such as GET /{path}"
                            ),
                        ),
                        _ => report.refuse(d, "a location has a path, =, ^~, ~, ~* or @name"),
                    }
                }
            }
        }
        self.root(server, report);
        self.drop_unnamed(report);
        self.add_conditions(&locations, report);
        if !self.expressions.is_empty() {
            self.finals();
        }
        rules::check(&self.rules, &self.paths, report);
        self.conditions_before_rewrites(report);
        let slashes = self.slashes(&self.paths);
        let of_rules = self.rules.iter().filter_map(Rule::redirected_location).map(str::to_owned);
        let fixed = self.redirects.iter().chain(&slashes).flatten();
        let fixed = fixed.filter(|(key, _)| key == "match").filter_map(|(_, path)| path.as_str());
        let paths: Vec<String> = of_rules.chain(fixed.map(str::to_owned)).collect();
        self.conditions_after_redirects(&paths, report);
        self.site.rules = self.rules.iter().map(|rule| rule.keys.clone()).collect();
        self.site.rules.append(&mut self.redirects);
        self.site.rules.extend(slashes);
        self.add_private();
    }

    fn path(
        &mut self,
        d: &'a Directive,
        modifier: Modifier,
        path: &'a str,
        outer: &Scope,
        report: &mut Report,
    ) {
        let is_auth = |server: &super::gates::AuthServer| server.path == path;
        if modifier == Modifier::Exact && self.context.auth.iter().any(is_auth) {
            return;
        }
        let block = Block::of(d, outer, self.shared, report);
        if let Some(scripts) = nested_scripts::within(d) {
            return self.application(d, modifier, path, &block, scripts, report);
        }
        let is_proxy =
            matches!(target(&block), Target::Proxy | Target::Uwsgi) && modifier != Modifier::Exact;
        let strip = if is_proxy { rules::take_strip(&block, path, report) } else { None };
        let private = match strip {
            None if is_proxy => private_paths::take(&block, modifier, path, report),
            _ => None,
        };
        let rules = match (strip, &private) {
            (None, None) => rewrites(&block, Some((modifier, path)), report),
            _ => Vec::new(),
        };
        let is_covered = rules.iter().any(|rule| rule.covers(modifier, path));
        let is_behind_text = rules.iter().any(|rule| rule.covers_text(modifier, path));
        self.stays(d, &rules, outer, report);
        self.rules.extend(rules);
        self.conditions_of(&block, modifier, path, report);
        let target = target(&block);
        let is_page = modifier == Modifier::Exact && target == Target::Files;
        let pages = self.error_pages(
            &block,
            path == "/" && !is_page,
            target == Target::Files && !is_page,
            report,
        );
        if block.scope().denies_all() && target != Target::Answer && !is_root_page(modifier, path) {
            let mount = closed(&block, path, report);
            let mut mount =
                if modifier == Modifier::Exact { mount.at_exactly(path) } else { mount };
            put_pages(pages, &mut mount);
            return self.add(d, modifier, path, None, mount, report);
        }
        if is_covered && target == Target::Files {
            if !pages.is_empty() {
                report.refuse(d, "the rewrite leads elsewhere, and its error pages would be lost");
            }
            return block.finish(Target::Rules, report);
        }
        if modifier == Modifier::Exact && block.first(&[INTERNAL]).is_some() {
            if !outer.errors.peek().values().any(|page| place_of(page) == Some(path)) {
                let mount = unreachable(&block, path, report);
                return self.add(d, modifier, path, None, mount, report);
            }
            block.take(INTERNAL);
            let text = format!("GET {path} itself is answered with the page; nginx answers 404");
            report.remark(d, &text);
        }
        let with_slash = format!("{path}/");
        let leads_on = matches!(modifier, Modifier::Prefix | Modifier::Final)
            && self.paths.iter().any(|(_, other)| *other == with_slash);
        let to = if leads_on { Some(&*with_slash) } else { None };
        // A rule would come before them.
        let is_own = |d: &Directive| d.name == "if";
        let has_conditions = d.children().iter().any(is_own);
        if (modifier == Modifier::Exact || leads_on)
            && !has_conditions
            && let Some(redirect) = slash_redirect(&block, path, to, report)
        {
            return self.redirects.push(redirect);
        }
        if is_page {
            return self.pages.push(Page { at: d, path: path.to_owned(), block, errors: pages });
        }
        let script = if path == "/" { None } else { front_script::take(&block) };
        let try_files = self.front(&block, path).filter(|_| script.is_none());
        let has_files = || {
            let others = [Kind::Handler(HandlerKind::Alias), Kind::Handler(HandlerKind::TryFiles)];
            block.first(&others).is_some() || block.scope().root.peek().is_some()
        };
        if is_behind_text && target == Target::Files && script.is_none() && !has_files() {
            let made = behind_rewrite(d, path, &block, self.context, report);
            let Some(mut mount) = made else { return };
            put_pages(pages, &mut mount);
            return self.add(d, modifier, path, None, mount, report);
        }
        if let Some(mut mount) = mount(d, path, &block, try_files, self.context, report) {
            beneath(&mut mount, d, path, report);
            let fallback = fallback(d, &block, try_files, self.context.named);
            if let Some(script) = script {
                self.lead_to_script(script, &mut mount, report);
            }
            let is_exact = modifier == Modifier::Exact;
            if let Some(d) = strip {
                private_paths::strip_prefix(&mut mount, d, report);
            }
            let mut mount = if is_exact { mount.at_exactly(path) } else { mount };
            put_pages(pages, &mut mount);
            if let (Some(private), Some(_)) = (&private, &mount.choice) {
                private.iter().for_each(|rule| {
                    report.refuse(rule.directive(), "its upstream is that of a map");
                });
            }
            self.keep_private(&private.unwrap_or_default(), path, &mount, report);
            self.add(d, modifier, path, fallback, mount, report);
        }
    }

    /// Names the paths of directories without their slash, and paths without a location.
    pub(super) fn bare_directories(&self, report: &mut Report) {
        let is_mount = |path: &str| self.site.mounts.iter().any(|mount| mount.is_of(path, false));
        if !is_mount("/") {
            report.general(
                "Paths without a location are 404, without fields of add_header; nginx looks for them in its own \
                 directory html"
                    .to_owned(),
            );
            return;
        }
        for placed in &self.placed {
            let bare = placed.path.strip_suffix('/').filter(|bare| !bare.is_empty());
            let mount = self.site.mounts.iter().find(|mount| mount.is_of(placed.path, false));
            let is_files = mount.is_some_and(|mount| mount.key("files").is_some());
            if let Some(bare) =
                bare.filter(|bare| is_files && !self.paths.iter().any(|(_, path)| path == bare))
            {
                let text = format!(
                    "GET {bare} is redirected to {}; nginx asks the location of shorter paths, such as /",
                    placed.path
                );
                report.remark(placed.at, &text);
            }
        }
    }

    /// Marks mounts of `^~` as final, which no mount with an expression precedes.
    pub(super) fn finals(&mut self) {
        let is_final = |mount: &Mount| {
            // A location with `=` may have the same path, and its own mount.
            let is_of_mount =
                |one: &Placed<'_>| one.modifier == Modifier::Final && mount.is_of(one.path, false);
            self.placed.iter().any(is_of_mount)
        };
        for mount in self.site.mounts.iter_mut().filter(|mount| is_final(mount)) {
            put(&mut mount.place, "final", true);
        }
    }

    /// Remembers the root of `/`, and returns `try_files` unless a script is its end.
    fn front(&mut self, block: &Block<'a>, path: &str) -> Option<&'a Directive> {
        let try_files = block.first(&[Kind::Handler(HandlerKind::TryFiles)]);
        if path != "/" || target(block) != Target::Files {
            return try_files;
        }
        self.root = Some((block.get(|scope| &scope.root).clone(), try_files));
        let is_front = try_files.is_some_and(|d| script_of(d).is_some());
        if is_front {
            // `scripts` translates it.
            block.take(Kind::Handler(HandlerKind::TryFiles));
        }
        try_files.filter(|_| !is_front)
    }

    /// nginx stays in the location after a rewrite with `break`; hurtle chooses the mount anew.
    fn stays(&mut self, d: &'a Directive, rules: &[Rule<'a>], outer: &Scope, report: &mut Report) {
        let has_refusal = self.before_rewrites.iter().any(|(_, mount)| mount.is_refusal());
        for (at, path, is_open) in rules.iter().filter_map(Rule::stays) {
            let block = Block::of(d, outer, self.shared, report);
            if target(&block) != Target::Files
                || block.first(&[Kind::Handler(HandlerKind::Alias)]).is_some()
            {
                report.refuse(at, "hurtle chooses the mount by the new path; write last");
                continue;
            }
            if has_refusal && !is_open {
                report.refuse(at, "hurtle would not ask the conditions of the server; write last");
                continue;
            }
            block.take(Kind::Path(PathKind::Rewrite));
            let page = Page { at, path: path.to_owned(), block, errors: ErrorPages::new() };
            if is_open { self.stays.push(page) } else { self.pages.push(page) }
        }
    }

    pub(super) fn add(
        &mut self,
        at: &'a Directive,
        modifier: Modifier,
        path: &'a str,
        fallback: Option<(String, &'a Directive)>,
        mount: Mount,
        report: &mut Report,
    ) {
        let is_same = |other: &Mount| (&other.path, &other.place) == (&mount.path, &mount.place);
        if self.site.mounts.iter().any(is_same) {
            report.refuse(at, format!("a second location of {}", mount.path));
        } else {
            self.site.mounts.push(mount);
            self.placed.push(Placed { at, modifier, path, fallback });
        }
    }

    /// Adds the mount of `/`, if no location is it.
    fn root(&mut self, server: &Block<'a>, report: &mut Report) {
        let block = server.handler();
        let try_files = Kind::Handler(HandlerKind::TryFiles);
        let is_root = |mount: &Mount| mount.is_of("/", false);
        if self.site.mounts.iter().any(is_root) || self.root.is_some() {
            if let Some(d) = server.take(try_files) {
                report.remark(d, "`try_files` is left out: location / has its own");
            }
            return;
        }
        // Without a root of its own, other paths have nothing (404).
        let has_files = block.scope().root.peek().is_some() || target(&block) == Target::Answer;
        let is_empty =
            self.site.mounts.is_empty() && self.pages.is_empty() && self.rules.is_empty();
        let Some(at) = server.at.filter(|_| has_files || is_empty) else { return };
        server.take(try_files);
        server.take(Kind::Handler(HandlerKind::Return));
        let list = self.front(&block, "/");
        if let Some(mount) = mount(at, "/", &block, list, self.context, report) {
            self.site.mounts.insert(0, mount);
            let fallback = fallback(at, &block, list, self.context.named);
            self.placed.insert(0, Placed { at, modifier: Modifier::Prefix, path: "/", fallback });
        }
    }
}

fn is_root_page(modifier: Modifier, path: &str) -> bool {
    modifier == Modifier::Exact && path == "/"
}

/// The path for which nginx looks up a location if there is no file.
fn fallback<'a>(
    at: &'a Directive,
    block: &Block<'a>,
    try_files: Option<&'a Directive>,
    named: &[Named<'_>],
) -> Option<(String, &'a Directive)> {
    let page_of = |last: &'a String| {
        let page = named.iter().find(|named| last.strip_prefix('@') == Some(named.name));
        page.and_then(|named| named.page).unwrap_or(last).clone()
    };
    let last = try_files.and_then(|d| Some((d, page_of(d.args.last()?))));
    if let Some((d, path)) = last.filter(|(_, path)| path.starts_with('/')) {
        return Some((path, d));
    }
    block.scope().spa.peek().clone().filter(|page| page.starts_with('/')).map(|page| (page, at))
}
