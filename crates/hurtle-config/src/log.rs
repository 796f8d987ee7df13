//! The access log and the error log: what they hold, and where it is written.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::log_field::LogField;
use super::matcher::{self, Matcher};
use super::print;
use super::rotation::Rotation;

/// Format and destination of the access log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessLog {
    /// Format of a line.
    #[serde(flatten)]
    pub format: LogFormat,
    /// Destination of the lines.
    #[serde(rename = "path")]
    pub to: LogTarget,
    /// Rotation of a file.
    #[serde(flatten, skip_serializing_if = "Rotation::is_off")]
    pub rotation: Rotation,
    /// Conditions on requests that are logged; `None`: all are.
    #[serde(
        rename = "match",
        skip_serializing_if = "Option::is_none",
        serialize_with = "matcher::print_optional"
    )]
    pub matcher: Option<Matcher>,
}

/// Format of an access log line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "format", content = "fields", rename_all = "lowercase")]
pub enum LogFormat {
    /// The "combined" format of Apache and nginx.
    Combined,
    /// One JSON object a line, with these members in this order.
    Json(Vec<LogField>),
    /// A short line for a person: method, path, status, bytes, milliseconds.
    Brief,
}

/// Destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard output of the process.
    Stdout,
    /// The standard error of the process.
    Stderr,
    /// A file that is appended to, and reopened on SIGUSR1.
    File(PathBuf),
}

impl Serialize for LogTarget {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            LogTarget::Stdout => out.serialize_str("stdout"),
            LogTarget::Stderr => out.serialize_str("stderr"),
            LogTarget::File(file) => print::path(file, out),
        }
    }
}

/// Log of the server's own events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorLog {
    /// The least severe level written.
    pub level: LogLevel,
    /// Destination of the lines.
    #[serde(rename = "path")]
    pub to: LogTarget,
    /// Rotation of a file.
    #[serde(flatten, skip_serializing_if = "Rotation::is_off")]
    pub rotation: Rotation,
}

/// Severity, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}
