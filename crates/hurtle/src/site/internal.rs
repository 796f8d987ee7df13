//! Internal files: clients cannot request them, but an upstream's response can name one
//! (X-Accel-Redirect, X-Sendfile). They have a separate root.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use http::StatusCode;
use hurtle_http::message::forward;
use hurtle_http::message::response::Fields;
use hurtle_http::request::fields::{is_same, pairs};
use hurtle_http::semantics::target::{self, encode_path};

use crate::answer::{Answer, Needs};
use crate::clock;
use crate::compress::{Policy, forbids};
use crate::config::Files;
use crate::files::{self, Key, Store};
use crate::handler::directory::Directory;
use crate::handler::request::{HandlerRequest, MatchedPath};
use crate::handler::resources::Resources;
use crate::handler::{FileName, InternalRedirect};

/// A root of internal files.
#[derive(Debug)]
pub(crate) struct Internal {
    root: PathBuf,
    directory: Directory,
    /// The number for their cache keys; no site has it.
    pub key: usize,
}

impl Internal {
    pub(super) fn new(root: &Path, resources: &Resources<'_>, policy: Option<Policy>) -> Internal {
        let files = Files { index: Vec::new(), ..Files::new(root.to_owned()) };
        Internal {
            root: root.to_owned(),
            directory: Directory::new(files, resources, policy),
            key: 0,
        }
    }

    /// Returns the file of a redirect, with the fields of the response that named it. Anything but
    /// a file is 404.
    pub(crate) async fn answer(
        &self,
        store: &Rc<Store>,
        redirect: &InternalRedirect,
        request: &HandlerRequest<'_>,
    ) -> Answer {
        let mut request = *request;
        let mut controls =
            pairs(&redirect.kept).filter(|(name, _)| is_same(name, b"cache-control"));
        if controls.any(|(_, value)| forbids(value)) {
            request.file.accept_encoding = None;
        }
        let mut answer = self.find(store, &redirect.file, &request).await;
        if let Fields::Ready(lines) = &mut answer.fields {
            // The type of several ranges is not that of the file (RFC 9110 section 14.6), and other
            // responses have no file.
            let is_file = match answer.status {
                StatusCode::OK => true,
                StatusCode::PARTIAL_CONTENT => !is_multipart(lines),
                _ => false,
            };
            let kept = if is_file { &redirect.kept } else { &redirect.kept_without_content };
            *lines = forward::edit_lines(lines, kept, &[], &[]).into();
        }
        // Internal files have no edits of the site.
        Answer { needs: Needs::OwnEdits, ..answer }
    }

    /// Returns the named file in response to `request`, whose path is ignored.
    async fn find(
        &self,
        store: &Rc<Store>,
        file: &FileName,
        request: &HandlerRequest<'_>,
    ) -> Answer {
        let (first, second) = self.names(file);
        for name in [Some(first), second].into_iter().flatten() {
            if let Some(answer) = self.find_name(store, &name, request).await {
                return answer;
            }
        }
        let (FileName::Accel(name) | FileName::Sendfile(name)) = file;
        tracing::error!("{}: an upstream named it, but it is not a file", name.escape_ascii());
        Answer::error(StatusCode::NOT_FOUND, None)
    }

    /// Returns the file of this URL path; `None`: it is not a file.
    async fn find_name(
        &self,
        store: &Rc<Store>,
        name: &[u8],
        request: &HandlerRequest<'_>,
    ) -> Option<Answer> {
        let key = Key { site: self.key, path: name };
        if let Some(entry) = store.fresh(key, clock::now_ms()) {
            let answer = files::answer(&entry, StatusCode::OK, &request.file);
            if answer.body.is_unchanged_lately(clock::now_ms()) {
                return Some(answer);
            }
        }
        let mut path = Vec::new();
        if target::decode(name, &mut path).is_err() || path.ends_with(b"/") {
            return None;
        }
        let rest = path.strip_prefix(b"/").unwrap_or(&path);
        let matched = MatchedPath { path: &path, rest, query: None, mount: 0, cacheable: true };
        let request = HandlerRequest { key, ..*request };
        let answer = self.directory.call(store, &request, &matched).await?;
        match answer.fields {
            Fields::Ready(_) | Fields::Dated(_) => Some(answer),
            // A disk error must not look like a wrong name.
            Fields::Map(_) if answer.status.is_server_error() => Some(answer),
            Fields::Map(_) => None,
        }
    }

    /// Returns the URL paths beneath the root that the name may stand for. X-Sendfile may also name
    /// the file by its system path, in which nothing is encoded, though some applications do.
    fn names<'a>(&self, file: &'a FileName) -> (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>) {
        let url = |name: &'a [u8]| Cow::Borrowed(name.split(|&b| b == b'?').next().unwrap_or(name));
        let (FileName::Accel(name) | FileName::Sendfile(name)) = file;
        let root = self.root.as_os_str().as_bytes();
        let beneath = match file {
            FileName::Accel(_) => None,
            FileName::Sendfile(name) => name.strip_prefix(root.strip_suffix(b"/").unwrap_or(root)),
        };
        match beneath.filter(|rest| rest.starts_with(b"/")) {
            None => (url(name), None),
            Some(rest) => match encode_path(rest) {
                Cow::Borrowed(_) => (url(rest), None),
                Cow::Owned(encoded) => (Cow::Owned(encoded.into_bytes()), Some(url(rest))),
            },
        }
    }
}

fn is_multipart(lines: &[u8]) -> bool {
    pairs(lines).any(|(name, value)| {
        is_same(name, b"content-type") && value.starts_with(b"multipart/byteranges")
    })
}
