//! Internal files: clients cannot request them, but an upstream's response can name one
//! (X-Accel-Redirect, X-Sendfile). They have a separate root.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use http::StatusCode;
use hurtle_http::message::forward;
use hurtle_http::message::response::Fields;
use hurtle_http::request::fields::{is_same, pairs};
use hurtle_http::semantics::target;

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
            // Fields about a range come from the file (RFC 9110 section 14.6); other responses have
            // no file.
            let kept = match answer.status {
                StatusCode::OK => &redirect.kept,
                _ => &redirect.kept_without_content,
            };
            *lines = forward::edit_lines(lines, kept, &[], &[]).into();
        }
        // Internal files have no edits of the site.
        Answer { needs: Needs::Edits, ..answer }
    }

    /// Returns the named file in response to `request`, whose path is ignored.
    async fn find(
        &self,
        store: &Rc<Store>,
        file: &FileName,
        request: &HandlerRequest<'_>,
    ) -> Answer {
        let name = self.name(file);
        let missing = || {
            tracing::error!("{}: an upstream named it, but it is not a file", name.escape_ascii());
            Answer::error(StatusCode::NOT_FOUND, None)
        };
        let key = Key { site: self.key, path: name };
        if let Some(entry) = store.fresh(key, clock::now_ms()) {
            let answer = files::answer(&entry, StatusCode::OK, &request.file);
            if answer.body.is_unchanged_lately(clock::now_ms()) {
                return answer;
            }
        }
        let mut path = Vec::new();
        if target::decode(name, &mut path).is_err() || path.ends_with(b"/") {
            return missing();
        }
        let rest = path.strip_prefix(b"/").unwrap_or(&path);
        let matched = MatchedPath { path: &path, rest, query: None, mount: 0, cacheable: true };
        let request = HandlerRequest { key, ..*request };
        let answer = self.directory.call(store, &request, &matched).await.unwrap_or_else(missing);
        match answer.fields {
            Fields::Ready(_) | Fields::Dated(_) => answer,
            // A disk error must not look like a wrong name.
            Fields::Map(_) if answer.status.is_server_error() => answer,
            Fields::Map(_) => missing(),
        }
    }

    /// Returns the URL path beneath the root. X-Sendfile may also name the file by its system path.
    fn name<'a>(&self, file: &'a FileName) -> &'a [u8] {
        let name = match file {
            FileName::Accel(name) => name,
            FileName::Sendfile(name) => {
                let beneath = name.strip_prefix(self.root.as_os_str().as_bytes());
                beneath.filter(|rest| rest.starts_with(b"/")).unwrap_or(name)
            }
        };
        name.split(|&b| b == b'?').next().unwrap_or(name)
    }
}
