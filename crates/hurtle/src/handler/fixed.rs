//! Answers that need nothing but the configuration: a redirect of a whole subtree, a fixed answer.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use super::{Ask, Place};
use crate::answer::Answer;
use crate::semantics::target::{append_query, encode_path};

/// Sends everything beneath a path elsewhere.
#[derive(Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// An absolute URL or path; if it ends with `/`, the rest of the path and the query follow.
    pub to: String,
}

impl Redirect {
    /// The redirect for this request.
    pub fn call(&self, ask: &Ask<'_>, place: &Place<'_>) -> Answer {
        let mut location = self.to.clone();
        if location.ends_with('/') {
            // `encode_path` begins with the slash that is there already.
            location.push_str(encode_path(&[b"/", place.rest].concat()).trim_start_matches('/'));
            append_query(&mut location, ask.query);
        }
        Answer::redirect(self.status, &location)
    }
}

/// The same answer to every request.
#[derive(Debug)]
pub struct Fixed {
    /// Final.
    pub status: StatusCode,
    /// As it is.
    pub body: Bytes,
    /// Its type.
    pub media_type: HeaderValue,
}

impl Fixed {
    /// The answer.
    pub fn call(&self) -> Answer {
        Answer::bytes(self.status, self.media_type.clone(), self.body.clone())
    }
}
