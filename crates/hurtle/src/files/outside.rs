//! Log lines about symbolic links that lead out of a root, a bounded number of them: clients choose
//! the paths.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a period.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// The start of the current period, and its lines.
static PERIOD_LINES: Mutex<Option<(Instant, u32)>> = Mutex::new(None);

/// Logs that the link in `path` beneath `root` leads to `target`, unless many were logged lately.
pub(super) fn log_outside(root: &Path, path: &[u8], target: &Path) {
    let mut known = PERIOD_LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let (begun, lines) = known.filter(|(begun, _)| now - *begun < PERIOD).unwrap_or((now, 0));
    *known = Some((begun, lines.saturating_add(1)));
    drop(known);
    if lines >= LINES_MAX {
        return;
    }
    let path = String::from_utf8_lossy(path);
    tracing::warn!(
        "{}/{path}: a symbolic link leads to {}, which is not beneath the root; answered 404. To allow \
         it, name a directory above it in `symlinks` of the mount",
        root.display(),
        target.display()
    );
}
