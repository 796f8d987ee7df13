//! The first screen: the verdict, the machine's fitness, the disturbed share, and for each decisive
//! comparison a plot with a dot for each contender's ratio to the reference and a line for its
//! interval, sorted by the ratio.

use maud::{Markup, html};

use super::Data;
use super::charts::line_style;
use super::lanes::{Lanes, NAME_CHARS};
use super::numbers::{counted, cut, listed, sensible, tenth};
use super::pair;
use super::rankings::{FEW, RankedRow, is_decisive, is_open, places};
use super::run::Ranking;
use super::scale::Scale;
use super::series::Row;
use super::{tables, works};
use crate::stats::judgement::Outcome;
use crate::stats::{Fitness, Judged, MARGIN};

/// Widths of the scale, and right of it.
const SCALE: f64 = 190.0;
const RIGHT: f64 = 166.0;

/// Characters of a remark that fit.
const REMARK_CHARS: usize = 44;
/// Characters of a ratio with its interval that fit; else the ratio stands alone.
const VALUE_CHARS: usize = 21;

/// Contenders that the verdict names.
const NAMED_MAX: usize = 3;

/// Share of disturbed samples from which it is emphasised.
const DISTURBED_MAX: f64 = 0.1;

/// The rankings that are drawn: decisive ones, those with ranks first.
pub(super) fn decisive<'d>(data: Data<'d>) -> Vec<&'d Ranking> {
    let mut all: Vec<&Ranking> =
        data.rankings.iter().filter(|ranking| is_decisive(data, ranking)).collect();
    all.sort_by_key(|ranking| places(data, ranking).iter().all(|place| place.ranks.is_none()));
    all
}

pub(super) fn verdict(data: Data<'_>) -> Markup {
    let is_worse = outcome(data) == Some(Outcome::Regression);
    let is_known = match outcome(data) {
        Some(outcome) => outcome != Outcome::NotShown,
        None => has_ranks(data),
    };
    html! {
        li.bad[is_worse].unknown[!is_known] {
            b { "Verdict" } @for sentence in verdicts(data) { span { (sentence) } }
        }
    }
}

/// `true` if the verdict is the result; otherwise it gives the reason for which there is none.
pub(super) fn has_verdict(data: Data<'_>) -> bool {
    data.run.judged.is_some() || has_ranks(data)
}

/// Reasons to doubt the verdict: the machine's fitness and the disturbed share.
pub(super) fn doubts(data: Data<'_>) -> Markup {
    let fitness = pair::verdict(&data.beside.pairs);
    let disturbed = data.beside.disturbed;
    html! {
        ul.verdict {
            @if !has_verdict(data) { (verdict(data)) }
            li.bad[fitness.is_some_and(|fitness| fitness != Fitness::Fit)].unknown[fitness.is_none()] {
                b { "Machine" } span { (pair::short(data.run, &data.beside.pairs)) }
            }
            @if !disturbed.words().is_empty() {
                li.bad[disturbed.share() > DISTURBED_MAX] {
                    b { "Disturbed" } @for words in disturbed.words() { span { (words) } }
                }
            }
        }
    }
}

/// Outcome of the judgement on one server, if that was the question.
fn outcome(data: Data<'_>) -> Option<Outcome> {
    data.run.judged.as_ref().map(Judged::outcome)
}

/// The verdict in sentences: the judgement on one server if that was the question, or the
/// contenders that are first.
pub(super) fn verdicts(data: Data<'_>) -> Vec<String> {
    let Some(judged) = &data.run.judged else { return vec![winners(data)] };
    let mut all = judged.sentences();
    all.extend(judged.not_compared.iter().cloned());
    all
}

/// `true` if a decisive comparison has ranks.
pub(super) fn has_ranks(data: Data<'_>) -> bool {
    let is_ranked =
        |ranking: &&Ranking| places(data, ranking).iter().any(|place| place.ranks.is_some());
    decisive(data).iter().any(is_ranked)
}

/// Sentence on the contenders that are first, and in how many comparisons.
fn winners(data: Data<'_>) -> String {
    let mut firsts: Vec<(&str, usize, usize)> = Vec::new();
    let (mut comparisons, mut open) = (0, 0);
    for ranking in decisive(data) {
        let places = places(data, ranking);
        if places.iter().all(|place| place.ranks.is_none()) {
            continue;
        }
        comparisons += 1;
        if is_open(data, ranking) {
            open += 1;
            continue;
        }
        for place in &places {
            let Some((1, worst)) = place.ranks else { continue };
            let name = ranking.rows.iter().find(|s| s.contender == place.standing.contender);
            let Some(name) = name.map(|s| s.contender.as_str()) else { continue };
            if firsts.iter().all(|(known, ..)| *known != name) {
                firsts.push((name, 0, 0));
            }
            let entry = firsts.iter_mut().find(|(known, ..)| *known == name);
            let Some((_, alone, shared)) = entry else { continue };
            *(if worst == 1 { alone } else { shared }) += 1;
        }
    }
    if comparisons == 0 {
        return match data.ladders.is_empty() {
            true => "Nothing was measured.".to_owned(),
            false => format!("None: {}.", unranked(data)),
        };
    }
    firsts.sort_by_key(|(_, alone, shared)| std::cmp::Reverse((*alone, *shared)));
    let is_unfit = pair::verdict(&data.beside.pairs) == Some(Fitness::Unfit);
    let is = if is_unfit { "seems" } else { "is surely" };
    let words = |(name, alone, shared): &(&str, usize, usize)| {
        let title = data.run.title(name);
        match (alone, shared) {
            (0, shared) => format!("{title} may be first in {shared}"),
            (alone, 0) => format!("{title} {is} first in {alone}"),
            (alone, shared) => format!("{title} {is} first in {alone} and may be in {shared}"),
        }
    };
    let named: Vec<String> = firsts.iter().take(NAMED_MAX).map(words).collect();
    let more = match firsts.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        some => format!("; {} may be first somewhere", counted(some, "other")),
    };
    let named = format!("{}{more}", listed(&named));
    let open = (open > 0).then(|| {
        let are = if open == 1 { "is" } else { "are" };
        format!("{open} {are} undecided, since a contender without a rank there may be first")
    });
    let parts: Vec<String> = [named].into_iter().filter(|p| !p.is_empty()).chain(open).collect();
    format!("Of {}, {}.", counted(comparisons, "comparison"), parts.join("; "))
}

/// Reasons for which no contender has a rank, in words.
fn unranked(data: Data<'_>) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for ranking in decisive(data) {
        let its = places(data, ranking).into_iter().filter(|place| place.is_open);
        for remark in its.map(|place| place.remark) {
            if !reasons.contains(&remark) {
                reasons.push(remark);
            }
        }
    }
    if reasons.is_empty() || reasons.iter().any(|reason| reason == FEW) {
        return "no comparison has an interval, which needs six rounds of turns, or 12 cycles of a \
                duel in 4 bursts"
            .to_owned();
    }
    format!("no contender can be ranked ({})", reasons.join("; "))
}

pub(super) fn panels(data: Data<'_>) -> Markup {
    let all = decisive(data);
    let reference = data.run.title(&data.run.reference);
    let over = match data.ladders.iter().flat_map(|l| &l.rows).all(Row::are_slices) {
        true => "the trimmed mean over cycles",
        false => "the median over rounds, or the trimmed mean over cycles",
    };
    html! {
        section.standings #standings {
            @if !has_ranks(data) { (works::glance(data)) } @else {
                p.note {
                    "Each dot is a contender's ratio to " (reference) ", " (over) "; its \
                     line is the interval. The best is on top. Filled: surely better, worse or the \
                     same within " (sensible(100.0 * MARGIN)) " % (grey band); hollow: too close to \
                     call. Point at a row for its figures."
                }
            }
            @if has_ranks(data) {
                div.plots { @for ranking in all { (panel(data, ranking)) } }
            }
        }
    }
}

fn panel(data: Data<'_>, ranking: &Ranking) -> Markup {
    let (title, unit, _) = ranking.measure.words();
    html! {
        figure {
            figcaption { (title) span { (ranking.work) } }
            (draw(data, ranking))
            details {
                summary { "The numbers (" (unit) ")" }
                (tables::ranking(data, ranking))
            }
        }
    }
}

fn draw(data: Data<'_>, ranking: &Ranking) -> Markup {
    let places = places(data, ranking);
    let titles = places.iter().map(|place| data.run.title(&place.standing.contender));
    let lanes = Lanes::fitting(titles, SCALE, RIGHT);
    let ends = |p: &RankedRow<'_>| match p.standing.interval {
        Some((low, high)) if p.ranks.is_some() => [low, p.standing.ratio, high],
        _ => [p.standing.ratio; 3],
    };
    let drawn = places.iter().filter(|p| is_drawn(p));
    let scale = Scale::about_one(&drawn.flat_map(ends).collect::<Vec<_>>());
    let rows: Vec<Markup> =
        places.iter().enumerate().map(|(at, place)| row(data, &lanes, &scale, place, at)).collect();
    let height = lanes.y(rows.len()) - lanes.row / 2.0 - lanes.top;
    let x = |ratio| lanes.x(&scale, ratio);
    let (left, right) = (x(1.0 / (1.0 + MARGIN)), x(1.0 + MARGIN));
    let band = html! {
        rect.band x=(tenth(left)) y=(lanes.top) width=(tenth(right - left)) height=(tenth(height)) {}
        path.one d={ "M" (tenth(x(1.0))) " " (lanes.top) "v" (tenth(height)) } {}
    };
    let work = &ranking.work;
    let title = format!("{}, {work}: ratios to the reference", ranking.measure.words().0);
    let better = if ranking.measure.more_is_better() { "more is better" } else { "less is better" };
    let label = format!("ratio, {better}");
    lanes.chart(&title, &scale, &label, &band, &rows)
}

/// `true` if a contender's ratio has a dot: ranked, or only without an interval.
fn is_drawn(place: &RankedRow<'_>) -> bool {
    place.standing.ratio.is_finite() && (place.ranks.is_some() || place.standing.interval.is_none())
}

fn row(data: Data<'_>, lanes: &Lanes, scale: &Scale, place: &RankedRow<'_>, at: usize) -> Markup {
    let RankedRow { standing, ranks, value, remark, .. } = place;
    let title = data.run.title(&standing.contender);
    let (y, ratio) = (lanes.y(at), sensible(standing.ratio));
    let interval = ranks.and(standing.interval).filter(|(low, high)| low != high);
    let shown = match interval {
        Some(_) => format!("{ratio} ({})", tables::interval(standing)),
        None => ratio.clone(),
    };
    let has_room = shown.chars().count() <= VALUE_CHARS;
    let short = if has_room { &shown } else { &ratio };
    let line = interval.map(|(low, high)| {
        format!("M{:.1} {y:.1}H{:.1}", lanes.x(scale, low), lanes.x(scale, high))
    });
    let is_open = remark == "too close to call" || ranks.is_none();
    html! {
        g class={ "s " (line_style(data, &standing.contender).class()) } {
            title { (title) ": " (shown) " of the reference's; " (value) "; " (remark) }
            rect.hit x="0" y=(tenth(y - lanes.row / 2.0)) width=(lanes.width) height=(lanes.row) {}
            text.name x=(tenth(lanes.names - 8.0)) y=(tenth(y + 4.0)) text-anchor="end" {
                (cut(title, NAME_CHARS))
            }
            @if is_drawn(place) {
                @if let Some(line) = line { path.span d=(line) {} }
                circle.dot.open[is_open] cx=(tenth(lanes.x(scale, standing.ratio))) cy=(tenth(y))
                    r="4" {}
                text.value x=(tenth(lanes.width - lanes.right + 8.0)) y=(tenth(y + 4.0)) { (short) }
            } @else {
                text.value x=(tenth(lanes.names + 4.0)) y=(tenth(y + 4.0)) {
                    (cut(remark, REMARK_CHARS))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::beside::Beside;
    use crate::report::invented;
    use crate::report::measure::Measure;
    use crate::report::run::{Standing, Verdict};
    use crate::report::series::ladders;
    use crate::sample::Sample;

    #[test]
    fn a_comparison_is_decided_only_if_all_that_could_be_first_are_ranked() {
        // Change of hurtle's sample, whether it has a ratio, verdict, why.
        type Row<'a> = (fn(&mut Sample), bool, &'a str, &'a str);
        let open =
            "Of 1 comparison, 1 is undecided, since a contender without a rank there may be first.";
        let rows: [Row<'_>; 4] = [
            (
                |_| (),
                true,
                "Of 1 comparison, Hurtle is surely first in 1.",
                "nothing is against it",
            ),
            (
                |s| s.load.replies /= 2,
                true,
                "Of 1 comparison, nginx is surely first in 1.",
                "it was too slow",
            ),
            (invented::give_out, true, open, "the generator gave out"),
            (invented::give_out, false, open, "in every round"),
        ];
        let standing = |(name, ratio, low, high): (&str, f64, f64, f64)| Standing {
            contender: name.to_owned(),
            ratio,
            interval: Some((low, high)),
            verdict: if name == "nginx" { Verdict::Reference } else { Verdict::Better },
        };
        let others = [("nginx", 1.0, 1.0, 1.0), ("h2o", 1.5, 1.4, 1.6)];
        let (run, _, _) = invented::run();
        for (change, has_ratio, expected, why) in rows {
            let hurtle = has_ratio.then_some(("hurtle", 0.5, 0.4, 0.6));
            let rankings = [Ranking {
                work: "10k at 1000/s".to_owned(),
                measure: Measure::CpuPerRequest,
                rows: hurtle.into_iter().chain(others).map(standing).collect(),
            }];
            let mut samples = ["hurtle", "nginx", "h2o"]
                .map(|name| Sample { contender: name.to_owned(), ..invented::sample(1, 0, 1e3) });
            change(&mut samples[0]);
            let (ladders, beside) = (ladders(&samples), Beside::of(&run, &samples));
            let data = Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &beside };
            assert_eq!(winners(data), expected, "{why}");
        }
    }
}
