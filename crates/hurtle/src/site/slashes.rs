//! Routes paths with an encoded slash (`%2F`) to applications and proxies. Servers disagree about
//! such a slash: nginx and Caddy route as if it were decoded, and forward it encoded. This server
//! requires that both readings lead to the same mount, so that no rule for another path is
//! bypassed; otherwise it responds 404. No file has such a name.

use http::StatusCode;
use hurtle_http::semantics::target::{self, PathError};

use super::{Route, Site};
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
        let refuse = |bad: PathError| {
            let answer = Answer::error(StatusCode::NOT_FOUND, None);
            Route::Answer(Box::new(answer), bad.to_string().into())
        };
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
                    mount.is(other) && reads_path(&mount.handler)
                }
                _ => false,
            };
        if agreed { encoded } else { refuse(PathError::EncodedSlash) }
    }
}

/// Returns whether the handler interprets the path itself.
fn reads_path(handler: &Handler) -> bool {
    matches!(handler, Handler::App(_) | Handler::Gateway { .. } | Handler::Proxy(_))
}
