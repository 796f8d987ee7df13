//! Statistics of simulated duels whose truth is known: how often the interval contains it, at
//! whichever look the duel stops.

#![allow(clippy::unwrap_used)]

use deathmatch::random::SplitMix;
use deathmatch::stats::{BURSTS_MIN, Bursts, CYCLES_MIN, Ratio, Rounds};

/// Simulated duels of each kind.
const DUELS: u64 = 400;

/// Cycles of the whole budget of a `duel`; a look is also at a quarter and at a half.
const CYCLES: u32 = 96;

/// Cycles of the whole budget of a plan.
const CYCLES_OF_A_PLAN: u32 = 24;

/// Cycles of a burst, for which the contenders are started anew.
const BURST: u32 = 4;

/// Truth of every duel.
const TRUTH: f64 = 0.7;

/// Half width of an interval that ends a duel. Some end at each look.
const PRECISION: f64 = 0.02;

/// Autocorrelated noise: each value is `phi` of the one before and a new part.
struct Autoregressive {
    value: f64,
    phi: f64,
    deviation: f64,
}

impl Autoregressive {
    fn new(phi: f64, deviation: f64, random: &mut SplitMix) -> Autoregressive {
        Autoregressive { value: deviation * normal(random), phi, deviation }
    }

    fn step(&mut self, random: &mut SplitMix) -> f64 {
        let fresh = self.deviation * (1.0 - self.phi * self.phi).sqrt();
        self.value = self.phi * self.value + fresh * normal(random);
        self.value
    }
}

/// Box and Muller, A note on the generation of random normal deviates (1958).
fn normal(random: &mut SplitMix) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Difference of the ratio of a simulated duel from the truth.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// By noise that remembers so much of itself from cycle to cycle.
    Noise { phi: f64 },
    /// It changes between two values 30 % apart, after so many cycles on average.
    Regimes { cycles: f64 },
    /// By an offset that is drawn again after so many cycles.
    Steps { cycles: u32 },
    /// Not at all, but the machine slows by so much with each slice.
    Drift { step: f64 },
    /// Not at all, but other programs take up to a third of the machine for some slices on end.
    Bursts,
    /// By offsets of both processes, which have a standard deviation of 1 %, are the same for all
    /// cycles of a burst and drawn again for the next, on a machine without other changes but noise
    /// that remembers half of itself.
    Starts,
}

impl Kind {
    /// Standard deviation of the noise of the ratio, and what it remembers of itself.
    fn noise(self) -> (f64, f64) {
        match self {
            Kind::Noise { phi } => (0.02, phi),
            Kind::Starts => (0.005, 0.5),
            _ => (0.02, 0.0),
        }
    }

    /// Standard deviations of the machine's speed, and of a slice's own noise.
    fn machine(self) -> (f64, f64) {
        if matches!(self, Kind::Starts) { (0.015, 0.002) } else { (0.15, 0.01) }
    }
}

/// Figures of the two contenders in each cycle, in mirrored order, on a machine whose speed
/// wanders.
fn simulated(kind: Kind, seed: u64) -> (Rounds, Rounds) {
    let mut random = SplitMix(seed);
    let ((wandering, noise), (deviation, phi)) = (kind.machine(), kind.noise());
    let mut speed = Autoregressive::new(0.97, wandering, &mut random);
    let mut own = Autoregressive::new(phi, deviation, &mut random);
    let (mut is_high, mut busy, mut offset) = (random.unit() < 0.5, 0, 0.0);
    let (mut one, mut two) = (Rounds::new(), Rounds::new());
    for cycle in 0..CYCLES {
        let mut slice = |place: u32| {
            let mut log = speed.step(&mut random) + noise * normal(&mut random);
            if let Kind::Drift { step } = kind {
                log += step * f64::from(2 * cycle + place);
            }
            if matches!(kind, Kind::Bursts) {
                busy = if busy == 0 && random.unit() < 0.03 { 4 } else { busy };
                if busy > 0 {
                    busy -= 1;
                    log += 0.4 * random.unit();
                }
            }
            log
        };
        let (first, second) = (slice(0), slice(1));
        let (a, b) = if cycle % 2 == 0 { (first, second) } else { (second, first) };
        let mut off = own.step(&mut random);
        if let Kind::Regimes { cycles } = kind {
            is_high ^= random.unit() < 1.0 / cycles;
            off += if is_high { 0.15 } else { -0.15 };
        }
        if let Kind::Steps { cycles } = kind {
            if cycle % cycles == 0 {
                offset = 0.02 * normal(&mut random);
            }
            off += offset;
        }
        if matches!(kind, Kind::Starts) {
            if cycle % BURST == 0 {
                offset = 0.01 * (normal(&mut random) - normal(&mut random));
            }
            off += offset;
        }
        one.insert(cycle, (a + off + TRUTH.ln()).exp());
        two.insert(cycle, b.exp());
    }
    (one, two)
}

/// The burst of each cycle.
fn bursts() -> Bursts {
    (0..CYCLES).map(|cycle| (cycle, cycle / BURST)).collect()
}

/// The ratio at the look at which a duel of so many cycles stops.
fn stopped(one: &Rounds, two: &Rounds, cycles: u32, bursts: &Bursts) -> (usize, Ratio) {
    let looks = [cycles / 4, cycles / 2, cycles].map(|end| end.next_multiple_of(BURST));
    let ratios = looks.iter().enumerate().map(|(look, end)| {
        let first = |all: &Rounds| all.range(..end).map(|(c, v)| (*c, *v)).collect();
        (look, Ratio::within(&first(one), &first(two), bursts).unwrap())
    });
    let ratios: Vec<(usize, Ratio)> = ratios.collect();
    let narrow = |(_, r): &&(usize, Ratio)| r.precision().is_some_and(|half| half <= PRECISION);
    ratios.iter().find(narrow).or(ratios.last()).unwrap().clone()
}

#[test]
fn the_interval_contains_the_truth_whenever_the_duel_stops() {
    for (kind, cycles, wanted_looks) in [
        (Kind::Noise { phi: 0.0 }, CYCLES, &[0, 1][..]),
        (Kind::Noise { phi: 0.5 }, CYCLES, &[1, 2]),
        (Kind::Noise { phi: 0.7 }, CYCLES, &[2]),
        (Kind::Regimes { cycles: 4.0 }, CYCLES, &[2]),
        (Kind::Steps { cycles: 2 }, CYCLES, &[0, 1, 2]),
        (Kind::Steps { cycles: 8 }, CYCLES, &[1, 2]),
        (Kind::Drift { step: 0.01 }, CYCLES, &[0, 1]),
        (Kind::Bursts, CYCLES, &[1]),
        (Kind::Starts, CYCLES, &[0, 1, 2]),
        (Kind::Noise { phi: 0.5 }, CYCLES_OF_A_PLAN, &[2]),
        (Kind::Starts, CYCLES_OF_A_PLAN, &[2]),
    ] {
        let Found { coverage, known, looks } = found(kind, cycles, &bursts());
        println!(
            "{kind:?}, {cycles} cycles: {coverage} of {known} contain it; stopped at {looks:?}"
        );
        assert!(coverage >= 0.94, "{kind:?}: {coverage}");
        assert!(known == DUELS as u32, "{kind:?}: {known} have an interval");
        for look in wanted_looks {
            assert!(looks[*look] > 0, "{kind:?}: some stop at look {look}: {looks:?}");
        }
    }
}

#[test]
fn cycles_taken_for_independent_of_their_start_miss_the_truth() {
    let of_pairs: Bursts = (0..CYCLES).map(|cycle| (cycle, cycle / 2)).collect();
    let Found { coverage, .. } = found(Kind::Starts, CYCLES_OF_A_PLAN, &of_pairs);
    assert!(coverage < 0.93, "{coverage}");
}

/// Result of simulated duels.
struct Found {
    /// Share of the intervals that contain the truth.
    coverage: f64,
    /// Number of duels that have an interval.
    known: u32,
    /// Numbers of duels that stop at each look.
    looks: [u32; 3],
}

fn found(kind: Kind, cycles: u32, bursts: &Bursts) -> Found {
    let (mut contained, mut known, mut looks) = (0, 0, [0; 3]);
    for seed in 0..DUELS {
        let (one, two) = simulated(kind, seed);
        let (look, ratio) = stopped(&one, &two, cycles, bursts);
        looks[look] += 1;
        let Some(interval) = ratio.interval else { continue };
        known += 1;
        contained += u32::from(interval.low <= TRUTH && TRUTH <= interval.high);
    }
    Found { coverage: f64::from(contained) / f64::from(known), known, looks }
}

#[test]
fn two_regimes_are_shown_and_the_interval_of_few_changes_reaches_from_one_to_the_other() {
    let (mut found, mut wide) = (0, 0);
    for seed in 0..100 {
        let (one, two) = simulated(Kind::Regimes { cycles: 12.0 }, seed);
        let ratio = Ratio::within(&one, &two, &bursts()).unwrap();
        let Some(regimes) = ratio.regimes() else { continue };
        found += 1;
        assert!((regimes.high / regimes.low - 1.35).abs() < 0.1, "{regimes:?}");
        let interval = ratio.interval.unwrap();
        wide += u32::from(interval.low <= regimes.low && regimes.high <= interval.high);
    }
    assert!(found >= 90 && wide > found / 2, "{found} found, {wide} with both in the interval");
    let noise = (0..100).filter(|seed| {
        let (one, two) = simulated(Kind::Noise { phi: 0.5 }, *seed);
        Ratio::of(&one, &two).unwrap().regimes().is_some()
    });
    assert_eq!(noise.count(), 0, "noise has one regime");
}

#[test]
fn few_cycles_or_bursts_have_no_interval() {
    let (one, two) = simulated(Kind::Noise { phi: 0.0 }, 1);
    let first = |all: &Rounds, count: usize| {
        all.iter().take(count).map(|(c, v)| (*c, *v)).collect::<Rounds>()
    };
    let of = |count, burst: u32| {
        let bursts = (0..CYCLES).map(|cycle| (cycle, cycle / burst)).collect();
        let ratio = Ratio::within(&first(&one, count), &first(&two, count), &bursts).unwrap();
        ratio.interval.map(|interval| interval.confidence)
    };
    assert_eq!(of(CYCLES_MIN - 1, 2), None);
    assert_eq!(of(CYCLES_MIN, 2), Some(0.95));
    assert_eq!(of(8 * (BURSTS_MIN - 1), 8), None);
    assert_eq!(of(8 * (BURSTS_MIN - 1) + 2, 8), Some(0.95));
    // Rounds of turns have the exact one in place of none.
    let turns = |count| Ratio::of(&first(&one, count), &first(&two, count)).unwrap().interval;
    assert_eq!(turns(5), None);
    let exact = turns(CYCLES_MIN - 1).unwrap().confidence;
    assert!(exact > 0.95, "by order statistics: {exact}");
    assert!((turns(CYCLES_MIN).unwrap().confidence - 0.95).abs() < 1e-9);
}
