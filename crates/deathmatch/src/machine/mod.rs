//! The machine under the contenders: use of a server's processes and of the whole machine between
//! two looks at /proc. The arena decides which processes, and when.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use crate::sample::{DiskUse, MachineUse, ServerUse};

pub mod congestion;
pub mod counters;
pub mod doctor;
pub mod fingerprint;
pub mod process;

use counters::{Counters, Disk, SECTOR_BYTES};
use process::{Process, TICKS_PER_SECOND, TICKS_UNSURE, Thread, Ticks};

/// The machine and a server's processes at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    at: Instant,
    counters: Counters,
    processes: BTreeMap<u32, Process>,
}

impl Snapshot {
    /// Looks at the machine and at these processes; ended ones are left out.
    pub fn take(pids: &[u32]) -> Snapshot {
        let proc = Path::new("/proc");
        let at = Instant::now();
        let read = |&pid: &u32| Some((pid, Process::read(proc, pid)?));
        let processes = pids.iter().filter_map(read).collect();
        Snapshot { at, counters: Counters::read(proc), processes }
    }

    /// Looks at processes and resets the peaks of their memory.
    pub fn take_resetting_peaks(pids: &[u32]) -> Snapshot {
        pids.iter().for_each(|&pid| Process::forget_peak(pid));
        Snapshot::take(pids)
    }

    /// Use from this look to a later one. `known_cpu_s` is all the processor time of the generator,
    /// its waiting too, and of the server's upstream; the rest of the machine's is that of other
    /// programs.
    ///
    /// A process that has started since counts from its start. One that has ended since counts by
    /// the ticks that its parent got from waiting for it; without such a parent it does not count.
    pub fn until(&self, later: &Snapshot, known_cpu_s: f64) -> (ServerUse, MachineUse) {
        let seconds = later.at.saturating_duration_since(self.at).as_secs_f64();
        let server = self.server(later, seconds);
        let machine = self.machine(later, seconds, server.cpu_s + known_cpu_s);
        (server, machine)
    }

    fn server(&self, later: &Snapshot, seconds: f64) -> ServerUse {
        let mut all = Used::default();
        let mut reaped = Ticks::default();
        for (pid, now) in &later.processes {
            let then = match self.processes.get(pid) {
                Some(then) if then.stat.began == now.stat.began => then.clone(),
                _ if now.stat.began as f64 >= self.counters.uptime_s * TICKS_PER_SECOND => {
                    Process::default()
                }
                // It lived at the first look already, but was not named then: its past is unknown.
                _ => now.clone(),
            };
            all.add(&Used::between(&then, now));
            reaped = reaped.plus(now.stat.children.since(then.stat.children));
        }
        let ended = reaped.since(self.before_they_ended(later));
        let cpu_s = all.run_ns as f64 / 1e9 + ended.total() as f64 / TICKS_PER_SECOND;
        let ticks = all.ticks.plus(ended);
        ServerUse {
            cpu_s,
            user_s: ticks.user as f64 / TICKS_PER_SECOND,
            system_s: ticks.system as f64 / TICKS_PER_SECOND,
            voluntary_switches: all.voluntary,
            involuntary_switches: all.involuntary,
            resident_bytes: later.processes.values().map(|process| process.resident_bytes).sum(),
            peak_bytes: later.processes.values().map(|process| process.peak_bytes).sum(),
            runnable: share((all.run_ns + all.wait_ns) as f64 / 1e9, seconds),
        }
    }

    /// Ticks that processes ended since then had used before this look: their parents got these
    /// with the rest.
    fn before_they_ended(&self, later: &Snapshot) -> Ticks {
        let ended = self.processes.iter().filter(|(pid, then)| {
            let lives = later.processes.get(pid).is_some_and(|p| p.stat.began == then.stat.began);
            !lives && later.processes.contains_key(&then.stat.parent)
        });
        ended.fold(Ticks::default(), |sum, (_, then)| {
            sum.plus(then.stat.own).plus(then.stat.children)
        })
    }

    fn machine(&self, later: &Snapshot, seconds: f64, ours_s: f64) -> MachineUse {
        let (then, now) = (&self.counters, &later.counters);
        let ticks = now.stat.ticks.saturating_sub(then.stat.ticks) as f64;
        let of_ticks = |now: u64, then: u64| share(now.saturating_sub(then) as f64, ticks);
        let others_s = now.tasks.since_s(&then.tasks).map_or(0.0, |all_s| all_s - ours_s);
        let capacity_s = seconds * f64::from(now.stat.cpus);
        MachineUse {
            seconds,
            interrupts: now.stat.interrupts.saturating_sub(then.stat.interrupts),
            switches: now.stat.switches.saturating_sub(then.stat.switches),
            pages_freed: now.pages_freed.saturating_sub(then.pages_freed),
            load_1m: now.load_1m,
            steal: of_ticks(now.stat.steal, then.stat.steal),
            iowait: of_ticks(now.stat.iowait, then.stat.iowait),
            foreign: share(others_s, capacity_s).clamp(0.0, 1.0),
            upstream_cpu_s: 0.0,
            disks: disks(&then.disks, &now.disks, seconds),
        }
    }
}

/// Use of one or more processes between two looks.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    run_ns: u64,
    wait_ns: u64,
    ticks: Ticks,
    voluntary: u64,
    involuntary: u64,
}

impl Used {
    fn between(then: &Process, now: &Process) -> Used {
        let mut used = Used { ticks: now.stat.own.since(then.stat.own), ..Used::default() };
        for (id, thread) in &now.threads {
            let before = then.threads.get(id).copied().filter(|b| b.run_ns <= thread.run_ns);
            let before = before.unwrap_or(Thread::default()); // new, or a new one under an old id
            used.run_ns += thread.run_ns - before.run_ns;
            used.wait_ns += thread.wait_ns.saturating_sub(before.wait_ns);
            used.voluntary += thread.voluntary.saturating_sub(before.voluntary);
            used.involuntary += thread.involuntary.saturating_sub(before.involuntary);
        }
        // An ended thread takes its nanoseconds with it; the process's ticks keep its time.
        let sure = used.ticks.total().saturating_sub(TICKS_UNSURE) as f64 / TICKS_PER_SECOND;
        used.run_ns = used.run_ns.max((sure * 1e9) as u64);
        used
    }

    fn add(&mut self, other: &Used) {
        self.run_ns += other.run_ns;
        self.wait_ns += other.wait_ns;
        self.ticks = self.ticks.plus(other.ticks);
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
    }
}

fn disks(
    then: &BTreeMap<String, Disk>,
    now: &BTreeMap<String, Disk>,
    seconds: f64,
) -> BTreeMap<String, DiskUse> {
    let used = |(name, now): (&String, &Disk)| {
        let then = then.get(name).copied().unwrap_or_default();
        let reads = now.reads.saturating_sub(then.reads);
        let busy_ms = now.busy_ms.saturating_sub(then.busy_ms);
        let used = DiskUse {
            reads,
            read_bytes: now.sectors.saturating_sub(then.sectors) * SECTOR_BYTES,
            await_ms: share(now.read_ms.saturating_sub(then.read_ms) as f64, reads as f64),
            busy: share(busy_ms as f64 / 1e3, seconds).min(1.0),
        };
        (reads > 0 || busy_ms > 0).then(|| (name.clone(), used))
    };
    now.iter().filter_map(used).collect()
}

/// A part of a whole; 0 if the whole is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::counters::{Stat, Tasks};
    use super::*;

    fn process(began: u64, parent: u32, user: u64, threads: &[(u32, u64, u64)]) -> Process {
        let thread = |&(id, run_ms, wait_ms): &(u32, u64, u64)| {
            let thread = Thread {
                run_ns: run_ms * 1_000_000,
                wait_ns: wait_ms * 1_000_000,
                voluntary: run_ms,
                involuntary: 1,
            };
            (id, thread)
        };
        let own = Ticks { user, system: 0 };
        Process {
            stat: process::Stat { parent, own, children: Ticks::default(), began },
            resident_bytes: 4096,
            peak_bytes: 8192,
            threads: threads.iter().map(thread).collect(),
        }
    }

    fn reaped(mut process: Process, user: u64) -> Process {
        process.stat.children.user = user;
        process
    }

    fn looks(then: &[(u32, Process)], now: &[(u32, Process)]) -> (Snapshot, Snapshot) {
        let at = Instant::now();
        let stat = Stat { cpus: 2, ..Stat::default() };
        let counters =
            Counters { uptime_s: 10.0, stat, tasks: Tasks::Nanoseconds(0), ..Counters::default() };
        let mut after = counters.clone();
        after.uptime_s = 11.0;
        after.tasks = Tasks::Nanoseconds(1_600_000_000);
        after.stat.ticks = 200;
        after.stat.steal = 20;
        let look = |at, counters, of: &[(u32, Process)]| Snapshot {
            at,
            counters,
            processes: of.iter().cloned().collect(),
        };
        (look(at, counters, then), look(at + Duration::from_secs(1), after, now))
    }

    #[test]
    fn processor_time_survives_threads_and_processes_that_come_and_go() {
        let rows: [(Vec<(u32, Process)>, Vec<(u32, Process)>, f64, &str); 9] = [
            (
                vec![(5, process(1, 1, 10, &[(5, 100, 0)]))],
                vec![(5, process(1, 1, 50, &[(5, 500, 100)]))],
                0.4,
                "one thread: nanoseconds, where ticks say the same",
            ),
            (
                vec![(5, process(1, 1, 0, &[(5, 100, 0)]))],
                vec![(5, process(1, 1, 0, &[(5, 200, 0), (6, 50, 0)]))],
                0.15,
                "a thread that began counts from its beginning",
            ),
            (
                vec![(5, process(1, 1, 20, &[(5, 100, 0), (6, 100, 0)]))],
                vec![(5, process(1, 1, 82, &[(5, 110, 0)]))],
                0.6,
                "a thread that ended counts in the process's ticks, less what they may overstate",
            ),
            (vec![], vec![(5, process(1_001, 1, 3, &[(5, 30, 0)]))], 0.03, "a process that began"),
            (
                vec![],
                vec![(5, process(900, 1, 3, &[(5, 30, 0)]))],
                0.0,
                "one that lived before and was not named has no known past",
            ),
            (
                vec![(5, process(1, 1, 50, &[(5, 500, 0)]))],
                vec![(5, process(1_050, 1, 60, &[(5, 600, 0)]))],
                0.6,
                "an id given anew is a new process",
            ),
            (vec![(5, process(1, 1, 50, &[(5, 500, 0)]))], vec![], 0.0, "the only one ended"),
            (
                vec![(5, process(1, 1, 0, &[(5, 0, 0)])), (6, process(2, 5, 30, &[(6, 300, 0)]))],
                vec![(5, reaped(process(1, 1, 0, &[(5, 0, 0)]), 70))],
                0.4,
                "a child that ended counts by what its parent got, less its time before",
            ),
            (
                vec![(5, process(1, 1, 0, &[(5, 0, 0)]))],
                vec![(5, reaped(process(1, 1, 0, &[(5, 0, 0)]), 25))],
                0.25,
                "a child that lived between the looks",
            ),
        ];
        for (then, now, cpu_s, sentence) in rows {
            let (first, second) = looks(&then, &now);
            let (server, _) = first.until(&second, 0.0);
            assert!((server.cpu_s - cpu_s).abs() < 1e-9, "{sentence}: {server:?}");
        }
    }

    #[test]
    fn a_server_waits_runs_and_leaves_the_rest_to_others() {
        let then = [(5, process(1, 1, 0, &[(5, 100, 0)]))];
        let now = [(5, process(1, 1, 40, &[(5, 500, 200)]))];
        let (first, second) = looks(&then, &now);
        let (server, machine) = first.until(&second, 1.0);
        assert!((server.runnable - 0.6).abs() < 1e-9, "0.4 s running and 0.2 s waiting in 1 s");
        assert_eq!((server.voluntary_switches, server.involuntary_switches), (400, 0));
        assert_eq!((server.resident_bytes, server.peak_bytes, server.user_s), (4096, 8192, 0.4));
        // 1.6 s of all tasks, less 0.4 of the server and 1.0 of the generator, of 2 s.
        assert!((machine.foreign - 0.1).abs() < 1e-9, "{machine:?}");
        assert!((machine.steal - 0.1).abs() < 1e-9, "{machine:?}");
        let (_, machine) = first.until(&second, 9.0);
        assert_eq!(machine.foreign, 0.0, "never below nothing");
    }

    #[test]
    fn rounded_ticks_are_no_other_program() {
        let then = [(5, process(1, 1, 0, &[(5, 0, 0)]))];
        let now = [(5, process(1, 1, 26, &[(5, 250, 0)]))];
        // The server and the generator used 0.25 s each.
        for (ticks, foreign, why) in [
            (&[(5, 126), (6, 127), (7, 100)][..], 0.0, "each has a tick or two more"),
            (
                &[(5, 125), (6, 125), (7, 140), (8, 6)],
                0.19,
                "others used 0.46 s, but for 4 times 2 ticks",
            ),
            (&[(6, 351)], 0.0, "processes ended, and their parent has their time"),
        ] {
            let (mut first, mut second) = looks(&then, &now);
            first.counters.tasks = Tasks::Ticks([(5, 100), (6, 100), (7, 100)].into());
            second.counters.tasks = Tasks::Ticks(ticks.iter().copied().collect());
            let (_, machine) = first.until(&second, 0.25);
            assert!((machine.foreign - foreign).abs() < 1e-9, "{why}: {machine:?}");
        }
    }

    #[test]
    fn disks_that_did_nothing_are_left_out() {
        let disk = |reads, sectors, read_ms, busy_ms| Disk { reads, sectors, read_ms, busy_ms };
        let then = BTreeMap::from([
            ("vda".into(), disk(10, 80, 5, 5)),
            ("loop0".into(), disk(1, 1, 1, 1)),
        ]);
        let now = BTreeMap::from([
            ("vda".into(), disk(20, 180, 35, 505)),
            ("loop0".into(), disk(1, 1, 1, 1)),
        ]);
        let right = DiskUse { reads: 10, read_bytes: 51_200, await_ms: 3.0, busy: 0.5 };
        assert_eq!(disks(&then, &now, 1.0), BTreeMap::from([("vda".into(), right)]));
    }

    #[test]
    fn this_process_is_seen_working() {
        let me = [std::process::id()];
        let first = Snapshot::take(&me);
        // Each look uses processor time itself; the kernel counts it at the next tick or switch.
        let looks = (0..100_000).map(|_| first.until(&Snapshot::take(&me), 0.0));
        let (server, machine) = looks.into_iter().find(|(s, _)| s.cpu_s > 0.0).expect("work");
        assert!(server.resident_bytes > 0 && server.runnable > 0.0, "{server:?}");
        assert!(machine.seconds > 0.0 && machine.foreign <= 1.0, "{machine:?}");
    }
}
