//! A section for each work: what is said of it, its overview, and small charts of every measure.

use maud::{Markup, html};

use super::charts::{MEASURES, distribution, over_steps};
use super::measure::Measure;
use super::rankings::is_decisive;
use super::results::figure;
use super::run::Ranking;
use super::series::Ladder;
use super::stretch::{Stretch, stretches};
use super::takehome::{Findings, take_home};
use super::{Data, details, streams, tables};

/// (id, title) of each section.
pub(super) fn contents(data: Data<'_>) -> Vec<(String, String)> {
    let all = stretches(data.ladders);
    all.iter().enumerate().map(|(at, stretch)| (id(at), stretch.title())).collect()
}

fn id(at: usize) -> String {
    format!("work-{}", at + 1)
}

/// All sections.
pub(super) fn sections(data: Data<'_>) -> Markup {
    let all = take_home(data);
    html! {
        @for (at, stretch) in stretches(data.ladders).iter().enumerate() {
            section.work id=(id(at)) {
                h2 { (stretch.title()) }
                @for ladder in &stretch.parts { (said(data, stretch, ladder, &all)) }
                (charts(data, stretch))
                @for ladder in &stretch.parts { (folded(data, ladder)) }
            }
        }
    }
}

/// Sentences and the overview of one ladder.
fn said(data: Data<'_>, stretch: &Stretch<'_>, ladder: &Ladder<'_>, all: &[Findings]) -> Markup {
    let title = ladder.title();
    let findings = all.iter().find(|findings| findings.about == title);
    html! {
        @if stretch.parts.len() > 1 { h3 { (ladder.steps.words().1) } }
        @if let Some(findings) = findings {
            ul.says { @for sentence in &findings.sentences { li { (sentence) } } }
        }
        (tables::overview(data, ladder))
        @if let Some(cells) = streams::table(data, ladder) {
            h4 { "The streams beside it" }
            p.note { (streams::note(ladder)) }
            (tables::plain(&cells))
        }
    }
}

fn charts(data: Data<'_>, stretch: &Stretch<'_>) -> Markup {
    let nothing_failed = is_without_errors(&stretch.parts);
    let measures = MEASURES.iter().filter(|m| **m != Measure::Errors || !nothing_failed);
    html! {
        @if nothing_failed { p { strong { "No request failed." } } }
        div.plots {
            @for measure in measures {
                @if let Some(chart) = over_steps(data, stretch, *measure) { (figure(&chart)) }
            }
            @for ladder in &stretch.parts {
                @if let Some(chart) = distribution(data, ladder) { (figure(&chart)) }
            }
        }
    }
}

fn folded(data: Data<'_>, ladder: &Ladder<'_>) -> Markup {
    let here = |ranking: &&Ranking| ladder.rows.iter().any(|row| row.work == ranking.work);
    let others = data.rankings.iter().filter(|ranking| !is_decisive(data, ranking));
    let rankings: Vec<&Ranking> = others.filter(here).collect();
    let title = ladder.steps.words().1;
    html! {
        @if let Some(cells) = details::errors(data, ladder) {
            details { summary { "Failures by kind, " (title) } (tables::plain(&cells)) }
        }
        @if !rankings.is_empty() {
            details {
                summary { "Ranks at the other steps, " (title) }
                @for ranking in rankings {
                    h4 { (ranking.measure.words().0) ", " (ranking.work) }
                    (tables::ranking(data, ranking))
                }
            }
        }
    }
}

/// `true` if no request of any ladder failed: then one sentence replaces the chart.
fn is_without_errors(ladders: &[&Ladder<'_>]) -> bool {
    ladders.iter().flat_map(|ladder| &ladder.rows).all(|row| row.failed().0 == 0)
}
