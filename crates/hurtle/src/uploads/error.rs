//! Errors of an upload: each has a status, a message for the client, and a log line for the
//! operator.

use std::io;

use http::{StatusCode, header};
use rustix::io::Errno;

use super::headers;
use crate::answer::Answer;

/// Time after which a client may complete an upload again, in seconds: stores ask for as much.
const RETRY_AFTER_SECS: u64 = 5;

/// An upload that was refused or failed.
#[derive(Debug)]
pub(super) struct UploadError {
    status: StatusCode,
    message: &'static str,
    /// The system error, for the log.
    source: Option<io::Error>,
}

impl UploadError {
    pub(super) const TOO_LARGE: UploadError =
        UploadError::new(StatusCode::PAYLOAD_TOO_LARGE, "the file is larger than the limit");
    pub(super) const PART: UploadError = UploadError::new(
        StatusCode::BAD_REQUEST,
        "a PUT replaces the whole file: send it without Content-Range",
    );
    pub(super) const CODED: UploadError = UploadError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "files are stored unchanged: send the file without Content-Encoding",
    );
    pub(super) const BROKEN: UploadError =
        UploadError::new(StatusCode::BAD_REQUEST, "the body ended early");
    pub(super) const BUSY: UploadError =
        UploadError::new(StatusCode::SERVICE_UNAVAILABLE, "the disk is too slow");
    pub(super) const DEFECT: UploadError =
        UploadError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the error log");
    pub(super) const HIDDEN: UploadError =
        UploadError::new(StatusCode::FORBIDDEN, "a name must not begin with a dot");
    pub(super) const SIDECAR: UploadError = UploadError::new(
        StatusCode::FORBIDDEN,
        "a name that ends in .br, .zst or .gz would be served as an encoded variant of another file",
    );
    pub(super) const NAME: UploadError =
        UploadError::new(StatusCode::BAD_REQUEST, "the file system does not allow this name");
    pub(super) const DIRECTORY: UploadError =
        UploadError::new(StatusCode::CONFLICT, "the name is a directory");
    pub(super) const NO_DIRECTORY: UploadError =
        UploadError::new(StatusCode::CONFLICT, "the directory of the file does not exist");
    pub(super) const SPECIAL: UploadError =
        UploadError::new(StatusCode::CONFLICT, "the name is not a regular file");
    pub(super) const LINK: UploadError = UploadError::new(
        StatusCode::FORBIDDEN,
        "the path has a symbolic link that is not followed",
    );
    pub(super) const MISSING: UploadError =
        UploadError::new(StatusCode::NOT_FOUND, "the file does not exist");
    pub(super) const CONDITION: UploadError = UploadError::new(
        StatusCode::PRECONDITION_FAILED,
        "the file does not match the preconditions",
    );
    pub(super) const EXISTS: UploadError = UploadError::new(
        StatusCode::PRECONDITION_FAILED,
        "a file of this name exists: choose to replace existing files, or rename it",
    );
    pub(super) const OTHER_ORIGIN: UploadError =
        UploadError::new(StatusCode::FORBIDDEN, "the form is of another site");
    pub(super) const ELSEWHERE_BY_NAME: UploadError =
        UploadError::new(StatusCode::FORBIDDEN, "a file of this name is of another mount or rule");
    pub(super) const NO_FORM: UploadError = UploadError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "a POST is a form: send it as multipart/form-data, or send the file with PUT",
    );
    pub(super) const FORM: UploadError =
        UploadError::new(StatusCode::BAD_REQUEST, "the form is malformed");
    pub(super) const FORM_PARTS: UploadError =
        UploadError::new(StatusCode::PAYLOAD_TOO_LARGE, "the form has more than 1,000 parts");
    pub(super) const FORM_CONTROL: UploadError =
        UploadError::new(StatusCode::PAYLOAD_TOO_LARGE, "a part that is no file is too large");
    pub(super) const FULL: UploadError =
        UploadError::new(StatusCode::INSUFFICIENT_STORAGE, "not enough free space");
    pub(super) const DENIED: UploadError =
        UploadError::new(StatusCode::FORBIDDEN, "the server has no permission to write there");

    pub(super) const NO_UPLOAD: UploadError =
        UploadError::new(StatusCode::NOT_FOUND, "the upload does not exist, or has ended");
    pub(super) const SUPERSEDED: UploadError =
        UploadError::new(StatusCode::CONFLICT, "another request has continued this upload");
    pub(super) const ELSEWHERE: UploadError = UploadError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "another request is still working on this upload",
    );
    pub(super) const CROWDED: UploadError = UploadError::new(
        StatusCode::INSUFFICIENT_STORAGE,
        "too many unfinished uploads: send the whole file at once, or try again later",
    );
    pub(super) const INTEROP: UploadError = UploadError::new(
        StatusCode::BAD_REQUEST,
        "an upload in parts needs Upload-Draft-Interop-Version: 8, and a directory that allows resumable uploads",
    );
    pub(super) const UNPLACED: UploadError =
        UploadError::new(StatusCode::BAD_REQUEST, "a part needs Upload-Offset and Upload-Complete");
    pub(super) const LENGTHS: UploadError =
        UploadError::new(StatusCode::BAD_REQUEST, "the lengths of the upload are contradictory");
    pub(super) const NO_PART: UploadError = UploadError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "a part needs Content-Type: application/partial-upload",
    );

    pub(super) const NO_FORM_HERE: UploadError = UploadError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "an object store takes no forms: send the file with PUT",
    );
    pub(super) const STORE: UploadError =
        UploadError::new(StatusCode::BAD_GATEWAY, "the object store failed");
    pub(super) const UNPUBLISHED: UploadError = UploadError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "the object store failed; the upload is kept: complete it again later",
    );
    pub(super) const STORE_TIMEOUT: UploadError =
        UploadError::new(StatusCode::GATEWAY_TIMEOUT, "the object store does not respond");

    const fn new(status: StatusCode, message: &'static str) -> UploadError {
        UploadError { status, message, source: None }
    }

    fn with_source(self, e: Errno) -> UploadError {
        UploadError { source: Some(e.into()), ..self }
    }

    /// True if the directory of the file does not exist.
    pub(super) fn is_no_directory(&self) -> bool {
        self.is(&UploadError::NO_DIRECTORY)
    }

    /// True if the preconditions do not hold.
    pub(super) fn is_condition(&self) -> bool {
        self.is(&UploadError::CONDITION)
    }

    fn is(&self, other: &UploadError) -> bool {
        self.status == other.status && self.message == other.message
    }

    /// True if a later attempt may succeed, so that the received bytes are worth keeping.
    pub(super) fn is_temporary(&self) -> bool {
        self.status.is_server_error()
            || self.is(&UploadError::SUPERSEDED)
            || self.is(&UploadError::BROKEN)
    }

    /// The error of a complete upload that the store has not taken: it may take it later.
    pub(super) fn keeping_upload(self) -> UploadError {
        let of_store = [UploadError::STORE, UploadError::STORE_TIMEOUT, UploadError::BUSY];
        if of_store.iter().any(|error| self.is(error)) { UploadError::UNPUBLISHED } else { self }
    }

    /// Returns the error's response. Errors that the client did not cause are logged.
    pub(super) fn answer(self, rest: &[u8]) -> Answer {
        let name = rest.escape_ascii();
        match &self.source {
            Some(e) if self.status == StatusCode::INTERNAL_SERVER_ERROR => {
                tracing::error!("upload of {name}: {e}");
            }
            Some(e) => tracing::warn!("upload of {name} refused: {e}"),
            None if self.is(&UploadError::BUSY) => {
                tracing::warn!("upload of {name}: the disk is too slow; answered 503");
            }
            None if self.is(&UploadError::TOO_LARGE) => {
                tracing::warn!("upload of {name} refused by `file_bytes` in `uploads`");
            }
            None => {}
        }
        let answer = Answer::error(self.status, Some(self.message));
        match self.status {
            _ if self.is(&UploadError::LENGTHS) => headers::inconsistent(),
            _ if self.is(&UploadError::UNPUBLISHED) => {
                answer.with(header::RETRY_AFTER, http::HeaderValue::from(RETRY_AFTER_SECS))
            }
            _ if self.is(&UploadError::NO_PART) => headers::with_accepted(answer),
            // RFC 9110 section 15.5.16: names the accepted codings.
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                answer.with(header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"))
            }
            _ => answer,
        }
    }
}

impl From<Errno> for UploadError {
    fn from(e: Errno) -> UploadError {
        match e {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => UploadError::DENIED.with_source(e),
            Errno::NOSPC | Errno::DQUOT => UploadError::FULL.with_source(e),
            Errno::FBIG => UploadError::TOO_LARGE,
            Errno::NOENT | Errno::NOTDIR => UploadError::NO_DIRECTORY,
            Errno::LOOP | Errno::MLINK | Errno::XDEV => UploadError::LINK,
            Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY => UploadError::DIRECTORY,
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => UploadError::NAME,
            Errno::MFILE | Errno::NFILE => UploadError::BUSY.with_source(e),
            e => UploadError::DEFECT.with_source(e),
        }
    }
}

impl From<io::Error> for UploadError {
    fn from(e: io::Error) -> UploadError {
        UploadError::from(Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }
}
