//! Files that nobody can ask for, but an upstream may name in its answer (X-Accel-Redirect,
//! X-Sendfile): found as any others are, beneath a root of their own.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use http::StatusCode;

use crate::answer::Answer;
use crate::body::Body;
use crate::clock;
use crate::config::Files;
use crate::files::{self, Key, Store};
use crate::h1::reply::File;
use crate::h1::response::Fields;
use crate::handler::directory::{Directory, Means};
use crate::handler::{Ask, Place};
use crate::semantics::target;

/// A root of such files.
#[derive(Debug)]
pub struct Internal {
    root: PathBuf,
    directory: Directory,
    /// The cache's number for them, which is no site's.
    pub key: usize,
}

impl Internal {
    pub(super) fn new(root: &Path, means: &Means) -> Internal {
        let files = Files { index: Vec::new(), ..Files::new(root.to_owned()) };
        Internal { root: root.to_owned(), directory: Directory::new(files, means), key: 0 }
    }

    /// The file that was named, in answer to `ask` (whose path is not looked at); whatever is not a
    /// file is not found.
    pub async fn answer(&self, store: &Rc<Store>, file: File<'_>, ask: &Ask<'_>) -> Answer {
        let name = self.name(file);
        let missing = || {
            tracing::error!("{}: an upstream named it, but it is no file", name.escape_ascii());
            Answer::error(StatusCode::NOT_FOUND, None)
        };
        let key = Key { site: self.key, path: name };
        if let Some(entry) = store.fresh(key, clock::now_ms()) {
            let answer = files::answer(&entry, StatusCode::OK, &ask.file);
            match &answer.body {
                Body::File(slice) if !slice.file.is_unchanged_lately(clock::now_ms()) => {}
                _ => return answer,
            }
        }
        let mut path = Vec::new();
        if target::decode(name, &mut path).is_err() || path.ends_with(b"/") {
            return missing();
        }
        let rest = path.strip_prefix(b"/").unwrap_or(&path);
        let place = Place { path: &path, rest, mount: 0, headers: &[], cacheable: true };
        let ask = Ask { key, ..*ask };
        let answer = self.directory.call(store, &ask, &place).await;
        match answer.fields {
            Fields::Ready(_) | Fields::Dated(_) => answer,
            // A disk in trouble is another matter than a wrong name.
            Fields::Map(_) if answer.status.is_server_error() => answer,
            Fields::Map(_) => missing(),
        }
    }

    /// The URL path beneath the root. X-Sendfile may also name the file as the system does.
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
