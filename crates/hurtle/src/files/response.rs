//! A file as the response of an application: an `http::Response` that any router or middleware can
//! pass on. Look-up and fields are those of the files handler.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hurtle_http::message::response::Fields;
use hurtle_http::request::fields::{joined, map};
use hurtle_http::semantics::conditional::Preconditions;
use hurtle_http::semantics::media;

use super::answer::{self, FileQuery};
use super::arrival::Arrival;
use super::entry::{FieldRules, Representation};
use super::hashes::TagSource;
use super::lookup::{Lookup, LookupRules, MEMORY_BYTES_MAX, Opened, Outcome, Target, Try};
use super::root::Root;
use super::store::LookupError;
use super::{Hashes, has_hidden_segment};
use crate::answer::Answer;
use crate::body::{Body, FileBody, Part};
use crate::clock;
use crate::config::{EtagSource, Symlinks};
use crate::disk::{Disk, Lane};
use crate::edits::ReadyEdits;

/// Answers a request with a file, like the server's own files handler. The response has a media
/// type, an entity-tag and Last-Modified. Preconditions give 304 or 412, ranges 206 or 416 (RFC
/// 9110 sections 13 and 14). A missing file gives 404, an unreadable one 403.
///
/// `name` is a path relative to the directory `root`. Nothing outside of `root` is ever sent,
/// whatever `name` contains and wherever links lead; names that begin with a dot are missing, but
/// for `.well-known`. So `name` may come from the client unchecked.
///
/// Disk threads open and read the file. If the application returns the body with its length and
/// without Content-Encoding, the kernel sends the file (`sendfile(2)`), even through boxed bodies
/// and middleware. The body is then never polled. Otherwise the body is polled and streams the same
/// bytes.
///
/// `request` must have come through a mount of this server, with its extensions; otherwise the
/// status is 500.
///
/// ```
/// use hurtle::{FileBody, RequestBody};
/// use http::{Request, Response};
///
/// async fn report(request: Request<RequestBody>) -> Response<FileBody> {
///     hurtle::file("/srv/reports", "latest.pdf", &request).await
/// }
/// ```
pub fn file<R, N, B>(
    root: R,
    name: N,
    request: &Request<B>,
) -> impl Future<Output = Response<FileBody>> + Send + use<R, N, B>
where
    R: Into<PathBuf>,
    N: AsRef<Path>,
{
    let arrival = request.extensions().get::<Arrival>();
    let home = arrival.map(|arrival| Arc::clone(&arrival.home));
    let conditions = ConditionalFields::of(request.method(), request.headers());
    let name = name.as_ref().as_os_str().as_bytes().to_vec();
    let root = root.into();
    async move {
        let home = home.as_ref().and_then(|home| Some((home.disk.as_ref()?, &home.hashes)));
        let Some(((disk, lane), hashes)) = home else {
            let name = name.escape_ascii();
            tracing::error!("{name}: the request did not come through a mount; answered 500");
            return response(Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None), None);
        };
        let answer = match find(disk, *lane, root, &name, hashes.clone()).await {
            Err(error) => error.answer(&name),
            Ok(Outcome::File { path, mut opened }) if !opened.is_empty() => {
                for opened in opened.iter().filter(|opened| opened.tag == TagSource::Pending) {
                    hashes.begin(disk, &opened.file);
                }
                let representation = represent(opened.swap_remove(0), &path);
                answer::of(&representation, StatusCode::OK, &conditions.query())
            }
            Ok(Outcome::Other(Target::Denied)) => Answer::error(StatusCode::FORBIDDEN, None),
            Ok(_) => Answer::error(StatusCode::NOT_FOUND, None),
        };
        response(answer, Some(disk))
    }
}

async fn find(
    disk: &Disk,
    lane: Lane,
    root: PathBuf,
    name: &[u8],
    hashes: Hashes,
) -> Result<Outcome, LookupError> {
    if has_hidden_segment(name, false) {
        return Ok(Outcome::Other(Target::Missing));
    }
    let rules = LookupRules {
        root: Root::new(root),
        origin: None,
        index: Vec::new(),
        finds_directories: false,
        symlinks: Symlinks::WithinRoot,
        sidecars: None,
        finds_variants_alone: false,
        etag: EtagSource::Auto,
        hashes: Some(hashes),
        lane,
        rate: 0,
        memory_bytes_max: MEMORY_BYTES_MAX,
    };
    let lookup = Lookup { rules: Arc::new(rules), tries: vec![Try::Path(name.to_vec())] };
    let found: io::Result<_> =
        disk.run(lane, move || lookup.find(0, clock::NEVER)).await.map_err(LookupError::Pool)?;
    found.map_err(LookupError::Disk)
}

fn represent(opened: Opened, path: &[u8]) -> Representation {
    let media_type = media::of_extension(&media::extension(path)).unwrap_or(media::DEFAULT);
    // Server is written by the pipeline or by the application.
    let edits = ReadyEdits { remove: vec![header::SERVER], ..ReadyEdits::default() };
    let rules = FieldRules {
        media_type: HeaderValue::from_static(media_type),
        is_compressed: false,
        on_failure: edits.clone(),
        edits,
        varies_by_accept: false,
        dictionary: None,
        settled: false,
    };
    Representation::new(opened, &rules, false, clock::coarse_unix_secs(clock::now_ms()))
}

fn response(answer: Answer, disk: Option<&Disk>) -> Response<FileBody> {
    let (parts, slice) = match answer.body {
        Body::Empty | Body::Stream(_) => (vec![], None),
        Body::Bytes(bytes) => (vec![Part::Bytes(bytes)], None),
        Body::File(slice) => (vec![Part::File(slice.clone())], Some(slice)),
        Body::Parts(parts) => (parts, None),
    };
    let body = match disk {
        None => FileBody::default(),
        Some(disk) => FileBody::new(parts, disk.clone()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = match answer.fields {
        Fields::Ready(lines) => map(&lines),
        Fields::Dated(lines) => map(&lines),
        Fields::Map(map) => map,
    };
    if let Some(slice) = slice {
        response.extensions_mut().insert(slice);
    }
    response
}

/// Preconditions and Range of a request.
#[derive(Default)]
struct ConditionalFields {
    if_match: Option<Bytes>,
    if_none_match: Option<Bytes>,
    if_modified_since: Option<Bytes>,
    if_unmodified_since: Option<Bytes>,
    if_range: Option<Bytes>,
    range: Option<Bytes>,
}

impl ConditionalFields {
    fn of(method: &Method, fields: &HeaderMap) -> ConditionalFields {
        // For another method they refer to the method's effect, which has already happened.
        if *method != Method::GET && *method != Method::HEAD {
            return ConditionalFields::default();
        }
        let value = |name| joined(fields, name).map(Bytes::from);
        ConditionalFields {
            if_match: value(header::IF_MATCH),
            if_none_match: value(header::IF_NONE_MATCH),
            if_modified_since: value(header::IF_MODIFIED_SINCE),
            if_unmodified_since: value(header::IF_UNMODIFIED_SINCE),
            if_range: value(header::IF_RANGE),
            // RFC 9110 section 14.2: Range is defined for GET only.
            range: value(header::RANGE).filter(|_| *method == Method::GET),
        }
    }

    fn query(&self) -> FileQuery<'_> {
        FileQuery {
            preconditions: Preconditions {
                if_match: self.if_match.as_deref(),
                if_none_match: self.if_none_match.as_deref(),
                if_modified_since: self.if_modified_since.as_deref(),
                if_unmodified_since: self.if_unmodified_since.as_deref(),
                if_range: self.if_range.as_deref(),
            },
            range: self.range.as_deref(),
            ..FileQuery::default()
        }
    }
}
