//! A file as an application answers with it: an `http::Response` that any router, box or middleware
//! may pass on. The file is found as the files handler finds its own, and so are its fields.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use super::answer::{self, FileQuery};
use super::arrival::Arrival;
use super::entry::{Dress, Representation};
use super::lookup::{Lookup, MEMORY_BYTES_MAX, Opened, Outcome, Target, Try};
use super::store::Trouble;
use crate::answer::Answer;
use crate::body::{Body, FileBody, Part};
use crate::clock;
use crate::config::{EtagSource, Symlinks};
use crate::disk::{Disk, Lane};
use crate::h1::fields::{joined, map};
use crate::h1::response::Fields;
use crate::semantics::conditional::Preconditions;
use crate::semantics::media;

/// Answers a request with a file, as the server answers with its own: with media type, entity-tag and
/// Last-Modified; 304 and 412 where the request's conditions say so, 206 and 416 where it asks for
/// ranges (RFC 9110 13 and 14). What is not there, or no file, is 404; what may not be read, 403.
///
/// `name` is a path beneath the directory `root`: nothing outside of it is ever sent, whatever `name`
/// says and whatever links it meets, so that a name may come from the client as it is.
///
/// The file is opened and read on the server's disk threads. If it comes back from the application
/// with its length and without a Content-Encoding, the kernel sends it (`sendfile(2)`), through
/// boxed bodies and middleware too, and the body is never polled; else the body is, and streams the
/// same bytes.
///
/// `request` must have come through a mount of this server, with its extensions; else, 500.
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
    let asked = Asked::of(request.method(), request.headers());
    let name = name.as_ref().as_os_str().as_bytes().to_vec();
    let root = root.into();
    async move {
        let Some((disk, lane)) = home.as_ref().and_then(|home| home.disk.as_ref()) else {
            let name = name.escape_ascii();
            tracing::error!("{name}: asked for by a request that came through no mount");
            return response(Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None), None);
        };
        let answer = match find(disk, *lane, root, &name).await {
            Err(trouble) => trouble.answer(&name),
            Ok(Outcome::File { path, mut opened }) if !opened.is_empty() => {
                let representation = represent(opened.swap_remove(0), &path);
                answer::of(&representation, StatusCode::OK, &asked.query())
            }
            Ok(Outcome::Other(Target::Denied)) => Answer::error(StatusCode::FORBIDDEN, None),
            Ok(_) => Answer::error(StatusCode::NOT_FOUND, None),
        };
        response(answer, Some(disk))
    }
}

async fn find(disk: &Disk, lane: Lane, root: PathBuf, name: &[u8]) -> Result<Outcome, Trouble> {
    let lookup = Lookup {
        root,
        tries: vec![Try::Path(name.to_vec())],
        index: Arc::new([]),
        symlinks: Symlinks::WithinRoot,
        sidecars: false,
        etag: EtagSource::Auto,
        lane,
        rate: 0,
        memory_bytes_max: MEMORY_BYTES_MAX,
    };
    let found: io::Result<_> =
        disk.run(lane, move || lookup.find(0)).await.map_err(Trouble::Pool)?;
    found.map_err(Trouble::Disk)
}

fn represent(opened: Opened, path: &[u8]) -> Representation {
    let media_type = media::of_extension(&media::extension(path)).unwrap_or(media::DEFAULT);
    let dress = Dress {
        media_type: HeaderValue::from_static(media_type),
        set: vec![],
        // The engine's to say, or the application's.
        remove: vec![header::SERVER],
        settled: false,
    };
    Representation::new(opened, &dress, false, clock::coarse_unix_secs(clock::now_ms()))
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

/// What a request says of conditions and ranges.
#[derive(Default)]
struct Asked {
    if_match: Option<Bytes>,
    if_none_match: Option<Bytes>,
    if_modified_since: Option<Bytes>,
    if_unmodified_since: Option<Bytes>,
    if_range: Option<Bytes>,
    range: Option<Bytes>,
}

impl Asked {
    fn of(method: &Method, fields: &HeaderMap) -> Asked {
        // Of another method they were about what it did, which is done.
        if *method != Method::GET && *method != Method::HEAD {
            return Asked::default();
        }
        let value = |name| joined(fields, name).map(Bytes::from);
        Asked {
            if_match: value(header::IF_MATCH),
            if_none_match: value(header::IF_NONE_MATCH),
            if_modified_since: value(header::IF_MODIFIED_SINCE),
            if_unmodified_since: value(header::IF_UNMODIFIED_SINCE),
            if_range: value(header::IF_RANGE),
            // RFC 9110 14.2: Range means nothing but in GET.
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
            accept_encoding: None,
        }
    }
}
