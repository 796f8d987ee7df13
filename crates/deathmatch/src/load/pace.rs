//! Intended times of requests: equal or exponential gaps, fixed in advance. Also checks that a job
//! can be offered.

use std::io;

use super::Job;
use crate::random::SplitMix;
use crate::sample::Offered;

/// Rates that can be offered, in arrivals a second. One thread sends far less than the highest; it
/// limits the queue.
const RATE_MIN: f64 = 0.001;
const RATE_MAX: f64 = 1e6;

/// Loads of one draw have the same gaps, so that arrivals are the same for all contenders.
const SEED: u64 = 0x6875_7274_6c65;

/// Successive intended times in nanoseconds since the start.
#[derive(Debug)]
pub(super) struct Pace {
    gap_ns: f64,
    random: Option<SplitMix>,
    /// The next time. Equal gaps are multiplied, not added, so that errors do not accumulate.
    next_ns: f64,
    index: u64,
}

impl Pace {
    /// `draw`: its number if the gaps are random; `None`: they are equal.
    pub(super) fn new(rate: f64, draw: Option<u64>) -> Pace {
        let gap_ns = 1e9 / rate;
        let random = draw.map(|draw| SplitMix(SplitMix(SEED ^ draw).bits()));
        Pace { gap_ns, random, next_ns: 0.0, index: 0 }.begun()
    }

    /// Continues the random gaps of an earlier run.
    pub(super) fn after(self, earlier: Option<&Pace>) -> Pace {
        match (&self.random, earlier.and_then(|earlier| earlier.random.clone())) {
            (Some(_), Some(random)) => Pace { random: Some(random), ..self }.begun(),
            _ => self,
        }
    }

    /// With random gaps the first arrival is no more certain than any other.
    fn begun(mut self) -> Pace {
        self.next_ns = self.random_gap().unwrap_or(0.0);
        self
    }

    fn random_gap(&mut self) -> Option<f64> {
        // The inverse of the exponential distribution, at 1 - u in (0, 1].
        self.random.as_mut().map(|random| -self.gap_ns * (1.0 - random.unit()).ln())
    }

    /// The next intended time.
    pub(super) fn next(&self) -> u64 {
        self.next_ns as u64
    }

    /// The next intended time, if it has passed.
    pub(super) fn due(&mut self, now: u64) -> Option<u64> {
        let next = self.next_ns as u64;
        if next > now {
            return None;
        }
        self.index += 1;
        self.next_ns = match self.random_gap() {
            Some(gap_ns) => self.next_ns + gap_ns,
            None => self.gap_ns * self.index as f64,
        };
        Some(next)
    }
}

/// Slots at the start, and the arrivals. An error names the unusable figure of the job.
pub(super) fn plan(job: &Job, slots_max: usize) -> io::Result<(usize, Option<Pace>)> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let offered = &job.offered;
    if job.requests.is_empty() || job.order.iter().any(|&at| at as usize >= job.requests.len()) {
        return invalid("there is no such request to send: name at least one".into());
    }
    let (connections, rate, poisson) = match *offered {
        Offered::Open { rate, poisson, connections } => (connections, Some(rate), poisson),
        Offered::Sessions { rate, .. } => (0, Some(rate), false),
        Offered::Closed { connections } => (connections, None, false),
    };
    if let Some(rate) = rate.filter(|rate| !(RATE_MIN..=RATE_MAX).contains(rate)) {
        return invalid(format!(
            "a rate of {rate}/s cannot be offered: ask for {RATE_MIN} to {RATE_MAX}"
        ));
    }
    if matches!(offered, Offered::Sessions { calls: 0, .. }) {
        return invalid("a session without calls offers nothing: ask for at least one".into());
    }
    if connections == 0 && !matches!(offered, Offered::Sessions { .. }) {
        return invalid("there is no connection to send over: ask for at least one".into());
    }
    let slots = usize::try_from(connections).unwrap_or(usize::MAX);
    if slots > slots_max {
        return invalid(format!(
            "{connections} connections are more than the {slots_max} that the descriptor limit \
             leaves: raise it (ulimit -n) or ask for fewer"
        ));
    }
    Ok((slots, rate.map(|rate| Pace::new(rate, poisson.then_some(job.draw)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_gaps_do_not_drift() {
        let mut pace = Pace::new(3000.0, None);
        let last = (0..=3_000_000).map(|_| pace.due(u64::MAX).unwrap()).last();
        assert_eq!(last, Some(1_000_000_000_000));
        assert_eq!(pace.due(1), None, "not before its time");
    }

    /// Regression: each slice had the same arrivals, 6 % more than the rate.
    #[test]
    fn slices_with_poisson_gaps_have_the_rate_and_differ() {
        let (mut pace, mut counts) = (Pace::new(1_000.0, Some(0)), Vec::new());
        for _ in 0..400 {
            counts.push(std::iter::from_fn(|| pace.due(250_000_000 - 1)).count());
            pace = Pace::new(1_000.0, Some(0)).after(Some(&pace));
        }
        let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
        assert!((mean - 250.0).abs() < 2.5, "{mean}");
        counts.dedup();
        assert!(counts.len() > 350, "{counts:?}");
        assert_eq!(Pace::new(1_000.0, None).after(Some(&pace)).next(), 0);
    }

    /// Regression: bursts of a duel had the same arrivals one after the other.
    #[test]
    fn each_draw_has_its_own_arrivals() {
        let first = |draw| Pace::new(1_000.0, Some(draw)).next();
        assert_eq!(first(7), first(7));
        let mut all: Vec<u64> = (0..1_000).map(first).collect();
        let mean = all.iter().sum::<u64>() as f64 / 1e9;
        assert!((mean - 1.0).abs() < 0.1, "{mean} ms");
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 990, "{}", all.len());
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_variance_of_the_exponential() {
        let mut pace = Pace::new(1000.0, Some(0));
        let times: Vec<u64> = (0..100_001).map(|_| pace.due(u64::MAX).unwrap()).collect();
        let gaps: Vec<f64> = times.windows(2).map(|t| (t[1] - t[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }
}
