//! Runs that differ in one thing, and the outcome of their comparison.

use super::*;
use crate::sample::{Errors, Load, Offered, ServerUse, Slice};

const NOISE: [f64; 6] = [0.996, 1.004, 0.998, 1.002, 0.999, 1.001];

fn sample(contender: &str, round: usize, replies: f64, offered: Offered) -> Sample {
    let replies = (replies * NOISE[round % NOISE.len()]) as u64;
    Sample {
        plan: "deck".into(),
        round: round as u32,
        over: None,
        beside: None,
        cooling: None,
        idle: None,
        network: None,
        herd: None,
        slice: None,
        attempt: 0,
        trial: 0,
        probe: false,
        contender: contender.into(),
        work: "10k".into(),
        file: "10k".into(),
        offered,
        began_unix_s: 0.0,
        load: Load { seconds: 1.0, replies, ..Load::default() },
        server: Some(ServerUse { cpu_s: 1.0, ..ServerUse::default() }),
        machine: None,
        marks: vec![],
    }
}

/// Rounds of a floor and nginx in a closed loop, each with so many replies a second.
fn run(rounds: usize, floor: f64, nginx: f64) -> Vec<Sample> {
    (0..rounds).flat_map(|round| run_at(round, floor, nginx)).collect()
}

fn run_at(round: usize, floor: f64, nginx: f64) -> [Sample; 2] {
    let closed = Offered::Closed { connections: 50 };
    [sample(FLOOR, round, floor, closed), sample("nginx", round, nginx, closed)]
}

fn changed(mut run: Vec<Sample>, change: fn(&mut Sample)) -> Vec<Sample> {
    run.iter_mut().filter(|sample| sample.contender != FLOOR).for_each(change);
    run
}

#[test]
fn a_run_is_judged_through_its_floor() {
    let before = run(6, 100_000.0, 50_000.0);
    let rows: [(Vec<Sample>, Outcome, u8, &str); 13] = [
        (before.clone(), Outcome::Fine, 0, "the same again"),
        (run(6, 100_000.0, 45_000.0), Outcome::Regressed, 1, "10 % fewer"),
        (run(6, 100_000.0, 60_000.0), Outcome::Improved, 0, "20 % more"),
        (run(6, 100_000.0, 49_000.0), Outcome::Fine, 0, "2 % fewer, within 5 %"),
        (run(6, 97_000.0, 46_500.0), Outcome::Fine, 0, "7 % fewer, but the floor lost 3 %"),
        (run(6, 103_000.0, 48_000.0), Outcome::Regressed, 1, "4 % fewer where the floor won 3 %"),
        (run(6, 90_000.0, 30_000.0), Outcome::NotShown, 3, "the floor itself lost 10 %"),
        (run(2, 100_000.0, 30_000.0), Outcome::NotShown, 3, "two rounds are too few to accuse"),
        (run(2, 100_000.0, 50_000.0), Outcome::NotShown, 3, "and too few to acquit"),
        (
            changed(before.clone(), |s| {
                s.load.replies = if s.round.is_multiple_of(2) { 30_000 } else { 52_000 };
            }),
            Outcome::NotShown,
            3,
            "a fifth fewer in the middle, but as often more as fewer",
        ),
        (
            before.iter().filter(|s| s.contender != FLOOR).cloned().collect(),
            Outcome::NotShown,
            3,
            "no floor",
        ),
        (
            changed(before.clone(), |s| s.load.errors = Errors { reset: 50, ..Errors::default() }),
            Outcome::Regressed,
            1,
            "as fast, but one in a thousand fails",
        ),
        (
            changed(before.clone(), |s| s.marks = vec![Mark::GeneratorBusy]),
            Outcome::NotShown,
            3,
            "the generator was the limit",
        ),
    ];
    for (after, outcome, code, sentence) in rows {
        let found = compare(&before, &after, 0.05).unwrap();
        assert!((1..=2).contains(&found.rows.len()), "{sentence}");
        assert_eq!((found.outcome(), found.exit_code()), (outcome, code), "{sentence}\n{found}");
    }
}

/// A duel of a floor and nginx, in bursts of eight cycles with so many replies a second.
fn duel(nginx: &[f64]) -> Vec<Sample> {
    let cycles = nginx.iter().flat_map(|replies| [*replies; 8]).enumerate();
    let of_cycle = cycles.flat_map(|(cycle, replies)| run_at(cycle, 100_000.0, replies));
    let sliced = of_cycle.map(|sample| {
        let slice = Some(Slice { burst: sample.round / 8, ..Slice::default() });
        Sample { slice, ..sample }
    });
    sliced.collect()
}

#[test]
fn duels_are_compared_by_their_bursts() {
    let even = |replies: f64, bursts: usize| duel(&vec![replies; bursts]);
    let four = duel(&[46_000.0, 50_000.0, 54_000.0, 50_000.0]);
    let slower = duel(&[44_000.0, 45_000.0, 49_000.0, 46_500.0]);
    let rows = [
        (four, slower, Outcome::NotShown, "four bursts, which differ as much by themselves"),
        (even(50_000.0, 12), even(50_000.0, 12), Outcome::Fine, "96 cycles of each"),
        (even(50_000.0, 12), even(45_000.0, 12), Outcome::Regressed, "10 % fewer"),
        (even(50_000.0, 130), even(50_000.0, 65), Outcome::Fine, "more bursts than are counted"),
    ];
    for (before, after, outcome, sentence) in rows {
        let found = compare(&before, &after, 0.05).unwrap();
        let row = found.rows.iter().find(|row| row.figure == Some(Figure::RepliesPerSecond));
        assert_eq!(row.unwrap().outcome, outcome, "{sentence}\n{found}");
    }
}

#[test]
fn contenders_of_a_duel_are_compared_by_their_bursts() {
    let mixed = [90e3, 90e3, 105e3, 90e3, 90e3, 105e3, 90e3, 90e3, 105e3, 90e3, 90e3, 105e3];
    let rows: [(&[f64], f64, Outcome, &str); 3] = [
        (&[90e3; 4], 0.125, Outcome::NotShown, "four of four bursts: 2 / 16"),
        (&[90e3; 12], 2.0 / 4_096.0, Outcome::Regressed, "twelve of twelve"),
        (&mixed, 1_588.0 / 4_096.0, Outcome::NotShown, "eight of twelve: 2 * 794 / 4,096"),
    ];
    for (nginx, p, outcome, sentence) in rows {
        let found = contenders(&duel(nginx), FLOOR, "nginx", 0.05).unwrap();
        let row = &found.rows[0];
        assert!((row.p.unwrap() - p).abs() < 1e-9, "{sentence}\n{found}");
        assert_eq!(row.outcome, outcome, "{sentence}\n{found}");
    }
}

#[test]
fn a_floor_the_generator_could_not_outrun_still_measures_the_machine() {
    let mut before = run(6, 100_000.0, 50_000.0);
    for sample in before.iter_mut().filter(|sample| sample.contender == FLOOR) {
        sample.marks.push(Mark::GeneratorBusy);
    }
    assert_eq!(compare(&before, &before, 0.05).unwrap().outcome(), Outcome::Fine);
}

#[test]
fn at_an_offered_rate_cost_decides_or_else_time() {
    let open = Offered::Open { rate: 5_000.0, poisson: false, connections: 50 };
    let run = |cpu_s: Option<f64>, ns: u64| -> Vec<Sample> {
        let of = |round: usize| {
            ["nginx", FLOOR].map(|name| {
                let mut sample = sample(name, round, 5_000.0, open);
                let own = name != FLOOR;
                sample.server = cpu_s.map(|cpu_s| ServerUse {
                    cpu_s: if own { cpu_s } else { 0.05 } * NOISE[round % 6],
                    ..ServerUse::default()
                });
                sample.load.response.record(if own { ns } else { 50_000 });
                sample
            })
        };
        (0..6).flat_map(of).collect()
    };
    let rows = [
        (Some(0.10), 100_000, Figure::CpuPerReply, Outcome::Fine, "the same"),
        (Some(0.12), 100_000, Figure::CpuPerReply, Outcome::Regressed, "a fifth dearer"),
        (Some(0.08), 900_000, Figure::CpuPerReply, Outcome::Improved, "cheaper; time is not asked"),
        (None, 130_000, Figure::ResponseMedian, Outcome::Regressed, "slower, cost unknown"),
    ];
    for (cpu_s, ns, figure, outcome, sentence) in rows {
        let before = run(cpu_s.map(|_| 0.10), 100_000);
        let found = compare(&before, &run(cpu_s, ns), 0.05).unwrap();
        let row = &found.rows[0];
        assert_eq!((row.figure, row.outcome), (Some(figure), outcome), "{sentence}\n{found}");
    }
}

#[test]
fn closed_loops_are_judged_by_processor_time_too() {
    let before = run(6, 100_000.0, 50_000.0);
    type Change = fn(&mut Sample);
    let dearer: Change = |s| s.server.iter_mut().for_each(|server| server.cpu_s *= 1.2);
    let rows: [(Change, usize, Outcome, &str); 4] = [
        (|_| (), 2, Outcome::Fine, "the same"),
        (dearer, 2, Outcome::Regressed, "as fast, but a fifth dearer"),
        (|s| s.server = None, 1, Outcome::Fine, "cost unknown on one side"),
        (|s| s.load.errors.reset = 50, 1, Outcome::Regressed, "errors decide all of it"),
    ];
    for (change, count, outcome, why) in rows {
        let found = compare(&before, &changed(before.clone(), change), 0.05).unwrap();
        assert_eq!((found.rows.len(), found.outcome()), (count, outcome), "{why}\n{found}");
    }
    // Both families have all of the error's probability: six rounds of one work decide each.
    let samples = pair(1, [0.9, 0.91, 0.92, 0.9, 0.93, 0.9]);
    let found = contenders(&samples, "old", "new", 0.05).unwrap();
    assert_eq!(found.rows.len(), 2, "{found}");
    assert!(found.rows.iter().all(|row| row.outcome == Outcome::Regressed), "{found}");
}

#[test]
fn a_fixed_rate_is_never_dropped_in_silence() {
    let at = |rate: f64, rounds: usize| -> Vec<Sample> {
        let open = Offered::Open { rate, poisson: false, connections: 50 };
        let of = |round| {
            ["nginx", FLOOR].map(|name| {
                let mut sample = sample(name, round, rate, open);
                (sample.work, sample.load.intended) = (format!("10k at {rate}/s"), rate as u64);
                sample.load.replies = rate as u64;
                sample.load.response.record(1_000_000);
                sample
            })
        };
        (0..rounds).flat_map(of).chain(run(rounds, 100_000.0, 50_000.0)).collect()
    };
    let few = compare(&at(1e3, 2), &at(1e3, 2), 0.05).unwrap();
    assert!(few.rows.iter().any(|row| row.work == "10k at 1000/s"), "too few rounds\n{few}");
    assert!(few.rows.iter().all(|row| row.figure != Some(Figure::Saturation)), "no search\n{few}");
    let other = compare(&at(1e3, 6), &at(2e3, 6), 0.05).unwrap();
    let text = other.to_string();
    for words in ["works of the first run alone: 10k at 1000/s", "second run alone: 10k at 2000/s"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn two_contenders_are_compared_within_their_rounds() {
    let closed = Offered::Closed { connections: 50 };
    // The machine is half as fast in every other round; the quotient is constant.
    let of = |round: usize| {
        let weather = if round.is_multiple_of(2) { 1.0 } else { 0.5 };
        [
            sample("old", round, 40_000.0 * weather, closed),
            sample("new", round, 44_000.0 * weather, closed),
        ]
    };
    let samples: Vec<Sample> = (0..6).flat_map(of).collect();
    let found = contenders(&samples, "old", "new", 0.05).unwrap();
    assert_eq!(found.outcome(), Outcome::Improved, "{found}");
    let found = contenders(&samples, "new", "old", 0.05).unwrap();
    assert_eq!((found.outcome(), found.exit_code()), (Outcome::Regressed, 1), "{found}");
    assert_eq!(contenders(&samples, "old", "old", 0.0).unwrap().outcome(), Outcome::Fine);
    let error = contenders(&samples, "old", "olf", 0.05).unwrap_err().to_string();
    assert_eq!(error, "the run has no contender \"olf\"; it has new, old");
}

/// Rounds of two contenders in a closed loop, the second at these multiples of the first, for each
/// of some works.
fn pair(works: usize, multiples: [f64; 6]) -> Vec<Sample> {
    let closed = Offered::Closed { connections: 50 };
    let of = |work: usize, round: usize| {
        let named = |name, replies| Sample {
            work: format!("work {work}"),
            ..sample(name, round, replies, closed)
        };
        [named("old", 40_000.0), named("new", 40_000.0 * multiples[round])]
    };
    let all = (0..works).flat_map(|work| (0..6).map(move |round| (work, round)));
    all.flat_map(|(work, round)| of(work, round)).collect()
}

#[test]
fn fine_means_that_the_worse_bound_is_within_the_tolerance() {
    let rows = [
        ([1.0, 1.59, 0.55, 1.0, 1.2, 0.9], Outcome::NotShown, "an interval of 0.55 to 1.59"),
        ([1.0, 0.97, 1.01, 0.99, 0.98, 1.0], Outcome::Fine, "at most 3 % worse"),
        ([1.0, 0.97, 1.01, 0.93, 0.98, 1.0], Outcome::NotShown, "perhaps 7 % worse"),
        ([1.5, 1.0, 1.9, 1.2, 1.3, 1.4], Outcome::Fine, "better or the same"),
        ([0.9, 0.91, 0.92, 0.9, 0.93, 0.9], Outcome::Regressed, "a tenth worse in every round"),
    ];
    for (multiples, want, why) in rows {
        let found = contenders(&pair(1, multiples), "old", "new", 0.05).unwrap();
        assert_eq!(found.outcome(), want, "{why}\n{found}");
    }
}

#[test]
fn a_regression_must_stand_out_among_all_rows() {
    let worse = [0.9, 0.91, 0.92, 0.9, 0.93, 0.9];
    let p = |found: &Comparison| found.rows[0].p.map(|p| (p * 1e9).round() / 1e9);
    let found = contenders(&pair(1, worse), "old", "new", 0.05).unwrap();
    assert_eq!((found.exit_code(), p(&found)), (1, Some(0.03125)), "{found}");
    let found = contenders(&pair(4, worse), "old", "new", 0.05).unwrap();
    assert_eq!((found.exit_code(), p(&found)), (3, Some(0.125)), "{found}");
    assert!(found.rows[0].why.contains("among 4 rows: run 8 rounds"), "{found}");
}

#[test]
fn medians_and_ratios_are_of_the_same_rounds() {
    // The first has slow rounds that the second did not take part in.
    let mut samples = pair(1, [1.2; 6]);
    let closed = Offered::Closed { connections: 50 };
    let slow = |round| Sample { work: "work 0".into(), ..sample("old", round, 90_000.0, closed) };
    samples.extend((6..13).map(slow));
    let found = contenders(&samples, "old", "new", 0.05).unwrap();
    let row = &found.rows[0];
    assert_eq!(found.outcome(), Outcome::Improved, "{found}");
    assert!((row.after.unwrap() / row.before.unwrap() - 1.2).abs() < 0.01, "{found}");
    // The speed changes so between the rounds that the two estimates contradict each other.
    let mut samples = pair(1, [1.1; 6]);
    for (at, sample) in samples.iter_mut().enumerate() {
        let factor = [1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0][at];
        sample.load.replies = (sample.load.replies as f64 * factor) as u64;
    }
    let found = contenders(&samples, "old", "new", 0.05).unwrap();
    assert_ne!(found.outcome(), Outcome::Improved, "{found}");
}

#[test]
fn only_common_contenders_and_works_are_compared_and_the_others_are_noted() {
    let before = run(6, 100_000.0, 50_000.0);
    let mut after = before.clone();
    after.iter_mut().for_each(|s| s.plan = "quick".into());
    let renamed = |s: &Sample, name: &str| Sample { contender: name.into(), ..s.clone() };
    let caddy: Vec<Sample> =
        before.iter().filter(|s| s.contender != FLOOR).map(|s| renamed(s, "caddy")).collect();
    let before = [before, caddy].concat();
    let found = compare(&before, &after, 0.05).unwrap();
    assert_eq!((found.rows.len(), found.exit_code()), (2, 0), "a missing contender\n{found}");
    let text = found.to_string();
    for part in ["contenders of the first run alone: caddy", "the plans differ (deck, quick)"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let floor: Vec<Sample> = before.iter().filter(|s| s.contender == FLOOR).cloned().collect();
    for (a, b) in [(&floor, &after), (&after, &floor), (&Vec::new(), &Vec::new())] {
        assert_eq!(compare(a, b, 0.05), Err(CompareError::NothingInCommon));
    }
}

#[test]
fn searches_compare_by_their_limits() {
    let search = |rates: &[(f64, u64)]| -> Vec<Sample> {
        let of = |round: usize| {
            rates.iter().map(move |(rate, ms)| {
                let open = Offered::Open { rate: *rate, poisson: false, connections: 50 };
                let mut sample = sample("nginx", round, *rate, open);
                (sample.work, sample.load.intended) = (format!("10k at {rate}/s"), *rate as u64);
                sample.load.response.record(ms * 1_000_000);
                sample
            })
        };
        (0..6).flat_map(of).chain(run(6, 100_000.0, 50_000.0)).collect()
    };
    let before = search(&[(10e3, 1), (20e3, 50), (12.5e3, 50)]);
    let rows = [
        (search(&[(10e3, 1), (20e3, 50), (12.5e3, 1), (15e3, 50)]), Outcome::Fine, "one step more"),
        (search(&[(10e3, 50), (5e3, 1), (6.25e3, 50)]), Outcome::Regressed, "half as much"),
        (search(&[(10e3, 1), (20e3, 1), (40e3, 50)]), Outcome::Improved, "twice as much"),
    ];
    for (after, want, why) in rows {
        let found = compare(&before, &after, 0.05).unwrap();
        let row = found.rows.iter().find(|r| r.figure == Some(Figure::Saturation)).unwrap();
        assert_eq!(row.outcome, want, "{why}\n{found}");
        let missing = found.rows.iter().any(|r| r.why.contains("missing") || r.why.contains("new"));
        assert!(!missing, "a rate that one alone tried is not missing\n{found}");
    }
}

#[test]
fn it_reads_as_a_table_and_as_json() {
    let found = compare(&run(6, 100_000.0, 50_000.0), &run(6, 100_000.0, 40_000.0), 0.05);
    let found = found.unwrap();
    let text = found.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("work       contender"), "{text}");
    assert!(lines[1].starts_with("10k        nginx") && lines[1].ends_with("regressed"), "{text}");
    assert!(lines[2].starts_with("10k        nginx      CPU/request"), "{text}");
    assert_eq!(lines[3], "regressed at a tolerance of 5.0 %");
    let json = serde_json::to_string(&found).unwrap();
    let read: Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(read.outcome(), Outcome::Regressed);
}
