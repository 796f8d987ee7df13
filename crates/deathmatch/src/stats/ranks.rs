//! Ranks as groups: places are given only where the difference is sure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ratio::{Better, Ratio, Rounds, Verdict, middle};

/// A place and who shares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// The place, from 1; after a group of three the next is 4.
    pub place: usize,
    /// Who holds it, by median, the best (the group's leader) first.
    pub contenders: Vec<String>,
}

/// Ranks contenders by a figure. In the order of their medians, the best not yet placed leads a group;
/// those after it belong to the group until the first that is surely slower than the *leader*, who
/// leads the next. Everybody is held against the leader alone: "too close to call" does not carry
/// over, so a chain of near ties cannot join two who differ. Within a group nothing is said.
pub fn ranks(figures: &BTreeMap<String, Rounds>, better: Better) -> Vec<Rank> {
    let mut order: Vec<(&String, &Rounds, f64)> =
        figures.iter().filter_map(|(name, rounds)| Some((name, rounds, middle(rounds)?))).collect();
    order.sort_by(|one, two| match better {
        Better::More => two.2.total_cmp(&one.2),
        Better::Less => one.2.total_cmp(&two.2),
    });
    let mut groups: Vec<Rank> = Vec::new();
    let mut leader: Option<&Rounds> = None;
    for (at, (name, rounds, _)) in order.into_iter().enumerate() {
        let slower = |leader: &Rounds| {
            Ratio::of(rounds, leader).is_some_and(|r| r.verdict(better) == Verdict::Slower)
        };
        match groups.last_mut() {
            Some(group) if !leader.is_some_and(slower) => group.contenders.push(name.clone()),
            _ => {
                groups.push(Rank { place: at + 1, contenders: vec![name.clone()] });
                leader = Some(rounds);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six rounds about a value, 0.5 % up and down.
    fn about(value: f64) -> Rounds {
        (0..6).map(|n| (n, value * (1.0 + 0.002 * (f64::from(n) - 2.5)))).collect()
    }

    fn places(figures: &[(&str, Rounds)], better: Better) -> Vec<(usize, String)> {
        let figures = figures.iter().map(|(name, r)| ((*name).to_owned(), r.clone())).collect();
        ranks(&figures, better).into_iter().map(|r| (r.place, r.contenders.join(" "))).collect()
    }

    #[test]
    fn places_are_groups_about_a_leader() {
        let noisy: Rounds = (0..6).map(|n| (n, if n % 2 == 0 { 80.0 } else { 105.0 })).collect();
        let rows: [(&[(&str, Rounds)], Better, &[(usize, &str)], &str); 6] = [
            (
                &[("a", about(100.0)), ("b", about(90.0)), ("c", about(120.0))],
                Better::More,
                &[(1, "c"), (2, "a"), (3, "b")],
                "all differ",
            ),
            (
                &[("a", about(100.0)), ("b", about(90.0)), ("c", about(120.0))],
                Better::Less,
                &[(1, "b"), (2, "a"), (3, "c")],
                "less is better",
            ),
            (
                &[("a", about(100.0)), ("b", about(98.5)), ("c", about(97.0)), ("d", about(95.6))],
                Better::More,
                &[(1, "a b"), (3, "c d")],
                "near ties do not chain: c is slower than a, though not than b",
            ),
            (
                &[("a", about(100.0)), ("noisy", noisy), ("z", about(50.0))],
                Better::More,
                &[(1, "a noisy"), (3, "z")],
                "what is unsure shares the leader's place",
            ),
            (
                &[("a", about(100.0)), ("b", Rounds::from([(0, 10.0)]))],
                Better::More,
                &[(1, "a b")],
                "one round proves nothing",
            ),
            (&[("a", Rounds::new())], Better::More, &[], "nothing measured, no place"),
        ];
        for (figures, better, right, sentence) in rows {
            let right: Vec<_> = right.iter().map(|(n, s)| (*n, (*s).to_owned())).collect();
            assert_eq!(places(figures, better), right, "{sentence}");
        }
    }
}
