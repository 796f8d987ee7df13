//! The process's own use of the machine.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The process's use of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSnapshot {
    /// Number of the process in the system.
    pub pid: u32,
    /// Time of its start, in seconds since 1970.
    pub start_time: f64,
    /// Processor time of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory in bytes; `None`: the system does not tell.
    pub resident_bytes: Option<u64>,
    /// Open descriptors; `None`: the system does not tell.
    pub open_descriptors: Option<u64>,
    /// Limit of open descriptors.
    pub max_descriptors: Option<u64>,
}

/// Reads the process's use. `start`: the time of its start.
pub(super) fn read(start: SystemTime) -> ProcessSnapshot {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), u32::try_from(cpu.tv_nsec).unwrap_or(0));
    ProcessSnapshot {
        pid: std::process::id(),
        start_time: seconds(start),
        cpu_seconds: cpu.as_secs_f64(),
        resident_bytes: resident_bytes(),
        // Each entry is a descriptor; one is that of the directory.
        open_descriptors: fs::read_dir("/dev/fd")
            .ok()
            .map(|entries| (entries.count() as u64).saturating_sub(1)),
        max_descriptors: getrlimit(Resource::Nofile).current,
    }
}

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The second field of `statm` (proc(5)), which only Linux has.
fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}
