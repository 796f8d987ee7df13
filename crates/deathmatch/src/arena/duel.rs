//! A duel: all contenders are alive on the same processor, and the load goes round between them in
//! short slices. Contenders that cannot share the processor have turns instead.
//!
//! In a *pass* all are started, each work has a burst of slices, and all are stopped. Two processes
//! of one program differ by up to a percent or two (in the placement of their memory, in hash
//! seeds), so every burst has processes of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::entrant::{Entrant, Server};
use super::first_level::first_level_read;
use super::observe::{Observed, foreign_mark, observe};
use super::share::{cannot_share, memory_short};
use super::turn::TurnError;
use super::{Event, Run};
use crate::calls::{check_hardware, count_hardware};
use crate::load::{self, Job, Kept};
use crate::machine::Snapshot;
use crate::plan::{BURST_WARM_UP_MAX, Shape, Work};
use crate::sample::{Mark, Offered, Sample, Slice};
use crate::stats::shared_core::without_left_out;
use crate::stats::{LOOKS_MAX, duel};

/// Duration of a slice, and the longest for slow responses.
const SLICE: Duration = Duration::from_millis(250);
const SLICE_MAX: Duration = Duration::from_secs(2);

/// Median response times in a slice: its begin and its end, when some connections have no request,
/// are then a small part of it.
const SLICE_RESPONSES: u64 = 20;

/// The first part of each slice is not counted: processor caches and congestion windows belong to
/// another contender, or have gone cold.
const WARM_UP_PART: u32 = 5;

/// Cycles of a burst. A plan's default budget has six such bursts of two contenders; `BURSTS_MIN`
/// of them have an interval. Even: cycles come in pairs of opposite order.
const BURST_CYCLES: u32 = 4;

/// Shares of the budget after which the duel looks at its intervals.
const LOOKS: [f64; LOOKS_MAX] = [0.25, 0.5, 1.0];

/// Longest time of a burst that is believed, in seconds.
const BURST_S_MAX: f64 = 3_600.0;

/// Most cycles of a work.
const CYCLES_MAX: u32 = 9_999;

/// A contender that is alive.
struct LiveContender<'a> {
    entrant: &'a Entrant,
    server: Server,
    /// The end of its last slice since its start.
    last: Option<(Instant, Snapshot)>,
}

/// The duel at one work.
struct WorkDuel {
    work: Work,
    offered: Offered,
    cycle: u32,
    burst: u32,
    spent: Duration,
    looks: usize,
    slice: Option<Duration>,
    is_over: bool,
}

impl<'a, T: FnMut(Event<'_>)> Run<'a, T> {
    /// Does all works in slices that can be done so. Contenders that cannot take part are set
    /// apart: they need turns.
    pub(super) fn duel(&mut self) -> io::Result<()> {
        let mut duels: Vec<WorkDuel> =
            self.plan.works.iter().filter_map(|work| self.begin(work)).collect();
        if duels.iter().all(|duel| duel.is_over) {
            return Ok(());
        }
        self.has_counters = check_hardware().is_ok();
        let mut contenders = self.gather(&duels)?;
        if self.apart.contains_key(&self.plan.reference) {
            // Ratios to it would compare turns with slices.
            for contender in contenders.drain(..) {
                let why = format!("{} cannot", self.plan.reference);
                self.apart.insert(contender.entrant.name.clone(), why);
                // It has no samples yet.
                drop(contender);
            }
            return Ok(());
        }
        while !contenders.is_empty() {
            self.pass(&mut duels, contenders)?;
            let is_over = self.is_incomplete() || duels.iter().all(|duel| duel.is_over);
            contenders = if is_over { Vec::new() } else { self.start_all(&duels, false)? };
        }
        for duel in &duels {
            self.record.mark_shared_cores(&duel.work.name())?;
        }
        Ok(())
    }

    /// A burst of each work that is not over; then the contenders are checked and stopped.
    fn pass(
        &mut self,
        duels: &mut [WorkDuel],
        mut contenders: Vec<LiveContender<'a>>,
    ) -> io::Result<()> {
        let mut warm_up = self.plan.warm_up;
        for duel in duels.iter_mut().filter(|duel| !duel.is_over) {
            if self.is_incomplete() || contenders.is_empty() {
                break;
            }
            self.burst(duel, &mut contenders, warm_up)?;
            self.look(duel);
            warm_up = warm_up.min(BURST_WARM_UP_MAX);
        }
        contenders.into_iter().try_for_each(|contender| self.close(contender))
    }

    /// The state of the duel at a work, after the slices in the journal; `None` if it has turns.
    fn begin(&self, work: &Work) -> Option<WorkDuel> {
        let Shape::Steady(offered) = work.shape else { return None };
        let name = work.name();
        let slices = || self.record.samples.iter().filter(|s| s.work == name && s.slice.is_some());
        let mut duel = WorkDuel {
            work: work.clone(),
            offered,
            // Cycles come in pairs.
            cycle: slices().map(|s| s.round + 1).max().unwrap_or(0).next_multiple_of(2),
            burst: slices().filter_map(|s| Some(s.slice?.burst + 1)).max().unwrap_or(0),
            spent: self.spent(&name),
            looks: 0,
            slice: None,
            is_over: false,
        };
        let (looks, last) = self.looked(&name);
        duel.looks = looks;
        let is_precise = looks > 0 && self.is_precise(&name, last);
        duel.is_over = is_precise || duel.cycle > 0 && self.is_spent(&duel);
        self.plan.slices(work).then_some(duel)
    }

    /// Number of looks that the slices in the journal have passed, and the burst after which the
    /// last of them was due. A resumed duel judges that look again, by the same slices, and adds
    /// none: the intervals are corrected for `LOOKS_MAX` looks only.
    fn looked(&self, work: &str) -> (usize, u32) {
        let (mut spent, mut looks, mut last) = (Duration::ZERO, 0, 0);
        for (burst, time) in self.bursts(work) {
            spent += time;
            let due = self.looks_due(spent);
            if due > looks {
                (looks, last) = (due, burst);
            }
        }
        (looks, last)
    }

    /// Number of looks that are due after this time of slices.
    fn looks_due(&self, spent: Duration) -> usize {
        let ended = spent.as_secs_f64() / self.budget().as_secs_f64();
        LOOKS.iter().filter(|share| ended >= **share).count()
    }

    fn spent(&self, work: &str) -> Duration {
        self.bursts(work).values().sum()
    }

    /// Time of each burst of a work, from the first slice to the end of the last, so that a resumed
    /// duel has the same.
    fn bursts(&self, work: &str) -> BTreeMap<u32, Duration> {
        let mut bursts: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for sample in self.record.samples.iter().filter(|s| s.work == work) {
            let Some(slice) = sample.slice else { continue };
            let (began, ended) = (sample.began_unix_s, sample.began_unix_s + sample.load.seconds);
            let burst = bursts.entry(slice.burst).or_insert((began, ended));
            *burst = (burst.0.min(began), burst.1.max(ended));
        }
        // The clock may have been set back.
        let time =
            |(began, ended)| Duration::from_secs_f64(f64::clamp(ended - began, 0.0, BURST_S_MAX));
        bursts.into_iter().map(|(burst, bounds)| (burst, time(bounds))).collect()
    }

    /// `true` if the intervals of the slices up to this burst are narrow enough.
    fn is_precise(&self, work: &str, last: u32) -> bool {
        let is_counted = |s: &&Sample| s.slice.is_some_and(|slice| slice.burst <= last);
        let slices = self.record.samples.iter().filter(|s| s.work == work).filter(is_counted);
        let slices = without_left_out(&slices.collect::<Vec<&Sample>>());
        duel::is_precise(&slices, &self.plan.reference, self.plan.precision)
    }

    fn is_spent(&self, duel: &WorkDuel) -> bool {
        duel.spent >= self.budget() || duel.cycle >= CYCLES_MAX
    }

    /// Longest time of slices of one work.
    fn budget(&self) -> Duration {
        self.plan.budget_of(u32::try_from(self.entrants.len()).unwrap_or(u32::MAX))
    }

    /// Starts all contenders for the first pass; those that cannot share the processor are stopped
    /// again, and set apart.
    fn gather(&mut self, duels: &[WorkDuel]) -> io::Result<Vec<LiveContender<'a>>> {
        let mut sharing = Vec::new();
        for contender in self.start_all(duels, true)? {
            match cannot_share(&contender.server, self.arena.server_core) {
                None => sharing.push(contender),
                Some(why) => {
                    self.set_apart(contender.entrant, why);
                    contender.server.stop()?;
                }
            }
        }
        Ok(sharing)
    }

    /// Starts the contenders of a pass, in an order drawn from the seed; those that failed or are
    /// set apart take no part. None is left running beside a failure that ends the duel.
    fn start_all(
        &mut self,
        duels: &[WorkDuel],
        is_first: bool,
    ) -> io::Result<Vec<LiveContender<'a>>> {
        let pass = duels.iter().map(|duel| duel.burst).max().unwrap_or(0);
        let names: Vec<String> = self.entrants.iter().map(|e| e.name.clone()).collect();
        let when = if is_first { "" } else { "when started again: " };
        let mut contenders = Vec::new();
        for name in self.plan.order(&names, pass, self.arena.seed) {
            if self.arena.stop.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let is_out = self.failed.contains_key(&name) || self.apart.contains_key(&name);
            let entrant = self.entrants.iter().find(|e| e.name == name && !is_out);
            let Some(entrant) = entrant else { continue };
            (self.tell)(Event::Starts { contender: &name });
            if let Some(why) = memory_short().filter(|_| is_first) {
                self.set_apart(entrant, why);
                continue;
            }
            match self.turn(entrant, 0, 0).start() {
                Ok(server) => contenders.push(LiveContender { entrant, server, last: None }),
                Err(e) => self.note_bytes(when, &name, Err(e))?,
            }
            if self.is_incomplete() {
                contenders.into_iter().try_for_each(|contender| contender.server.stop())?;
                return Ok(Vec::new());
            }
        }
        // The order of cycles is drawn from one order of names, whatever started first.
        contenders.sort_by_key(|one| names.iter().position(|name| *name == one.entrant.name));
        Ok(contenders)
    }

    fn set_apart(&mut self, entrant: &Entrant, why: String) {
        (self.tell)(Event::Apart { contender: &entrant.name, why: &why });
        self.apart.insert(entrant.name.clone(), why);
    }

    /// Some cycles of one work.
    fn burst(
        &mut self,
        duel: &mut WorkDuel,
        contenders: &mut Vec<LiveContender<'a>>,
        warm_up: Duration,
    ) -> io::Result<()> {
        // The load of the warm-up is not idle.
        contenders.iter_mut().for_each(|contender| contender.last = None);
        let jobs = contenders.iter().map(|contender| {
            let turn = self.turn(contender.entrant, 0, 0);
            let job = turn.job(&contender.server, &duel.work, duel.offered)?;
            Ok(Job { draw: duel.burst.into(), ..job })
        });
        let jobs = jobs.collect::<io::Result<Vec<Job>>>()?;
        let mut kept = jobs.iter().map(Kept::new).collect::<io::Result<Vec<_>>>()?;
        let mut slowest = 0;
        for one in &mut kept {
            // The median: one pause of the machine would make slices long.
            slowest = slowest.max(one.slice(warm_up)?.response.quantile(0.5));
        }
        let slice = *duel.slice.get_or_insert_with(|| slice_for(slowest));
        let names: Vec<String> = contenders.iter().map(|f| f.entrant.name.clone()).collect();
        let mut lost = BTreeSet::new();
        for number in 1..=BURST_CYCLES {
            let order = self.plan.order(&names, duel.cycle, self.arena.seed);
            let mut place = 0;
            for at in order.iter().filter_map(|name| names.iter().position(|n| n == name)) {
                if lost.contains(&names[at]) {
                    continue;
                }
                let is_counted = number == BURST_CYCLES && self.has_counters;
                let (kept, job) = (&mut kept[at], &jobs[at]);
                let taken = Taken { kept, job, slice, place, is_counted };
                place += 1;
                if let Err(e) = self.slice(duel, &mut contenders[at], taken) {
                    let when = format!("in cycle {}: ", duel.cycle + 1);
                    self.note(&when, &names[at], Err(e))?;
                    lost.insert(names[at].clone());
                }
            }
            duel.cycle += 1;
            duel.spent = self.spent(&duel.work.name());
            if duel.cycle.is_multiple_of(2) && self.is_spent(duel) {
                break;
            }
        }
        drop(kept);
        contenders.retain(|contender| !lost.contains(&contender.entrant.name));
        duel.burst += 1;
        Ok(())
    }

    fn slice(
        &mut self,
        duel: &WorkDuel,
        contender: &mut LiveContender<'a>,
        taken: Taken<'_, '_>,
    ) -> Result<(), TurnError> {
        if self.arena.stop.load(Ordering::Relaxed) {
            return Err(TurnError::Run(io::ErrorKind::Interrupted.into()));
        }
        let server = &mut contender.server;
        let idle_cpu = contender.last.as_ref().zip(server.pids()).map(|((since, last), pids)| {
            let (used, _) = last.until(&Snapshot::take(&pids), 0.0);
            used.cpu_s / since.elapsed().as_secs_f64()
        });
        let Taken { kept, job, slice, place, is_counted } = taken;
        let core = server.pids().map(|_| self.arena.server_core);
        let read_before = core.and_then(first_level_read);
        kept.slice(slice / WARM_UP_PART)?;
        let observed = observe(server, None, || kept.slice(slice))?;
        server.check_alive().map_err(TurnError::Contender)?;
        let Observed { began_unix_s, load, server, machine, end } = observed;
        contender.last = end.map(|end| (Instant::now(), end));
        let counts = is_counted.then(|| self.counts(&contender.server, kept, slice)).flatten();
        let (instructions, cycles) = counts.unzip();
        let reads = [read_before, core.and_then(first_level_read)];
        let first_level_read = reads.into_iter().flatten().reduce(f64::max);
        let burst = duel.burst;
        let slice = Slice { burst, place, idle_cpu, instructions, cycles, first_level_read };
        let mut marks = load::marks(job, &load);
        marks.extend(foreign_mark(machine.as_ref()));
        self.record.add(Sample {
            plan: self.plan.name.clone(),
            round: duel.cycle,
            attempt: 0,
            trial: 0,
            probe: false,
            contender: contender.entrant.name.clone(),
            work: duel.work.name(),
            file: duel.work.file.clone(),
            offered: duel.offered,
            over: duel.work.over,
            beside: None,
            cooling: None,
            idle: None,
            network: None,
            herd: None,
            slice: Some(slice),
            began_unix_s,
            load,
            server,
            machine,
            marks,
        })?;
        Ok(())
    }

    /// Instructions and cycles for each reply in a further slice: perf would cost time in the
    /// slices that are compared by time. `None` if perf fails; a stop request is seen by the next
    /// slice.
    fn counts(&self, server: &Server, kept: &mut Kept<'_>, slice: Duration) -> Option<(f64, f64)> {
        let pids = server.pids()?;
        let counted = count_hardware(&pids, &self.arena.out, || kept.slice(slice));
        let (counts, load) = counted.ok().filter(|(_, load)| load.replies > 0)?;
        let each = |count: u64| count as f64 / load.replies as f64;
        Some((each(counts.instructions), each(counts.cycles)))
    }

    /// Looks at the intervals, if it is time to, and decides if the duel is over.
    fn look(&mut self, duel: &mut WorkDuel) {
        let name = duel.work.name();
        let ended = duel.spent.as_secs_f64() / self.budget().as_secs_f64();
        // A look that was missed is not made up for: fewer looks only widen coverage.
        let due = self.looks_due(duel.spent);
        if due > duel.looks {
            duel.looks = due;
            duel.is_over = self.is_precise(&name, duel.burst);
        }
        duel.is_over |= self.is_spent(duel);
        let ended = if duel.is_over { 1.0 } else { ended };
        (self.tell)(Event::Burst { work: &name, cycles: duel.cycle, ended });
    }

    /// Checks a contender's bytes again and stops it.
    fn close(&mut self, contender: LiveContender<'a>) -> io::Result<()> {
        let LiveContender { entrant, server, .. } = contender;
        let checked = self.turn(entrant, 0, 0).check(&server);
        self.note_bytes("after its last cycle: ", &entrant.name, checked)?;
        let stopped = server.stop();
        let stopped = stopped.map_err(|e| TurnError::Contender(format!("it did not stop: {e}")));
        self.note("after its last cycle: ", &entrant.name, stopped)
    }

    /// Notes the failure of a contender, and with wrong bytes marks all its slices: nothing shows
    /// since when they are wrong.
    fn note_bytes(
        &mut self,
        when: &str,
        name: &str,
        ended: Result<(), TurnError>,
    ) -> io::Result<()> {
        if let Err(TurnError::WrongBytes(_)) = ended {
            self.record.mark_slices(name, Mark::WrongBytes)?;
        }
        self.note(when, name, ended)
    }
}

/// The generator of a slice, and its place in the duel.
struct Taken<'k, 'j> {
    kept: &'k mut Kept<'j>,
    job: &'j Job,
    slice: Duration,
    place: u32,
    /// A further slice follows, whose instructions and cycles are counted.
    is_counted: bool,
}

/// Duration of the slices of a work whose slowest contender has this median response time, in
/// nanoseconds.
fn slice_for(slowest_ns: u64) -> Duration {
    Duration::from_nanos(slowest_ns.saturating_mul(SLICE_RESPONSES)).clamp(SLICE, SLICE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_responses_have_longer_slices() {
        for (median, slice) in [
            (0, SLICE),
            (1_000_000, SLICE),
            (50_000_000, Duration::from_secs(1)),
            (u64::MAX, SLICE_MAX),
        ] {
            assert_eq!(slice_for(median), slice, "{median} ns");
        }
        assert_eq!(BURST_CYCLES % 2, 0, "cycles come in pairs");
    }
}
