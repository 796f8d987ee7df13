//! Carries a plan out: works that can pause in slices, while all contenders are alive (`duel`), and
//! the others in turns, while one is (`turn`). Every sample is written as soon as it is over.
//! Existing samples are not measured again, so an interrupted run continues.

mod cold;
mod docroot;
mod duel;
mod entrant;
mod first_level;
mod herd;
mod idle;
mod job;
mod observe;
mod order;
mod ports;
mod record;
mod reload;
mod remote;
mod request;
mod share;
mod slow;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use entrant::Entrant;
pub use ports::Ports;
pub use record::recorded;
pub use remote::Remote;

use crate::contender::{Contender, Site};
use crate::load;
use crate::network::LossyLink;
use crate::plan::{Plan, Work};
use crate::sample::{Mark, Network, Offered, Sample, TURNS_FROM, plan_round};
use crate::stats::{self, Rounds};
use record::Record;
use turn::{Turn, TurnError};

/// Every sample of a run, a JSON line each.
pub const SAMPLES: &str = "samples.jsonl";

/// Prefix of the names of floor probes' works.
const PROBE: &str = "floor ";

/// Duration of a floor probe.
const PROBE_FOR: Duration = Duration::from_millis(500);

/// Load of a floor probe.
const PROBE_OFFERED: Offered = Offered::Closed { connections: 50 };

/// Largest number of repeated rounds. A machine that is never quiet would be measured without end,
/// and if the floor moves in every round a repetition adds nothing.
const REPEATS_MAX: usize = 1;

/// Number of rounds below which the floor's usual value is unknown.
const REPEAT_ROUNDS_MIN: u32 = 3;

/// Ports of each contender: its own and its upstream's.
const PORTS: u16 = 2;

/// Upstream of plans with herds, unless the plan names its own.
const SLOW_UPSTREAM: &str = "reader-slow";

/// Settings for carrying out a plan.
#[derive(Clone, Debug)]
pub struct Arena {
    /// Everything the run leaves, and the contenders' own folders.
    pub out: PathBuf,
    /// Seed of the order of contenders.
    pub seed: u64,
    /// First port, on 127.0.0.1: each contender has this and the next one, which is its upstream's,
    /// or two further on.
    pub port: u16,
    /// Processor on which the contender runs.
    pub server_core: usize,
    /// Processor on which the generator runs.
    pub load_core: usize,
    /// Once set, the run ends at once, as after a Ctrl-C; all samples so far are written.
    pub stop: Arc<AtomicBool>,
}

/// Progress of a run, for display.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A contender begins a piece of work.
    Turn { round: u32, contender: &'a str, work: &'a str },
    /// The turn is over, or was done before.
    Done,
    /// A contender of a duel is started, in each pass over the works anew.
    Starts { contender: &'a str },
    /// Some cycles of a duel are over; `ended` is the share of its budget, from 0 to 1. It is 1
    /// once the duel has reached its precision.
    Burst { work: &'a str, cycles: u32, ended: f64 },
    /// A contender cannot share the processor with others, with the reason; it has turns.
    Apart { contender: &'a str, why: &'a str },
    /// A round is repeated, since the floor beside it had moved.
    Again { round: u32 },
    /// A contender's turn ended early, with the reason; it has no other in this round.
    Failed { contender: &'a str, why: &'a str },
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// All samples, those of an earlier part of the run too.
    pub samples: Vec<Sample>,
    /// Contenders that failed, and why.
    pub failed: BTreeMap<String, String>,
    /// Contenders that could not share the processor and had turns, and why.
    pub apart: BTreeMap<String, String>,
}

impl Arena {
    /// Makes the files to be served; the same bytes for the same plan.
    ///
    /// # Errors
    /// The file system's.
    pub fn lay_out(&self, plan: &Plan) -> io::Result<()> {
        docroot::lay_out(&self.docroot(), plan)
    }

    /// Directory of these files.
    pub fn docroot(&self) -> PathBuf {
        self.out.join("docroot")
    }

    /// Prepares a contender for the plan's work.
    ///
    /// # Errors
    /// It cannot take part; the text gives the reason.
    pub fn prepare(&self, plan: &Plan, contender: &Contender) -> Result<Entrant, String> {
        self.prepare_at(plan, contender, 0)
    }

    /// Prepares a contender likewise, to be alive beside others: each has another place, from 0.
    ///
    /// # Errors
    /// It cannot take part; the text gives the reason.
    pub fn prepare_at(
        &self,
        plan: &Plan,
        contender: &Contender,
        place: usize,
    ) -> Result<Entrant, String> {
        let name = &contender.name;
        if plan.needs_app() && !contender.app {
            return Err(format!("{name} serves files only, but this plan requests an application"));
        }
        if plan.needs_tls() && !contender.tls {
            return Err(format!("{name} does not support TLS, which this plan measures"));
        }
        if plan.needs_http2() && !contender.http2 {
            return Err(format!("{name} does not support HTTP/2, which this plan measures"));
        }
        if plan.needs_http3() && !contender.http3 {
            return Err(format!("{name} does not support HTTP/3, which this plan measures"));
        }
        if plan.needs_reload() && contender.reload.is_none() {
            return Err(format!("{name} has no signal for reloads, which this plan measures"));
        }
        if contender.tls && plan.works.iter().any(|work| work.beside.is_some()) {
            return Err(format!(
                "{name} uses TLS, but this plan's streams and idle connections are in clear text"
            ));
        }
        let counting = plan.needs_cache().then_some(SLOW_UPSTREAM);
        match plan.upstream.as_deref().or(counting) {
            Some(upstream) => self.prepare_alone(plan, &before(upstream, contender)?, place),
            None => self.prepare_alone(plan, contender, place),
        }
    }

    /// Checks that this machine can have the plan's network.
    ///
    /// # Errors
    /// It cannot; the text gives the reason.
    pub fn check_network(&self, plan: &Plan) -> Result<(), String> {
        let network = plan.works.iter().find_map(|work| work.network);
        let made = network.map(|network| self.link(network, 0)).transpose();
        made.map(drop)
            .map_err(|e| format!("loss and delay need root, /dev/net/tun and iproute2, but: {e}"))
    }

    /// The network of a round, on the servers' processor. All contenders lose packets of the same
    /// numbers.
    fn link(&self, network: Network, round: u32) -> io::Result<LossyLink> {
        LossyLink::new(network, self.seed.wrapping_add(u64::from(round)), self.server_core)
    }

    /// Prepares the floor for probes, which show the machine's state, whatever the plan measures.
    ///
    /// # Errors
    /// The floor cannot be prepared; the text gives the reason.
    pub fn prepare_floor(&self, plan: &Plan, contender: &Contender) -> Result<Entrant, String> {
        self.prepare_alone(plan, contender, 0)
    }

    fn prepare_alone(
        &self,
        plan: &Plan,
        contender: &Contender,
        place: usize,
    ) -> Result<Entrant, String> {
        let own = u16::try_from(place).ok().and_then(|place| place.checked_mul(PORTS));
        let port = own.and_then(|own| self.port.checked_add(own)).filter(|port| *port < u16::MAX);
        let port = port.ok_or("there is no port left for it: choose a lower --port")?;
        let site = Site {
            work: self.out.join("work"),
            docroot: self.docroot(),
            port,
            cores: vec![self.server_core],
            workers: 1,
            uploads: plan.uploads(),
        };
        Entrant::prepare(contender, &site)
    }

    /// Runs the plan with these entrants, and probes `floor` before and after every round.
    ///
    /// # Errors
    /// The whole run cannot continue: a full disk, a missing processor, or a stop request
    /// (`Interrupted`). A contender that fails is in the outcome.
    pub fn run(
        &self,
        plan: &Plan,
        entrants: &[Entrant],
        floor: Option<&Entrant>,
        mut tell: impl FnMut(Event<'_>),
    ) -> io::Result<Outcome> {
        load::pin(self.load_core)?;
        let mut run = Run {
            arena: self,
            plan,
            entrants,
            floor,
            record: Record::open(&self.out)?,
            failed: BTreeMap::new(),
            apart: BTreeMap::new(),
            has_counters: false,
            tell: &mut tell,
        };
        run.duel()?;
        if run.is_incomplete() {
            return Ok(run.outcome());
        }
        if run.apart.is_empty() && plan.works.iter().all(|work| plan.slices(work)) {
            return Ok(run.outcome());
        }
        (0..plan.rounds).try_for_each(|round| run.round(round, 0))?;
        for round in run.to_repeat() {
            (run.tell)(Event::Again { round });
            run.record.mark_round(round, Mark::FloorMoved)?;
            run.round(round, 1)?;
        }
        Ok(run.outcome())
    }
}

/// The contender with this upstream in place of its own.
fn before(upstream: &str, contender: &Contender) -> Result<Contender, String> {
    if contender.upstream.is_none() {
        let name = &contender.name;
        return Err(format!("{name} has no upstream, where this plan puts `{upstream}`"));
    }
    Ok(Contender { upstream: Some(upstream.to_owned()), ..contender.clone() })
}

/// A plan being carried out.
struct Run<'a, T> {
    arena: &'a Arena,
    plan: &'a Plan,
    entrants: &'a [Entrant],
    floor: Option<&'a Entrant>,
    record: Record,
    failed: BTreeMap<String, String>,
    /// Contenders that have turns where others have slices, with reasons.
    apart: BTreeMap<String, String>,
    /// perf counts instructions and cycles on this machine.
    has_counters: bool,
    tell: &'a mut T,
}

impl<T: FnMut(Event<'_>)> Run<'_, T> {
    fn outcome(self) -> Outcome {
        Outcome { samples: self.record.samples, failed: self.failed, apart: self.apart }
    }

    /// `true` if a contender failed, or cannot take part, without which nothing is measured.
    fn is_incomplete(&self) -> bool {
        let needs_slices = self.plan.needs_slices && !self.apart.is_empty();
        self.plan.needs_all && !self.failed.is_empty() || needs_slices
    }

    /// `true` if this contender has turns at this work: all at works that do not fit slices, and at
    /// the others those that cannot share the processor, beside the reference.
    fn has_turns(&self, work: &Work, contender: &str) -> bool {
        let beside = !self.apart.is_empty() && contender == self.plan.reference;
        !self.plan.slices(work) || beside || self.apart.contains_key(contender)
    }

    fn round(&mut self, round: u32, attempt: u32) -> io::Result<()> {
        let names: Vec<String> = self.entrants.iter().map(|e| e.name.clone()).collect();
        self.probe(round, attempt, "before")?;
        let mut order = self.plan.order(&names, round, self.arena.seed);
        // All contenders do one work before the next work begins: compared samples lie close in
        // time.
        for work in &self.plan.works {
            for name in order.clone() {
                let Some(entrant) = self.entrants.iter().find(|e| e.name == name) else { continue };
                if !self.has_turns(work, &name) {
                    continue;
                }
                let from = if self.plan.slices(work) { TURNS_FROM } else { 0 };
                let ended = self.turn(entrant, from + round, attempt).run(work);
                if let Err(TurnError::Contender(_) | TurnError::WrongBytes(_)) = ended {
                    order.retain(|other| *other != name);
                }
                self.note(&in_round(round), &name, ended)?;
            }
        }
        self.probe(round, attempt, "after")
    }

    fn turn<'s>(&'s mut self, entrant: &'s Entrant, round: u32, attempt: u32) -> Turn<'s, T> {
        Turn {
            arena: self.arena,
            plan: self.plan,
            entrant,
            round,
            attempt,
            record: &mut self.record,
            tell: self.tell,
            link: None,
            server: None,
            first: 0,
        }
    }

    /// A short sample of the floor, which shows the machine's present state.
    fn probe(&mut self, round: u32, attempt: u32, when: &str) -> io::Result<()> {
        let (Some(floor), Some(work)) = (self.floor, self.plan.works.first()) else {
            return Ok(());
        };
        let name = format!("{PROBE}{when}");
        let ended = self.turn(floor, round, attempt).probe(&name, work, PROBE_OFFERED);
        self.note(&in_round(round), &floor.name, ended)
    }

    /// Notes the failure of a contender, with its moment in front.
    fn note(&mut self, when: &str, name: &str, ended: Result<(), TurnError>) -> io::Result<()> {
        match ended {
            Ok(()) => Ok(()),
            Err(TurnError::Run(e)) => Err(e),
            Err(TurnError::Contender(why) | TurnError::WrongBytes(why)) => {
                (self.tell)(Event::Failed { contender: name, why: &why });
                self.failed.insert(name.to_owned(), format!("{when}{why}"));
                Ok(())
            }
        }
    }

    /// The rounds beside which the floor had moved, and those an earlier part of the run began to
    /// repeat.
    fn to_repeat(&self) -> BTreeSet<u32> {
        let samples = &self.record.samples;
        let marked = samples.iter().filter(|s| s.marks.contains(&Mark::FloorMoved));
        let mut rounds: BTreeSet<u32> = marked.map(|s| plan_round(s.round)).collect();
        if self.plan.rounds < REPEAT_ROUNDS_MIN {
            return rounds;
        }
        for round in stats::restless(&floor_by_round(samples)) {
            if rounds.len() < REPEATS_MAX {
                rounds.insert(round);
            }
        }
        rounds
    }
}

fn in_round(round: u32) -> String {
    format!("in round {}: ", round + 1)
}

/// The floor's replies a second beside each round's first attempt: the mean of before and after.
fn floor_by_round(samples: &[Sample]) -> Rounds {
    let mut both: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.probe && s.attempt == 0) {
        both.entry(sample.round).or_default().extend(stats::replies_per_second(sample));
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    both.into_iter().map(|(round, values)| (round, mean(values))).collect()
}
