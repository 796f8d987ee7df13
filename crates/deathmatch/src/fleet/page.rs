//! The merged figures as one page without JavaScript, in the style of the report.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::text::{number_of, start};
use super::{Merged, Server, Slot, rfc3339};
use crate::figures::page::{Bar, OWN_STYLE, STYLES, bar_chart, histogram};
use crate::figures::{Latency, amount, bars_of_steps, milliseconds};

/// Number of labels beneath a chart of the course.
const LABELS: usize = 10;

pub(super) fn page(its: &Merged) -> String {
    let title = format!("{} {}", its.options.method, its.options.url);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { @for style in STYLES { (PreEscaped(style)) } (PreEscaped(OWN_STYLE)) }
            }
            body { main { (content(its, &title)) } }
        }
    };
    page.into_string()
}

fn content(its: &Merged, title: &str) -> Markup {
    let count = |n: u64| amount(n as f64);
    let (marks, (noun, arrivals)) = (its.marks(), its.nouns());
    let counted = its.counted();
    html! {
        p.kicker { "deathmatch" }
        h1 { (title) }
        p.lead-in {
            (its.options.protocol) " from " (number_of(its.generators.len() as u64, "generator")) ", "
            (number_of(u64::from(its.options.connections), noun)) " on each"
            @if let Some(rate) = its.rate { ", " (amount(rate)) " " (arrivals) "/s offered" }
            ". All ran for " (format!("{:.1} s", its.common_seconds)) " from "
            (rfc3339(its.common_from_unix_s)) "."
        }
        p.big { (amount(its.responses_per_s)) " " (counted) "/s" }
        ul.facts {
            li { b { (count(its.counts.responses)) } " " (counted) }
            li { b { (count(its.counts.failed)) } " failed" }
            @if let Some(latency) = &its.latency {
                li { "median " b { (milliseconds(latency.p50_ms)) } }
                li { "p99 " b { (milliseconds(latency.p99_ms)) } }
                li { "longest " b { (milliseconds(latency.max_ms)) } }
            }
        }
        @if !marks.is_empty() {
            h2 { "Marked" }
            p { "These figures may not hold:" }
            ul.says { @for mark in &marks { li { (mark) } } }
        }
        @if !its.notes.is_empty() {
            div.home { h2 { "Notes" } ul { @for note in &its.notes { li { (note) } } } }
        }
        @if let Some(latency) = &its.latency {
            h2 { "Response times" }
            p.note { "Of all requests of all generators, from their histograms, which add exactly." }
            (latencies(latency))
            (histogram(&bars_of_steps(&its.counts.histogram.steps(), its.counts.histogram.count())))
        }
        h2 { "Course" }
        (course(&its.course, counted))
        @if let Some(server) = &its.server { h2 { "Server" } (watched(server, counted)) }
        h2 { "Generators" }
        (generators(its))
        h2 { "Responses" }
        div.scroll { table {
            thead { tr { th { "outcome" } th { "requests" } } }
            tbody {
                @for (status, number) in &its.counts.statuses {
                    tr { td { "status " (status) } td { (count(*number)) } }
                }
                tr { td { "without a right response" } td { (count(its.counts.errors.total())) } }
            }
        } }
        footer { "Made by deathmatch " (env!("CARGO_PKG_VERSION")) "." }
    }
}

fn latencies(all: &Latency) -> Markup {
    let columns = [
        ("mean", all.mean_ms),
        ("p50", all.p50_ms),
        ("p75", all.p75_ms),
        ("p90", all.p90_ms),
        ("p95", all.p95_ms),
        ("p99", all.p99_ms),
        ("p99.9", all.p99_9_ms),
        ("longest", all.max_ms),
    ];
    html! {
        div.scroll { table {
            thead { tr { @for (name, _) in &columns { th { (name) } } } }
            tbody { tr { @for (_, ms) in &columns { td { (milliseconds(*ms)) } } } }
        } }
    }
}

fn course(slots: &[Slot], counted: &str) -> Markup {
    let rate_name = format!("{counted}/s");
    let every = slots.len().div_ceil(LABELS);
    let chart = |value: &dyn Fn(&Slot) -> (f64, String), colour: &str| {
        let bars: Vec<Bar> = slots
            .iter()
            .map(|slot| {
                let (value, text) = value(slot);
                let title = format!("{:.0} s: {text}", slot.from_s);
                Bar { label: format!("{:.0} s", slot.from_s), value, title }
            })
            .collect();
        bar_chart(&bars, colour, every)
    };
    let rate = |slot: &Slot| {
        let text = format!(
            "{} {counted}/s from {}",
            amount(slot.responses_per_s),
            number_of(slot.generators as u64, "generator")
        );
        (slot.responses_per_s, text)
    };
    let p99 = |slot: &Slot| (slot.p99_ms_max.unwrap_or(0.0), longest(slot));
    let cpus = |slot: &Slot| match slot.server_cpus {
        Some(cpus) => (cpus, format!("{cpus:.2} processors")),
        None => (0.0, "not watched".to_owned()),
    };
    html! {
        figure {
            figcaption { (if counted == "steps" { "Steps" } else { "Responses" }) " a second, of all generators" }
            (chart(&rate, "c2"))
        }
        figure {
            figcaption { "Longest p99 of a generator, in milliseconds" }
            (chart(&p99, "c1"))
        }
        @if slots.iter().any(|slot| slot.server_cpus.is_some()) {
            figure {
                figcaption { "Processors that the server used" }
                (chart(&cpus, "c0"))
            }
        }
        details { summary { "Table" } div.scroll { table {
            thead { tr {
                @for name in ["from", "generators", &rate_name, "failed", "longest p99", "processors"] {
                    th { (name) }
                }
            } }
            tbody { @for slot in slots { tr {
                td { (format!("{:.0} s", slot.from_s)) }
                td { (slot.generators) }
                td { (amount(slot.responses_per_s)) }
                td { (amount(slot.failed.round())) }
                td { (longest(slot)) }
                td { @if let Some(cpus) = slot.server_cpus { (format!("{cpus:.2}")) } }
            } } }
        } } }
    }
}

/// The longest 99th percentile, or a dash.
fn longest(slot: &Slot) -> String {
    slot.p99_ms_max.map_or_else(|| "–".to_owned(), milliseconds)
}

fn watched(server: &Server, counted: &str) -> Markup {
    let per_counted = format!("processor time per {}", counted.trim_end_matches('s'));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    html! {
        p {
            "Process " (server.pid) " on " (server.host) ", in " (format!("{:.1} s", server.seconds))
            " of the time in which all ran."
        }
        div.scroll { table {
            thead { tr {
                @for name in [
                    "processors", &per_counted, "resident memory",
                    "other programs", "taken by the host",
                ] { th { (name) } }
            } }
            tbody { tr {
                td { (format!("{:.2}", server.cpus)) }
                td { (format!("{:.1} us", server.cpu_us_per_response)) }
                td { (format!("{:.1} MB", server.resident_bytes as f64 / 1e6)) }
                td { (percent(server.foreign)) }
                td { (percent(server.steal)) }
            } }
        } }
    }
}

fn generators(its: &Merged) -> Markup {
    let rate_name = format!("{}/s", its.counted());
    html! {
        div.scroll { table {
            thead { tr {
                @for name in [
                    "machine", "file", &rate_name, its.counted(), "failed", "p50", "p99", "start",
                    "lateness p99", "busy", "marks",
                ] { th { (name) } }
            } }
            tbody { @for its in &its.generators { tr {
                td { (its.host) }
                td { (its.file) }
                td { (amount(its.responses_per_s)) }
                td { (amount(its.responses as f64)) }
                td { (amount(its.failed as f64)) }
                @for own in [|own: &Latency| own.p50_ms, |own: &Latency| own.p99_ms] {
                    td { (its.latency.as_ref().map_or("–".to_owned(), |its| milliseconds(own(its)))) }
                }
                td { (start(its.late_s)) }
                td { (milliseconds(its.lateness_p99_ms)) }
                td { (format!("{:.0} %", its.busy_share * 100.0)) }
                td { (its.marks.len()) }
            } } }
        } }
    }
}
