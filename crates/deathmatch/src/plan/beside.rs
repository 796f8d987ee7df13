//! Load of a plan beside its requests: streams, cold files, idle connections, or reloads.

use std::ops::RangeInclusive;

use serde::Deserialize;

use super::{File, PlanError};
use crate::sample::{Beside, Cold};

/// Largest number of streams beside the requests: one thread serves them all, a piece at a time.
const STREAMS_MAX: u32 = 1000;

/// Largest number of idle connections: one client address has some 28,000 ports.
const IDLE_MAX: u32 = 20_000;

/// Rates of a slow reader, in KB/s: below the smallest a server may end the connection.
const KB_PER_S: RangeInclusive<f64> = 0.1..=100.0;

/// Rates of reloads: at 10 a second some servers have not finished one when the next begins.
const RELOADS_MIN: f64 = 0.1;
const RELOADS_MAX: f64 = 10.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BesideToml {
    #[serde(default)]
    file: String,
    #[serde(default)]
    downloads: u32,
    #[serde(default)]
    uploads: u32,
    mb_per_s: Option<f64>,
    #[serde(default)]
    cold: bool,
    reads_per_s: Option<u32>,
    idle: Option<u32>,
    slow: Option<u32>,
    #[serde(default)]
    sends: bool,
    kb_per_s: Option<f64>,
    reloads_per_s: Option<f64>,
}

impl BesideToml {
    pub(super) fn check(&self, files: &[File]) -> Result<Beside, PlanError> {
        let bad = |why: &str| Err(PlanError(format!("beside {:?}: {why}", self.file)));
        if self.cold {
            return self.check_cold(files);
        }
        if self.slow.is_some() || self.kb_per_s.is_some() || self.sends {
            return self.check_slow(files);
        }
        if self.idle.is_some() || self.reloads_per_s.is_some() {
            return self.check_quiet();
        }
        let Some(file) = files.iter().find(|file| file.name == self.file && file.count == 1) else {
            return bad("there is no such single file");
        };
        if self.reads_per_s.is_some() {
            return bad("reads_per_s: only cold files are read");
        }
        let streams = self.downloads.saturating_add(self.uploads);
        if self.downloads == 0 || streams > STREAMS_MAX {
            return bad(&format!("write at least one download, and {STREAMS_MAX} streams in all"));
        }
        if self.mb_per_s.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return bad("mb_per_s: write a number above 0, or nothing for full speed");
        }
        Ok(Beside {
            file: file.name.clone(),
            file_bytes: file.bytes,
            downloads: self.downloads,
            uploads: self.uploads,
            bytes_per_s: self.mb_per_s.map(|rate| rate * 1e6),
            cold: None,
            idle: 0,
            slow: 0,
            sends: false,
            reloads_per_s: None,
        })
    }

    fn check_cold(&self, files: &[File]) -> Result<Beside, PlanError> {
        let bad = |why: &str| Err(PlanError(format!("cold files {:?}: {why}", self.file)));
        let Some(file) = files.iter().find(|file| file.name == self.file && file.count > 1) else {
            return bad("there are no such files, many of a kind");
        };
        if self.downloads == 0 || self.downloads > STREAMS_MAX {
            return bad(&format!("write 1 to {STREAMS_MAX} downloads"));
        }
        if self.uploads > 0 || self.mb_per_s.is_some() || self.reads_per_s == Some(0) {
            return bad("they are downloaded as fast as the disk, or reads_per_s above 0, allows");
        }
        Ok(Beside {
            file: file.name.clone(),
            file_bytes: file.bytes,
            downloads: self.downloads,
            uploads: 0,
            bytes_per_s: None,
            cold: Some(Cold {
                files: file.count,
                bytes_max: file.bytes_max.unwrap_or(file.bytes),
                reads_per_s: self.reads_per_s,
            }),
            idle: 0,
            slow: 0,
            sends: false,
            reloads_per_s: None,
        })
    }

    /// Readers of a file, or senders of a body of its length, at a rate.
    fn check_slow(&self, files: &[File]) -> Result<Beside, PlanError> {
        let bad = |why: &str| Err(PlanError(format!("slow readers of {:?}: {why}", self.file)));
        let Some(file) = files.iter().find(|file| file.name == self.file && file.count == 1) else {
            return bad("there is no such single file");
        };
        let more = self.downloads + self.uploads > 0 || self.mb_per_s.is_some();
        let more = more || self.idle.is_some() || self.reloads_per_s.is_some();
        if more || self.cold || self.reads_per_s.is_some() {
            return bad("write file, slow, kb_per_s and perhaps sends, and nothing else");
        }
        let slow = self.slow.unwrap_or(0);
        if !(1..=IDLE_MAX).contains(&slow) {
            return bad(&format!("slow: write 1 to {IDLE_MAX} connections"));
        }
        let Some(kb_per_s) = self.kb_per_s.filter(|rate| KB_PER_S.contains(rate)) else {
            let (least, most) = (KB_PER_S.start(), KB_PER_S.end());
            return bad(&format!("kb_per_s: write {least} to {most}, for each connection"));
        };
        Ok(Beside {
            file: file.name.clone(),
            file_bytes: file.bytes,
            downloads: 0,
            uploads: 0,
            bytes_per_s: Some(kb_per_s * 1e3 * f64::from(slow)),
            cold: None,
            idle: 0,
            slow,
            sends: self.sends,
            reloads_per_s: None,
        })
    }

    /// Idle connections, or reloads.
    fn check_quiet(&self) -> Result<Beside, PlanError> {
        let bad = |why: &str| Err(PlanError(format!("beside: {why}")));
        let streams = !self.file.is_empty() || self.downloads + self.uploads > 0;
        if streams || self.idle.is_some() == self.reloads_per_s.is_some() {
            return bad("write one of streams, idle and reloads_per_s");
        }
        if self.idle.is_some_and(|count| !(1..=IDLE_MAX).contains(&count)) {
            return bad(&format!("idle: write 1 to {IDLE_MAX} connections"));
        }
        if self.reloads_per_s.is_some_and(|rate| !(RELOADS_MIN..=RELOADS_MAX).contains(&rate)) {
            return bad(&format!("reloads_per_s: write {RELOADS_MIN} to {RELOADS_MAX}"));
        }
        Ok(Beside {
            file: String::new(),
            file_bytes: 0,
            downloads: 0,
            uploads: 0,
            bytes_per_s: None,
            cold: None,
            idle: self.idle.unwrap_or(0),
            slow: 0,
            sends: false,
            reloads_per_s: self.reloads_per_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Work};

    #[test]
    fn idle_connections_and_reloads_that_make_no_sense_are_refused() {
        for (name, from, to, message, why) in [
            ("idle", "idle = 10000", "idle = 0", "idle: write 1 to 20000", "none"),
            ("idle", "idle = 10000", "idle = 20001", "idle: write 1 to 20000", "too many"),
            ("idle", "idle = 10000", "idle = 1, reloads_per_s = 1", "write one of", "both"),
            ("idle", "idle = 10000", "idle = 1, downloads = 1", "write one of", "and streams"),
            ("idle", "idle = 10000", "", "no such single file", "nothing"),
            ("slow", "slow = 500", "slow = 0", "slow: write 1 to 20000", "no reader"),
            ("slow", "slow = 500, ", "", "slow: write 1 to 20000", "readers without a number"),
            ("slow", "kb_per_s = 4", "kb_per_s = 0", "kb_per_s: write 0.1 to 100", "no rate"),
            ("slow", "kb_per_s = 4", "kb_per_s = 4, idle = 1", "and nothing else", "idle too"),
            ("slow", "slow = 500, kb_per_s = 4", "sends = true", "slow: write", "senders likewise"),
            ("reload", "reloads_per_s = 1", "reloads_per_s = 0", "reloads_per_s: write", "never"),
            ("reload", "reloads_per_s = 1", "reloads_per_s = 11", "reloads_per_s: write", "often"),
        ] {
            let (_, good) = crate::plan::BUILT_IN.iter().find(|(n, _)| *n == name).unwrap();
            let text = good.replacen(from, to, 1);
            assert_ne!(text, *good, "{why}: nothing was replaced");
            let error = Plan::read(&text).expect_err(why);
            assert!(error.0.contains(message), "{why}: {error}");
        }
    }

    #[test]
    fn works_beside_them_have_names_of_their_own() {
        let last = |name| Plan::built_in(name).unwrap().works.last().map(Work::name).unwrap();
        assert!(last("idle").ends_with(", beside 10000 idle connections"), "{}", last("idle"));
        let slow =
            Plan::built_in("buffered").unwrap().works.iter().map(Work::name).collect::<Vec<_>>();
        assert!(slow[1].ends_with(", beside 10 slow senders of 1 MB at 10 KB/s each"), "{slow:?}");
        let slow = last("slow");
        assert!(slow.ends_with(", beside 500 slow readers of 10 MB at 4 KB/s each"), "{slow}");
        assert!(last("reload").ends_with(", beside 1 reload/s"), "{}", last("reload"));
        assert!(Plan::built_in("reload").unwrap().needs_reload());
        assert!(!Plan::built_in("idle").unwrap().needs_reload());
    }
}
