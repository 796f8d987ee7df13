//! The kernel's counters of the whole machine at one moment: pure parsers of /proc's text, and the
//! reader that feeds them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::process;

/// Bytes of a sector in /proc/diskstats, independent of the disk (Linux,
/// Documentation/block/stat.rst).
pub const SECTOR_BYTES: u64 = 512;

/// Control groups, version 1, that count the processor time of all tasks.
const CPUACCT_OF_ALL: [&str; 2] =
    ["/sys/fs/cgroup/cpuacct/cpuacct.usage", "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage"];

/// The machine's counters since boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Interrupts, switches and processor time.
    pub stat: Stat,
    /// Pages freed since boot (`pgfree` in /proc/vmstat).
    pub pages_freed: u64,
    /// Load average over a minute.
    pub load_1m: f64,
    /// Time since boot, in seconds.
    pub uptime_s: f64,
    /// Counters of the disks, by their names in /proc/diskstats.
    pub disks: BTreeMap<String, Disk>,
    /// Processor time of all tasks.
    pub tasks: Tasks,
}

/// Counters of /proc/stat since boot (proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Interrupts that were served.
    pub interrupts: u64,
    /// Context switches of all processors.
    pub switches: u64,
    /// Number of processors that are online.
    pub cpus: u32,
    /// Ticks of all kinds.
    pub ticks: u64,
    /// Ticks spent waiting for disks, included in `ticks`.
    pub iowait: u64,
    /// Ticks taken by the host, included in `ticks`.
    pub steal: u64,
}

/// A line of /proc/diskstats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Reads that the disk completed.
    pub reads: u64,
    /// Sectors read, of `SECTOR_BYTES` each.
    pub sectors: u64,
    /// Milliseconds all reads took.
    pub read_ms: u64,
    /// Milliseconds it was busy.
    pub busy_ms: u64,
}

/// Processor time of all tasks since boot, from one of two sources. /proc/stat is not one: whether
/// a tick in an interrupt also counts for the interrupted task depends on the kernel's
/// configuration (IRQ_TIME_ACCOUNTING), so a server's time cannot be subtracted from its sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// Nanoseconds, from the root control group.
    Nanoseconds(u64),
    /// Ticks of each process, by its number, and of the children it has waited for. Their sum is
    /// within 1 % of the other over seconds, on a machine busy compiling.
    Ticks(BTreeMap<u32, u64>),
}

impl Default for Tasks {
    fn default() -> Self {
        Tasks::Ticks(BTreeMap::new())
    }
}

impl Tasks {
    /// Seconds since `earlier`; `None` if the two have different sources. Of ticks they are the
    /// least that it can be: each process that ran may have some too many by rounding, and 1 % of a
    /// slice is half a tick.
    pub fn since_s(&self, earlier: &Tasks) -> Option<f64> {
        match (self, earlier) {
            (Tasks::Nanoseconds(now), Tasks::Nanoseconds(then)) => {
                Some(now.saturating_sub(*then) as f64 / 1e9)
            }
            (Tasks::Ticks(now), Tasks::Ticks(then)) => {
                let sum = |all: &BTreeMap<u32, u64>| all.values().sum::<u64>();
                let ran = now.iter().filter(|(id, ticks)| then.get(id) != Some(ticks)).count();
                let ended = then.keys().filter(|id| !now.contains_key(id)).count();
                let unsure = (ran + ended) as u64 * process::TICKS_UNSURE;
                let sure = sum(now).saturating_sub(sum(then)).saturating_sub(unsure);
                Some(sure as f64 / process::TICKS_PER_SECOND)
            }
            _ => None,
        }
    }
}

impl Counters {
    /// Reads them below `proc`; missing ones stay 0.
    pub fn read(proc: &Path) -> Counters {
        let text = |name: &str| fs::read_to_string(proc.join(name)).unwrap_or_default();
        Counters {
            stat: stat(&text("stat")),
            pages_freed: process::line(&text("vmstat"), "pgfree ").unwrap_or(0),
            load_1m: first_number(&text("loadavg")).unwrap_or(0.0),
            uptime_s: first_number(&text("uptime")).unwrap_or(0.0),
            disks: disks(&text("diskstats")),
            tasks: tasks(proc),
        }
    }
}

fn tasks(proc: &Path) -> Tasks {
    let usage = CPUACCT_OF_ALL.iter().find_map(|path| fs::read_to_string(path).ok());
    if let Some(ns) = usage.and_then(|text| text.trim().parse().ok()) {
        return Tasks::Nanoseconds(ns);
    }
    let folders = fs::read_dir(proc).into_iter().flatten().flatten();
    let ids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    let ticks_of = |id: u32| {
        let text = fs::read_to_string(proc.join(id.to_string()).join("stat")).ok()?;
        let stat = process::stat(&text)?;
        Some((id, stat.own.total() + stat.children.total()))
    };
    Tasks::Ticks(ids.filter_map(ticks_of).collect())
}

/// Parses the text of /proc/stat (proc_stat(5)).
pub fn stat(text: &str) -> Stat {
    // user nice system idle iowait irq softirq steal; guest time is within user and nice already.
    const KINDS: usize = 8;
    const IOWAIT: usize = 4;
    const STEAL: usize = 7;
    let all = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> =
        all.split_ascii_whitespace().take(KINDS).map(|n| n.parse().unwrap_or(0)).collect();
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    Stat {
        interrupts: process::line(text, "intr ").unwrap_or(0),
        switches: process::line(text, "ctxt ").unwrap_or(0),
        cpus: u32::try_from(text.lines().filter(is_cpu).count()).unwrap_or(u32::MAX),
        ticks: ticks.iter().sum(),
        iowait: ticks.get(IOWAIT).copied().unwrap_or(0),
        steal: ticks.get(STEAL).copied().unwrap_or(0),
    }
}

/// /proc/diskstats, proc_diskstats(5), by name.
pub fn disks(text: &str) -> BTreeMap<String, Disk> {
    let disk = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // Numbered from 0: major, minor, name, reads, merged, sectors, ms, four of writes, in
        // flight, busy ms.
        let number = |at: usize| fields.get(at)?.parse().ok();
        let disk = Disk {
            reads: number(3)?,
            sectors: number(5)?,
            read_ms: number(6)?,
            busy_ms: number(12)?,
        };
        Some(((*fields.get(2)?).to_owned(), disk))
    };
    text.lines().filter_map(disk).collect()
}

fn first_number(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  255746 57871 222646 851775 3159 0 41222 309 12 0\n\
        cpu0 118357 26253 101269 450418 766 0 19361 163 0 0\n\
        cpu1 137388 31617 121376 401357 2393 0 21860 146 0 0\n\
        intr 9503518 0 0 0 0\nctxt 49030180\nbtime 1763654000\nprocesses 30844\n";

    #[test]
    fn stat_counts_guests_once_and_processors_by_line() {
        let right = Stat {
            interrupts: 9_503_518,
            switches: 49_030_180,
            cpus: 2,
            ticks: 255_746 + 57_871 + 222_646 + 851_775 + 3_159 + 41_222 + 309,
            iowait: 3_159,
            steal: 309,
        };
        assert_eq!(stat(STAT), right);
        assert_eq!(stat(""), Stat::default(), "an empty file is all zero");
        let old = stat("cpu  1 2 3 4\ncpu0 1 2 3 4\n");
        assert_eq!((old.ticks, old.iowait, old.steal), (10, 0, 0), "fields an old kernel lacks");
    }

    #[test]
    fn disks_are_read_by_name_and_damaged_lines_left_out() {
        let text = " 254       0 vda 926497 44432 32573738 1138444 118097 611223 77040176 306199 0 \
            92252 1468794 192222 103 55148336 22002 11265 2148\n   7       0 loop0 0 0\n";
        let vda = Disk { reads: 926_497, sectors: 32_573_738, read_ms: 1_138_444, busy_ms: 92_252 };
        assert_eq!(disks(text), BTreeMap::from([("vda".to_owned(), vda)]));
    }

    #[test]
    fn time_of_all_tasks_is_taken_from_one_source() {
        let ticks = |ticks| Tasks::Ticks([(1, ticks), (2, 7)].into());
        let rows = [
            (Tasks::Nanoseconds(3_500_000_000), Tasks::Nanoseconds(1_000_000_000), Some(2.5)),
            (ticks(352), ticks(100), Some(2.5)),
            (ticks(100), ticks(350), Some(0.0)),
            (ticks(100), Tasks::Nanoseconds(1), None),
        ];
        for (now, then, right) in rows {
            assert_eq!(now.since_s(&then), right, "{now:?} after {then:?}");
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let now = Counters::read(Path::new("/proc"));
        assert!(now.stat.cpus > 0 && now.stat.ticks > 0 && now.stat.switches > 0, "{now:?}");
        assert!(now.uptime_s > 0.0 && now.pages_freed > 0, "{now:?}");
    }
}
