//! Notices changes of the files of a configuration, by their attributes, for `--watch`.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::control::Reload;

/// Interval of looks at the files.
const WATCH_PERIOD: Duration = Duration::from_millis(500);

/// Most entries of a directory that are looked at.
const ENTRIES_MAX: usize = 4_096;

/// The attributes of each file that exists.
type Seen = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// The configuration file, and what was seen of it and of the files that it includes.
pub(super) struct Watcher {
    file: PathBuf,
    seen: Seen,
}

impl Watcher {
    /// `included`: the files and the directories of `include`.
    pub(super) fn new(file: PathBuf, included: &[PathBuf]) -> Watcher {
        let seen = look(&file, included);
        Watcher { file, seen }
    }
}

fn look(file: &Path, included: &[PathBuf]) -> Seen {
    let mut seen = Seen::new();
    for path in included.iter().map(PathBuf::as_path).chain([file]) {
        let Ok(metadata) = path.metadata() else { continue };
        seen.push(attributes(path.to_owned(), &metadata));
        // Files that the configuration in force does not include yet, because they have problems.
        let entries = metadata.is_dir().then(|| fs::read_dir(path).ok()).flatten();
        for entry in entries.into_iter().flatten().flatten().take(ENTRIES_MAX) {
            let metadata = entry.metadata().ok();
            seen.extend(metadata.map(|metadata| attributes(entry.path(), &metadata)));
        }
    }
    seen
}

fn attributes(path: PathBuf, metadata: &Metadata) -> (PathBuf, Option<SystemTime>, u64) {
    (path, metadata.modified().ok(), metadata.len())
}

/// Waits until a watched file has changed; without one, for ever.
pub(super) async fn changed(watcher: &mut Option<Watcher>, reload: &Reload) {
    let Some(watcher) = watcher else { return std::future::pending().await };
    loop {
        tokio::time::sleep(WATCH_PERIOD).await;
        let now = look(&watcher.file, &reload.config().included);
        // An editor may remove the file before it writes it again.
        let exists = now.iter().any(|(path, ..)| *path == watcher.file);
        if exists && now != watcher.seen {
            watcher.seen = now;
            return;
        }
    }
}
