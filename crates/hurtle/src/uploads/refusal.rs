//! Why an upload is refused: each reason with its status, and what is said to client and operator.

use std::io;

use http::{StatusCode, header};
use rustix::io::Errno;

use super::asked;
use crate::answer::Answer;

/// A refusal.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    why: &'static str,
    /// What the operator has to know.
    error: Option<io::Error>,
}

impl Refusal {
    pub(super) const TOO_LARGE: Refusal =
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the file is larger than is taken here");
    pub(super) const PART: Refusal = Refusal::new(
        StatusCode::BAD_REQUEST,
        "a PUT replaces the whole file: send it without Content-Range",
    );
    pub(super) const CODED: Refusal = Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "files are stored as they come: send it without Content-Encoding",
    );
    pub(super) const BROKEN: Refusal = Refusal::new(StatusCode::BAD_REQUEST, "the body broke off");
    pub(super) const BUSY: Refusal =
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the disk is too slow");
    pub(super) const DEFECT: Refusal =
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the error log says why");
    pub(super) const HIDDEN: Refusal =
        Refusal::new(StatusCode::FORBIDDEN, "names that begin with a dot are not for uploads");
    pub(super) const SIDECAR: Refusal = Refusal::new(
        StatusCode::FORBIDDEN,
        "a name that ends in .br, .zst or .gz would be served as a form of another file",
    );
    pub(super) const NAME: Refusal =
        Refusal::new(StatusCode::BAD_REQUEST, "the file system takes no such name");
    pub(super) const DIRECTORY: Refusal =
        Refusal::new(StatusCode::CONFLICT, "the name is a directory's");
    pub(super) const NO_DIRECTORY: Refusal =
        Refusal::new(StatusCode::CONFLICT, "there is no directory to put it in");
    pub(super) const SPECIAL: Refusal =
        Refusal::new(StatusCode::CONFLICT, "the name is not a file's");
    pub(super) const LINK: Refusal =
        Refusal::new(StatusCode::FORBIDDEN, "a symbolic link stands in the way");
    pub(super) const MISSING: Refusal =
        Refusal::new(StatusCode::NOT_FOUND, "there is no such file");
    pub(super) const CONDITION: Refusal =
        Refusal::new(StatusCode::PRECONDITION_FAILED, "the file is not the one you know");
    pub(super) const FULL: Refusal =
        Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "there is no room for it");
    pub(super) const DENIED: Refusal =
        Refusal::new(StatusCode::FORBIDDEN, "the server may not write there");

    pub(super) const NO_UPLOAD: Refusal =
        Refusal::new(StatusCode::NOT_FOUND, "there is no such upload, or no more");
    pub(super) const SUPERSEDED: Refusal =
        Refusal::new(StatusCode::CONFLICT, "another request goes on with this upload");
    pub(super) const ELSEWHERE: Refusal = Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "another request is still at work on this upload",
    );
    pub(super) const CROWDED: Refusal = Refusal::new(
        StatusCode::INSUFFICIENT_STORAGE,
        "there is no room for one more upload in parts: send the whole file at once, or come later",
    );
    pub(super) const INTEROP: Refusal = Refusal::new(
        StatusCode::BAD_REQUEST,
        "for an upload in parts, send Upload-Draft-Interop-Version: 8; a directory may also take none",
    );
    pub(super) const UNPLACED: Refusal =
        Refusal::new(StatusCode::BAD_REQUEST, "a part needs Upload-Offset and Upload-Complete");
    pub(super) const LENGTHS: Refusal =
        Refusal::new(StatusCode::BAD_REQUEST, "what is said of the length is contradictory");
    pub(super) const NO_PART: Refusal = Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "a part is Content-Type: application/partial-upload",
    );

    const fn new(status: StatusCode, why: &'static str) -> Refusal {
        Refusal { status, why, error: None }
    }

    fn because(self, e: Errno) -> Refusal {
        Refusal { error: Some(e.into()), ..self }
    }

    /// Whether there is no directory where the file would be.
    pub(super) fn is_no_directory(&self) -> bool {
        self.is(&Refusal::NO_DIRECTORY)
    }

    fn is(&self, other: &Refusal) -> bool {
        self.status == other.status && self.why == other.why
    }

    /// Whether the same may do later: what was received is worth keeping.
    pub(super) fn may_pass(&self) -> bool {
        self.status.is_server_error() || self.is(&Refusal::SUPERSEDED) || self.is(&Refusal::BROKEN)
    }

    /// What is answered; what is not the client's doing is logged.
    pub(super) fn answer(self, rest: &[u8]) -> Answer {
        let name = rest.escape_ascii();
        match &self.error {
            Some(e) if self.status == StatusCode::INTERNAL_SERVER_ERROR => {
                tracing::error!("upload of {name}: {e}");
            }
            Some(e) => tracing::warn!("upload of {name} refused: {e}"),
            None if self.is(&Refusal::BUSY) => {
                tracing::warn!("upload of {name}: the disk is too slow; answered 503");
            }
            None => {}
        }
        let answer = Answer::error(self.status, Some(self.why));
        match self.status {
            _ if self.is(&Refusal::LENGTHS) => asked::inconsistent(),
            _ if self.is(&Refusal::NO_PART) => asked::with_accepted(answer),
            // RFC 9110 15.5.16: which codings would have done.
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                answer.with(header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"))
            }
            _ => answer,
        }
    }
}

impl From<Errno> for Refusal {
    fn from(e: Errno) -> Refusal {
        match e {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Refusal::DENIED.because(e),
            Errno::NOSPC | Errno::DQUOT => Refusal::FULL.because(e),
            Errno::FBIG => Refusal::TOO_LARGE,
            Errno::NOENT | Errno::NOTDIR => Refusal::NO_DIRECTORY,
            Errno::LOOP | Errno::MLINK | Errno::XDEV => Refusal::LINK,
            Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY => Refusal::DIRECTORY,
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Refusal::NAME,
            Errno::MFILE | Errno::NFILE => Refusal::BUSY.because(e),
            e => Refusal::DEFECT.because(e),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(e: io::Error) -> Refusal {
        Refusal::from(Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }
}
