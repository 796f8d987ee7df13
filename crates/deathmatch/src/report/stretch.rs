//! The ladders of one chart from left to right: one ladder, or sessions and the open loop that
//! continues beyond their highest rate.

use super::series::{Ladder, Row, Steps};

/// Distance of closed loops to the right of the highest rate, as a factor.
const ALL_OUT_TIMES: f64 = 1.7;

/// One chart's ladders.
pub(super) struct Stretch<'l> {
    /// From left to right; each begins at the end of the one before.
    pub(super) parts: Vec<&'l Ladder<'l>>,
    /// The closed loop of the same file, if there is one of a single step.
    pub(super) all_out: Option<&'l Ladder<'l>>,
}

/// Ladders as they are drawn.
pub(super) fn stretches<'l>(ladders: &'l [Ladder<'l>]) -> Vec<Stretch<'l>> {
    let of = |like: &Ladder<'_>, steps: Steps| ladders.iter().find(|l| l.asks_as(like, steps));
    let stretch = |ladder: &'l Ladder<'l>| {
        let beyond = of(ladder, Steps::Even).filter(|even| extends(ladder, even));
        let parts = match ladder.steps {
            Steps::Sessions => [Some(ladder), beyond].into_iter().flatten().collect(),
            Steps::Even if of(ladder, Steps::Sessions).is_some_and(|s| extends(s, ladder)) => {
                return None; // drawn with the sessions
            }
            _ => vec![ladder],
        };
        let closed = of(ladder, Steps::Connections).filter(|l| l.xs().len() == 1);
        Some(Stretch { parts, all_out: closed.filter(|_| ladder.steps.are_rates()) })
    };
    ladders.iter().filter_map(stretch).collect()
}

/// `true` if an open loop goes beyond the sessions of its file.
fn extends(sessions: &Ladder<'_>, even: &Ladder<'_>) -> bool {
    let top = |ladder: &Ladder<'_>| ladder.xs().last().copied().unwrap_or_default();
    top(even) > top(sessions)
}

impl<'l> Stretch<'l> {
    pub(super) fn title(&self) -> String {
        let kinds: Vec<&str> = self.parts.iter().map(|l| l.steps.words().1).collect();
        let first = self.parts.first();
        let file = first.map_or("", |l| l.file);
        let conditions = first.map_or(String::new(), |l| l.conditions());
        format!("{file}, {}{conditions}", kinds.join(", then "))
    }

    /// Kind of its steps.
    pub(super) fn steps(&self) -> Steps {
        self.parts.first().map_or(Steps::Even, |l| l.steps)
    }

    /// Contenders of any part, as they first appear.
    pub(super) fn contenders(&self) -> Vec<&'l str> {
        let mut seen = Vec::new();
        for name in self.parts.iter().flat_map(|l| l.contenders()) {
            if !seen.contains(&name) {
                seen.push(name);
            }
        }
        seen
    }

    /// One contender's rows that are drawn, by part.
    pub(super) fn drawn<'s>(
        &'s self,
        name: &'s str,
    ) -> impl Iterator<Item = (usize, &'l Row<'l>)> + 's {
        let rows = self.rows().filter(move |(_, row)| row.contender == name);
        rows.filter(|(part, row)| self.begins(*part).is_none_or(|from| row.x > from))
    }

    /// All rows, by part.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &'l Row<'l>)> {
        self.parts.iter().enumerate().flat_map(|(at, l)| l.rows.iter().map(move |row| (at, row)))
    }

    /// The steps that are drawn, upward.
    pub(super) fn xs(&self) -> Vec<f64> {
        let steps = self.parts.iter().enumerate().flat_map(|(at, ladder)| {
            let from = self.begins(at);
            ladder.xs().into_iter().filter(move |x| from.is_none_or(|from| *x > from))
        });
        steps.collect()
    }

    /// Places where parts meet: (place, name of the left part, name of the right part).
    pub(super) fn seams(&self) -> Vec<(f64, &'static str, &'static str)> {
        let seam = |(at, pair): (usize, &[&Ladder<'_>])| {
            let left = self.begins(at + 1)?;
            let right = pair[1].xs().into_iter().find(|x| *x > left)?;
            let name = |ladder: &Ladder<'_>| match ladder.steps {
                Steps::Sessions => "sessions",
                steps => steps.words().1,
            };
            Some(((left * right).sqrt(), name(pair[0]), name(pair[1])))
        };
        self.parts.windows(2).enumerate().filter_map(seam).collect()
    }

    /// Place of closed loops.
    pub(super) fn all_out_x(&self) -> f64 {
        ALL_OUT_TIMES * self.xs().last().copied().unwrap_or(1.0)
    }

    /// The rate beyond which a part is drawn: the highest of the part before it.
    fn begins(&self, part: usize) -> Option<f64> {
        self.parts.get(part.checked_sub(1)?)?.xs().last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::invented;
    use crate::report::series::ladders;
    use crate::sample::{Offered, Sample};

    #[test]
    fn an_open_loop_goes_on_where_sessions_end() {
        let open = |rate| Sample {
            work: format!("10k at {rate}/s over 50 connections"),
            offered: Offered::Open { rate, poisson: false, connections: 50 },
            ..invented::sample(8, 0, rate)
        };
        let sessions = [1e3, 5e3].map(|rate| invented::sample(8, 0, rate));
        let samples: Vec<Sample> = sessions.into_iter().chain([2.5e3, 10e3].map(open)).collect();
        let both = ladders(&samples);
        let [stretch] = &stretches(&both)[..] else { panic!("one chart") };
        assert_eq!(stretch.xs(), [1e3, 5e3, 10e3], "2500/s is left to the table");
        assert_eq!(stretch.drawn("nginx").count(), 3);
        assert_eq!(stretch.rows().count(), 4);
        let [(at, left, right)] = stretch.seams()[..] else { panic!("one seam") };
        assert!((5e3..10e3).contains(&at) && left.starts_with("sessions") && right == "open loop");
        let apart = [invented::sample(8, 0, 5e3), open(2e3)];
        let apart = ladders(&apart);
        assert_eq!(stretches(&apart).len(), 2, "one that ends below them is drawn by itself");
    }
}
