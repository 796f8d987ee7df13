//! Routes a request by its path as sent, and by more where matchers say so: rules, then the mount.

use std::borrow::Cow;
use std::cell::RefCell;

use http::StatusCode;
use hurtle_http::semantics::target::{self, PathError, encode_path};

use super::Site;
use super::mount::{Mount, MountRef};
use crate::answer::Answer;
use crate::config::{self, MatchedRequest, Matcher, RuleAction};
use crate::handler::fixed::NO_HOST;

/// The handler of a path.
#[derive(Debug)]
pub(crate) enum Route<'a> {
    /// The site's own response, which is taken once, and the reason for it.
    Answer(Box<RefCell<Answer>>, Cow<'static, str>),
    Mount {
        /// The decoded path after the rules.
        path: Cow<'a, [u8]>,
        /// The query after the rules; `None`: as sent.
        query: Option<Vec<u8>>,
        mount: MountRef<'a>,
        /// The patterns of the rules that changed the path.
        rules: Vec<String>,
    },
}

/// The parts of a request that decide about the routes of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routing {
    /// The path alone does.
    ByPath,
    /// Other parts do, for mounts.
    ByRequest,
    /// Other parts do, for rules, so one path may be rewritten to several.
    RewrittenByRequest,
}

impl Routing {
    pub(super) fn of(site: &config::Site) -> Routing {
        let mut matchers = site.mounts.iter().filter_map(|mount| mount.matcher.as_ref());
        if !site.rules.iter().all(|rule| rule.matcher.is_of_path()) {
            Routing::RewrittenByRequest
        } else if matchers.all(Matcher::is_of_path) {
            Routing::ByPath
        } else {
            Routing::ByRequest
        }
    }
}

/// A target while the rules of a site change it.
pub(super) struct RoutedTarget<'a> {
    /// The decoded path.
    pub(super) path: Cow<'a, [u8]>,
    /// The query; `None`: as sent.
    pub(super) query: Option<Vec<u8>>,
    /// The patterns of the rules that have changed it.
    pub(super) rules: Vec<String>,
}

impl Site {
    /// Routes a path as sent.
    pub(crate) fn route<'a>(&'a self, raw: &'a [u8], request: &MatchedRequest<'_>) -> Route<'a> {
        match target::decoded(raw) {
            Ok(path) => self.checked(self.route_decoded(path, request), request),
            Err(PathError::EncodedSlash) => {
                self.checked(self.route_either_way(raw, request), request)
            }
            Err(bad) => {
                let reason = bad.to_string();
                let answer = Answer::error(StatusCode::BAD_REQUEST, Some(&reason));
                Route::Answer(Box::new(RefCell::new(answer)), reason.into())
            }
        }
    }

    /// Routes a decoded path.
    pub(super) fn route_decoded<'a>(
        &'a self,
        path: Cow<'a, [u8]>,
        request: &MatchedRequest<'_>,
    ) -> Route<'a> {
        let mut target = RoutedTarget { path, query: None, rules: Vec::new() };
        if let Some(redirect) = self.apply_rules(&mut target, request) {
            return Route::Answer(Box::new(RefCell::new(redirect)), target.rules.join(", ").into());
        }
        self.mounted(target, request)
    }

    /// Returns the mount of a path after the rules that have changed it.
    pub(super) fn mounted<'a>(
        &'a self,
        target: RoutedTarget<'a>,
        request: &MatchedRequest<'_>,
    ) -> Route<'a> {
        let RoutedTarget { path, query, rules } = target;
        let found = self.mount_of(&path, Some(request));
        // A deployed application is a mount of all paths beneath its own.
        if found.is_none_or(|(_, mount)| mount.is_prefix())
            && let Some(mount) =
                self.deployed.holding(&path, found.map(|(_, mount)| mount.path.len()))
        {
            return Route::Mount { path, query, mount: MountRef::Deployed(mount), rules };
        }
        match found {
            None => {
                let answer = Answer::error(StatusCode::NOT_FOUND, None);
                Route::Answer(Box::new(RefCell::new(answer)), "no mount holds this path".into())
            }
            Some((number, mount)) => {
                Route::Mount { path, query, mount: MountRef::Configured(number, mount), rules }
            }
        }
    }

    /// Returns the mount with this name, which begins with `@`.
    pub(super) fn mount_with_name(&self, name: &str) -> Option<MountRef<'_>> {
        let mut mounts = self.mounts.iter().enumerate();
        let (number, next) = mounts.find(|(_, mount)| mount.name() == name)?;
        Some(MountRef::Configured(number, next))
    }

    /// Returns the reason for which a request gets this mount; `None`: paths alone decide, and all
    /// are prefixes.
    pub(crate) fn reason_of(&self, mount: &Mount) -> Option<&'static str> {
        if mount.is_handed_on {
            return Some("the mount before it has no file for this path");
        }
        if self.mounts.iter().all(|mount| mount.is_prefix() || mount.is_handed_on) {
            return None;
        }
        Some(match (mount.is_exact(), mount.is_prefix()) {
            (true, _) => "the mount has exactly this path, and goes before all others",
            (_, false) => "the first mount whose conditions the request meets",
            _ if mount.is_final => "the longest path, which is final: conditions are not tried",
            _ => "the longest path; no mount has this very path, or conditions that are met",
        })
    }

    /// Returns the mount of a path, with its number: that of exactly this path, else the first
    /// whose conditions the request meets, unless the longest one is final, else the longest one.
    /// Without a request only the path is known.
    #[inline]
    pub(super) fn mount_of(
        &self,
        path: &[u8],
        request: Option<&MatchedRequest<'_>>,
    ) -> Option<(usize, &Mount)> {
        let mut mounts = self.mounts.iter().enumerate();
        let found = mounts.find(|(_, mount)| mount.takes(path, request))?;
        if found.1.is_prefix() || found.1.is_exact() {
            return Some(found);
        }
        let longest = mounts.find(|(_, mount)| mount.is_prefix() && mount.holds(path));
        Some(longest.filter(|(_, mount)| mount.is_final).unwrap_or(found))
    }

    /// Applies the rules once, in order; each sees the result of the ones before. `Some` is the
    /// redirect that ended them.
    fn apply_rules(
        &self,
        target: &mut RoutedTarget<'_>,
        request: &MatchedRequest<'_>,
    ) -> Option<Answer> {
        for rule in &self.config.rules {
            let path = &target.path;
            let Some(captures) = rule.matcher.captures(path, Some(request)) else { continue };
            target.rules.push(rule.matcher.to_string());
            let sent =
                target.query.as_deref().or(request.query()).filter(|query| !query.is_empty());
            match &rule.action {
                RuleAction::Redirect(status, to) => {
                    let place = request.place();
                    if !place.has_parts_of(to) {
                        return Some(Answer::error(StatusCode::BAD_REQUEST, Some(NO_HOST)));
                    }
                    let location = captures.location(to, sent, &place);
                    return Some(Answer::redirect(*status, &location));
                }
                RuleAction::Rewrite(to, query) => {
                    let mut rewritten = Vec::new();
                    let query = query.as_deref();
                    let query = query.map(|query| captures.query(query, sent, |_| None));
                    let expanded = captures.expand(to, <[u8]>::to_vec, |_| None);
                    // The path is decoded already: `%` is literal, and dot segments are resolved
                    // again.
                    let encoded = encode_path(&expanded);
                    if target::decode(encoded.as_bytes(), &mut rewritten).is_err() {
                        return Some(Answer::error(StatusCode::BAD_REQUEST, None));
                    }
                    target.path = Cow::Owned(rewritten);
                    if query.is_some() {
                        target.query = query;
                    }
                }
            }
        }
        None
    }
}
