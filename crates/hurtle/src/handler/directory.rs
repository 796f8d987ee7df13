//! Files of a directory: from a path to the file it stands for, with indexes, fallbacks, the
//! slash's redirect, and listings.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderValue, Request, StatusCode, header};

use super::{Answering, Ask, Place, dress};
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::cache::Caches;
use crate::clock;
use crate::config::{EtagSource, Files, Sendfile, TryFile};
use crate::disk::{Disk, Lane};
use crate::files::entry::{Dress, Representation};
use crate::files::listing::{CONTENT_SECURITY_POLICY, View};
use crate::files::lookup::{MEMORY_BYTES_MAX, Opened};
use crate::files::store::Trouble;
use crate::files::{
    self, Changed, Entry, FileQuery, Listings, Lookup, Outcome, Store, Target, Try, Wanted,
};
use crate::h1::response::Fields;
use crate::semantics::accept::{Coding, accepts_html, prefers_json};
use crate::semantics::media;
use crate::semantics::target::{append_query, encode_path};
use crate::uploads::{Asker, Uploads};

/// A directory served as files.
#[derive(Debug)]
pub struct Directory {
    config: Files,
    index: Arc<[String]>,
    lane: Lane,
    listings: Listings,
    memory_bytes_max: u64,
    uploads: Option<Box<Uploads>>,
}

/// What every directory is served by.
#[derive(Clone, Debug)]
pub struct Means {
    /// Where names are looked up.
    pub disk: Disk,
    /// What is known of directories.
    pub listings: Listings,
    /// How bodies leave, which decides what is worth keeping in memory.
    pub sendfile: Sendfile,
    /// When uploads last changed a file.
    pub changed: Changed,
    /// What is kept of upstreams' answers.
    pub caches: Caches,
}

/// A file that was found.
struct Found {
    lookup: Arc<Lookup>,
    /// When it was asked for: what it says is true from then on.
    asked_ms: u64,
    path: Vec<u8>,
    opened: Vec<Opened>,
}

impl Directory {
    /// Serves as configured; its disk jobs queue in a lane of their own.
    pub fn new(config: Files, means: &Means) -> Directory {
        // What is kept in memory leaves at once.
        let none_in_memory = means.sendfile == Sendfile::On || config.rate > 0;
        Directory {
            index: config.index.clone().into(),
            uploads: Uploads::new(&config, &means.disk, &means.changed).map(Box::new),
            config,
            lane: means.disk.lane(),
            listings: means.listings.clone(),
            memory_bytes_max: if none_in_memory { 0 } else { MEMORY_BYTES_MAX },
        }
    }

    /// Answers a GET or HEAD.
    pub async fn call(&self, store: &Rc<Store>, ask: &Ask<'_>, place: &Place<'_>) -> Answer {
        // The mount's own root without its slash: relative links would lead beside it.
        if place.rest.is_empty() && !place.path.ends_with(b"/") {
            return to_directory(ask, place);
        }
        let Some(lookup) = self.lookup(place.rest) else { return not_found() };
        let lookup = Arc::new(lookup);
        let asked_ms = clock::now_ms();
        match store.find(&lookup, ask.get && ask.file.is_for_the_whole()).await {
            Err(trouble) => trouble.answer(place.path),
            Ok(Outcome::File { path, opened }) => {
                let entry = self.entry(place, Found { lookup, asked_ms, path, opened });
                let answer = files::answer(&entry, StatusCode::OK, &ask.file);
                if place.cacheable {
                    store.keep(ask.key, Rc::new(entry));
                }
                answer
            }
            Ok(Outcome::Other(Target::Directory(path, _))) if self.config.listing => {
                self.list(store, ask, place, lookup, path).await
            }
            Ok(Outcome::Other(target)) => self.other(store, ask, place, target).await,
        }
    }

    /// Whether files may be changed here.
    pub fn takes_uploads(&self) -> bool {
        self.uploads.is_some()
    }

    /// Answers a request of another method than GET and HEAD; `None`: nothing can be changed here.
    /// `user`: who the client has shown to be.
    pub fn change(
        &self,
        request: Request<RequestBody>,
        place: &Place<'_>,
        user: Option<String>,
    ) -> Option<Answering> {
        let uploads = self.uploads.clone()?;
        let rest = place.rest.to_vec();
        let base = &place.path[..place.path.len() - place.rest.len()];
        let asker = Asker { user, base: encode_path(base).into_owned() };
        let rules: Vec<_> = place.rules().cloned().collect();
        Some(Box::pin(async move {
            let mut answer = uploads.call(request, rest, asker).await;
            if let Fields::Map(map) = &mut answer.fields
                && answer.status.as_u16() < 400
            {
                dress(map, rules.iter());
            }
            answer
        }))
    }

    /// An error page: the file at `place`, whatever the request's conditions, with `status`.
    pub async fn error_page(
        &self,
        store: &Rc<Store>,
        place: &Place<'_>,
        status: StatusCode,
        accept_encoding: Option<&[u8]>,
    ) -> Option<Answer> {
        let lookup = Arc::new(self.lookup(place.rest)?);
        let asked_ms = clock::now_ms();
        let Ok(Outcome::File { path, opened }) = store.find(&lookup, true).await else {
            return None;
        };
        let entry = self.entry(place, Found { lookup, asked_ms, path, opened });
        let query = FileQuery { accept_encoding, ..FileQuery::default() };
        Some(files::answer(&entry, status, &query))
    }

    async fn other(
        &self,
        store: &Rc<Store>,
        ask: &Ask<'_>,
        place: &Place<'_>,
        target: Target,
    ) -> Answer {
        match target {
            Target::SlashMissing => to_directory(ask, place),
            Target::Status(status) => Answer::error(status, None),
            Target::Denied => Answer::error(StatusCode::FORBIDDEN, None),
            Target::Missing => self.fall_back(store, ask, place).await,
            // A file is handled by the caller.
            Target::Directory(..) | Target::File { .. } => not_found(),
        }
    }

    /// A single-page app's routes are its start page, but a missing script stays missing.
    async fn fall_back(&self, store: &Rc<Store>, ask: &Ask<'_>, place: &Place<'_>) -> Answer {
        let Some(spa) = &self.config.spa else { return not_found() };
        if !accepts_html(ask.accept) {
            return not_found();
        }
        let Some(lookup) = self.lookup(spa.trim_start_matches('/').as_bytes()) else {
            return not_found();
        };
        let lookup = Arc::new(lookup);
        let asked_ms = clock::now_ms();
        let Ok(Outcome::File { path, opened }) = store.find(&lookup, ask.get).await else {
            return not_found();
        };
        let entry = self.entry(place, Found { lookup, asked_ms, path, opened });
        files::answer(&entry, StatusCode::OK, &ask.file)
    }

    async fn list(
        &self,
        store: &Rc<Store>,
        ask: &Ask<'_>,
        place: &Place<'_>,
        lookup: Arc<Lookup>,
        path: Vec<u8>,
    ) -> Answer {
        let wanted = Wanted {
            path,
            url_path: place.path.to_vec(),
            dotfiles: self.config.dotfiles,
            view: View::from_query(ask.query),
            json: prefers_json(ask.accept),
        };
        let media_type = if wanted.json { "application/json" } else { "text/html; charset=utf-8" };
        match self.listings.page(&store.disk, lookup, wanted).await {
            Err(Trouble::Disk(e)) if e.kind() == io::ErrorKind::PermissionDenied => {
                Answer::error(StatusCode::FORBIDDEN, None)
            }
            Err(trouble) => trouble.answer(place.path),
            Ok(page) => {
                let policy = HeaderValue::from_static(CONTENT_SECURITY_POLICY);
                let no_sniff = HeaderValue::from_static("nosniff");
                Answer::bytes(StatusCode::OK, HeaderValue::from_static(media_type), page)
                    .with(header::CONTENT_SECURITY_POLICY, policy)
                    .with(header::X_CONTENT_TYPE_OPTIONS, no_sniff)
                    .with(header::VARY, HeaderValue::from_static("Accept"))
            }
        }
    }

    /// `None`: nothing of that name is served.
    pub fn lookup(&self, rest: &[u8]) -> Option<Lookup> {
        if files::has_hidden_segment(rest, self.config.dotfiles) {
            return None;
        }
        let tries = if self.config.try_files.is_empty() {
            vec![Try::Path(rest.to_vec())]
        } else {
            self.config.try_files.iter().map(|t| expand(t, rest)).collect()
        };
        Some(Lookup {
            root: self.config.root.clone(),
            tries,
            index: Arc::clone(&self.index),
            symlinks: self.config.symlinks,
            sidecars: self.config.sidecars,
            etag: self.config.etag,
            lane: self.lane,
            rate: self.config.rate,
            memory_bytes_max: self.memory_bytes_max,
        })
    }

    fn entry(&self, place: &Place<'_>, found: Found) -> Entry {
        let Found { lookup, asked_ms, path, opened } = found;
        let now_secs = clock::coarse_unix_secs(clock::now_ms());
        let dress = self.dress(place, &path);
        let varies = opened.len() > 1;
        let states: Vec<_> = opened.iter().map(|o| (o.coding, o.file.stamp)).collect();
        let codings = states.iter().map(|s| s.0).filter(|c| *c != Coding::Identity).collect();
        let representations: Vec<_> = opened
            .into_iter()
            .map(|opened| Representation::new(opened, &dress, varies, now_secs))
            .collect();
        Entry {
            weak: representations.iter().any(|r| r.weak),
            representations,
            codings,
            lookup,
            target: Target::File { path, states },
            mount: place.mount,
            checked_ms: Cell::new(asked_ms),
            refreshing: Cell::new(false),
            used: Cell::new(false),
        }
    }

    fn dress(&self, place: &Place<'_>, path: &[u8]) -> Dress {
        let settled = self.uploads.is_some();
        let media_type = self.media_type(path);
        let mut dress = Dress { media_type, set: vec![], remove: vec![], settled };
        if settled {
            dress.set.push((header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")));
        }
        if self.config.etag == EtagSource::Off {
            dress.remove.push(header::ETAG);
        }
        for rule in place.rules() {
            for name in &rule.remove {
                dress.set.retain(|(n, _)| n != name);
                dress.remove.push(name.clone());
            }
            for (name, value) in &rule.set {
                dress.set.retain(|(n, _)| n != name);
                if *name == header::CONTENT_TYPE {
                    dress.media_type = value.clone();
                } else {
                    dress.set.push((name.clone(), value.clone()));
                }
            }
        }
        dress
    }

    fn media_type(&self, path: &[u8]) -> HeaderValue {
        let extension = media::extension(path);
        match self.config.media_types.get(&extension) {
            Some(own) => own.clone(),
            None => {
                HeaderValue::from_static(media::of_extension(&extension).unwrap_or(media::DEFAULT))
            }
        }
    }
}

fn expand(attempt: &TryFile, rest: &[u8]) -> Try {
    match attempt {
        TryFile::Status(status) => Try::Status(*status),
        TryFile::Path(template) => {
            let template = template.trim_start_matches('/').as_bytes();
            let mut path = Vec::with_capacity(template.len() + rest.len());
            match memchr::memmem::find(template, b"{path}") {
                None => path.extend_from_slice(template),
                Some(at) => {
                    path.extend_from_slice(&template[..at]);
                    path.extend_from_slice(rest);
                    path.extend_from_slice(&template[at + b"{path}".len()..]);
                }
            }
            Try::Path(path)
        }
    }
}

fn to_directory(ask: &Ask<'_>, place: &Place<'_>) -> Answer {
    let mut location = encode_path(&[place.path, b"/"].concat()).into_owned();
    append_query(&mut location, ask.query);
    Answer::redirect(StatusCode::MOVED_PERMANENTLY, &location)
}

fn not_found() -> Answer {
    Answer::error(StatusCode::NOT_FOUND, None)
}
