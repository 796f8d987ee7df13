//! The page's results beside those of each work: the highest rates carried, and folded tables of
//! all figures.

use maud::{Markup, html};

use super::charts::Chart;
use super::limit::Limit;
use super::{Data, brackets, details, tables};

/// The section on limits: its id and heading.
pub(super) const CAPACITY: (&str, &str) = ("capacity", "How much can they carry?");

/// The section of folded tables.
pub(super) const DETAILS: (&str, &str) = ("details", "The figures behind it");

const CAPACITY_NOTE: &str = "The highest rate at which p99 stays within 10 ms and at most 0.01 % of \
     requests fail; each round searches by doubling, then in steps of 1.25. A filled dot \
     is the highest rate carried, an open one the lowest that was not: the limit lies between. An arrow means that the \
     generator was the limit, or that no higher rate was offered. Contenders whose brackets overlap \
     the leader's share its place; on an unfit machine none is ranked.";

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
                (brackets::draw(data, file, &limits(file)))
            }
            (tables::limits(data, &limits(file)))
        }
        @if files.is_empty() { p { "This run searched for no limit." } }
    };
    let (id, heading) = CAPACITY;
    section(id, heading, CAPACITY_NOTE, &content)
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
    let (id, heading) = DETAILS;
    section(id, heading, "", &content)
}

fn section(id: &str, heading: &str, note: &str, content: &Markup) -> Markup {
    html! {
        section id=(id) {
            h2 { (heading) }
            @if !note.is_empty() { p.note { (note) } }
            (content)
        }
    }
}

/// A chart and its numbers.
pub(super) fn figure(chart: &Chart) -> Markup {
    html! {
        figure {
            figcaption { (chart.title) }
            (chart.svg)
            details { summary { "The numbers" } (tables::plain(&chart.numbers)) }
        }
    }
}
