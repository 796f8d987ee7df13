//! Tables as HTML: the overview, the rankings, a chart's numbers, a ladder's marks.

use std::fmt::Write as _;

use super::Data;
use super::chart::Look;
use super::charts::look;
use super::csv::marks;
use super::limit::{Limit, Overload, words};
use super::numbers::{escaped, sensible};
use super::overview;
use super::rankings::{Place, places, rank_words, unplaced};
use super::run::{Ranking, Standing};
use super::scale::{Scale, step_words};
use super::series::Ladder;

/// The strip that shows intervals, in its own units.
const STRIP: f64 = 150.0;

/// Ratios beyond this many times lie at the strip's edge, as an arrow.
const STRIP_TIMES_MAX: f64 = 3.0;

/// A contender's key and title.
pub(super) fn titled(data: Data<'_>, name: &str) -> String {
    format!("{}{}", look(data, name).key(), escaped(data.run.title(name)))
}

/// A table of text cells, the first row its head.
pub(super) fn plain(rows: &[Vec<String>]) -> String {
    let mut out = "<div class=\"scroll\"><table>".to_owned();
    for (at, row) in rows.iter().enumerate() {
        let tag = if at == 0 { "th" } else { "td" };
        let cells = row.iter().map(|c| format!("<{tag}>{}</{tag}>", escaped(c)));
        out += &format!("<tr>{}</tr>", cells.collect::<String>());
    }
    out + "</table></div>"
}

/// One line for each contender of a ladder.
pub(super) fn overview(data: Data<'_>, ladder: &Ladder<'_>) -> String {
    let table = overview::table(data, ladder);
    let head = table.head.iter().map(|c| format!("<th scope=\"col\">{}</th>", escaped(c)));
    let mut out = format!("<div class=\"scroll\"><table><tr>{}</tr>", head.collect::<String>());
    for (name, cells) in &table.rows {
        let class = if look(data, name) == Look::Floor { " class=\"floor\"" } else { "" };
        let rest = cells.iter().skip(1).map(|c| format!("<td>{}</td>", escaped(c)));
        // Writing into a String does not fail.
        let _ = write!(
            out,
            "<tr{class}><td>{}</td>{}</tr>",
            titled(data, name),
            rest.collect::<String>()
        );
    }
    out + "</table></div>"
}

/// What everybody carries, and what becomes of half as much again.
pub(super) fn limits(data: Data<'_>, limits: &[&Limit]) -> String {
    let over = limits.iter().any(|l| l.overload.is_some());
    let mut out = "<div class=\"scroll\"><table><tr><th scope=\"col\">Contender</th>\
                   <th scope=\"col\">rank</th><th scope=\"col\">carries</th>"
        .to_owned();
    if over {
        out += "<th scope=\"col\">then offered</th><th scope=\"col\">it answers</th>\
                <th scope=\"col\">p99, ms</th><th scope=\"col\">errors, %</th>";
    }
    out += "<th></th></tr>";
    for limit in limits {
        let rank = limit.place.map_or_else(|| "–".to_owned(), |place| place.to_string());
        let class = if limit.place.is_none() { " class=\"unranked\"" } else { "" };
        let name = titled(data, &limit.contender);
        let carries = escaped(&words(&limit.bracket));
        // Writing into a String does not fail.
        let _ = write!(
            out,
            "<tr{class}><td>{name}</td><td class=\"rank\">{rank}</td><td>{carries}</td>"
        );
        if over {
            out += &overload(limit.overload);
        }
        let remark = match () {
            () if limit.wrong => "wrong bytes: disqualified",
            () if limit.contender == data.run.floor => "the floor, not ranked",
            () => "",
        };
        let _ = write!(out, "<td class=\"words\">{remark}</td></tr>");
    }
    out + "</table></div>"
}

fn overload(overload: Option<Overload>) -> String {
    let Some(over) = overload else { return "<td>–</td>".repeat(4) };
    let ms = over.p99_ms.map_or_else(|| "–".to_owned(), sensible);
    let rates = [over.offered, over.replies].map(|rate| format!("{}/s", sensible(rate)));
    let cells = rates.into_iter().chain([ms, sensible(over.errors_percent)]);
    cells.map(|cell| format!("<td>{cell}</td>")).collect()
}

/// Ranks, ratios and their intervals.
pub(super) fn ranking(data: Data<'_>, ranking: &Ranking) -> String {
    let places = places(data, ranking);
    let (title, unit, _) = ranking.measure.words();
    let reference = escaped(data.run.title(&data.run.reference));
    let mut out = format!(
        "<div class=\"scroll\"><table><tr><th>Contender</th><th>rank</th><th>{}</th>\
         <th>{reference} = 1</th><th class=\"words\">interval</th><th></th></tr>",
        escaped(unit)
    );
    let finite = |p: &&Place<'_>| p.standing.high.is_finite() && p.standing.low > 0.0;
    let ends = places.iter().filter(finite).flat_map(|p| [p.standing.low, p.standing.high, 1.0]);
    let scale = Scale::ratios(&ends.collect::<Vec<_>>(), STRIP_TIMES_MAX);
    for place in &places {
        let standing = place.standing;
        let class = if place.ranks.is_none() { " class=\"unranked\"" } else { "" };
        // Writing into a String does not fail.
        let _ = write!(
            out,
            "<tr{class}><td>{}</td><td class=\"rank\">{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"words\">{}</td></tr>",
            titled(data, &standing.contender),
            rank_words(place.ranks),
            escaped(&place.value),
            ratio_words(standing),
            strip(&scale, standing, look(data, &standing.contender)),
            escaped(&place.remark)
        );
    }
    for (name, value, why) in unplaced(data, ranking) {
        let _ = write!(
            out,
            "<tr class=\"unranked\"><td>{}</td><td>–</td><td>{value}</td><td>–</td><td></td>\
             <td class=\"words\">{}</td></tr>",
            titled(data, name),
            escaped(&why)
        );
    }
    format!("<h3>{}, {}</h3>{out}</table></div>", escaped(title), escaped(&ranking.work))
}

fn ratio_words(standing: &Standing) -> String {
    if !standing.ratio.is_finite() {
        return "–".to_owned();
    }
    let [ratio, low, high] = [standing.ratio, standing.low, standing.high].map(sensible);
    if standing.low == standing.high {
        return ratio;
    }
    format!("{ratio} <small>({low}–{high})</small>")
}

/// An interval beside the reference's line.
fn strip(scale: &Scale, standing: &Standing, look: Look) -> String {
    if ![standing.ratio, standing.low, standing.high].iter().all(|v| v.is_finite()) {
        return String::new();
    }
    let at = |ratio: f64| 8.0 + scale.at(ratio) * (STRIP - 16.0);
    let [one, ratio, low, high] = [1.0, standing.ratio, standing.low, standing.high].map(at);
    let mark = match standing.ratio {
        r if r > STRIP_TIMES_MAX => {
            format!("<path class=\"m\" d=\"M{} 5l7 4l-7 4z\"/>", STRIP - 8.0)
        }
        r if r < 1.0 / STRIP_TIMES_MAX => "<path class=\"m\" d=\"M8 5l-7 4l7 4z\"/>".to_owned(),
        _ => look.marker(ratio, 9.0),
    };
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {STRIP} 18\" aria-hidden=\"true\">\
         <path class=\"axis\" d=\"M{one:.1} 0V18\" stroke-dasharray=\"2 2\"/>\
         <g class=\"s {}\"><path class=\"bar\" d=\"M{low:.1} 9H{high:.1}M{low:.1} 5v8M{high:.1} \
         5v8\"/>{mark}</g></svg>",
        look.class(),
    )
}

/// The rows of a ladder that bear marks; nothing where none does.
pub(super) fn marked(data: Data<'_>, ladder: &Ladder<'_>) -> String {
    let head = ["Contender", "at", "marked"].map(str::to_owned).to_vec();
    let rows = ladder.rows.iter().filter(|row| !marks(row).is_empty()).map(|row| {
        let title = data.run.title(row.contender).to_owned();
        vec![title, step_words(row.x, ladder.steps.words().2), marks(row)]
    });
    let rows: Vec<Vec<String>> = [head].into_iter().chain(rows).collect();
    if rows.len() == 1 {
        return String::new();
    }
    format!("<div class=\"words\">{}</div>", plain(&rows))
}
