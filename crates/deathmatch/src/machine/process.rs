//! One process in /proc: its use so far, thread by thread. The parent module computes the use
//! between two looks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Ticks a second in /proc: the kernel's USER_HZ, 100 on every architecture this builds for
/// (proc_pid_stat(5); it is not the timer's CONFIG_HZ).
pub const TICKS_PER_SECOND: f64 = 100.0;

/// Ticks by which the sum of user and system time may be too large: each is truncated to whole
/// ticks, at both looks.
pub const TICKS_UNSURE: u64 = 2;

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Sums over all its threads, including those that have ended.
    pub stat: Stat,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// The peak since the process began, or since `forget_peak`.
    pub peak_bytes: u64,
    /// Living threads by id.
    pub threads: BTreeMap<u32, Thread>,
}

/// A thread at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Time on a processor, in nanoseconds.
    pub run_ns: u64,
    /// Time runnable without one.
    pub wait_ns: u64,
    /// Switches it asked for.
    pub voluntary: u64,
    /// Switches forced on it.
    pub involuntary: u64,
}

/// Fields of /proc/PID/stat (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Number of the parent process.
    pub parent: u32,
    /// Processor time of the process itself, without its children.
    pub own: Ticks,
    /// The time of children that ended and were waited for, and of theirs.
    pub children: Ticks,
    /// Its start, in ticks since boot: with the id, it identifies a process.
    pub began: u64,
}

/// Processor time in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Ticks in user mode.
    pub user: u64,
    /// Ticks in the kernel.
    pub system: u64,
}

impl Ticks {
    /// Ticks in user mode and in the kernel.
    pub fn total(self) -> u64 {
        self.user + self.system
    }

    /// Ticks since `earlier`; 0 where a counter has gone back.
    pub fn since(self, earlier: Ticks) -> Ticks {
        Ticks {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    /// Sum of both, mode by mode.
    pub fn plus(self, other: Ticks) -> Ticks {
        Ticks { user: self.user + other.user, system: self.system + other.system }
    }
}

impl Process {
    /// Reads a process below `proc` (/proc, or a copy); `None` if it is gone.
    pub fn read(proc: &Path, pid: u32) -> Option<Process> {
        let folder = proc.join(pid.to_string());
        let stat = stat(&fs::read_to_string(folder.join("stat")).ok()?)?;
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(folder.join("task")).ok()?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A thread that ends meanwhile is left out; the process's ticks keep its time.
            if let Some(thread) = Thread::read(&entry.path()) {
                threads.insert(id, thread);
            }
        }
        let memory = |field| memory_bytes(&status, field).unwrap_or(0);
        Some(Process {
            stat,
            resident_bytes: memory("VmRSS:"),
            peak_bytes: memory("VmHWM:"),
            threads,
        })
    }

    /// Resets the peak of a process's resident memory (proc_pid_clear_refs(5)); if that is not
    /// permitted it stays.
    pub fn forget_peak(pid: u32) {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

impl Thread {
    fn read(folder: &Path) -> Option<Thread> {
        let (run_ns, wait_ns) = schedstat(&fs::read_to_string(folder.join("schedstat")).ok()?)?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let (voluntary, involuntary) = switches(&status).unwrap_or((0, 0));
        Some(Thread { run_ns, wait_ns, voluntary, involuntary })
    }
}

/// /proc/PID/schedstat: (nanoseconds on a processor, nanoseconds waiting for one). Linux,
/// Documentation/scheduler/sched-stats.rst.
pub fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// /proc/PID/stat, proc_pid_stat(5). The name stands in parentheses and may hold any byte, also
/// `)`: fields are counted from the last one.
pub fn stat(text: &str) -> Option<Stat> {
    const STATE: usize = 3; // the first field after the name, numbered as in the manual
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - STATE)?.parse().ok();
    Some(Stat {
        parent: u32::try_from(field(4)?).ok()?,
        own: Ticks { user: field(14)?, system: field(15)? },
        children: Ticks { user: field(16)?, system: field(17)? },
        began: field(22)?,
    })
}

/// /proc/PID/task/TID/status: (voluntary, involuntary) context switches; the kernel keeps them per
/// thread.
pub fn switches(text: &str) -> Option<(u64, u64)> {
    let voluntary = line(text, "voluntary_ctxt_switches:")?;
    Some((voluntary, line(text, "nonvoluntary_ctxt_switches:")?))
}

/// /proc/PID/status: a field of memory, in bytes; a kernel thread has none.
pub fn memory_bytes(text: &str, field: &str) -> Option<u64> {
    line(text, field).map(|kib| kib * 1024)
}

/// The number behind a word that begins a line.
pub(super) fn line(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tnginx\nVmHWM:\t    2012 kB\nVmRSS:\t    1756 kB\nRssAnon:\t     112 kB\nThreads:\t1\n\
        voluntary_ctxt_switches:\t186\nnonvoluntary_ctxt_switches:\t225\n";

    #[test]
    fn stat_is_counted_from_the_names_end() {
        let numbers = "S 7 0 0 0 -1 4194560 84614 96991652 0 26372 278 2424 191923 138096 20 0 13 0 \
            24 45940736 3674 18446744073709551615 1 1 0 0";
        let stat_of = |name: &str| stat(&format!("1 ({name}) {numbers}\n"));
        let right = Stat {
            parent: 7,
            own: Ticks { user: 278, system: 2424 },
            children: Ticks { user: 191_923, system: 138_096 },
            began: 24,
        };
        let rows = [
            ("process_api", "a plain name"),
            ("tmux: server", "a blank in the name"),
            ("evil) R 1 2 (x", "a name that looks like fields"),
            ("", "no name"),
        ];
        for (name, sentence) in rows {
            assert_eq!(stat_of(name), Some(right), "{sentence}");
        }
        for (text, sentence) in [
            ("", "nothing"),
            ("1 (x", "no end of the name"),
            ("1 (x) S 7 0 0", "too few fields"),
            ("1 (x) S 7 0 0 0 -1 1 1 1 1 1 a b 1 1 1 1 1 1 1", "letters for ticks"),
        ] {
            assert_eq!(stat(text), None, "{sentence}");
        }
    }

    #[test]
    fn schedstat_is_run_and_wait() {
        let rows = [
            ("9620855 3634058 6\n", Some((9_620_855, 3_634_058)), "as Linux 6 writes it"),
            ("0 0 0\n", Some((0, 0)), "a kernel that keeps no count"),
            ("12\n", None, "half a line"),
            ("", None, "nothing"),
            ("-1 2 3", None, "a negative time"),
        ];
        for (text, right, sentence) in rows {
            assert_eq!(schedstat(text), right, "{sentence}");
        }
    }

    #[test]
    fn status_gives_memory_and_switches() {
        assert_eq!(switches(STATUS), Some((186, 225)));
        assert_eq!(memory_bytes(STATUS, "VmRSS:"), Some(1756 * 1024));
        assert_eq!(memory_bytes(STATUS, "VmHWM:"), Some(2012 * 1024));
        assert_eq!(
            memory_bytes("Name:\tkthreadd\n", "VmRSS:"),
            None,
            "a kernel thread has no memory"
        );
        assert_eq!(switches("voluntary_ctxt_switches:\t1\n"), None, "cut off");
    }

    #[test]
    fn this_process_can_be_read_and_one_that_is_gone_cannot() {
        let me = Process::read(Path::new("/proc"), std::process::id()).expect("this process");
        assert!(me.resident_bytes > 0 && me.stat.began > 0 && !me.threads.is_empty(), "{me:?}");
        // Ids end below 2^22 (PID_MAX_LIMIT).
        assert_eq!(Process::read(Path::new("/proc"), u32::MAX), None);
    }
}
