//! The page's results: a section for each of the deck's questions, one for how much everybody carries,
//! and the tables that are looked up rather than read.

use std::fmt::Write as _;

use super::chart::Look;
use super::charts::{Chart, Question, distribution, over_steps};
use super::limit::Limit;
use super::measure::Measure;
use super::numbers::escaped;
use super::series::Ladder;
use super::stretch::stretches;
use super::{Data, brackets, details, tables};

/// The section on limits: its id and heading.
pub(super) const CAPACITY: (&str, &str) = ("capacity", "How much can they carry?");

/// The section of folded tables.
pub(super) const DETAILS: (&str, &str) = ("details", "The figures behind it");

/// A question and its charts.
pub(super) fn answer(out: &mut String, data: Data<'_>, question: &Question) {
    open(out, question.id, question.heading, question.note);
    let mut drawn = 0;
    let stretches = stretches(data.ladders);
    for stretch in &stretches {
        for measure in question.measures {
            match over_steps(data, stretch, *measure) {
                Some(_) if *measure == Measure::Errors && spotless(&stretch.parts) => {
                    let title = escaped(&stretch.title());
                    let _ = write!(out, "<p><strong>No request failed</strong> ({title}).</p>");
                }
                Some(chart) => figure(out, &chart),
                None => continue,
            }
            drawn += 1;
        }
    }
    for ladder in data.ladders.iter().filter(|_| question.distribution) {
        if let Some(chart) = distribution(data, ladder) {
            figure(out, &chart);
            drawn += 1;
        }
        if let Some(cells) = details::errors(data, ladder) {
            let title = escaped(&ladder.title());
            let _ = write!(
                out,
                "<details><summary>What failed, by kind: {title}</summary>{}</details>",
                tables::plain(&cells)
            );
        }
    }
    if drawn == 0 {
        out.push_str("<p>Not measured in this run.</p>");
    }
    out.push_str("</section>\n");
}

/// How much everybody carries, and what becomes of more.
pub(super) fn capacity(out: &mut String, data: Data<'_>) {
    let note = "The highest rate at which p99 stays within 10 ms and at most 0.01 % of requests \
                fail, each round searching by doubling and then in steps of 1.25. Full up to the \
                highest rate carried, pale to the lowest that was not: the limit lies there. An \
                arrow means that the generator gave out first, or that nobody asked for more. \
                Those whose brackets overlap the leader's share its place.";
    open(out, CAPACITY.0, CAPACITY.1, note);
    let mut files: Vec<&str> = data.beside.limits.iter().map(|l| l.file.as_str()).collect();
    files.dedup();
    for file in &files {
        let of_file = data.beside.limits.iter().filter(|l| l.file == *file);
        let shown: Vec<&Limit> =
            of_file.filter(|l| data.run.twin.as_ref() != Some(&l.contender)).collect();
        let _ = write!(
            out,
            "<figure><figcaption>Highest rate carried: {}</figcaption><div class=\"plot\">{}</div>\
             </figure>{}",
            escaped(file),
            brackets::draw(data, file, &shown),
            tables::limits(data, &shown)
        );
    }
    if files.is_empty() {
        out.push_str("<p>Nobody's limit was searched for in this run.</p>");
    }
    out.push_str("</section>\n");
}

/// Tables to look things up in.
pub(super) fn details(out: &mut String, data: Data<'_>) {
    open(out, DETAILS.0, DETAILS.1, "");
    for detail in &details::DETAILS {
        let _ = write!(out, "<details><summary>{}</summary>", detail.heading);
        let _ = write!(out, "<p class=\"note\">{}</p>", detail.note);
        let mut any = false;
        for ladder in data.ladders {
            if let Some(cells) = details::table(data, ladder, detail) {
                let _ = write!(out, "<h3>{}</h3>", escaped(&ladder.title()));
                out.push_str(&tables::plain(&cells));
                any = true;
            }
        }
        out.push_str(if any { "</details>" } else { "<p>Nothing of the kind.</p></details>" });
    }
    out.push_str("</section>\n");
}

fn open(out: &mut String, id: &str, heading: &str, note: &str) {
    let _ = writeln!(
        out,
        "<section id=\"{id}\"><p class=\"kicker results\">Results</p><h2>{heading}</h2>"
    );
    if !note.is_empty() {
        let _ = writeln!(out, "<p class=\"note\">{note}</p>");
    }
}

/// Whether no request of any ladder failed: a chart of noughts says less than a sentence.
fn spotless(ladders: &[&Ladder<'_>]) -> bool {
    ladders.iter().flat_map(|ladder| &ladder.rows).all(|row| row.failed().0 == 0)
}

/// A chart, its legend and its numbers.
pub(super) fn figure(out: &mut String, chart: &Chart) {
    let entry =
        |(look, title): &(Look, String)| format!("<li>{}{}</li>", look.key(), escaped(title));
    let legend: String = chart.legend.iter().map(entry).collect();
    let _ = writeln!(
        out,
        "<figure><figcaption>{}</figcaption><div class=\"plot\">{}</div>\
         <ul class=\"legend\">{legend}</ul><details><summary>The numbers</summary>{}</details>\
         </figure>",
        escaped(&chart.title),
        chart.svg,
        tables::plain(&chart.numbers)
    );
}
