//! Judgement on the first server of a duel beside the others, or beside a kept run: an equivalence
//! test of each measure. It is computed once; the terminal, JSON, the report and the exit code show
//! it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::FAILED_GROWN_MAX;
use super::duel::{Duel, Standing};
use super::ratio::Ratio;

/// Exit code if neither a regression nor its absence is shown.
const EXIT_NOT_SHOWN: u8 = 3;

/// The judgements of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The server in question.
    pub first: String,
    /// Share by which it may be worse.
    pub tolerance: f64,
    /// `true`: than its ratios in a kept run.
    pub than_before: bool,
    /// A judgement for each work, other server and measure.
    pub judgements: Vec<Judgement>,
    /// Works and other servers without any measure to judge by.
    #[serde(default)]
    pub not_judged: Vec<NotJudged>,
    /// Reasons for which a measure was not compared, a sentence each.
    pub not_compared: Vec<String>,
}

/// A server beside which the first one is not judged, since no measure of both was compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotJudged {
    /// The name of the work.
    pub work: String,
    /// The name of the other server.
    pub against: String,
}

/// A measure of the first server against another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The name of the work that both servers did.
    pub work: String,
    /// The name of the server that it is compared with.
    pub against: String,
    /// The measure, in words.
    pub measure: String,
    /// Bounds of the factor by which the first server is worse than the other, or than it was;
    /// below 1 it is better. `None`: too few cycles, or `failed` decides.
    pub worse: Option<(f64, f64)>,
    /// Shares of requests (0 to 1) that failed: the first server's, and the other's or its own
    /// before. `None`: the measure is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<(f64, f64)>,
    /// The outcome by the interval and the tolerance, or by the shares.
    pub verdict: Outcome,
}

/// Outcome of a judgement, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The worse bound is within the tolerance.
    Fine,
    /// The interval holds the tolerance, so neither is shown.
    NotShown,
    /// The better bound is beyond the tolerance.
    Regression,
}

impl Judged {
    /// Judges the reference of these duels beside the others, by its ratios in a kept run if there
    /// is one.
    pub fn of(duels: &[Duel], kept: Option<&[Judgement]>, tolerance: f64) -> Judged {
        let first = duels.first().map_or(String::new(), |duel| duel.reference.clone());
        let all = factors(duels);
        let not_judged = not_judged(&all, kept);
        let now = all.into_iter();
        let judgements = now.filter_map(|mut one| {
            if let Some(kept) = kept {
                let before = kept.iter().find(|k| one.is_like(k))?;
                let than = |(now, then): ((f64, f64), (f64, f64))| (now.0 / then.1, now.1 / then.0);
                one.worse = one.worse.zip(before.worse).map(than);
                let own = one.failed.zip(before.failed);
                one.failed = own.map(|((now, _), (then, _))| (now, then));
            }
            one.verdict = match one.failed {
                Some((now, than)) if now > than + FAILED_GROWN_MAX => Outcome::Regression,
                Some(_) => return None,
                None => judge(one.worse, tolerance),
            };
            Some(one)
        });
        let judgements = judgements.collect();
        let mut not_compared = not_compared(duels);
        not_compared.extend(kept.into_iter().flat_map(|kept| not_kept(duels, kept)));
        let than_before = kept.is_some();
        Judged { first, tolerance, than_before, judgements, not_judged, not_compared }
    }

    /// The outcome of all: a regression decides, then a judgement that shows nothing, or a server
    /// of which no measure was judged.
    pub fn outcome(&self) -> Outcome {
        let not_judged = self.not_judged.iter().map(|_| Outcome::NotShown);
        let verdicts = self.judgements.iter().map(|one| one.verdict);
        verdicts.chain(not_judged).max().unwrap_or(Outcome::NotShown)
    }

    /// 0 fine, 1 a regression, 3 neither is shown.
    pub fn exit_code(&self) -> u8 {
        match self.outcome() {
            Outcome::Fine => 0,
            Outcome::Regression => 1,
            Outcome::NotShown => EXIT_NOT_SHOWN,
        }
    }

    /// A sentence for each judgement, then for each server without any.
    pub fn sentences(&self) -> Vec<String> {
        let judged = self.judgements.iter().map(|one| (self.sentence(one), &one.work));
        let not_judged = self.not_judged.iter().map(|one| {
            let (first, than) = (&self.first, self.than(&one.against));
            let share = percent(self.tolerance);
            let text = format!(
                "{first}: not shown to be at most {share} worse {than}, since no measure is compared"
            );
            (text, &one.work)
        });
        let all: Vec<(String, &String)> = judged.chain(not_judged).collect();
        let work = |work: &String| match all.iter().all(|(_, other)| *other == work) {
            true => String::new(),
            false => format!(" ({work})"),
        };
        all.iter().map(|(text, its)| format!("{text}{}.", work(its))).collect()
    }

    fn than(&self, against: &str) -> String {
        match self.than_before {
            true => format!("than before, against {against}"),
            false => format!("than {against}"),
        }
    }

    fn sentence(&self, one: &Judgement) -> String {
        let than = self.than(&one.against);
        let (first, measure, share) = (&self.first, &one.measure, percent(self.tolerance));
        if let Some((now, other)) = one.failed {
            let [now, other] = [now, other].map(percent);
            return format!("{first}, {measure}: WORSE {than} ({now} of all, and {other})");
        }
        let Some((low, high)) = one.worse else {
            return format!(
                "{first}, {measure}: not shown to be at most {share} worse {than}, since an interval \
                 needs 12 cycles in 4 bursts"
            );
        };
        let said = match one.verdict {
            Outcome::Fine => format!("at most {share} worse"),
            Outcome::Regression => format!("WORSE by more than {share}"),
            Outcome::NotShown => format!("not shown to be at most {share} worse"),
        };
        format!("{first}, {measure}: {said} {than} (worse by a factor of {low:.3} to {high:.3})")
    }
}

impl Judgement {
    fn is_like(&self, other: &Judgement) -> bool {
        let key = |one: &Judgement| (one.work.clone(), one.against.clone(), one.measure.clone());
        key(self) == key(other)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Outcome::Fine => "not worse",
            Outcome::NotShown => "not shown",
            Outcome::Regression => "WORSE",
        })
    }
}

/// A share with the digits that it has, as in `0.5 %`.
pub fn percent(share: f64) -> String {
    let digits = (share * 1e5).round() / 1e3;
    format!("{digits} %")
}

/// Factors by which the reference is worse than the others, by work and measure, and shares of
/// failed requests, not yet judged.
pub fn factors(duels: &[Duel]) -> Vec<Judgement> {
    let mut all = Vec::new();
    for duel in duels {
        let is_limited = |its: &Standing| its.load_limited;
        let reference = duel.contenders.get(&duel.reference);
        for (name, its) in duel.contenders.iter().filter(|(name, _)| **name != duel.reference) {
            let bounds = |ratio: &Ratio| ratio.interval.map(|i| (i.low, i.high));
            let one = |measure: &str| Judgement {
                work: duel.work.clone(),
                against: name.clone(),
                measure: measure.to_owned(),
                worse: None,
                failed: None,
                verdict: Outcome::NotShown,
            };
            let failed = reference.map(|first| (first.failed_share, its.failed_share));
            all.push(Judgement { failed, ..one("failed requests") });
            let mut add = |measure, worse| all.push(Judgement { worse, ..one(measure) });
            if let Some(cpu) = &its.cpu {
                // The ratio is the other's to the first's.
                let inverse = bounds(cpu).map(|(low, high)| (1.0 / high, 1.0 / low));
                add("processor time of a request", inverse);
            }
            if let Some(replies) = &its.replies
                && !is_limited(its)
                && !reference.is_some_and(is_limited)
            {
                add("replies a second", bounds(replies));
            }
        }
    }
    all
}

/// The works and servers of which these factors have only the share of failed requests; with a kept
/// run those that it has a measure of.
fn not_judged(all: &[Judgement], kept: Option<&[Judgement]>) -> Vec<NotJudged> {
    let is_of = |other: &Judgement, one: &Judgement| {
        other.failed.is_none() && (&other.work, &other.against) == (&one.work, &one.against)
    };
    let is_judged = |one: &Judgement| match kept {
        None => all.iter().any(|other| is_of(other, one)),
        Some(kept) => {
            let mut its = kept.iter().filter(|other| is_of(other, one)).peekable();
            its.peek().is_none() || its.any(|then| all.iter().any(|now| now.is_like(then)))
        }
    };
    let others = all.iter().filter(|one| one.failed.is_some() && !is_judged(one));
    others.map(|one| NotJudged { work: one.work.clone(), against: one.against.clone() }).collect()
}

/// An equivalence test: fine only if the worse bound is within the tolerance.
fn judge(worse: Option<(f64, f64)>, tolerance: f64) -> Outcome {
    match worse {
        Some((least, _)) if least > 1.0 + tolerance => Outcome::Regression,
        Some((_, most)) if most <= 1.0 + tolerance => Outcome::Fine,
        _ => Outcome::NotShown,
    }
}

/// Reasons for which a measure was not compared, a sentence each.
fn not_compared(duels: &[Duel]) -> Vec<String> {
    let mut all = Vec::new();
    for duel in duels {
        let names = |is: fn(&Standing) -> bool| -> Vec<&str> {
            let its = duel.contenders.iter().filter(|(_, its)| is(its));
            its.map(|(name, _)| name.as_str()).collect()
        };
        let unknown = names(|its| its.cpu_us.is_none());
        if !unknown.is_empty() {
            all.push(format!(
                "Processor time is not compared{}, since the process of {} is not known; \
                 for a URL of this machine write --pid PID.",
                with(duel, &unknown),
                unknown.join(", ")
            ));
        }
        if duel.contenders.len() < 2 {
            continue;
        }
        for (name, its) in &duel.contenders {
            if let Some(why) = &its.not_compared {
                all.push(format!("{} is not compared with {name}: {why}.", duel.reference));
            }
        }
        if !duel.is_closed {
            all.push("Replies a second are not compared: the rate is fixed for all.".to_owned());
        }
        let limited = names(|its| its.load_limited);
        if duel.is_closed && !limited.is_empty() {
            all.push(format!(
                "Replies a second are not compared{}: the generator was the limit of {}.",
                with(duel, &limited),
                limited.join(", ")
            ));
        }
    }
    let mut said = BTreeSet::new();
    all.retain(|sentence| said.insert(sentence.clone()));
    all
}

/// The servers that a measure of these is not compared with, as in ` with b, c`. Nothing if it is
/// compared with none, because the reference is among them, or all others are.
fn with(duel: &Duel, these: &[&str]) -> String {
    let is_of_all =
        these.contains(&duel.reference.as_str()) || these.len() + 1 >= duel.contenders.len();
    if is_of_all { String::new() } else { format!(" with {}", these.join(", ")) }
}

/// Sentences on the measures that the kept run does not have.
fn not_kept(duels: &[Duel], kept: &[Judgement]) -> Vec<String> {
    let mut now = factors(duels);
    now.retain(|one| one.failed.is_none() && !kept.iter().any(|other| one.is_like(other)));
    let sentence = |one: Judgement| {
        let Judgement { work, against, measure, .. } = one;
        format!("{work}: the kept run has no {measure} against {against}.")
    };
    now.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    #[test]
    fn fine_needs_the_worse_bound_within_the_tolerance() {
        for (worse, verdict) in [
            (Some((0.9, 1.04)), Outcome::Fine),
            (Some((1.06, 1.2)), Outcome::Regression),
            (Some((0.6, 1.6)), Outcome::NotShown),
            (Some((1.04, 1.06)), Outcome::NotShown),
            (None, Outcome::NotShown),
        ] {
            assert_eq!(judge(worse, 0.05), verdict, "{worse:?}");
        }
    }

    /// A duel of `a` and `b` with this interval of the ratio of replies.
    fn duel(interval: Option<(f64, f64)>, change: impl Fn(&mut Standing)) -> Duel {
        let interval = interval.map(|(low, high)| Interval { low, high, confidence: 0.95 });
        let ratio = Ratio { median: 1.0, interval, bootstrap: (1.0, 1.0), rounds: [].into() };
        let one = Standing { cpu_us: Some(1.0), ..Standing::default() };
        let mut two = Standing { replies: Some(ratio), ..one.clone() };
        change(&mut two);
        Duel {
            work: "w".to_owned(),
            reference: "a".to_owned(),
            is_closed: true,
            cycles: 12,
            contenders: [("a".to_owned(), one), ("b".to_owned(), two)].into(),
            ..Duel::default()
        }
    }

    #[test]
    fn a_kept_run_is_compared_by_the_worst_of_both_intervals() {
        let verdict = |now: (f64, f64), then: (f64, f64)| {
            let (now, then) = (duel(Some(now), |_| ()), duel(Some(then), |_| ()));
            Judged::of(&[now], Some(&factors(&[then])), 0.05).outcome()
        };
        assert_eq!(verdict((1.98, 2.0), (1.99, 2.01)), Outcome::Fine, "slower, as before");
        assert_eq!(verdict((1.2, 1.21), (1.0, 1.01)), Outcome::Regression);
        assert_eq!(verdict((1.0, 1.1), (1.0, 1.1)), Outcome::NotShown, "both are wide");
        let mut other = factors(&[duel(Some((1.0, 1.0)), |_| ())]);
        other.iter_mut().for_each(|one| one.against = "caddy".to_owned());
        let now = duel(Some((1.0, 1.0)), |_| ());
        let judged = Judged::of(&[now], Some(&other), 0.05);
        assert!(judged.judgements.is_empty());
        assert_eq!(judged.not_compared, ["w: the kept run has no replies a second against b."]);
    }

    #[test]
    fn a_server_without_any_measure_is_not_shown_to_be_no_better() {
        let limited = |s: &mut Standing| {
            s.load_limited = true;
            s.cpu_us = None;
        };
        let outcome = |kept: Option<&[Judgement]>| {
            let mut now = duel(Some((0.99, 1.0)), |_| ());
            let limited = duel(Some((0.99, 1.0)), limited).contenders["b"].clone();
            now.contenders.insert("c".to_owned(), limited);
            let judged = Judged::of(&[now], kept, 0.05);
            let named: Vec<String> = judged.not_judged.iter().map(|o| o.against.clone()).collect();
            (judged.outcome(), named, judged.sentences())
        };
        let (verdict, named, sentences) = outcome(None);
        assert_eq!((verdict, named), (Outcome::NotShown, vec!["c".to_owned()]), "b alone is fine");
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        let said = "a: not shown to be at most 5 % worse than c, since no measure is compared.";
        assert_eq!(sentences[1], said);
        let kept = factors(&[duel(Some((0.99, 1.0)), |_| ())]);
        assert_eq!(outcome(Some(&kept)).0, Outcome::Fine, "the kept run has no c");
        let of_c = kept.iter().map(|one| Judgement { against: "c".to_owned(), ..one.clone() });
        let both: Vec<Judgement> = kept.iter().cloned().chain(of_c).collect();
        assert_eq!(outcome(Some(&both)).0, Outcome::NotShown);
    }

    #[test]
    fn a_measure_that_is_not_compared_has_a_true_reason() {
        type Change = fn(&mut Standing);
        let rows: [(Change, bool, Option<&str>); 5] = [
            (|_| (), true, None),
            (|s| s.cpu_us = None, true, Some("the process of b is not known")),
            (|s| s.replies = None, false, Some("the rate is fixed for all")),
            (
                |s| s.load_limited = true,
                true,
                Some("not compared: the generator was the limit of b."),
            ),
            (|s| s.replies = None, true, None),
        ];
        for (change, is_closed, words) in rows {
            let duel = Duel { is_closed, ..duel(Some((1.0, 1.0)), change) };
            let reasons = not_compared(std::slice::from_ref(&duel));
            assert_eq!(reasons.len(), usize::from(words.is_some()), "{duel:?}: {reasons:?}");
            assert!(words.is_none_or(|words| reasons[0].contains(words)), "{reasons:?}");
        }
        // Four servers in two works.
        let several: [(&[&str], &str); 3] = [
            (&["b", "c"], "not compared with b, c: the generator was the limit of b, c."),
            (&["a", "b"], "not compared: the generator was the limit of a, b."),
            (&["b", "c", "d"], "not compared: the generator was the limit of b, c, d."),
        ];
        for (limited, words) in several {
            let mut one = duel(Some((1.0, 1.0)), |_| ());
            for name in ["c", "d"] {
                one.contenders.insert(name.to_owned(), one.contenders["b"].clone());
            }
            for name in limited {
                one.contenders.get_mut(*name).unwrap().load_limited = true;
            }
            one.contenders.get_mut("d").unwrap().cpu_us = None;
            let reasons = not_compared(&[one.clone(), one]);
            assert_eq!(reasons.len(), 2, "each once: {reasons:?}");
            assert!(reasons[0].contains("compared with d, since the process of d"), "{reasons:?}");
            assert!(reasons[1].contains(words), "{reasons:?}");
        }
        let alone = Duel {
            contenders: [("a".to_owned(), Standing { cpu_us: Some(1.0), ..Standing::default() })]
                .into(),
            ..duel(None, |_| ())
        };
        assert_eq!(not_compared(&[alone]), [""; 0], "nothing to compare");
    }

    #[test]
    fn a_share_has_the_digits_it_was_given() {
        for (share, text) in
            [(0.05, "5 %"), (0.005, "0.5 %"), (0.001, "0.1 %"), (0.0125, "1.25 %"), (0.07, "7 %")]
        {
            assert_eq!(percent(share), text);
        }
    }
}
