//! Replaces a response that names an internal file with that file. Upstreams and FastCGI or CGI
//! applications can name one.

use std::rc::Rc;

use http::{HeaderMap, HeaderName, StatusCode};
use hurtle_http::cgi::{ACCEL, SENDFILE};
use hurtle_http::h1::forward;
use hurtle_http::h1::response::{Fields, field};
use hurtle_http::h1::response_head::File;
use hurtle_http::request::{Method, RequestHead};

use super::Exchange;
use super::request_info::ask;
use crate::answer::Answer;
use crate::files::FileQuery;
use crate::protocol::Protocol;

/// The origin of the response that names the file.
pub(super) struct At<'a> {
    pub(super) site: usize,
    pub(super) mount: usize,
    /// The decoded path after the site's rules.
    pub(super) path: &'a [u8],
}

impl<T: Protocol> Exchange<T> {
    /// Returns the response with the file. `keep` appends the fields of the original response that
    /// `forward::keep_for_file` keeps.
    pub(super) async fn internal_answer(
        &self,
        request: &RequestHead<'_>,
        at: &At<'_>,
        file: File<'_>,
        keep: impl FnOnce(&mut Vec<u8>, bool),
    ) -> Answer {
        let worker = Rc::clone(&self.worker);
        let mut ask = ask(request, at.site, b"", None);
        // RFC 9110 sections 13.2.1 and 14.2: preconditions and ranges apply to GET and HEAD only.
        if !matches!(request.method, Method::Get | Method::Head) {
            ask.file = FileQuery::default();
        }
        let mut answer = match worker.sites.site(at.site).internal(at.mount) {
            Some(internal) => internal.answer(&worker.store, file, &ask).await,
            None => Answer::error(StatusCode::NOT_FOUND, None),
        };
        if let Fields::Ready(lines) = &mut answer.fields {
            let (removed, set) = self.rules(at.site, at.path, answer.status);
            let mut kept = Vec::new();
            // Fields about a range come from the file (RFC 9110 section 14.6); other responses have
            // no file.
            keep(&mut kept, answer.status == StatusCode::OK);
            *lines = forward::edit_lines(lines, &kept, &removed, &set).into();
        }
        answer
    }

    /// Returns an application's response, or the file that it names.
    pub(super) async fn or_named_file(
        &self,
        request: &RequestHead<'_>,
        at: &At<'_>,
        mut answer: Answer,
    ) -> Answer {
        let Fields::Map(fields) = &mut answer.fields else { return answer };
        let (accel, sendfile) = (fields.remove(ACCEL), fields.remove(SENDFILE));
        let file = match (&accel, &sendfile) {
            (Some(name), _) => File::Accel(name.as_bytes()),
            (None, Some(name)) => File::Sendfile(name.as_bytes()),
            (None, None) => return answer,
        };
        self.internal_answer(request, at, file, |kept, content| {
            for (name, value) in &*fields {
                forward::keep_for_file(kept, name.as_str().as_bytes(), value.as_bytes(), content);
            }
        })
        .await
    }

    /// Returns the site's header rules for a path as edits: the names to remove and the lines to
    /// add.
    pub(super) fn rules(
        &self,
        site: usize,
        path: &[u8],
        status: StatusCode,
    ) -> (Vec<HeaderName>, Vec<u8>) {
        let (mut removed, mut set) = (Vec::new(), Vec::new());
        let mut rules = self.worker.sites.site(site).header_rules(path).peekable();
        // Like nginx's add_header: the rules do not apply to errors.
        if status.as_u16() < 400 && rules.peek().is_some() {
            let mut edits = HeaderMap::new();
            for rule in rules {
                for name in &rule.remove {
                    edits.remove(name);
                    removed.push(name.clone());
                }
                for (name, value) in &rule.set {
                    edits.insert(name.clone(), value.clone());
                    removed.push(name.clone());
                }
            }
            edits.iter().for_each(|(name, value)| field(&mut set, name.as_str(), value.as_bytes()));
        }
        (removed, set)
    }
}
