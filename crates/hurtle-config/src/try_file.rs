//! Candidates of a look-up: the elements of `try_files`.

use std::fmt;

use http::StatusCode;

/// One element of `try_files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryFile {
    /// A path; `{path}` stands for the requested path.
    Path(String),
    /// Ends the search with this status.
    Status(StatusCode),
}

impl fmt::Display for TryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryFile::Path(path) => f.write_str(path),
            TryFile::Status(status) => write!(f, "={}", status.as_str()),
        }
    }
}
