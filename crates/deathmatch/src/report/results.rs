//! The page's results: a section for each question, one for the highest rate carried, and folded
//! tables of the figures behind them.

use maud::{Markup, html};

use super::charts::{Chart, Question, distribution, over_steps};
use super::limit::Limit;
use super::measure::Measure;
use super::series::Ladder;
use super::stretch::{Stretch, stretches};
use super::{Data, brackets, details, tables};

/// The section on limits: its id and heading.
pub(super) const CAPACITY: (&str, &str) = ("capacity", "How much can they carry?");

/// The section of folded tables.
pub(super) const DETAILS: (&str, &str) = ("details", "The figures behind it");

const CAPACITY_NOTE: &str = "The highest rate at which p99 stays within 10 ms and at most 0.01 % of \
     requests fail; each round searches by doubling, then in steps of 1.25. Full up to the highest \
     rate carried, pale to the lowest that was not: the limit lies between. An arrow means that the \
     generator was the limit, or that no higher rate was offered. Contenders whose brackets overlap \
     the leader's share its place.";

/// A question and its charts.
pub(super) fn answer(data: Data<'_>, question: &Question) -> Markup {
    let stretches = stretches(data.ladders);
    let over = |stretch: &Stretch<'_>| {
        let charts =
            question.measures.iter().filter_map(|m| Some((*m, over_steps(data, stretch, *m)?)));
        charts.collect::<Vec<_>>()
    };
    let over: Vec<_> = stretches.iter().map(|stretch| (stretch, over(stretch))).collect();
    let ladders = || data.ladders.iter().filter(|_| question.distribution);
    let distributions: Vec<_> = ladders().map(|ladder| distribution(data, ladder)).collect();
    let nothing = over.iter().all(|(_, charts)| charts.is_empty())
        && distributions.iter().all(Option::is_none);
    let content = html! {
        @for (stretch, charts) in &over {
            @for (measure, chart) in charts {
                @if *measure == Measure::Errors && is_without_errors(&stretch.parts) {
                    p { strong { "No request failed" } " (" (stretch.title()) ")." }
                } @else { (figure(chart)) }
            }
        }
        @for (ladder, chart) in ladders().zip(&distributions) {
            @if let Some(chart) = chart { (figure(chart)) }
            @if let Some(cells) = details::errors(data, ladder) {
                details {
                    summary { "Failures by kind: " (ladder.title()) }
                    (tables::plain(&cells))
                }
            }
        }
        @if nothing { p { "Not measured in this run." } }
    };
    section((question.id, question.heading), question.note, &content)
}

/// The highest rate each contender carries, and how it behaves under 1.5 times that.
pub(super) fn capacity(data: Data<'_>) -> Markup {
    let mut files: Vec<&str> = data.beside.limits.iter().map(|l| l.file.as_str()).collect();
    files.dedup();
    let limits = |file: &str| -> Vec<&Limit> {
        let of_file = data.beside.limits.iter().filter(|l| l.file == file);
        of_file.filter(|l| data.run.twin.as_ref() != Some(&l.contender)).collect()
    };
    let content = html! {
        @for file in &files {
            figure {
                figcaption { "Highest rate carried: " (file) }
                div.plot { (brackets::draw(data, file, &limits(file))) }
            }
            (tables::limits(data, &limits(file)))
        }
        @if files.is_empty() { p { "This run searched for no limit." } }
    };
    section(CAPACITY, CAPACITY_NOTE, &content)
}

/// Folded tables of all figures.
pub(super) fn details(data: Data<'_>) -> Markup {
    let tables = |detail| {
        let tables = data.ladders.iter().map(move |l| (l.title(), details::table(data, l, detail)));
        tables.filter_map(|(title, cells)| Some((title, cells?))).collect::<Vec<_>>()
    };
    let content = html! {
        @for detail in &details::DETAILS {
            details {
                summary { (detail.heading) }
                p.note { (detail.note) }
                @let tables = tables(detail);
                @for (title, cells) in &tables { h3 { (title) } (tables::plain(cells)) }
                @if tables.is_empty() { p { "Nothing of the kind." } }
            }
        }
    };
    section(DETAILS, "", &content)
}

fn section((id, heading): (&str, &str), note: &str, content: &Markup) -> Markup {
    html! {
        section id=(id) {
            p.kicker.results { "Results" }
            h2 { (heading) }
            @if !note.is_empty() { p.note { (note) } }
            (content)
        }
    }
}

/// `true` if no request of any ladder failed: then one sentence replaces the chart.
fn is_without_errors(ladders: &[&Ladder<'_>]) -> bool {
    ladders.iter().flat_map(|ladder| &ladder.rows).all(|row| row.failed().0 == 0)
}

/// A chart, its legend and its numbers.
pub(super) fn figure(chart: &Chart) -> Markup {
    html! {
        figure {
            figcaption { (chart.title) }
            div.plot { (chart.svg) }
            ul.legend { @for (style, title) in &chart.legend { li { (style.key()) (title) } } }
            details { summary { "The numbers" } (tables::plain(&chart.numbers)) }
        }
    }
}
