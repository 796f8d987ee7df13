//! The paths that a worker has responded to most often lately, estimated from samples. Memory is
//! bounded: each window has a space-saving summary (Metwally, Agrawal, El Abbadi 2005).

use std::cmp::Reverse;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Length of a window, in seconds. A reader gets the last whole one and the one that has begun.
pub(super) const WINDOW_SECONDS: u64 = 30;

/// Paths in a window.
const PATHS_MAX: usize = 128;

/// Responses of a window that are sampled one by one.
const EXACT_SAMPLES: u64 = 256;

/// After them, the pause between samples is random: from half of this number of responses to one
/// and a half of it. A constant pause would see only some of the paths of a client that repeats a
/// sequence.
const PAUSE_MEAN: u64 = 64;

/// A path is shown up to this many bytes. One more is kept, to tell that it was cut.
pub(super) const PATH_BYTES_MAX: usize = 128;
pub(super) const PATH_BYTES_KEPT: usize = PATH_BYTES_MAX + 1;

/// The sampled paths of one worker.
#[derive(Debug)]
pub(super) struct HotPaths {
    windows: [Window; 2],
    /// Responses since the last sample.
    pending: u64,
    /// Responses from the last sample to the next.
    pause: u64,
    random: u64,
}

/// The samples of one window.
#[derive(Debug, Default)]
struct Window {
    /// Its time, in windows since 1970.
    number: u64,
    samples: u64,
    responses: u64,
    /// Hashes of site and path, in the order of `entries`.
    hashes: Vec<u64>,
    entries: Vec<PathEntry>,
}

/// A path of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathEntry {
    pub(super) site: String,
    pub(super) path: Vec<u8>,
    /// Responses that its samples stand for; too many by at most `error`.
    pub(super) responses: u64,
    pub(super) error: u64,
    pub(super) samples: u64,
}

/// The samples of the windows that a reader gets.
#[derive(Clone, Debug, Default)]
pub(super) struct SampledPaths {
    pub(super) samples: u64,
    /// Responses that the samples stand for.
    pub(super) responses: u64,
    /// The most frequent paths of each window; a path may be in both.
    pub(super) paths: Vec<PathEntry>,
}

impl Default for HotPaths {
    fn default() -> HotPaths {
        let windows = Default::default();
        HotPaths { windows, pending: 0, pause: 1, random: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl HotPaths {
    /// Counts responses that end with one to this path. Returns the number of responses up to the
    /// next sample, at least 1.
    #[inline]
    pub(super) fn count(
        &mut self,
        responses: u64,
        now_secs: impl FnOnce() -> u64,
        site: &str,
        path: &[u8],
    ) -> u64 {
        self.pending += responses;
        if self.pending >= self.pause {
            self.sample(now_secs(), site, path);
        }
        self.pause - self.pending
    }

    fn sample(&mut self, now_secs: u64, site: &str, path: &[u8]) {
        let number = now_secs / WINDOW_SECONDS;
        let window = &mut self.windows[(number % 2) as usize];
        if window.number != number {
            // The vectors keep their memory.
            window.hashes.clear();
            window.entries.clear();
            (window.number, window.samples, window.responses) = (number, 0, 0);
        }
        window.add(site, &path[..path.len().min(PATH_BYTES_KEPT)], self.pending);
        self.pending = 0;
        self.pause = if window.samples < EXACT_SAMPLES { 1 } else { self.next_pause() };
    }

    /// Returns a random pause (xorshift64).
    fn next_pause(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        PAUSE_MEAN / 2 + self.random % (PAUSE_MEAN + 1)
    }

    /// Returns at most `paths_max` paths of each of the last two windows.
    pub(super) fn read(&self, now_secs: u64, paths_max: usize) -> SampledPaths {
        let now = now_secs / WINDOW_SECONDS;
        let mut read = SampledPaths::default();
        for window in self.windows.iter().filter(|w| w.number == now || w.number + 1 == now) {
            read.samples += window.samples;
            read.responses += window.responses;
            let mut order: Vec<&PathEntry> = window.entries.iter().collect();
            order.sort_unstable_by_key(|entry| Reverse(entry.responses));
            read.paths.extend(order.into_iter().take(paths_max).cloned());
        }
        read
    }
}

impl Window {
    fn add(&mut self, site: &str, path: &[u8], responses: u64) {
        self.samples += 1;
        self.responses += responses;
        let hash = xxh3_64_with_seed(path, xxh3_64_with_seed(site.as_bytes(), 0));
        if let Some(at) = self.hashes.iter().position(|known| *known == hash) {
            self.entries[at].responses += responses;
            self.entries[at].samples += 1;
            return;
        }
        let (site, path) = (site.to_owned(), path.to_vec());
        if self.entries.len() < PATHS_MAX {
            self.hashes.push(hash);
            self.entries.push(PathEntry { site, path, responses, error: 0, samples: 1 });
            return;
        }
        // The rarest path gives its place and its count, which is the largest error.
        let rarest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.responses);
        if let Some((at, error)) = rarest.map(|(at, entry)| (at, entry.responses)) {
            self.hashes[at] = hash;
            let responses = responses + error;
            self.entries[at] = PathEntry { site, path, responses, error, samples: 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responses(read: &SampledPaths, path: &[u8]) -> u64 {
        read.paths.iter().filter(|of| of.path == path).map(|of| of.responses).sum()
    }

    #[test]
    fn few_responses_are_exact_and_many_are_estimated() {
        let mut paths = HotPaths::default();
        for (path, count) in [(&b"/a"[..], 100), (b"/b", 20)] {
            (0..count).for_each(|_| assert_eq!(paths.count(1, || 0, "s", path), 1));
        }
        let read = paths.read(0, 10);
        assert_eq!((responses(&read, b"/a"), responses(&read, b"/b")), (100, 20));
        assert_eq!((read.samples, read.responses), (120, 120));
        // A sequence of 64 paths, of which "/a" is every fourth.
        let names: Vec<_> = (0..64).map(|at| format!("/{at}").into_bytes()).collect();
        for round in 0..10_000 {
            let path = if round % 4 == 0 { &b"/a"[..] } else { &names[round % 64] };
            paths.count(1, || 31, "s", path);
        }
        let read = paths.read(31, 10);
        let share = responses(&read, b"/a") as f64 / read.responses as f64;
        assert!((0.2..0.3).contains(&share), "{share}");
        assert!(read.responses > 9_900 && read.samples < 600, "{read:?}");
    }

    #[test]
    fn a_frequent_path_stays_among_many_others() {
        let mut paths = HotPaths::default();
        for round in 0..20_000_u64 {
            let path = match round % 3 {
                0 => b"/hot".to_vec(),
                _ => format!("/{round}").into_bytes(),
            };
            // Each stands for many responses, so that each is sampled.
            paths.count(1_000, || 0, "s", &path);
        }
        let read = paths.read(0, 3);
        assert_eq!((read.paths[0].path.as_slice(), read.paths.len()), (&b"/hot"[..], 3));
        let sure = read.paths[0].responses - read.paths[0].error;
        assert!(sure <= 6_667_000 && read.paths[0].responses >= 6_667_000, "{sure}");
        assert!(paths.windows[0].entries.len() <= PATHS_MAX);
    }

    #[test]
    fn a_window_ends_and_paths_are_cut() {
        let mut paths = HotPaths::default();
        paths.count(1, || 29, "s", &[b'x'; 1_000]);
        paths.count(1, || 30, "s", b"/later");
        assert_eq!(paths.read(59, 10).samples, 2);
        let read = paths.read(60, 10);
        assert_eq!((read.samples, read.paths[0].path.as_slice()), (1, &b"/later"[..]));
        assert_eq!(paths.read(90, 10).samples, 0);
        assert_eq!(paths.read(31, 10).paths[0].path.len(), PATH_BYTES_KEPT);
    }
}
