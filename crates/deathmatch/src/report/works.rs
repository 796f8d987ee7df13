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
use super::{Data, details, standings, streams, tables};

/// Works whose results are at the top of a page without ranks, and the measure of their picture.
const GLANCES_MAX: usize = 3;
const GLANCE: Measure = Measure::CpuPerRequest;

/// (id, title) of each section.
pub(super) fn contents(data: Data<'_>) -> Vec<(String, String)> {
    let all = stretches(data.ladders);
    all.iter().enumerate().map(|(at, stretch)| (id(at), stretch.title())).collect()
}

fn id(at: usize) -> String {
    format!("work-{}", at + 1)
}

pub(super) fn sections(data: Data<'_>) -> Markup {
    let all = take_home(data);
    html! {
        @for (at, stretch) in stretches(data.ladders).iter().enumerate() {
            section.work id=(id(at)) {
                h2 { (stretch.title()) }
                @let is_at_a_glance = is_at_a_glance(data, at);
                @for ladder in &stretch.parts { (said(data, stretch, ladder, &all, is_at_a_glance)) }
                (charts(data, stretch, is_at_a_glance))
                @for ladder in &stretch.parts { (folded(data, ladder)) }
            }
        }
    }
}

/// Sentences and the overview of one ladder.
fn said(
    data: Data<'_>,
    stretch: &Stretch<'_>,
    ladder: &Ladder<'_>,
    all: &[Findings],
    is_at_a_glance: bool,
) -> Markup {
    let title = ladder.title();
    let findings = all.iter().find(|findings| findings.about == title);
    html! {
        @if stretch.parts.len() > 1 { h3 { (ladder.steps.words().1) } }
        @if let Some(findings) = findings {
            ul.says { @for sentence in &findings.sentences { li { (sentence) } } }
        }
        @if !is_at_a_glance { (tables::overview(data, ladder)) }
        @if let Some(cells) = streams::table(data, ladder) {
            h4 { "The streams beside it" }
            p.note { (streams::note(ladder)) }
            (tables::plain(&cells))
        }
    }
}

/// The results of a run without ranks: the table of each work, its picture beside it.
pub(super) fn glance(data: Data<'_>) -> Markup {
    html! {
        @for (at, stretch) in stretches(data.ladders).iter().take(GLANCES_MAX).enumerate() {
            h3 { a href={ "#" (id(at)) } { (stretch.title()) } }
            div.glance {
                div { @for ladder in &stretch.parts { (tables::overview(data, ladder)) } }
                @if let Some(chart) = over_steps(data, stretch, GLANCE) { (figure(&chart)) }
            }
        }
    }
}

/// `true` if the glance shows the table and picture of a section.
fn is_at_a_glance(data: Data<'_>, at: usize) -> bool {
    at < GLANCES_MAX && !standings::has_ranks(data)
}

fn charts(data: Data<'_>, stretch: &Stretch<'_>, is_at_a_glance: bool) -> Markup {
    let nothing_failed = is_without_errors(&stretch.parts);
    let measures = MEASURES.iter().filter(|m| **m != Measure::Errors || !nothing_failed);
    let measures = measures.filter(|m| **m != GLANCE || !is_at_a_glance);
    html! {
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
