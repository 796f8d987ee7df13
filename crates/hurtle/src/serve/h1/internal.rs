//! A file in the place of an answer that names it, whoever made that: an upstream, or an application
//! that is asked by FastCGI or CGI.

use std::rc::Rc;

use http::{HeaderMap, HeaderName, StatusCode};

use super::Connection;
use super::asked::ask;
use crate::answer::Answer;
use crate::cgi::{ACCEL, SENDFILE};
use crate::files::FileQuery;
use crate::h1::forward;
use crate::h1::reply::File;
use crate::h1::request::{Method, Request};
use crate::h1::response::{Fields, field};
use crate::transport::Transport;

/// Whose answer named it.
pub(super) struct At<'a> {
    pub(super) site: usize,
    pub(super) mount: usize,
    /// Decoded, after the site's rules.
    pub(super) path: &'a [u8],
}

impl<T: Transport> Connection<T> {
    /// The file, as if the client had asked for it. `keep`: appends those of the answer's fields that
    /// `forward::keep_for_file` keeps.
    pub(super) async fn internal_answer(
        &self,
        request: &Request<'_>,
        at: &At<'_>,
        file: File<'_>,
        keep: impl FnOnce(&mut Vec<u8>, bool),
    ) -> Answer {
        let worker = Rc::clone(&self.worker);
        let mut ask = ask(request, at.site, b"", None);
        // RFC 9110 13.2.1 and 14.2: of a POST's answer no part is asked for.
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
            // A part of a file is described by the file (RFC 9110 14.6), what is not there by nobody.
            keep(&mut kept, answer.status == StatusCode::OK);
            *lines = forward::redressed(lines, &kept, &removed, &set).into();
        }
        answer
    }

    /// An application's answer, or the file that it names.
    pub(super) async fn or_named_file(
        &self,
        request: &Request<'_>,
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

    /// What a site's rules do to the fields of an answer for a path: names left out, and whole lines
    /// added.
    pub(super) fn rules(
        &self,
        site: usize,
        path: &[u8],
        status: StatusCode,
    ) -> (Vec<HeaderName>, Vec<u8>) {
        let (mut removed, mut set) = (Vec::new(), Vec::new());
        let mut rules = self.worker.sites.site(site).header_rules(path).peekable();
        // As nginx's add_header: an error is not dressed as what was asked for.
        if status.as_u16() < 400 && rules.peek().is_some() {
            let mut dress = HeaderMap::new();
            for rule in rules {
                for name in &rule.remove {
                    dress.remove(name);
                    removed.push(name.clone());
                }
                for (name, value) in &rule.set {
                    dress.insert(name.clone(), value.clone());
                    removed.push(name.clone());
                }
            }
            dress.iter().for_each(|(name, value)| field(&mut set, name.as_str(), value.as_bytes()));
        }
        (removed, set)
    }
}
