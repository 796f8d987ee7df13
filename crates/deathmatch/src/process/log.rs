//! A server's log, and its end for messages.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes shown of each log.
const TAIL_BYTES_MAX: u64 = 4096;
const TAIL_LINES_MAX: usize = 20;

/// File for its standard output and error.
pub(super) fn own(work: &Path) -> PathBuf {
    work.join("server.log")
}

/// The last lines of all its logs.
pub(super) fn tail(work: &Path, others: &[PathBuf]) -> String {
    let own = own(work);
    let logs = std::iter::once(&own).chain(others);
    let tails: Vec<String> = logs.filter_map(|log| tail_of(log)).collect();
    if tails.is_empty() { "(nothing was logged)".to_owned() } else { tails.join("\n") }
}

fn tail_of(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].join("\n");
    (!last.trim().is_empty()).then_some(last)
}
