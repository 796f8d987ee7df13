//! Routes paths that servers read differently to applications and proxies: with an encoded slash
//! (`%2F`), with `\`, and with parameters of a segment (`/a;x/b`). nginx and Caddy route as if an
//! encoded slash were decoded, and forward it encoded; Tomcat ignores parameters. This server
//! requires that all readings lead to the same mount, so that no rule for another path is
//! bypassed; otherwise it responds 404. Redirects and fixed responses are served likewise. Mounts
//! of files are not, because no file has a name with an encoded slash, unless they hand on what
//! has no file.

use std::cell::RefCell;

use http::StatusCode;
use hurtle_http::semantics::target::{self, PathError};

use super::route::RoutedTarget;
use super::{MountRef, Route, Site};
use crate::answer::Answer;
use crate::config::MatchedRequest;
use crate::handler::Handler;

impl Site {
    /// Routes such a path as sent.
    pub(super) fn route_either_way<'a>(
        &'a self,
        raw: &[u8],
        request: &MatchedRequest<'_>,
    ) -> Route<'a> {
        let (mut encoded_path, mut decoded_path) = (Vec::new(), Vec::new());
        let read = target::decode_keeping_slashes(raw, &mut encoded_path)
            .and_then(|()| target::decode(&target::with_plain_slashes(raw), &mut decoded_path));
        if let Err(bad) = read {
            return refuse(bad);
        }
        // A path that a rule has changed no longer counts as the client's.
        let is_own = |route: &Route<'_>, own: &[u8]| match route {
            Route::Mount { path, .. } => **path == *own,
            Route::Answer(..) => false,
        };
        let encoded = self.route_decoded(encoded_path.clone().into(), request);
        let decoded = self.route_decoded(decoded_path.clone().into(), request);
        let agreed = is_own(&encoded, &encoded_path)
            && is_own(&decoded, &decoded_path)
            && match (&encoded, &decoded) {
                (Route::Mount { mount, .. }, Route::Mount { mount: other, .. }) => {
                    mount.is(other) && takes_any_path(mount)
                }
                _ => false,
            };
        if agreed { encoded } else { refuse(PathError::EncodedSlash) }
    }

    /// Refuses a route to an application or a proxy that a server would read as one to another
    /// mount, or as a path with dot segments.
    pub(super) fn checked<'a>(
        &'a self,
        route: Route<'a>,
        request: &MatchedRequest<'_>,
    ) -> Route<'a> {
        match &route {
            Route::Mount { mount, .. } if !passes_path_on(mount) => return route,
            Route::Answer(..) => return route,
            Route::Mount { .. } => {}
        }
        match self.check_readings(&route, request) {
            Ok(()) => route,
            Err(bad) => refuse(bad),
        }
    }

    /// Checks that servers which read the path of a route differently would find the same mount.
    ///
    /// # Errors
    /// They would find another mount, or a dot segment.
    pub(super) fn check_readings(
        &self,
        route: &Route<'_>,
        request: &MatchedRequest<'_>,
    ) -> Result<(), PathError> {
        let Route::Mount { path, mount, rules, .. } = route else { return Ok(()) };
        let Some(other) = target::read_leniently(path)? else { return Ok(()) };
        // A path that a rule has changed meets no rule again.
        let found = match rules.is_empty() {
            true => self.route_decoded(other.clone().into(), request),
            false => {
                let target =
                    RoutedTarget { path: other.clone().into(), query: None, rules: Vec::new() };
                self.mounted(target, request)
            }
        };
        match &found {
            Route::Mount { path, mount: found, .. } if **path == other && mount.is(found) => Ok(()),
            _ => Err(PathError::Ambiguous),
        }
    }
}

/// Returns whether the mount's handler interprets the path, or may hand it to one that does.
pub(super) fn passes_path_on(mount: &MountRef<'_>) -> bool {
    reads_path(mount.handler()) || mount.hands_on()
}

fn refuse<'a>(bad: PathError) -> Route<'a> {
    let answer = Answer::error(StatusCode::NOT_FOUND, None);
    Route::Answer(Box::new(RefCell::new(answer)), bad.to_string().into())
}

/// Returns whether a mount responds to paths that no file has, or hands them on. A name of an
/// upload has no slash.
fn takes_any_path(mount: &MountRef<'_>) -> bool {
    let stores = |handler: &Handler| matches!(handler, Handler::Directory(directory) if directory.takes_uploads());
    needs_no_file(mount.handler()) || (mount.hands_on() && !stores(mount.handler()))
}

/// Returns whether the handler responds to paths that no file has.
fn needs_no_file(handler: &Handler) -> bool {
    reads_path(handler)
        || matches!(handler, Handler::Redirect(_) | Handler::Fixed(_) | Handler::Abort)
}

/// Returns whether the handler interprets the path itself.
fn reads_path(handler: &Handler) -> bool {
    matches!(handler, Handler::App(_) | Handler::Gateway { .. } | Handler::Proxy(_))
}
