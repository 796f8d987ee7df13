//! A block of nginx as a set of directives. A translation takes those that it translates. All
//! others are refused at the end, or a remark names them if they have no effect in nginx either.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use super::kind::{Kind, PathKind, ResponseKind, StructureKind};
use super::report::Report;
use super::scope::{Scope, Use};
use super::setting::Setting;
use super::shared::Shared;
use super::syntax::Directive;
use super::tuning::{difference, is_default, is_of_cache, is_passed_on, is_tuning, needs};

/// The directives written in a block, and the settings in force there.
#[derive(Debug)]
pub(super) struct Block<'a> {
    /// The directive that has the block.
    pub(super) at: Option<&'a Directive>,
    scope: Scope,
    /// The directives of the block itself that a translation must take.
    own: Vec<(Kind, &'a Directive)>,
    taken: RefCell<BTreeSet<Kind>>,
}

/// The translation of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A mount of files.
    Files,
    Proxy,
    Fastcgi,
    Uwsgi,
    /// A fixed answer or a redirect.
    Answer,
    /// The status page, in place of the counters of `stub_status`.
    Status,
    /// 403 for everybody.
    Closed,
    /// Rules only.
    Rules,
    /// A redirect to HTTPS.
    HttpsRedirect,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::Files => "files",
            Target::Proxy => "a proxy",
            Target::Fastcgi => "a FastCGI application",
            Target::Uwsgi => "a uWSGI application",
            Target::Answer => "a fixed answer or redirect",
            Target::Status => "a status page",
            Target::Closed => "a location that admits nobody",
            Target::Rules => "a location that rewrites every path",
            Target::HttpsRedirect => "a redirect to HTTPS",
        })
    }
}

impl<'a> Block<'a> {
    /// Reads directives within `outer`. Settings of the whole server are applied at once.
    pub(super) fn read(
        at: Option<&'a Directive>,
        directives: &'a [Directive],
        outer: &Scope,
        shared: &mut Shared,
        report: &mut Report,
    ) -> Block<'a> {
        let mut scope = outer.enter(directives);
        let mut own = Vec::new();
        for d in directives {
            match Kind::named(&d.name) {
                Some(kind) => match scope.apply(kind, d, shared, report) {
                    Use::Held => own.push((kind, d)),
                    Use::Done => {}
                },
                None => match difference(d) {
                    Some(text) => report.remark(d, text),
                    None if is_tuning(&d.name) || is_default(d) => report.leave_out(d),
                    None if is_passed_on(d) => report.leave_out(d),
                    // A setting of a cache, which no location has.
                    None if is_of_cache(&d.name) && !shared.has_cache => report.leave_out(d),
                    None => report.refuse(d, needs(&d.name)),
                },
            }
        }
        Block { at, scope, own, taken: RefCell::default() }
    }

    /// Reads the block of a directive.
    pub(super) fn of(
        at: &'a Directive,
        outer: &Scope,
        shared: &mut Shared,
        report: &mut Report,
    ) -> Block<'a> {
        Block::read(Some(at), at.children(), outer, shared, report)
    }

    /// The value of a setting in force. The directives that set it count as translated.
    pub(super) fn get<T>(&self, setting: impl Fn(&Scope) -> &Setting<T>) -> &T {
        self.scope.used.borrow_mut().extend(setting(&self.scope).kinds());
        setting(&self.scope).take(&mut self.taken.borrow_mut())
    }

    /// The settings that blocks within this one inherit.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The first directive of a kind, which counts as translated.
    pub(super) fn take(&self, kind: Kind) -> Option<&'a Directive> {
        self.taken.borrow_mut().insert(kind);
        self.first(&[kind])
    }

    /// All directives of a kind, which count as translated.
    pub(super) fn take_all(&self, kind: Kind) -> Vec<&'a Directive> {
        self.taken.borrow_mut().insert(kind);
        self.all(kind)
    }

    /// All directives of a kind, to choose a translation that takes them.
    pub(super) fn all(&self, kind: Kind) -> Vec<&'a Directive> {
        self.own.iter().filter(|(own, _)| *own == kind).map(|(_, d)| *d).collect()
    }

    /// The block with other settings in force.
    pub(super) fn with_scope(self, scope: Scope) -> Block<'a> {
        Block { scope, ..self }
    }

    /// The block with another handler of this kind.
    pub(super) fn with_handler<'b>(&self, kind: Kind, handler: &'b Directive) -> Block<'b>
    where
        'a: 'b,
    {
        let other = |&(own, d): &(Kind, &'a Directive)| match own == kind {
            true => (own, handler),
            false => (own, d),
        };
        let own = self.own.iter().map(other).collect();
        Block { at: self.at, scope: self.scope.clone(), own, taken: self.taken.clone() }
    }

    /// The first directive written here of one of the kinds.
    pub(super) fn first(&self, kinds: &[Kind]) -> Option<&'a Directive> {
        self.own.iter().find(|(kind, _)| kinds.contains(kind)).map(|(_, d)| *d)
    }

    /// The first guard written here.
    pub(super) fn first_guard(&self) -> Option<&'a Directive> {
        self.own.iter().find(|(kind, _)| matches!(kind, Kind::Guard(_))).map(|(_, d)| *d)
    }

    /// `true` if `one` is written before `other`.
    pub(super) fn precedes(&self, one: &Directive, other: &Directive) -> bool {
        let place = |d: &Directive| self.own.iter().position(|(_, own)| std::ptr::eq(*own, d));
        place(one) < place(other)
    }

    /// The handler of a block, with the settings in force there: the mount of `/` of a server.
    pub(super) fn handler(&self) -> Block<'a> {
        let own = self.own.iter().copied();
        let own = own.filter(|(kind, _)| matches!(kind, Kind::Handler(_))).collect();
        Block { at: self.at, scope: self.scope.clone(), own, taken: RefCell::default() }
    }

    /// Directives written here that no translation has taken.
    fn leftovers(&self) -> impl Iterator<Item = (Kind, &'a Directive)> {
        let taken = self.taken.borrow();
        self.own.iter().copied().filter(move |(kind, _)| !taken.contains(kind))
    }

    /// Refuses what is left in a block that was translated to `target`, or names it in a remark if
    /// it has no effect in nginx.
    pub(super) fn finish(&self, target: Target, report: &mut Report) {
        for d in self.repeated() {
            report.refuse(d, "it is written a second time");
        }
        for (kind, d) in self.leftovers() {
            if is_without_effect(kind, target) {
                report.remark(d, &format!("`{d}` is left out: {target} has no use for it"));
            } else if !report.has_refused(d) {
                report.refuse(d, remedy(kind, target));
            }
        }
    }

    /// The handlers that follow another of their kind, which nginx takes no notice of or refuses.
    fn repeated(&self) -> impl Iterator<Item = &'a Directive> {
        let is_second = |at: usize| {
            let (kind, _) = self.own[at];
            matches!(kind, Kind::Handler(_)) && self.own[..at].iter().any(|(own, _)| *own == kind)
        };
        (0..self.own.len()).filter(move |&at| is_second(at)).map(|at| self.own[at].1)
    }

    /// Refuses what is left of `http` and its blocks cannot inherit.
    pub(super) fn finish_http(&self, report: &mut Report) {
        for (_, d) in self.leftovers().filter(|(kind, _)| !kind.is_inherited()) {
            report.refuse(d, "it does not belong here");
        }
    }

    /// Likewise for a `server`; a remark names settings that no location uses.
    pub(super) fn finish_server(&self, report: &mut Report) {
        let used = self.scope.used.borrow();
        for (kind, d) in self.leftovers().filter(|(kind, _)| !used.contains(kind)) {
            match kind.is_inherited() {
                true => report.remark(d, &format!("`{d}` is left out: no location uses it")),
                false => report.refuse(d, "it does not belong here"),
            }
        }
    }
}

/// `true`: nginx would not use the directive in a location that was translated to `target`.
fn is_without_effect(kind: Kind, target: Target) -> bool {
    match kind {
        Kind::Path(PathKind::Internal) => target == Target::Closed,
        Kind::Path(_) | Kind::Structure(_) | Kind::Whole(_) => false,
        Kind::Handler(_) => {
            matches!(
                target,
                Target::Answer | Target::Status | Target::Closed | Target::HttpsRedirect
            )
        }
        Kind::Guard(_) => matches!(target, Target::Closed | Target::HttpsRedirect),
        Kind::Files(_) => !matches!(target, Target::Files | Target::Rules),
        // Proxies and applications take all of them that have an effect.
        Kind::Upstream(_) => target != Target::Rules,
        Kind::Response(
            ResponseKind::ClientMaxBodySize | ResponseKind::SendTimeout | ResponseKind::LimitConn,
        ) => true,
        Kind::Response(ResponseKind::Gzip | ResponseKind::Brotli) => {
            matches!(target, Target::Closed | Target::HttpsRedirect)
        }
        Kind::Response(_) => target == Target::HttpsRedirect,
    }
}

/// The way out for a directive that was not translated.
fn remedy(kind: Kind, target: Target) -> String {
    match kind {
        Kind::Path(PathKind::Internal) => {
            "hurtle has no internal paths; see `internal` of the proxy in proxy.md, or remove the \
             location"
                .to_owned()
        }
        Kind::Path(PathKind::Rewrite) => "rewrites belong to locations of a path".to_owned(),
        Kind::Path(PathKind::If | PathKind::Set) => needs(kind.name()).to_owned(),
        Kind::Structure(StructureKind::Location) => {
            "write it outside of the other location".to_owned()
        }
        Kind::Structure(
            StructureKind::SetRealIpFrom
            | StructureKind::RealIpHeader
            | StructureKind::RealIpRecursive,
        ) => "hurtle trusts the same proxies for all paths; write it in http".to_owned(),
        Kind::Structure(_) | Kind::Whole(_) => "it does not belong here".to_owned(),
        Kind::Handler(_)
        | Kind::Guard(_)
        | Kind::Files(_)
        | Kind::Upstream(_)
        | Kind::Response(_) => {
            format!("the translation to {target} would lose it; write it in a location of its own")
        }
    }
}
