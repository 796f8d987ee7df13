//! The statistics' properties for arbitrary figures, and the rules of verdicts.

use deathmatch::sample::{Load, Mark, Offered, Sample};
use deathmatch::stats::{
    Better, Fitness, Kind, Ratio, Rounds, Verdict, by_round, comparable, fitness, merged,
    replies_per_second, restless,
};
use proptest::prelude::*;

fn rounds_of(values: &[f64]) -> Rounds {
    (0..).zip(values.iter().copied()).collect()
}

fn ratio(figures: &[f64]) -> Ratio {
    Ratio::of(&rounds_of(figures), &rounds_of(&vec![1.0; figures.len()])).expect("rounds")
}

fn figures() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.001..1e9_f64, 1..20)
}

fn near(one: f64, two: f64) -> bool {
    (one / two - 1.0).abs() < 1e-9
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_ratio_of_a_sample_to_itself_is_one(values in figures()) {
        let own = Ratio::of(&rounds_of(&values), &rounds_of(&values)).unwrap();
        prop_assert_eq!((own.median, own.bootstrap), (1.0, (1.0, 1.0)));
        if let Some(interval) = own.interval {
            prop_assert_eq!((interval.low, interval.high), (1.0, 1.0));
            prop_assert_eq!(own.verdict(Better::More), Verdict::Equal);
        } else {
            prop_assert!(values.len() < 6);
        }
    }

    #[test]
    fn swapped_contenders_have_reciprocal_ratios(
        pairs in prop::collection::vec((0.5..2.0_f64, 0.5..2.0_f64), 6..20),
    ) {
        let (one, two): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let there = Ratio::of(&rounds_of(&one), &rounds_of(&two)).unwrap();
        let back = Ratio::of(&rounds_of(&two), &rounds_of(&one)).unwrap();
        prop_assert!(near(there.median, 1.0 / back.median));
        let (a, b) = (there.interval.unwrap(), back.interval.unwrap());
        prop_assert!(near(a.low, 1.0 / b.high) && near(a.high, 1.0 / b.low));
        let swapped = match there.verdict(Better::More) {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        prop_assert_eq!(back.verdict(Better::More), swapped);
        prop_assert_eq!(there.verdict(Better::Less), swapped);
    }

    #[test]
    fn the_unit_does_not_matter(values in figures(), unit in 0.001..1000.0_f64) {
        let scaled: Vec<f64> = values.iter().map(|value| value * unit).collect();
        let found = Ratio::of(&rounds_of(&scaled), &rounds_of(&values)).unwrap();
        prop_assert!(near(found.median, unit));
    }
}

#[test]
fn verdicts_need_the_whole_interval() {
    let rows: [(&[f64], Verdict, &str); 9] = [
        (&[1.03, 1.04, 1.05, 1.06, 1.07, 1.08], Verdict::Faster, "all above"),
        (&[0.90, 0.91, 0.92, 0.93, 0.94, 0.95], Verdict::Slower, "all below"),
        (&[0.99, 1.00, 1.00, 1.01, 1.01, 1.015], Verdict::Equal, "all within"),
        (&[1.01, 1.04, 1.05, 1.06, 1.07, 1.08], Verdict::TooCloseToCall, "one of six within"),
        (&[0.5, 2.0, 0.5, 2.0, 0.5, 2.0], Verdict::TooCloseToCall, "all over the place"),
        (&[1.0, 1.0, 1.0, 1.0, 1.0, 1.03], Verdict::TooCloseToCall, "one of six outside"),
        (&[2.0, 2.0, 2.0, 2.0, 2.0], Verdict::TooCloseToCall, "five rounds have no interval"),
        (
            &[0.5, 1.03, 1.04, 1.04, 1.05, 1.05, 1.06, 1.06, 1.07, 1.07, 9.0],
            Verdict::Faster,
            "of eleven the least and the most are outside the interval",
        ),
        (
            &[0.5, 1.01, 1.04, 1.04, 1.05, 1.05, 1.06, 1.06, 1.07, 1.07, 9.0],
            Verdict::TooCloseToCall,
            "and the second is not",
        ),
    ];
    for (figures, right, sentence) in rows {
        let found = ratio(figures);
        assert_eq!(found.verdict(Better::More), right, "{sentence}: {found}");
    }
}

#[test]
fn a_pair_judges_the_machine() {
    let rows: [(&[f64], Fitness, &str); 4] = [
        (&[0.99, 1.0, 1.0, 1.0, 1.01, 1.01], Fitness::Fit, "the same"),
        (&[0.95, 1.0, 1.0, 1.0, 1.01, 1.05], Fitness::Coarse, "the same, seen coarsely"),
        (&[1.0, 1.0, 1.0], Fitness::Coarse, "three rounds cannot vouch"),
        (&[1.0, 1.03, 1.03, 1.03, 1.03, 1.05], Fitness::Unfit, "the same is not the same"),
    ];
    for (figures, right, sentence) in rows {
        assert_eq!(fitness(&ratio(figures)), right, "{sentence}");
    }
}

#[test]
fn only_common_rounds_count() {
    let one = Rounds::from([(0, 2.0), (1, 4.0), (7, 100.0)]);
    let two = Rounds::from([(0, 1.0), (1, 1.0), (2, 1.0)]);
    let found = Ratio::of(&one, &two).unwrap();
    assert_eq!(found.rounds.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert!(near(found.median, 8.0_f64.sqrt()), "the middle of 2 and 4, in logarithms");
    assert!(found.to_string().contains("no interval: 2 of at least 6 rounds"), "{found}");
    assert_eq!(Ratio::of(&one, &Rounds::new()), None);
    assert_eq!(Ratio::of(&rounds_of(&[0.0]), &rounds_of(&[1.0])), None, "nothing has no ratio");
}

#[test]
fn rounds_whose_floor_strayed_are_named() {
    let floor = Rounds::from([(0, 100.0), (1, 104.0), (2, 94.0), (3, 106.0), (4, 100.0)]);
    assert_eq!(restless(&floor), [2, 3], "6 % below and above the median, not 4 %");
    assert_eq!(restless(&Rounds::new()), Vec::<u32>::new());
}

fn sample(round: u32, replies: u64, marks: &[Mark]) -> Sample {
    Sample {
        plan: "p".into(),
        round,
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
        contender: "nginx".into(),
        work: "10k".into(),
        file: "10k".into(),
        offered: Offered::Closed { connections: 50 },
        began_unix_s: 0.0,
        load: Load { seconds: 2.0, replies, ..Load::default() },
        server: None,
        machine: None,
        marks: marks.to_vec(),
    }
}

#[test]
fn marked_samples_and_repeated_rounds() {
    let samples = [
        sample(0, 100, &[]),
        sample(0, 200, &[]),
        sample(1, 300, &[]),
        sample(1, 999, &[Mark::ForeignCpu]),
        sample(2, 0, &[]),
    ];
    let fit = samples.iter().filter(|sample| comparable(sample, Kind::Cost));
    let found = by_round(fit, replies_per_second);
    assert_eq!(found, Rounds::from([(0, 100.0), (1, 150.0)]), "the last of round 0, unmarked only");
}

#[test]
fn percentiles_are_of_all_answers() {
    let (mut many, mut few) = (sample(0, 0, &[]), sample(1, 0, &[]));
    for _ in 0..990 {
        many.load.response.record(1_000);
    }
    for _ in 0..10 {
        few.load.response.record(1_000_000);
    }
    let all = merged([&many, &few], |load| &load.response);
    assert_eq!(all.count(), 1_000);
    // 990 of 1,000 took 1 us; the mean of the two samples' medians would say half a millisecond.
    assert!(all.quantile(0.5) < 1_010 && all.quantile(0.995) > 990_000);
}
