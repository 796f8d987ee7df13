//! Maps errors of the stores' clients to failures.

use std::error::Error as _;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use crate::{Failure, Kind};

/// Maps an error of a client.
pub(crate) fn failure_of(error: &Error) -> Failure {
    let kind = match error {
        Error::Precondition { .. } | Error::NotFound { .. } => Kind::Changed,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Kind::Denied,
        error => {
            let mut source = error.source();
            let mut kind = Kind::Store;
            while let Some(error) = source {
                if let Some(error) = error.downcast_ref::<HttpError>()
                    && error.kind() == HttpErrorKind::Timeout
                {
                    kind = Kind::Timeout;
                }
                source = error.source();
            }
            kind
        }
    };
    Failure::new(kind, one_line(error))
}

/// The text of an error without the store's whole response.
fn one_line(error: &Error) -> String {
    const CHARS_MAX: usize = 300;
    let text = error.to_string();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect()
}
