//! Conditions for sharing a processor with other servers that are alive: a server runs on the
//! chosen processor only, uses none without load, and leaves memory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::entrant::Server;
use crate::machine::Snapshot;

/// Largest share of a processor that a server may use without load.
pub(super) const IDLE_CPU_MAX: f64 = 0.01;

/// Time for which a server is watched without load.
const WATCHED: Duration = Duration::from_millis(500);

/// Smallest share of the machine's memory that must stay available.
const MEMORY_MIN: f64 = 0.1;

/// The reason for which no further server can be started beside the others, if memory is short.
pub(super) fn memory_short() -> Option<String> {
    short(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// /proc/meminfo, proc_meminfo(5).
fn short(text: &str) -> Option<String> {
    let kib = |field: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let (total, available) = (kib("MemTotal:")?, kib("MemAvailable:")?);
    (available < MEMORY_MIN * total).then(|| {
        format!("only {:.0} MB of memory are left beside the other servers", available / 1e3)
    })
}

/// The reason for which this server cannot share the processor, if any. A server that ran already
/// keeps its own.
pub(super) fn cannot_share(server: &Server, core: usize) -> Option<String> {
    let pids = match server {
        Server::Here(running) => running.pids(),
        Server::Elsewhere(_) => return None,
    };
    let wanted = core.to_string();
    let others: BTreeSet<String> =
        pids.iter().flat_map(|&pid| processors(pid)).filter(|own| *own != wanted).collect();
    if let Some(other) = others.first() {
        return Some(format!("it chooses its processors itself ({other}, not {wanted})"));
    }
    let before = Snapshot::take(&pids);
    thread::sleep(WATCHED);
    let (used, _) = before.until(&Snapshot::take(&server.pids()?), 0.0);
    let share = used.cpu_s / WATCHED.as_secs_f64();
    (share > IDLE_CPU_MAX)
        .then(|| format!("it uses {:.1} % of a processor without load", share * 100.0))
}

/// The processors of each thread of a process, as in `0` or `0-3`.
fn processors(pid: u32) -> Vec<String> {
    let list = |folder: &Path| {
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| list(&thread.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_memory_stays_available() {
        let text = |kib: u32| {
            format!("MemTotal:       24684148 kB\nMemFree:  1 kB\nMemAvailable: {kib} kB\n")
        };
        assert_eq!(short(&text(2_500_000)), None);
        let why = short(&text(2_400_000)).unwrap();
        assert_eq!(why, "only 2400 MB of memory are left beside the other servers");
        assert_eq!(short("MemTotal: 1 kB\n"), None, "a kernel that does not say");
    }
}
