//! HTML tables: the overview, the rankings, a chart's numbers, a ladder's marks.

use maud::{Markup, html};

use super::Data;
use super::chart::LineStyle;
use super::charts::line_style;
use super::csv::marks;
use super::limit::{Limit, Overload, words};
use super::numbers::sensible;
use super::overview;
use super::rankings::{RankedRow, Unplaced, places, rank_words, unplaced};
use super::run::{Ranking, Standing};
use super::scale::step_words;
use super::series::Ladder;

/// A contender's key and title.
pub(super) fn titled(data: Data<'_>, name: &str) -> Markup {
    html! { (line_style(data, name).key()) (data.run.title(name)) }
}

/// A table of text cells, the first row its head.
pub(super) fn plain(rows: &[Vec<String>]) -> Markup {
    let (head, rows) = rows.split_first().map_or((&[][..], rows), |(head, rows)| (&head[..], rows));
    html! {
        div.scroll {
            table {
                tr { @for cell in head { th { (cell) } } }
                @for row in rows { tr { @for cell in row { td { (cell) } } } }
            }
        }
    }
}

/// One line for each contender of a ladder.
pub(super) fn overview(data: Data<'_>, ladder: &Ladder<'_>) -> Markup {
    let table = overview::table(data, ladder);
    html! {
        div.scroll {
            table {
                tr { @for cell in &table.head { th scope="col" { (cell) } } }
                @for (name, cells) in &table.rows {
                    tr.floor[line_style(data, name) == LineStyle::Floor] {
                        td { (titled(data, name)) }
                        @for cell in cells.iter().skip(1) { td { (cell) } }
                    }
                }
            }
        }
    }
}

/// The highest rate each contender carries, and its behaviour under 1.5 times that.
pub(super) fn limits(data: Data<'_>, limits: &[&Limit]) -> Markup {
    let has_overload = limits.iter().any(|l| l.overload.is_some());
    let measured = ["then offered", "it answers", "p99, ms", "errors, %"];
    let remark = |limit: &Limit| match () {
        () if limit.wrong => "wrong bytes: disqualified",
        () if data.run.is_floor(&limit.contender) => "a floor, not ranked",
        () => "",
    };
    html! {
        div.scroll {
            table {
                tr {
                    @for cell in ["Contender", "rank", "carries"] { th scope="col" { (cell) } }
                    @if has_overload { @for cell in measured { th scope="col" { (cell) } } }
                    th {}
                }
                @for limit in limits {
                    tr.unranked[limit.place.is_none()] {
                        td { (titled(data, &limit.contender)) }
                        td.rank { (limit.place.map_or_else(|| "–".to_owned(), |p| p.to_string())) }
                        td { (words(&limit.bracket)) }
                        @if has_overload { @for cell in overload(limit.overload) { td { (cell) } } }
                        td.words { (remark(limit)) }
                    }
                }
            }
        }
    }
}

fn overload(overload: Option<Overload>) -> [String; 4] {
    let Some(over) = overload else { return [const { "–" }; 4].map(str::to_owned) };
    let ms = over.p99_ms.map_or_else(|| "–".to_owned(), sensible);
    let [offered, replies] =
        [over.offered, over.replies].map(|rate| format!("{}/s", sensible(rate)));
    [offered, replies, ms, sensible(over.errors_percent)]
}

/// Ranks, ratios and their intervals.
pub(super) fn ranking(data: Data<'_>, ranking: &Ranking) -> Markup {
    let unit = ranking.measure.words().1;
    html! {
        div.scroll {
            table {
                tr {
                    th { "Contender" } th { "rank" } th { (unit) }
                    th { (data.run.title(&data.run.reference)) " = 1" } th { "interval" } th {}
                }
                @for RankedRow { standing, ranks, value, remark, .. } in &places(data, ranking) {
                    tr.unranked[ranks.is_none()] {
                        td { (titled(data, &standing.contender)) }
                        td.rank { (rank_words(*ranks)) }
                        td { (value) }
                        td { (sensible(standing.ratio)) }
                        td { (interval(standing)) }
                        td.words { (remark) }
                    }
                }
                @for Unplaced { name, value, barred } in unplaced(data, ranking) {
                    tr.unranked {
                        td { (titled(data, name)) } td { "–" } td { (value) } td { "–" } td { "–" }
                        td.words { (barred.remark) }
                    }
                }
            }
        }
    }
}

/// The interval of a ratio, as it is shown.
pub(super) fn interval(standing: &Standing) -> String {
    let shown = |(low, high): (f64, f64)| format!("{}–{}", sensible(low), sensible(high));
    standing.interval.filter(|(low, high)| low != high).map_or_else(|| "–".to_owned(), shown)
}

/// The rows of a ladder that bear marks; `None` where no row does.
pub(super) fn marked(data: Data<'_>, ladder: &Ladder<'_>) -> Option<Markup> {
    let head = ["Contender", "at", "marked"].map(str::to_owned).to_vec();
    let rows = ladder.rows.iter().filter(|row| !marks(row).is_empty()).map(|row| {
        let title = data.run.title(row.contender).to_owned();
        vec![title, step_words(row.x, ladder.steps.words().2), marks(row)]
    });
    let rows: Vec<Vec<String>> = [head].into_iter().chain(rows).collect();
    (rows.len() > 1).then(|| html! { div.words { (plain(&rows)) } })
}
