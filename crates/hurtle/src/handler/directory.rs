//! Serves files of a directory: look-up with index files and fallbacks, redirects to the trailing
//! slash, and listings.

mod archive;
mod field_rules;
mod media_types;
mod otherwise;
pub(crate) mod spa;

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderValue, Request, StatusCode, header};
use hurtle_http::semantics::accept::{Coding, prefers_json};
use hurtle_http::semantics::target::encode_path;
use hurtle_objects::{Kind, Origin};

use self::archive::url_directories;
use self::media_types::MediaTypes;
use super::redirect_to_directory;
use super::request::{HandlerRequest, MatchedPath};
use super::resources::{HandlerServices, Resources};
use crate::answer::Answer;
use crate::body::RequestBody;
use crate::clock;
use crate::compress::{CODINGS, Compressor, Policy};
use crate::config::{Files, ObjectStore, Sendfile, TryFile};
use crate::disk::Disk;
use crate::edits::ResponseEdits;
use crate::files::archive::{Archives, Format};
use crate::files::differences::{Differences, Patterns};
use crate::files::entry::{FieldRules, MadeVariants, Representation};
use crate::files::listing::{CONTENT_SECURITY_POLICY, Filter, View};
use crate::files::lookup::{MEMORY_BYTES_MAX, Opened};
use crate::files::store::LookupError;
use crate::files::{
    self, Entry, FileQuery, ListingRequest, Listings, Lookup, LookupRules, Outcome, Root, Routes,
    Store, Target, Try,
};
use crate::metrics::RouteMetrics;
use crate::uploads::{self, UploadClient, Uploads};

/// A directory served as files.
#[derive(Debug)]
pub(crate) struct Directory {
    config: Files,
    rules: Arc<LookupRules>,
    listings: Listings,
    archives: Option<Box<Archives>>,
    uploads: Option<Box<Uploads>>,
    compressor: Compressor,
    /// `None`: files are sent as they are.
    policy: Option<Policy>,
    media_types: MediaTypes,
    /// Files whose former versions are dictionaries.
    dictionaries: Patterns,
    /// Counters of the requests for its files; `None`: internal files.
    route: Option<Arc<RouteMetrics>>,
    /// The edits of its site, for the ready field lines of its files.
    edits: Rc<ResponseEdits>,
}

/// Result of a file look-up.
struct Found {
    lookup: Arc<Lookup>,
    /// Time of the look-up, from which the age of the result counts.
    looked_up_ms: u64,
    path: Vec<u8>,
    opened: Vec<Opened>,
}

impl Directory {
    /// Serves a directory as configured; its disk jobs have the lane of its root.
    /// `policy`: files are compressed as it says.
    pub(crate) fn new(
        config: Files,
        resources: &Resources<'_>,
        policy: Option<Policy>,
    ) -> Directory {
        let origin = config.objects.as_ref().and_then(|store| open_store(store, resources));
        let uploads = Uploads::new(
            &config,
            origin.as_ref(),
            &resources.shared.disk,
            &resources.shared.changed,
        );
        Directory {
            rules: Arc::new(lookup_rules(&config, origin, resources, uploads.is_some())),
            dictionaries: Patterns::new(&config.dictionaries, config.dotfiles),
            uploads: uploads.map(Box::new),
            config,
            listings: resources.shared.listings.clone(),
            compressor: resources.shared.compressor.clone(),
            policy,
            media_types: MediaTypes::default(),
            route: None,
            edits: Rc::default(),
            archives: None,
        }
    }

    /// Counts requests for its files here, and makes their ready field lines with the edits of its
    /// site.
    #[must_use]
    pub(crate) fn of_site(self, edits: &Rc<ResponseEdits>, route: &Arc<RouteMetrics>) -> Directory {
        Directory { route: Some(Arc::clone(route)), edits: Rc::clone(edits), ..self }
    }

    /// Serves the files beside scripts, which may be the pages of directories.
    #[must_use]
    pub(crate) fn beside_scripts(self) -> Directory {
        let rules = LookupRules { finds_directories: true, ..(*self.rules).clone() };
        Directory { rules: Arc::new(rules), ..self }
    }

    /// Adds archives, if they are configured, and heeds the site's routes in these and in forms.
    #[must_use]
    pub(crate) fn within(self, disk: &Disk, routes: &Arc<Routes>) -> Directory {
        let archives = Archives::new(&self.config, disk, routes).map(Box::new);
        let uploads = self.uploads.map(|uploads| Box::new(uploads.within(routes)));
        Directory { archives, uploads, ..self }
    }

    /// Handles a GET or HEAD. `None`: there is no file, and another mount has such requests.
    pub(crate) async fn call(
        &self,
        store: &Rc<Store>,
        request: &HandlerRequest<'_>,
        matched: &MatchedPath<'_>,
    ) -> Option<Answer> {
        // The root of the mount needs its slash, or relative links would resolve outside of it.
        if matched.is_without_slash() {
            return Some(redirect_to_directory(StatusCode::MOVED_PERMANENTLY, matched));
        }
        let Some(lookup) = self.lookup(matched.rest) else {
            return self.config.otherwise.is_none().then(not_found);
        };
        let lookup = Arc::new(lookup);
        let found = match self.find(store, request, matched, &lookup).await {
            // An object has changed since the store described it: the store describes it anew.
            Err(LookupError::Origin(failure)) if failure.kind == Kind::Changed => {
                Box::pin(self.find(store, request, matched, &lookup)).await
            }
            found => found,
        };
        found.unwrap_or_else(|trouble| Some(trouble.answer(matched.path)))
    }

    /// Looks up a path, and answers with what is there.
    async fn find(
        &self,
        store: &Rc<Store>,
        request: &HandlerRequest<'_>,
        matched: &MatchedPath<'_>,
        lookup: &Arc<Lookup>,
    ) -> Result<Option<Answer>, LookupError> {
        let looked_up_ms = clock::now_ms();
        match store.find(lookup, request.get && request.file.is_for_the_whole()).await? {
            Outcome::File { path, opened } => {
                let found = Found { lookup: Arc::clone(lookup), looked_up_ms, path, opened };
                let entry = self.entry(matched, found, request.status);
                let (ok, file) = (StatusCode::OK, &request.file);
                if entry.is_arriving() {
                    return Box::pin(files::respond(&entry, ok, file, request.get)).await.map(Some);
                }
                let answer = files::answer(&entry, ok, file);
                if matched.cacheable && request.status == ok {
                    store.keep(request.key, entry);
                }
                Ok(Some(answer))
            }
            Outcome::Other(Target::Directory(path, _)) if self.config.listing => {
                let lookup = Arc::clone(lookup);
                Ok(Some(Box::pin(self.list(store, request, matched, lookup, path)).await))
            }
            Outcome::Other(target) if self.hands_on(&target) => Ok(None),
            Outcome::Other(target) => {
                let response = self.respond_without_file(store, request, matched, target);
                Box::pin(response).await.map(Some)
            }
        }
    }

    /// `true` if its files are objects of a store.
    pub(crate) fn is_remote(&self) -> bool {
        self.rules.origin.is_some()
    }

    /// `true` if uploads are allowed.
    pub(crate) fn takes_uploads(&self) -> bool {
        self.uploads.is_some()
    }

    /// Returns the directory's uploads; `None`: they are off.
    pub(crate) fn uploads(&self) -> Option<&Uploads> {
        self.uploads.as_deref()
    }

    /// Starts a request for an upload. `sent`: the path as the client wrote it; `user`: the user of
    /// the password, if one is required.
    pub(crate) fn upload(
        uploads: &Uploads,
        request: Request<RequestBody>,
        matched: &MatchedPath<'_>,
        sent: &[u8],
        user: Option<String>,
    ) -> impl Future<Output = Answer> + use<> {
        let uploads = uploads.clone();
        let rest = matched.rest.to_vec();
        let urls = url_directories(sent, matched);
        let client = UploadClient { user, base: encode_path(matched.base()).into_owned(), urls };
        async move { uploads.call(request, rest, client).await }
    }

    /// Loads an error page: the file at `place` with `status`, without conditions.
    pub(crate) async fn error_page(
        &self,
        store: &Rc<Store>,
        matched: &MatchedPath<'_>,
        status: StatusCode,
        accept_encoding: Option<&[u8]>,
    ) -> Option<Answer> {
        let lookup = Arc::new(self.lookup(matched.rest)?);
        let looked_up_ms = clock::now_ms();
        let Ok(Outcome::File { path, opened }) = store.find(&lookup, true).await else {
            return None;
        };
        let rules = self.field_rules(matched, &path, status);
        let found = Found { lookup, looked_up_ms, path, opened };
        let entry = self.entry_with(matched, found, rules);
        let query = FileQuery { accept_encoding, ..FileQuery::default() };
        files::respond(&entry, status, &query, true).await.ok()
    }

    async fn respond_without_file(
        &self,
        store: &Rc<Store>,
        request: &HandlerRequest<'_>,
        matched: &MatchedPath<'_>,
        target: Target,
    ) -> Result<Answer, LookupError> {
        Ok(match target {
            Target::SlashMissing => redirect_to_directory(StatusCode::MOVED_PERMANENTLY, matched),
            Target::Status(status) => Answer::error(status, None),
            Target::Denied => Answer::error(StatusCode::FORBIDDEN, None),
            Target::Missing | Target::Directory(..) => {
                self.spa_fallback(store, request, matched).await?
            }
            // The caller handles files and listings.
            Target::Outside | Target::File { .. } => not_found(),
        })
    }

    async fn list(
        &self,
        store: &Rc<Store>,
        request: &HandlerRequest<'_>,
        matched: &MatchedPath<'_>,
        lookup: Arc<Lookup>,
        path: Vec<u8>,
    ) -> Answer {
        if let Some(archives) = &self.archives
            && let Some(format) = Format::from_query(matched.query)
        {
            let (request, archive) = ((request, matched), (&**archives, format));
            return Box::pin(self.archive(archive, store, request, (lookup, path))).await;
        }
        let wanted = ListingRequest {
            path,
            url_path: matched.path.to_vec(),
            dotfiles: self.config.dotfiles,
            view: View::from_query(matched.query),
            filter: Filter::from_query(matched.query),
            json: prefers_json(request.accept),
            has_archives: self.archives.is_some(),
            takes_uploads: self.uploads.is_some() && uploads::takes_names_in(matched.rest),
        };
        let media_type = if wanted.json { "application/json" } else { "text/html; charset=utf-8" };
        match self.listings.page(&store.disk, lookup, wanted).await {
            Err(LookupError::Disk(e)) if e.kind() == io::ErrorKind::PermissionDenied => {
                Answer::error(StatusCode::FORBIDDEN, None)
            }
            Err(trouble) => trouble.answer(matched.path),
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

    /// The look-up of a path; `None`: the path is hidden.
    pub(crate) fn lookup(&self, rest: &[u8]) -> Option<Lookup> {
        if files::has_hidden_segment(rest, self.config.dotfiles) {
            return None;
        }
        let tries = if self.config.try_files.is_empty() {
            vec![Try::Path(rest.to_vec())]
        } else {
            self.config.try_files.iter().filter_map(|t| expand(t, rest)).collect()
        };
        Some(Lookup { rules: Arc::clone(&self.rules), tries })
    }

    /// `status`: that of the response to a request for the whole file.
    fn entry(&self, matched: &MatchedPath<'_>, found: Found, status: StatusCode) -> Entry {
        let rules = self.field_rules(matched, &found.path, status);
        self.entry_with(matched, found, rules)
    }

    fn entry_with(&self, matched: &MatchedPath<'_>, found: Found, mut edits: FieldRules) -> Entry {
        let Found { lookup, looked_up_ms, path, opened } = found;
        let now_secs = clock::coarse_unix_secs(clock::now_ms());
        let states: Vec<_> = opened.iter().map(|o| (o.coding, o.file.stamp)).collect();
        let mut codings: Vec<_> =
            states.iter().map(|s| s.0).filter(|c| *c != Coding::Identity).collect();
        let identity = opened.first().filter(|first| first.coding == Coding::Identity);
        let file = identity.map(|identity| Arc::clone(&identity.file));
        let file = file.filter(|file| self.compresses(&edits, file.stamp.len).is_ok());
        let varies = !codings.is_empty() || file.is_some();
        let versions = file.as_ref().and_then(|_| self.dictionaries.of(&path));
        edits.dictionary = versions.and_then(|versions| versions.field(matched.base()));
        let representations: Vec<_> = opened
            .into_iter()
            .map(|opened| Representation::new(opened, &edits, varies, now_secs))
            .collect();
        // A file that was modified just now may be modified again.
        let is_recent = representations.iter().any(|r| r.weak && !r.is_pending);
        let is_arriving = representations.iter().any(|r| r.arrival.is_some());
        let made = file.filter(|_| !is_recent && !is_arriving).map(|file| {
            // The operator's own variants are preferred.
            let others = CODINGS.iter().filter(|coding| !codings.contains(coding));
            codings.extend(others.copied().collect::<Vec<_>>());
            let differences = versions.map(|versions| Differences::new(versions, &lookup));
            if differences.is_some() {
                codings.insert(0, Coding::Dcz);
            }
            let made = MadeVariants::new(&self.compressor, &file, edits, now_secs);
            Box::new(made.with_differences(differences))
        });
        Entry {
            is_young: representations.iter().any(|r| r.weak || !r.file.stamp.has_settled()),
            representations,
            codings,
            made,
            lookup,
            target: Target::File { path, states },
            mount: matched.mount,
            route: self.route.clone(),
            checked_ms: Cell::new(looked_up_ms),
            refreshing: Cell::new(false),
            used: Cell::new(false),
        }
    }
}

/// The rules for look-ups of files as configured.
fn lookup_rules(
    config: &Files,
    origin: Option<Origin>,
    resources: &Resources<'_>,
    takes_uploads: bool,
) -> LookupRules {
    let HandlerServices { disk, listings, .. } = resources.shared;
    // Contents in memory would bypass the rate limit and `sendfile = "on"`.
    let none_in_memory = resources.sendfile == Sendfile::On || config.rate > 0;
    LookupRules {
        root: Root::new(config.root.clone()),
        origin,
        index: config.index.clone(),
        finds_directories: config.listing || !config.index.is_empty(),
        symlinks: config.symlinks.clone(),
        sidecars: config.sidecars.then(|| listings.sidecars().clone()),
        finds_variants_alone: config.sidecars_alone,
        etag: config.etag,
        // Uploads set times by themselves, and replace files.
        hashes: (!takes_uploads).then(|| listings.hashes().clone()),
        lane: disk.lane_of(format!("files {}", config.root.display())),
        rate: config.rate,
        memory_bytes_max: if none_in_memory { 0 } else { MEMORY_BYTES_MAX },
    }
}

/// Returns the candidate of an element of `try_files` for the path `rest`. `None`: one of its
/// segments is `.` or `..`, as of `{path}..` for a directory.
fn expand(attempt: &TryFile, rest: &[u8]) -> Option<Try> {
    let template = match attempt {
        TryFile::Status(status) => return Some(Try::Status(*status)),
        TryFile::Path(template) => template,
    };
    let mut path: Vec<u8> = Vec::with_capacity(template.len() + rest.len());
    for (number, text) in template.split("{path}").enumerate() {
        if number > 0 {
            // The requested path begins with a slash.
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(rest);
        }
        // The requested path of the root, and of a directory, ends with a slash.
        let is_after_slash = path.is_empty() || path.ends_with(b"/");
        let text = if is_after_slash { text.trim_start_matches('/') } else { text };
        path.extend_from_slice(text.as_bytes());
    }
    let has_dots = path.split(|b| *b == b'/').any(|segment| matches!(segment, b"." | b".."));
    (!has_dots).then_some(Try::Path(path))
}

/// Opens a store. `None`: the system refuses a thread; the look-ups of files then fail.
fn open_store(store: &ObjectStore, resources: &Resources<'_>) -> Option<Origin> {
    let opened = resources.shared.objects.origin(&store.settings());
    opened.inspect_err(|why| tracing::error!("{}: {why}", store.url)).ok()
}

fn not_found() -> Answer {
    Answer::error(StatusCode::NOT_FOUND, None)
}
