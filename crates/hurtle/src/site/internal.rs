//! Internal files: clients cannot request them, but an upstream's response can name one
//! (X-Accel-Redirect, X-Sendfile). They lie beneath a root of their own.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use http::StatusCode;
use hurtle_http::h1::response::Fields;
use hurtle_http::h1::response_head::File;
use hurtle_http::semantics::target;

use crate::answer::Answer;
use crate::clock;
use crate::config::Files;
use crate::files::{self, Key, Store};
use crate::handler::directory::{Directory, Resources};
use crate::handler::{HandlerRequest, MatchedPath};

/// A root of internal files.
#[derive(Debug)]
pub struct Internal {
    root: PathBuf,
    directory: Directory,
    /// The number for their cache keys; no site has it.
    pub key: usize,
}

impl Internal {
    pub(super) fn new(root: &Path, resources: &Resources) -> Internal {
        let files = Files { index: Vec::new(), ..Files::new(root.to_owned()) };
        Internal { root: root.to_owned(), directory: Directory::new(files, resources), key: 0 }
    }

    /// Returns the named file in response to `ask`, whose path is ignored. Anything but a file is
    /// 404.
    pub async fn answer(
        &self,
        store: &Rc<Store>,
        file: File<'_>,
        ask: &HandlerRequest<'_>,
    ) -> Answer {
        let name = self.name(file);
        let missing = || {
            tracing::error!("{}: an upstream named it, but it is not a file", name.escape_ascii());
            Answer::error(StatusCode::NOT_FOUND, None)
        };
        let key = Key { site: self.key, path: name };
        if let Some(entry) = store.fresh(key, clock::now_ms()) {
            let answer = files::answer(&entry, StatusCode::OK, &ask.file);
            if answer.body.is_unchanged_lately(clock::now_ms()) {
                return answer;
            }
        }
        let mut path = Vec::new();
        if target::decode(name, &mut path).is_err() || path.ends_with(b"/") {
            return missing();
        }
        let rest = path.strip_prefix(b"/").unwrap_or(&path);
        let place = MatchedPath { path: &path, rest, mount: 0, headers: &[], cacheable: true };
        let ask = HandlerRequest { key, ..*ask };
        let answer = self.directory.call(store, &ask, &place).await;
        match answer.fields {
            Fields::Ready(_) | Fields::Dated(_) => answer,
            // A disk error must not look like a wrong name.
            Fields::Map(_) if answer.status.is_server_error() => answer,
            Fields::Map(_) => missing(),
        }
    }

    /// Returns the URL path beneath the root. X-Sendfile may also name the file by its system path.
    fn name<'a>(&self, file: File<'a>) -> &'a [u8] {
        let name = match file {
            File::Accel(name) => name,
            File::Sendfile(name) => {
                let beneath = name.strip_prefix(self.root.as_os_str().as_bytes());
                beneath.filter(|rest| rest.starts_with(b"/")).unwrap_or(name)
            }
        };
        name.split(|&b| b == b'?').next().unwrap_or(name)
    }
}
