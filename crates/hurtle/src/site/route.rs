//! Routes a path as sent: rules, the longest mount.

use std::borrow::Cow;

use http::StatusCode;
use hurtle_http::semantics::glob;
use hurtle_http::semantics::target::{self, PathError, append_query, encode_path};

use super::Site;
use super::mount::MountRef;
use crate::answer::Answer;
use crate::config::RuleAction;

/// The handler of a path.
#[derive(Debug)]
pub enum Route<'a> {
    /// The site's own response, and the reason for it.
    Answer(Box<Answer>, Cow<'static, str>),
    /// A mount.
    Mount {
        /// The decoded path after the rules.
        path: Cow<'a, [u8]>,
        /// The mount.
        mount: MountRef<'a>,
        /// The patterns of the rules that changed the path.
        rules: Vec<String>,
    },
}

impl Site {
    /// Routes a path as sent: rules, the longest mount.
    pub fn route<'a>(&'a self, raw: &'a [u8], query: Option<&[u8]>) -> Route<'a> {
        match target::decoded(raw) {
            Ok(path) => self.route_decoded(path, query),
            Err(PathError::EncodedSlash) => self.route_either_way(raw, query),
            Err(bad) => {
                let reason = bad.to_string();
                let answer = Answer::error(StatusCode::BAD_REQUEST, Some(&reason));
                Route::Answer(Box::new(answer), reason.into())
            }
        }
    }

    /// Routes a decoded path.
    pub(super) fn route_decoded<'a>(
        &'a self,
        mut path: Cow<'a, [u8]>,
        query: Option<&[u8]>,
    ) -> Route<'a> {
        let mut rules = Vec::new();
        if let Some(redirect) = self.apply_rules(&mut path, query, &mut rules) {
            return Route::Answer(Box::new(redirect), rules.join(", ").into());
        }
        let found = self.mounts.iter().enumerate().find(|(_, mount)| mount.holds(&path));
        if let Some(mount) = self.deployed.holding(&path, found.map(|(_, mount)| mount.path.len()))
        {
            return Route::Mount { path, mount: MountRef::Deployed(mount), rules };
        }
        match found {
            None => {
                let answer = Answer::error(StatusCode::NOT_FOUND, None);
                Route::Answer(Box::new(answer), "no mount holds this path".into())
            }
            Some((number, mount)) => {
                Route::Mount { path, mount: MountRef::Configured(number, mount), rules }
            }
        }
    }

    /// Applies the rules once, in order; each sees the result of the ones before. `Some` is the
    /// redirect that ended them.
    fn apply_rules(
        &self,
        path: &mut Cow<'_, [u8]>,
        query: Option<&[u8]>,
        applied: &mut Vec<String>,
    ) -> Option<Answer> {
        for rule in &self.config.rules {
            let Some(captures) = glob::captures(&rule.pattern.0, path) else { continue };
            applied.push(rule.pattern.0.clone());
            match &rule.action {
                RuleAction::Redirect(status, to) => {
                    let captures: Vec<Vec<u8>> =
                        captures.iter().map(|c| encode_capture(c)).collect();
                    let captures: Vec<&[u8]> = captures.iter().map(Vec::as_slice).collect();
                    let mut location =
                        String::from_utf8_lossy(&glob::expand(to, &captures)).into_owned();
                    if !location.contains('?') {
                        append_query(&mut location, query);
                    }
                    // A capture at the front must not name another host.
                    if location.starts_with("//") && !to.starts_with("//") {
                        location = format!("/{}", location.trim_start_matches('/'));
                    }
                    return Some(Answer::redirect(*status, &location));
                }
                RuleAction::Rewrite(to) => {
                    let mut rewritten = Vec::new();
                    let expanded = glob::expand(to, &captures);
                    // The path is decoded already: `%` is literal, and dot segments are resolved
                    // again.
                    let encoded = encode_path(&expanded);
                    if target::decode(encoded.as_bytes(), &mut rewritten).is_err() {
                        return Some(Answer::error(StatusCode::BAD_REQUEST, None));
                    }
                    *path = Cow::Owned(rewritten);
                }
            }
        }
        None
    }
}

/// Encodes a wildcard's match for a URL.
fn encode_capture(capture: &[u8]) -> Vec<u8> {
    let rooted = [b"/", capture].concat();
    let encoded = encode_path(&rooted);
    let slashed = capture.starts_with(b"/");
    encoded.as_bytes()[usize::from(!slashed)..].to_vec()
}
