//! An invented run of the whole deck: seventeen contenders, six rounds of sessions, a search for
//! limits, an overload and a closed loop, the floor beside each round, the reference twice, a
//! repeated round, a contender that sent wrong bytes and one that died.

use std::collections::BTreeMap;

use deathmatch::report::Run;
use deathmatch::sample::{DiskUse, Errors, Mark, Offered, Sample};

use super::{FIELD, beyond, by_a_generator, noise, saturated, the_run};

const ROUNDS: u32 = 6;

/// The round that was measured twice, and the one that counts although its floor was off.
const REPEATED: u32 = 2;
const RESTLESS: u32 = 4;

/// Name of the reference's second turn.
const TWIN: &str = "nginx-again";

/// Limit of the generator, in requests a second.
const GENERATOR: f64 = 120e3;

/// The run and its samples.
pub(crate) fn run() -> (Run, Vec<Sample>) {
    let mut run = the_run();
    (run.rounds, run.twin) = (ROUNDS, Some(TWIN.into()));
    let mut again = run.contenders.iter().find(|c| c.name == "nginx").expect("nginx").clone();
    (again.name, again.title) = (TWIN.into(), "nginx once more".into());
    run.contenders.push(again);
    for contender in run.contenders.iter_mut().filter(|c| c.name == "mongrel") {
        contender.absent = Some("it died in round 2; its log ends: out of memory".into());
    }
    let mut samples = Vec::new();
    for round in 0..ROUNDS {
        if round == REPEATED {
            samples.extend(of_a_round(round, 0, 0.91).into_iter().map(|mut sample| {
                sample.marks.push(Mark::FloorMoved);
                sample
            }));
        }
        let attempt = u32::from(round == REPEATED);
        samples.extend(of_a_round(round, attempt, if round == RESTLESS { 0.93 } else { 1.0 }));
    }
    (run, samples)
}

/// All samples of one round; `floor` multiplies the usual value of the floor beside it.
fn of_a_round(round: u32, attempt: u32, floor: f64) -> Vec<Sample> {
    let look = |work: &str, factor: f64| {
        let mut sample = saturated(GENERATOR, 0, round);
        (sample.work, sample.probe) = (work.into(), true);
        (sample.load.seconds, sample.marks) = (0.5, Vec::new());
        let steady = 0.99 + 0.02 * noise(u64::from(round), factor.to_bits(), 5);
        sample.load.replies = (60e3 * 0.5 * factor * steady) as u64;
        sample.load.replies_per_second.clear();
        sample
    };
    let mut samples = vec![look("floor before", floor)];
    let nginx = FIELD.iter().position(|row| row.0 == "nginx").expect("nginx");
    for at in (0..FIELD.len()).chain([nginx]) {
        let twin = at == nginx && samples.iter().any(|s| s.contender == "nginx");
        let mut its = of_a_contender(at, round);
        if FIELD[at].0 == "mongrel" && round > 0 {
            its.truncate(if round == 1 { 2 } else { 0 });
        }
        for sample in its.iter_mut().filter(|_| twin) {
            sample.contender = TWIN.into();
            sample.load.replies -= sample.load.replies / 700 * u64::from(round % 2);
        }
        samples.append(&mut its);
    }
    samples.push(look("floor after", floor * 1.002));
    samples.into_iter().map(|sample| Sample { attempt, ..sample }).collect()
}

fn of_a_contender(at: usize, round: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    for rate in [1e3, 2e3, 3e3, 4e3, 5e3] {
        let mut sample = by_a_generator(GENERATOR, at, round, rate);
        sample.work = format!("10k.png at {rate}/s, 10 calls a connection");
        samples.push(sample);
    }
    let (mut low, mut failed, mut rate) = (0.0_f64, f64::INFINITY, 10e3);
    while rate >= 300.0 {
        let sample = open(at, round, rate);
        let (held, limited) = (carries(&sample), sample.marks.contains(&Mark::GeneratorBusy));
        samples.push(sample);
        if held && !limited {
            low = rate;
        } else {
            failed = failed.min(rate);
        }
        rate = match (held && !limited, failed.is_finite(), low > 0.0) {
            (true, false, _) => rate * 2.0,
            (false, _, false) => rate / 2.0,
            (true, true, _) if rate * 1.25 >= failed * 0.999 => break,
            (true, true, _) => rate * 1.25,
            (false, _, true) if rate > low * 1.9 => low * 1.25,
            (false, _, true) => break,
        };
    }
    if low > 0.0 {
        let mut over = open(at, round, 1.5 * low);
        over.work = "10k.png at 1.5 times what it carries".into();
        beyond(&mut over, FIELD[at].0);
        samples.push(over);
    }
    let mut closed = saturated(GENERATOR, at, round);
    closed.work = "10k.png, 50 connections, as fast as they go".into();
    samples.push(closed);
    samples.iter_mut().for_each(|sample| colour(sample, at));
    samples
}

fn open(at: usize, round: u32, rate: f64) -> Sample {
    let mut sample = by_a_generator(GENERATOR, at, round, rate);
    sample.work = format!("10k.png at {rate}/s over 50 connections");
    sample.offered = Offered::Open { rate, poisson: false, connections: 50 };
    sample
}

fn carries(sample: &Sample) -> bool {
    sample.load.errors.total() == 0 && sample.load.response.quantile(0.99) <= 10_000_000
}

/// Gives some samples faults.
fn colour(sample: &mut Sample, at: usize) {
    let name = FIELD[at].0;
    if name == "evil" {
        sample.marks.push(Mark::WrongBytes);
    }
    let failed = sample.load.errors.total();
    if failed > 0 {
        let (half, rest) = (failed / 2, failed - failed / 2);
        sample.load.errors = match at % 3 {
            0 => Errors { timeout: half, reset: rest, ..Errors::default() },
            1 => Errors { refused: half, timeout: rest, ..Errors::default() },
            _ => Errors { status: failed, ..Errors::default() },
        };
    }
    if name == "swift" {
        // So fast that the generator's own microseconds matter.
        sample.load.lateness = sample.load.response.clone();
        sample.marks.push(Mark::GeneratorLate);
    }
    if let Some(machine) = sample.machine.as_mut().filter(|_| name == "yaws") {
        (machine.steal, machine.iowait) = (0.004, 0.02);
        let disk = DiskUse { reads: 400, read_bytes: 9_000_000, await_ms: 0.7, busy: 0.06 };
        machine.disks = BTreeMap::from([("vda".to_owned(), disk)]);
    }
}
