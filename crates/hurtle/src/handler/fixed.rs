//! Responses that depend on the configuration only: redirects of a mount, and fixed responses.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use hurtle_http::semantics::target::{append_query, encode_path};

use super::request::{MatchedPath, RequestContext};
use crate::answer::Answer;
use crate::body::Body;
use crate::config::{Matcher, RequestPlace};

/// Redirects the requests of a mount.
#[derive(Debug)]
pub(crate) struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// An absolute URL or path, perhaps with parts of the request; if it ends with `/`, the rest of
    /// the path and the query are appended. With `matcher` it is a template, as of a rule.
    pub to: String,
    /// The paths that are redirected, of those without a file; `None`: all.
    pub matcher: Option<Matcher>,
}

impl Redirect {
    /// The redirect of a request.
    pub(crate) fn call(&self, request: &RequestContext<'_>, matched: &MatchedPath<'_>) -> Answer {
        let RequestContext { head, target, .. } = *request;
        let place = RequestPlace { head, is_tls: request.client.is_tls, target };
        if !place.has_parts_of(&self.to) {
            return Answer::error(StatusCode::BAD_REQUEST, Some(NO_HOST));
        }
        // Rules may have written another one than was sent.
        let query = matched.query;
        if let Some(matcher) = &self.matcher {
            return match matcher.captures(matched.path, None) {
                Some(captures) => {
                    let location = captures.location(&self.to, query, &place);
                    Answer::redirect(self.status, &location)
                }
                None => Answer::error(StatusCode::NOT_FOUND, None),
            };
        }
        let mut location = place.fill(&self.to);
        if self.to.ends_with('/') {
            // `encode_path` needs a leading slash, which the location already has.
            location.push_str(encode_path(&[b"/", matched.rest].concat()).trim_start_matches('/'));
            append_query(&mut location, query);
        }
        Answer::redirect(self.status, &location)
    }

    /// Returns whether a path is redirected.
    pub(crate) fn takes(&self, path: &[u8]) -> bool {
        self.matcher.as_ref().is_none_or(|matcher| matcher.matches(path, None))
    }
}

/// The reason of a 400 for a redirect to the requested host.
pub(crate) const NO_HOST: &str = "the request names no host";

/// Gives the same response to every request.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// Status of each response, a final one.
    pub status: StatusCode,
    /// Body of each response, which may be empty.
    pub body: Bytes,
    /// The body's media type; `None`: there is no body, and the configuration names no type.
    pub media_type: Option<HeaderValue>,
}

impl Fixed {
    /// Makes the response; the request does not matter.
    pub(crate) fn call(&self) -> Answer {
        match &self.media_type {
            Some(media_type) => Answer::bytes(self.status, media_type.clone(), self.body.clone()),
            None => {
                // A HEAD gets the length of a GET, which is 0.
                let mut answer = Answer::empty(self.status);
                answer.body = Body::Bytes(Bytes::new());
                answer
            }
        }
    }
}
