//! Axes: places of values, and ticks.

use super::numbers::{round, short};

/// Ticks on an axis, at most.
const TICKS_MAX: usize = 8;

/// Largest number of ticks on an axis that counts.
const COUNTED_TICKS_MAX: u32 = 20;

/// Largest number of steps with a tick each.
const STEPS_MAX: usize = 12;

/// Smallest distance of two ticks, as a share of the axis.
const TICK_GAP: f64 = 0.1;

/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const LOG_FROM: f64 = 8.0;

/// Ratio of the largest value to the median from which it would squeeze the others together.
const OUTLIER_FROM: f64 = 4.0;

/// Room of a tick's label: of a character, and between two labels, in a drawing's units.
const CHAR: f64 = 7.2;
const LABEL_GAP: f64 = 7.0;

/// The range and the ticks of an axis, linear or logarithmic.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    /// From 0 to at least the largest value.
    pub(super) fn linear(values: &[f64]) -> Scale {
        let most = largest(values);
        let step = nice_step(if most > 0.0 { most } else { 1.0 });
        let count = (most / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=count as usize).map(|i| i as f64 * step);
        let ticks = ticks.map(|v| (v, short(v))).collect();
        Scale { low: 0.0, high: count * step, log: false, ticks }
    }

    /// As far below 0 as above it.
    pub(super) fn about_nought(values: &[f64]) -> Scale {
        let most =
            values.iter().copied().filter(|v| v.is_finite()).fold(0.0, |a, v| v.abs().max(a));
        let step = nice_step(if most > 0.0 { 2.0 * most } else { 1.0 });
        let count = (most / step).ceil().max(1.0) as i32;
        let ticks = (-count..=count).map(|n| f64::from(n) * step).map(|v| (v, signed(v))).collect();
        let high = f64::from(count) * step;
        Scale { low: -high, high, log: false, ticks }
    }

    /// Logarithmic about 1 for ratios, no wider than they need.
    pub(super) fn about_one(ratios: &[f64]) -> Scale {
        let low = smallest_positive(ratios).unwrap_or(1.0).min(0.9) * 0.97;
        let high = largest(ratios).max(1.1) * 1.03;
        let mut ticks = log_ticks(low, high);
        if high / low < LOG_FROM {
            let steps = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0];
            ticks = steps.into_iter().filter(|v| (low..=high).contains(v)).collect();
        } else if ticks.len() > TICKS_MAX {
            ticks.retain(|v| is_power_of_ten(*v));
        }
        let mut scale = Scale { low, high, log: true, ticks: Vec::new() };
        let mut last = f64::NEG_INFINITY;
        // 1 always has its tick; others give way to it.
        let one = scale.at(1.0);
        for value in ticks {
            let at = scale.at(value);
            let is_free = at - last >= TICK_GAP && (value == 1.0 || (at - one).abs() >= TICK_GAP);
            if is_free {
                last = at;
                scale.ticks.push((value, short(value)));
            }
        }
        scale
    }

    /// 1, 2, 3 and so on.
    pub(super) fn counted(most: u32) -> Scale {
        let every = most.div_ceil(COUNTED_TICKS_MAX).max(1) as usize;
        let ticks = (1..=most).step_by(every).map(|n| (f64::from(n), n.to_string())).collect();
        Scale { low: 0.5, high: f64::from(most) + 0.5, log: false, ticks }
    }

    /// Adds room for one more place on the right, which has a name.
    pub(super) fn and(mut self, place: f64, name: &str) -> Scale {
        self.high = self.high.max(place * 1.15);
        self.ticks.push((place, name.to_owned()));
        self
    }

    /// By powers of ten; values that are not positive lie at the lower end.
    pub(super) fn log(values: &[f64]) -> Scale {
        let (least, most) = (smallest_positive(values), largest(values));
        let Some(least) = least else { return Scale::linear(values) };
        let low = log_ticks(least / 10.0, least).pop().unwrap_or(least);
        let high = log_ticks(most, most * 10.0).into_iter().next().unwrap_or(most);
        let high = if high > low { high } else { low * 10.0 };
        let all = log_ticks(low, high);
        let tens: Vec<f64> = all.iter().copied().filter(|v| is_power_of_ten(*v)).collect();
        let ticks = if all.len() > TICKS_MAX && tens.len() > 1 { tens } else { all };
        let ticks = ticks.into_iter().map(|v| (v, short(v))).collect();
        Scale { low, high, log: true, ticks }
    }

    /// Logarithmic if the values span enough decades.
    pub(super) fn fitting(values: &[f64]) -> Scale {
        let least = smallest_positive(values).unwrap_or(1.0);
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(least).max(least);
        let spans = largest(values) >= LOG_FROM * least || largest(values) >= OUTLIER_FROM * middle;
        if spans && sorted.first().is_some_and(|v| *v > 0.0) {
            Scale::log(values)
        } else {
            Scale::linear(values)
        }
    }

    /// The steps of a ladder, each with a tick while there is room; nothing lies beyond them.
    pub(super) fn steps(xs: &[f64]) -> Scale {
        let log = largest(xs) >= LOG_FROM * smallest_positive(xs).unwrap_or(1.0);
        if !log {
            return Scale::linear(xs);
        }
        let mut scale = Scale::log(xs);
        let (low, high) = (smallest_positive(xs).unwrap_or(scale.low), largest(xs));
        (scale.low, scale.high) = (low * 0.9, high * 1.1);
        if xs.len() > STEPS_MAX {
            // The steps of a search are not round numbers.
            scale.ticks = log_ticks(low, high).into_iter().map(|v| (v, short(v))).collect();
            return scale;
        }
        let apart = 0.045;
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for x in xs.iter().copied().filter(|x| *x > 0.0) {
            let near = ticks.last().is_some_and(|(last, _)| scale.at(x) - scale.at(*last) < apart);
            if !near {
                ticks.push((x, short(x)));
            }
        }
        scale.ticks = ticks;
        scale
    }

    /// Percentiles as HdrHistogram plots them: each further nine takes the same room. Positions are
    /// those of [`nines`]; `nines_max` is where the longest time lies.
    pub(super) fn percentiles(nines_max: f64) -> Scale {
        let known = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
        let more = [(0.9999, "p99.99"), (0.999_99, "p99.999")];
        let all = known.into_iter().chain(more).map(|(share, name)| (nines(share), name));
        let room = |(at, _): &(f64, &str)| *at < nines_max - 0.2;
        let mut ticks: Vec<(f64, String)> =
            all.filter(room).map(|(at, name)| (at, name.to_owned())).collect();
        ticks.push((nines_max, "max".to_owned()));
        let high = nines_max * 1.02;
        Scale { low: 0.0, high, log: false, ticks }
    }

    /// Place of a value: 0 at the lower end, 1 at the upper; never beyond.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Ticks whose labels have room side by side on an axis of this width; the last one always has.
    pub(super) fn ticks_within(&self, width: f64) -> Vec<(f64, &str)> {
        let mut kept: Vec<(f64, &str)> = Vec::new();
        let half = |label: &str| label.chars().count() as f64 * CHAR / 2.0;
        let room = |(a, one): (f64, &str), (b, two): (f64, &str)| {
            (self.at(a) - self.at(b)).abs() * width >= half(one) + half(two) + LABEL_GAP
        };
        for (at, (value, label)) in self.ticks.iter().enumerate() {
            let tick = (*value, label.as_str());
            let is_last = at + 1 == self.ticks.len();
            while is_last && kept.last().is_some_and(|last| !room(*last, tick)) {
                kept.pop();
            }
            if kept.last().is_none_or(|last| room(*last, tick)) {
                kept.push(tick);
            }
        }
        kept
    }

    /// (value, its label).
    pub(super) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// Suffix of the unit on the axis.
    pub(super) fn kind(&self) -> &'static str {
        if self.log { ", log scale" } else { "" }
    }
}

/// A tick with a sign.
fn signed(value: f64) -> String {
    if value > 0.0 { format!("+{}", short(value)) } else { short(value).replace('-', "−") }
}

/// A share (0 to 1) as its number of nines: 0.9 is 1, 0.99 is 2.
pub(super) fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-9).log10()
}

/// 1, 2, 2.5 or 5 times a power of ten, such that at most six steps reach the value.
fn nice_step(most: f64) -> f64 {
    let power = 10_f64.powf((most / 6.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| most / step <= 6.0 + 1e-9).unwrap_or(most)
}

/// 1, 2 and 5 times the powers of ten from a value to another, both included.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let powers = first..=last;
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)));
    all.filter(|v| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9)).collect()
}

fn is_power_of_ten(value: f64) -> bool {
    (value.log10() - value.log10().round()).abs() < 1e-9
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max)
}

fn smallest_positive(values: &[f64]) -> Option<f64> {
    values.iter().copied().filter(|v| v.is_finite() && *v > 0.0).min_by(f64::total_cmp)
}

/// A step in a sentence.
pub(super) fn step_words(x: f64, unit: &str) -> String {
    let thousands = if x.fract() == 0.0 { round(x) } else { round(x.round()) };
    format!("{thousands}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().iter().map(|(_, label)| label.replace('\u{202f}', " ")).collect()
    }

    #[test]
    fn ticks_are_numbers_people_count_in() {
        let rows: [(&[f64], &[&str], &str); 6] = [
            (&[0.9], &["0", "0.2", "0.4", "0.6", "0.8", "1"], "a little under one"),
            (&[5_000.0], &["0", "1k", "2k", "3k", "4k", "5k"], "the deck's"),
            (&[13.0], &["0", "2.5", "5", "7.5", "10", "12.5", "15"], "quarters"),
            (&[0.0], &["0", "0.2", "0.4", "0.6", "0.8", "1"][..2], "nothing at all"),
            (&[], &["0", "0.2"], "no values"),
            (&[f64::NAN, 2.0], &["0", "0.5", "1", "1.5", "2"], "what is no number is passed over"),
        ];
        for (values, want, why) in rows {
            assert_eq!(labels(&Scale::linear(values))[..want.len()], *want, "{why}");
        }
    }

    #[test]
    fn logarithmic_ticks_hold_the_values_between_them() {
        let rows: [(&[f64], &[&str], &str); 4] = [
            (&[0.3, 8.0], &["0.2", "0.5", "1", "2", "5", "10"], "a decade and a half"),
            (&[0.05, 900.0], &["0.1", "1", "10", "100", "1k"], "more: tens alone"),
            (&[0.0, 3.0], &["2", "5"], "nought has no place but breaks nothing"),
            (&[7.0], &["5", "10"], "one value"),
        ];
        for (values, want, why) in rows {
            let scale = Scale::log(values);
            assert_eq!(labels(&scale), want, "{why}");
            for value in values {
                assert!((0.0..=1.0).contains(&scale.at(*value)), "{why}");
            }
        }
    }

    #[test]
    fn a_ladder_that_doubles_is_logarithmic_and_names_its_steps() {
        let doubling = [1e3, 2e3, 3e3, 4e3, 5e3, 1e4, 2e4, 4e4];
        let scale = Scale::steps(&doubling);
        assert_eq!(labels(&scale), ["1k", "2k", "3k", "4k", "5k", "10k", "20k", "40k"]);
        let even = |a: f64, b: f64| scale.at(b) - scale.at(a);
        assert!((even(1e3, 2e3) - even(2e4, 4e4)).abs() < 1e-9, "doubling takes the same room");
        assert_eq!(Scale::steps(&doubling[..5]).kind(), "", "the deck's own is linear");
    }

    #[test]
    fn ratios_have_a_tick_at_one() {
        for ratios in [&[0.95, 1.02][..], &[0.2, 1.0, 3.0], &[0.7, 45.0], &[], &[1.0, 900.0]] {
            let scale = Scale::about_one(ratios);
            assert!(labels(&scale).contains(&"1".to_owned()), "{ratios:?}: {scale:?}");
            assert!(ratios.iter().all(|r| scale.at(*r) > 0.0 && scale.at(*r) < 1.0), "{ratios:?}");
        }
    }

    #[test]
    fn labels_have_room_and_an_outlier_does_not_squeeze_the_rest() {
        let scale = Scale::linear(&[123_456.0]);
        let kept = |width| scale.ticks_within(width).iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(kept(400.0).len(), scale.ticks().len(), "all of them");
        let few = kept(90.0);
        assert!(few.len() < scale.ticks().len(), "{few:?}");
        assert_eq!(few.last().copied(), scale.ticks().last().map(|t| t.1.as_str()), "the last");
        for (values, is_log, why) in [
            (&[10.0, 11.0, 12.0, 13.0][..], false, "alike"),
            (&[10.0, 11.0, 12.0, 60.0], true, "one far above the others"),
            (&[10.0, 35.0, 40.0, 60.0], false, "spread evenly"),
            (&[0.0, 1.0, 1.1, 60.0], false, "0 has no logarithm"),
        ] {
            assert_eq!(Scale::fitting(values).log, is_log, "{why}");
        }
    }

    #[test]
    fn every_nine_takes_the_same_room() {
        let scale = Scale::percentiles(4.0);
        let gap = |a, b| scale.at(nines(b)) - scale.at(nines(a));
        assert!((gap(0.9, 0.99) - gap(0.99, 0.999)).abs() < 1e-9);
        assert_eq!(labels(&scale), ["p50", "p90", "p99", "p99.9", "max"]);
        assert!(nines(1.0).is_finite());
    }
}
