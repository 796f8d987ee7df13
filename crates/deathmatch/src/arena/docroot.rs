//! The files a plan serves: the same bytes for the same plan, wherever it runs.

use std::fs::{self, File, FileTimes};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::plan::Plan;

/// Seed of the first file of a kind; the next file has the next seed.
const SEED: u64 = 0x2009;

/// Files' access times lie so far in the future. Otherwise a file system that records the first
/// access after a write (relatime) would write while cold files are read.
const NOT_READ_FOR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Makes the files to be served.
///
/// # Errors
/// The file system's.
pub(super) fn lay_out(docroot: &Path, plan: &Plan) -> io::Result<()> {
    fs::create_dir_all(docroot)?;
    for file in &plan.files {
        for (number, name) in (0..).zip(file.names()) {
            let (seed, bytes) = (SEED + u64::from(number), file.size(number));
            let path = docroot.join(&name);
            if let Some(folder) = path.parent().filter(|_| name.contains('/')) {
                fs::create_dir_all(folder)?;
            }
            if !fs::metadata(&path).is_ok_and(|m| m.len() == bytes) {
                let text = file.app.as_ref().map(|text| text.clone().into_bytes());
                fs::write(&path, text.unwrap_or_else(|| noise(seed, bytes)))?;
                let read = SystemTime::now() + NOT_READ_FOR;
                File::options()
                    .write(true)
                    .open(path)?
                    .set_times(FileTimes::new().set_accessed(read))?;
            }
        }
    }
    Ok(())
}

/// Incompressible bytes, the same every time (xorshift64*, Vigna 2016).
fn noise(seed: u64, bytes: u64) -> Vec<u8> {
    let mut state = seed;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
    });
    words.take(usize::try_from(bytes).unwrap_or(usize::MAX)).collect()
}
