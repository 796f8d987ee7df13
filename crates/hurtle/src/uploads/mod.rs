//! Uploads to a directory or an object store: PUT, DELETE, and POST of forms, from the request's
//! fields to the response. The caller checks who may upload, and the pipeline delivers the body.
//!
//! - `name` checks the target's name.
//! - `unfinished` receives the file, which is invisible meanwhile; `commit` publishes it.
//! - `error` lists the reasons for a refusal.
//! - `form` stores the files of a form.
//! - `resume` continues interrupted uploads, with `headers`, `store`, `record`, `token` and `lock`;
//!   `publish` ends complete ones.
//! - `objects` puts and deletes objects of a store.
//! - `sweep` removes files that a crash has left.
//!
//! Disk threads write the file. While one piece is written the next is received, so an upload holds
//! at most two pieces in memory. The disk's speed limits the client's.

mod commit;
mod error;
mod form;
mod headers;
mod lock;
mod name;
mod objects;
mod publish;
mod record;
mod resume;
mod store;
mod sweep;
mod token;
mod unfinished;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body::Body as _;
use hurtle_objects::{OBJECT_BYTES_MAX, Origin};
use rustix::process::{Resource, getrlimit};

use self::commit::{Committed, Conditions};
use self::error::UploadError;
use self::name::Target;
use self::unfinished::Unfinished;
use crate::answer::Answer;
use crate::body::{Interim, RequestBody};
use crate::clock;
use crate::config::{EtagSource, Files, Symlinks};
use crate::disk::{Disk, Failure, Lane};
use crate::files::{Changed, Routes, UrlDirectory};
use crate::rt;

pub(crate) use form::takes_names_in;
pub(crate) use resume::is_upload;
pub(crate) use sweep::{expire, sweep};

/// Size of a piece that is written at once, in bytes. Larger pieces are not faster, and an upload
/// holds two.
const PIECE_BYTES: usize = 256 << 10;

/// Maximum number of frames of a piece. Each takes some 60 bytes of memory, and a client may send
/// frames of a single byte.
const PIECE_FRAMES_MAX: usize = 1_024;

/// Number of pieces per second under a rate limit, so that the transfer is even.
const PIECES_PER_SECOND: u64 = 8;

/// Maximum time that received bytes of a resumable upload wait to be written, in milliseconds. An
/// interrupted upload loses at most these bytes.
const GATHER_MS_MAX: u64 = 250;

/// Interval of progress responses (104), in milliseconds.
const PROGRESS_INTERVAL_MS: u64 = 1_000;

/// The values of Allow for OPTIONS and 405: of a file, and of a directory, which takes forms.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, DELETE, OPTIONS");
const ALLOW_IN_DIRECTORY: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS");

/// A directory or object store that accepts uploads.
#[derive(Clone, Debug)]
pub(crate) struct Uploads {
    root: UploadRoot,
    /// The store in whose place `root` keeps unfinished uploads.
    origin: Option<Origin>,
    /// Media types of objects by extension; they precede the built-in ones.
    media_types: Arc<BTreeMap<String, HeaderValue>>,
    limits: crate::config::Uploads,
    /// True if encoded variants are served, so their suffixes are not allowed.
    sidecars: bool,
    disk: Disk,
    lane: Lane,
    changed: Changed,
    /// The routes of its site; `None`: it has none.
    routes: Option<Arc<Routes>>,
}

/// The client of an upload.
#[derive(Clone, Debug)]
pub(crate) struct UploadClient {
    /// The authenticated user; `None` if no password is required.
    pub user: Option<String>,
    /// The mount's path in URLs, with a trailing slash.
    pub base: String,
    /// The URLs of the directory, as the client wrote it and behind the site's rules.
    pub urls: Vec<UrlDirectory>,
}

/// Limits of resumable uploads.
#[derive(Clone, Copy, Debug)]
struct StoreLimits {
    uploads: u64,
    bytes: u64,
    file_bytes: u64,
    sidecars: bool,
}

/// Parameters for receiving a body.
struct ReceiveMode {
    /// True if an incomplete body is kept, so it must reach the disk soon.
    is_kept: bool,
    /// Time of the last progress response, in milliseconds; `None` if the client does not support
    /// them.
    progress_ms: Option<u64>,
}

/// The directory and its settings, as disk jobs need them.
#[derive(Clone, Debug)]
struct UploadRoot {
    path: PathBuf,
    /// True if complete uploads go on to an object store: the directory holds unfinished ones only.
    is_spool: bool,
    /// True if symbolic links are followed. They must stay beneath the root, whatever the mount's
    /// setting for downloads.
    follow: bool,
    etag: EtagSource,
    free_bytes: u64,
    fsync: bool,
    lane: Lane,
}

impl Uploads {
    /// Uploads to the directory of `files`, or to the store of `origin`; `None` if it accepts none.
    pub(crate) fn new(
        files: &Files,
        origin: Option<&Origin>,
        disk: &Disk,
        changed: &Changed,
    ) -> Option<Uploads> {
        // Without its store, a mount takes no uploads.
        if files.objects.is_some() && origin.is_none() {
            return None;
        }
        let limits = files.uploads.clone()?;
        let path = files.upload_dir()?;
        // Apart from downloads: if uploads wait for a slow disk, downloads keep their threads.
        let lane = disk.lane_of(format!("uploads {}", files.root.display()));
        let root = UploadRoot {
            path,
            is_spool: origin.is_some(),
            follow: files.symlinks != Symlinks::Never,
            etag: files.etag,
            free_bytes: limits.free_bytes,
            fsync: limits.fsync,
            lane,
        };
        let (disk, changed) = (disk.clone(), changed.clone());
        let (origin, sidecars) = (origin.cloned(), files.sidecars);
        let media_types = Arc::new(files.media_types.clone());
        let routes = None;
        Some(Uploads { root, origin, media_types, limits, sidecars, disk, lane, changed, routes })
    }

    /// Refuses names of forms that other mounts and rules of a site with these routes are for.
    #[must_use]
    pub(crate) fn within(self, routes: &Arc<Routes>) -> Uploads {
        Uploads { routes: Some(Arc::clone(routes)), ..self }
    }

    /// Answers any request except GET and HEAD. `rest` is the decoded path relative to the
    /// directory. The body is not read before the request is accepted.
    pub(crate) async fn call(
        self,
        request: Request<RequestBody>,
        rest: Vec<u8>,
        client: UploadClient,
    ) -> Answer {
        let (head, body) = request.into_parts();
        let answer = match head.method {
            _ if is_upload(&rest) => self.upload(&head, &rest, body, client).await,
            Method::PUT => match self.resumable(&head.headers) {
                Ok(None) => self.put(&head.headers, &rest, body).await,
                Ok(Some(upload_fields)) => {
                    self.create(upload_fields, &head.headers, &rest, body, client).await
                }
                Err(error) => Err(error),
            },
            Method::DELETE => self.delete(&head.headers, &rest).await,
            Method::POST if self.origin.is_some() => Err(UploadError::NO_FORM_HERE),
            Method::POST if client.base.ends_with('/') && takes_names_in(&rest) => {
                self.post(&head.headers, &rest, body, &client.urls).await
            }
            Method::OPTIONS => Ok(self.options(&rest)),
            _ => {
                let refused = Answer::error(StatusCode::METHOD_NOT_ALLOWED, None);
                Ok(refused.with(header::ALLOW, allow(&rest)))
            }
        };
        let answer = answer.unwrap_or_else(|error| error.answer(&rest));
        answer.with(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
    }

    async fn put(
        &self,
        fields: &HeaderMap,
        rest: &[u8],
        body: RequestBody,
    ) -> Result<Answer, UploadError> {
        if let Some(origin) = &self.origin {
            return self.put_object(origin, fields, rest, body).await;
        }
        refuse_parts(fields)?;
        let target = Target::of(rest, self.sidecars)?;
        let bytes_max = self.bytes_max();
        let len = body.size_hint().exact();
        if len.is_some_and(|len| len > bytes_max) {
            return Err(UploadError::TOO_LARGE);
        }
        let conditions = Conditions::of(fields);
        let (root, disk) = (self.root.clone(), self.disk.clone());
        let (to, checked) = (target.clone(), conditions.clone());
        let begun = self.run(move || Unfinished::begin(&root, disk, to, &checked, len));
        let mut file = begun.await?;
        file = self.receive(file, body, bytes_max, ReceiveMode::whole()).await?;
        let changed = self.changed.clone();
        let done = self.run(move || file.commit(&conditions, &changed)).await?;
        Ok(of_done(done))
    }

    fn options(&self, rest: &[u8]) -> Answer {
        let answer = Answer::empty(StatusCode::NO_CONTENT).with(header::ALLOW, allow(rest));
        match self.upload_limit() {
            Some(limit) => answer.with(headers::UPLOAD_LIMIT, limit),
            None => answer,
        }
    }

    fn bounds(&self) -> StoreLimits {
        StoreLimits {
            uploads: self.limits.resumable,
            bytes: self.limits.resumable_bytes,
            file_bytes: self.bytes_max(),
            sidecars: self.sidecars,
        }
    }

    async fn delete(&self, fields: &HeaderMap, rest: &[u8]) -> Result<Answer, UploadError> {
        if let Some(origin) = &self.origin {
            return self.delete_object(origin, fields, rest).await;
        }
        let target = Target::of(rest, self.sidecars)?;
        let conditions = Conditions::of(fields);
        let (root, changed) = (self.root.clone(), self.changed.clone());
        self.run(move || commit::delete(&root, &target, &conditions, &changed)).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    /// Writes a body to a file while it arrives.
    async fn receive(
        &self,
        mut file: Unfinished,
        mut body: RequestBody,
        bytes_max: u64,
        mut mode: ReceiveMode,
    ) -> Result<Unfinished, UploadError> {
        let mut reader = PieceReader::new(self.limits.rate, mode.is_kept);
        let mut piece = reader.next_piece(&mut body, bytes_max).await?;
        while !piece.is_empty() {
            let written = self.write(file, piece);
            let (written, next) = rt::both(written, reader.next_piece(&mut body, bytes_max)).await;
            (file, piece) = (written?, next?);
            mode.report_progress(&body, file.kept_len());
        }
        Ok(file)
    }

    /// Appends a piece of a body to a file. Its buffers return to the pool of this thread.
    async fn write(&self, file: Unfinished, piece: Vec<Bytes>) -> Result<Unfinished, UploadError> {
        let written = self.run(move || file.write(&piece).map(|file| (file, piece))).await;
        written.map(|(file, _)| file)
    }

    /// Maximum size of a file, in bytes. The process's own limit may be lower; a write beyond it
    /// would kill the process (`SIGXFSZ`, setrlimit(2)).
    fn bytes_max(&self) -> u64 {
        let bytes_max = if self.origin.is_some() { OBJECT_BYTES_MAX } else { u64::MAX };
        let bytes_max = bytes_max.min(self.limits.file_bytes);
        bytes_max.min(getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX))
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, UploadError> + Send + 'static,
    ) -> Result<T, UploadError> {
        match self.disk.run(self.lane, job).await {
            Ok(done) => done,
            Err(Failure::Busy) => Err(UploadError::BUSY),
            Err(Failure::Panicked) => Err(UploadError::DEFECT),
        }
    }
}

fn allow(rest: &[u8]) -> HeaderValue {
    if takes_names_in(rest) { ALLOW_IN_DIRECTORY } else { ALLOW }
}

/// Refuses content that is not a whole file in the form to be stored.
fn refuse_parts(fields: &HeaderMap) -> Result<(), UploadError> {
    // RFC 9110 section 14.5: a server without partial PUT must not take a part for the whole.
    if fields.contains_key(header::CONTENT_RANGE) {
        return Err(UploadError::PART);
    }
    let coded = fields.get_all(header::CONTENT_ENCODING).iter();
    if coded.into_iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(UploadError::CODED);
    }
    Ok(())
}

fn of_done(done: Committed) -> Answer {
    let status = if done.created { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    with_tag(Answer::empty(status), done.tag)
}

fn with_tag(answer: Answer, tag: Option<String>) -> Answer {
    // RFC 9110 section 9.3.4: the content is stored unchanged, so the response may have an ETag.
    match tag.map(|tag| HeaderValue::try_from(format!("\"{tag}\""))) {
        Some(Ok(tag)) => answer.with(header::ETAG, tag),
        _ => answer,
    }
}

impl ReceiveMode {
    /// An incomplete body is discarded.
    fn whole() -> ReceiveMode {
        ReceiveMode { is_kept: false, progress_ms: None }
    }

    fn resumable(has_progress: bool) -> ReceiveMode {
        ReceiveMode { is_kept: true, progress_ms: has_progress.then(clock::now_ms) }
    }

    /// Sends a progress response if the last one is old enough (draft, Upload Append).
    fn report_progress(&mut self, body: &RequestBody, offset: u64) {
        let now_ms = clock::now_ms();
        if let Some(progress_ms) = &mut self.progress_ms
            && now_ms.saturating_sub(*progress_ms) >= PROGRESS_INTERVAL_MS
        {
            *progress_ms = now_ms;
            let status = resume::upload_resumption_supported();
            body.send_interim(Interim { status, fields: headers::progress(offset) });
        }
    }
}

/// Reads a body in pieces, at a limited rate.
struct PieceReader {
    pace: Pace,
    /// True if a partly filled piece must not wait for more.
    is_resumable: bool,
}

/// The rate of an upload.
struct Pace {
    /// Bytes a second; 0 means unlimited.
    rate: u64,
    started_ms: u64,
    received: u64,
}

impl PieceReader {
    fn new(rate: u64, is_resumable: bool) -> PieceReader {
        PieceReader { pace: Pace::new(rate), is_resumable }
    }

    /// Reads the next piece of a body; empty at its end.
    async fn next_piece(
        &mut self,
        body: &mut RequestBody,
        bytes_max: u64,
    ) -> Result<Vec<Bytes>, UploadError> {
        let mut piece = Vec::new();
        let (mut len, mut since_ms) = (0, 0);
        while len < self.pace.piece_bytes(PIECE_BYTES) && piece.len() < PIECE_FRAMES_MAX {
            let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let frame = if self.is_resumable && len > 0 {
                let gathered_ms = clock::now_ms().saturating_sub(since_ms);
                let left_ms = GATHER_MS_MAX.saturating_sub(gathered_ms);
                match rt::timeout(Duration::from_millis(left_ms), frame).await {
                    Some(frame) => frame,
                    None => break,
                }
            } else {
                frame.await
            };
            let Some(frame) = frame else { break };
            // The pipeline answers for an interrupted body.
            let frame = frame.map_err(|_| UploadError::BROKEN)?;
            // Trailers are not part of a file.
            let Ok(data) = frame.into_data() else { continue };
            self.pace.count(data.len());
            if self.pace.received > bytes_max {
                return Err(UploadError::TOO_LARGE);
            }
            if len == 0 {
                since_ms = clock::now_ms();
            }
            len += data.len();
            piece.push(data);
        }
        self.pace.wait().await;
        Ok(piece)
    }
}

impl Pace {
    fn new(rate: u64) -> Pace {
        Pace { rate, started_ms: clock::now_ms(), received: 0 }
    }

    fn count(&mut self, len: usize) {
        self.received += len as u64;
    }

    /// Size of the next piece, in bytes: `max`, or less under a rate limit.
    fn piece_bytes(&self, max: usize) -> usize {
        match self.rate {
            0 => max,
            rate => {
                usize::try_from(rate / PIECES_PER_SECOND).map_or(max, |bytes| bytes.clamp(1, max))
            }
        }
    }

    /// Waits until the rate allows the bytes received so far.
    async fn wait(&self) {
        let Some(earned_ms) = self.received.saturating_mul(1_000).checked_div(self.rate) else {
            return;
        };
        let due_ms = self.started_ms.saturating_add(earned_ms);
        let wait_ms = due_ms.saturating_sub(clock::now_ms());
        if wait_ms > 0 {
            rt::sleep(Duration::from_millis(wait_ms)).await;
        }
    }
}
