//! Uploads to a directory: PUT and DELETE, from the request's fields to the answer. `name` says
//! what may be named, `unfinished` is a file that nobody can see yet, `commit` makes it one that
//! everybody can, `refusal` says why not, `sweep` clears what a crash has left. Who may upload is
//! decided before anything here is asked; how the body comes is the engine's matter. `resume` goes
//! on with what broke off.
//!
//! The disk is waited for on the pool. While one piece of a body is written the next is gathered,
//! so an upload holds two pieces at most, and the client is held back by the disk.

mod asked;
mod claim;
mod commit;
mod name;
mod record;
mod refusal;
mod resume;
mod store;
mod sweep;
mod token;
mod unfinished;

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body::Body as _;
use rustix::process::{Resource, getrlimit};

use self::commit::{Conditions, Done};
use self::name::Target;
use self::refusal::Refusal;
use self::unfinished::Unfinished;
use crate::answer::Answer;
use crate::body::{Interim, RequestBody};
use crate::clock;
use crate::config::{EtagSource, Files, Symlinks};
use crate::disk::{Disk, Failure, Lane};
use crate::files::Changed;
use crate::rt;

pub use resume::is_upload;
pub use sweep::{expire, sweep};

/// Bytes written together. Larger pieces are no faster, and an upload holds two.
const PIECE_BYTES: usize = 256 << 10;

/// Where the pace is limited, pieces a second: so that it is even and not a stutter.
const PIECES_PER_SECOND: u64 = 8;

/// An upload that will be resumed has on the disk what came this long ago, in milliseconds: what it
/// loses when it breaks off.
const GATHER_MS_MAX: u64 = 250;

/// How often a client is told how far its upload has come, in milliseconds.
const TOLD_EVERY_MS: u64 = 1_000;

/// What is answered to, for OPTIONS and 405.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, DELETE, OPTIONS");

/// A directory that takes uploads.
#[derive(Clone, Debug)]
pub struct Uploads {
    place: Place,
    limits: crate::config::Uploads,
    /// Whether names that end like an encoded variant would be served as one.
    sidecars: bool,
    disk: Disk,
    lane: Lane,
    changed: Changed,
}

/// Who asks for something.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Who he has shown to be; `None`: nobody asked him.
    pub user: Option<String>,
    /// The path of the mount as it stands in a URL, with its last slash.
    pub base: String,
}

/// What uploads that may be resumed are held to.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    uploads: u64,
    bytes: u64,
    file_bytes: u64,
    sidecars: bool,
}

/// How a body is received.
struct Manner {
    /// What came is worth something though the rest never comes.
    kept: bool,
    /// When the client was last told how far it has come; `None`: it would not understand.
    told_ms: Option<u64>,
}

/// Where files go, as a disk job needs it.
#[derive(Clone, Debug)]
struct Place {
    root: PathBuf,
    /// Whether links on the way are followed; beneath the root, whatever the mount's files say.
    follow: bool,
    etag: EtagSource,
    free_bytes: u64,
    fsync: bool,
    lane: Lane,
}

impl Uploads {
    /// To the directory that `files` serves; `None`: it takes none.
    pub fn new(files: &Files, disk: &Disk, changed: &Changed) -> Option<Uploads> {
        let limits = files.uploads.clone()?;
        // Of their own: uploads that wait for a slow disk leave the downloads their threads.
        let lane = disk.lane();
        let place = Place {
            root: files.root.clone(),
            follow: files.symlinks != Symlinks::Never,
            etag: files.etag,
            free_bytes: limits.free_bytes,
            fsync: limits.fsync,
            lane,
        };
        let (disk, changed) = (disk.clone(), changed.clone());
        Some(Uploads { place, limits, sidecars: files.sidecars, disk, lane, changed })
    }

    /// Answers any request but GET and HEAD. `rest`: the path beneath the directory, decoded.
    /// Nothing of the body is asked for before it is known to be wanted.
    pub async fn call(self, request: Request<RequestBody>, rest: Vec<u8>, asker: Asker) -> Answer {
        let (head, body) = request.into_parts();
        let answer = match head.method {
            _ if is_upload(&rest) => self.upload(&head, &rest, body, asker).await,
            Method::PUT => match self.resumable(&head.headers) {
                Ok(None) => self.put(&head.headers, &rest, body).await,
                Ok(Some(asked)) => self.create(asked, &head.headers, &rest, body, asker).await,
                Err(refusal) => Err(refusal),
            },
            Method::DELETE => self.delete(&head.headers, &rest).await,
            Method::OPTIONS => Ok(self.options()),
            _ => Ok(Answer::error(StatusCode::METHOD_NOT_ALLOWED, None).with(header::ALLOW, ALLOW)),
        };
        let answer = answer.unwrap_or_else(|refusal| refusal.answer(&rest));
        answer.with(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
    }

    async fn put(
        &self,
        fields: &HeaderMap,
        rest: &[u8],
        body: RequestBody,
    ) -> Result<Answer, Refusal> {
        refuse_parts(fields)?;
        let target = Target::of(rest, self.sidecars)?;
        let bytes_max = self.bytes_max();
        let len = body.size_hint().exact();
        if len.is_some_and(|len| len > bytes_max) {
            return Err(Refusal::TOO_LARGE);
        }
        let conditions = Conditions::of(fields);
        let (place, disk) = (self.place.clone(), self.disk.clone());
        let (to, asked) = (target.clone(), conditions.clone());
        let begun = self.run(move || Unfinished::begin(&place, disk, to, &asked, len));
        let mut file = begun.await?;
        file = self.receive(file, body, bytes_max, Manner::whole()).await?;
        let changed = self.changed.clone();
        let done = self.run(move || file.commit(&conditions, &changed)).await?;
        Ok(of_done(done))
    }

    fn options(&self) -> Answer {
        let answer = Answer::empty(StatusCode::NO_CONTENT).with(header::ALLOW, ALLOW);
        match self.upload_limit() {
            Some(limit) => answer.with(asked::UPLOAD_LIMIT, limit),
            None => answer,
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            uploads: self.limits.resumable,
            bytes: self.limits.resumable_bytes,
            file_bytes: self.bytes_max(),
            sidecars: self.sidecars,
        }
    }

    async fn delete(&self, fields: &HeaderMap, rest: &[u8]) -> Result<Answer, Refusal> {
        let target = Target::of(rest, self.sidecars)?;
        let conditions = Conditions::of(fields);
        let (place, changed) = (self.place.clone(), self.changed.clone());
        self.run(move || commit::delete(&place, &target, &conditions, &changed)).await?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    /// Writes a body to a file as it comes.
    async fn receive(
        &self,
        mut file: Unfinished,
        mut body: RequestBody,
        bytes_max: u64,
        mut manner: Manner,
    ) -> Result<Unfinished, Refusal> {
        let mut pace = Pace::new(self.limits.rate, manner.kept);
        let mut piece = pace.gather(&mut body, bytes_max).await?;
        while !piece.is_empty() {
            let written = self.run(move || file.write(&piece));
            let (written, next) = rt::both(written, pace.gather(&mut body, bytes_max)).await;
            (file, piece) = (written?, next?);
            manner.tell(&body, file.len);
        }
        Ok(file)
    }

    /// The largest file taken: the process itself may be held to less, and would be killed by the
    /// byte beyond (`SIGXFSZ`, setrlimit(2)).
    fn bytes_max(&self) -> u64 {
        self.limits.file_bytes.min(getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX))
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        match self.disk.run(self.lane, job).await {
            Ok(done) => done,
            Err(Failure::Busy) => Err(Refusal::BUSY),
            Err(Failure::Panicked) => Err(Refusal::DEFECT),
        }
    }
}

/// Refuses what says that it is not the whole of a file as it is to be stored.
fn refuse_parts(fields: &HeaderMap) -> Result<(), Refusal> {
    // RFC 9110 14.5: whoever does not know partial PUT must not take the part for the whole.
    if fields.contains_key(header::CONTENT_RANGE) {
        return Err(Refusal::PART);
    }
    let coded = fields.get_all(header::CONTENT_ENCODING).iter();
    if coded.into_iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Refusal::CODED);
    }
    Ok(())
}

fn of_done(done: Done) -> Answer {
    let status = if done.created { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let answer = Answer::empty(status);
    // RFC 9110 9.3.4: the bytes are stored as they came, so the tag may be told.
    match done.tag.map(|tag| HeaderValue::try_from(format!("\"{tag}\""))) {
        Some(Ok(tag)) => answer.with(header::ETAG, tag),
        _ => answer,
    }
}

impl Manner {
    /// Nothing but the whole is worth something.
    fn whole() -> Manner {
        Manner { kept: false, told_ms: None }
    }

    fn kept(tells: bool) -> Manner {
        Manner { kept: true, told_ms: tells.then(clock::now_ms) }
    }

    /// Tells the client how far it has come, once in a while (draft, Upload Append).
    fn tell(&mut self, body: &RequestBody, offset: u64) {
        let now_ms = clock::now_ms();
        if let Some(told_ms) = &mut self.told_ms
            && now_ms.saturating_sub(*told_ms) >= TOLD_EVERY_MS
        {
            *told_ms = now_ms;
            let status = resume::upload_resumption_supported();
            body.tell(Interim { status, fields: asked::progress(offset) });
        }
    }
}

/// How fast a body is read, and how much of it has been.
struct Pace {
    rate: u64,
    /// What is gathered is not to wait long for more.
    hurried: bool,
    started_ms: u64,
    received: u64,
}

impl Pace {
    fn new(rate: u64, hurried: bool) -> Pace {
        Pace { rate, hurried, started_ms: clock::now_ms(), received: 0 }
    }

    /// The next piece of a body; empty is its end.
    async fn gather(
        &mut self,
        body: &mut RequestBody,
        bytes_max: u64,
    ) -> Result<Vec<Bytes>, Refusal> {
        let mut piece = Vec::new();
        let (mut len, mut since_ms) = (0, 0);
        while len < self.piece_bytes() {
            let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let frame = if self.hurried && len > 0 {
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
            // The engine answers for a body that breaks off.
            let frame = frame.map_err(|_| Refusal::BROKEN)?;
            // Trailers are not part of a file.
            let Ok(data) = frame.into_data() else { continue };
            self.received += data.len() as u64;
            if self.received > bytes_max {
                return Err(Refusal::TOO_LARGE);
            }
            if len == 0 {
                since_ms = clock::now_ms();
            }
            len += data.len();
            piece.push(data);
        }
        self.hold_back().await;
        Ok(piece)
    }

    fn piece_bytes(&self) -> usize {
        match self.rate {
            0 => PIECE_BYTES,
            rate => usize::try_from(rate / PIECES_PER_SECOND)
                .map_or(PIECE_BYTES, |bytes| bytes.clamp(1, PIECE_BYTES)),
        }
    }

    /// Waits until so much may have come.
    async fn hold_back(&self) {
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
