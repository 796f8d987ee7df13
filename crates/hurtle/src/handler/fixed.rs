//! Responses that depend on the configuration only: redirects of a mount, and fixed responses.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use hurtle_http::semantics::target::{append_query, encode_path};

use super::request::{HandlerRequest, MatchedPath};
use crate::answer::Answer;
use crate::body::Body;
use crate::config::Matcher;

/// Redirects the requests of a mount.
#[derive(Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// An absolute URL or path; if it ends with `/`, the rest of the path and the query are
    /// appended. With `matcher` it is a template, as of a rule.
    pub to: String,
    /// The paths that are redirected, of those without a file; `None`: all.
    pub matcher: Option<Matcher>,
}

impl Redirect {
    /// The redirect of a request.
    pub fn call(&self, request: &HandlerRequest<'_>, matched: &MatchedPath<'_>) -> Answer {
        if let Some(matcher) = &self.matcher {
            return match matcher.captures(matched.path, None) {
                Some(captures) => {
                    let location = captures.location(&self.to, request.query);
                    Answer::redirect(self.status, &location)
                }
                None => Answer::error(StatusCode::NOT_FOUND, None),
            };
        }
        let mut location = self.to.clone();
        if location.ends_with('/') {
            // `encode_path` needs a leading slash, which the location already has.
            location.push_str(encode_path(&[b"/", matched.rest].concat()).trim_start_matches('/'));
            append_query(&mut location, request.query);
        }
        Answer::redirect(self.status, &location)
    }

    /// Returns whether a path is redirected.
    pub fn takes(&self, path: &[u8]) -> bool {
        self.matcher.as_ref().is_none_or(|matcher| matcher.matches(path, None))
    }
}

/// Gives the same response to every request.
#[derive(Debug)]
pub struct Fixed {
    /// A final status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
    /// The body's media type; `None`: there is no body, and the configuration names no type.
    pub media_type: Option<HeaderValue>,
}

impl Fixed {
    /// The response.
    pub fn call(&self) -> Answer {
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
