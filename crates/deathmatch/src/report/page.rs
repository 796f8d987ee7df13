//! The HTML page: one file with its style and charts inside. It requests nothing from the network
//! and runs no script. Text is escaped by `maud`.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Data;
use super::charts::NOTES;
use super::missing::{Missing, is_missing};
use super::numbers::{counted, listed, printable};
use super::run::Contender;
use super::scale::step_words;
use super::series::Ladder;
use super::takehome::{THE_RUN, take_home};
use super::{chart, herds, pages, pair, results, standings, steadiness, tables, ways, works};

/// The style of the page; that of the charts is `chart::STYLE`.
const STYLE: &str = include_str!("page.css");

/// Forbids the browser every request, whatever a name in the report contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Sections after the results: (id, heading).
const SECTIONS: [(&str, &str); 5] = [
    ("contenders", "The contenders"),
    ("test", "The test"),
    ("reading", "How to read it"),
    ("systems", "The systems"),
    ("configuration", "Environment and configuration"),
];

pub(super) fn page(data: Data<'_>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Deathmatch: " (data.run.plan) }
                style { (PreEscaped(chart::STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (header(data))
                    @if standings::has_verdict(data) { ul.verdict { (standings::verdict(data)) } }
                    (standings::panels(data))
                    (standings::doubts(data))
                    (contents(data))
                    (remarks(data))
                    @if !data.beside.limits.is_empty() { (results::capacity(data)) }
                    (works::sections(data))
                    (two_ways(data))
                    (pages_and_herds(data))
                    (results::details(data))
                    (contenders(data))
                    (test(data))
                    (reading())
                    (systems(data))
                    (configuration(data))
                    (rerun(data))
                }
            }
        }
    };
    printable(&page.into_string())
}

fn header(data: Data<'_>) -> Markup {
    let run = data.run;
    let all = || run.contenders.iter().filter(|c| run.competes(&c.name));
    let ran = all().filter(|c| c.absent.is_none()).count();
    html! {
        header {
            p.kicker { "Web server deathmatch" }
            h1 { (run.plan) }
            p.lead-in { (run.description) }
            ul.facts {
                li { b { (ran) } " of " (all().count()) " contenders ran" }
                @for course in course(data) { li { (course) } }
                li { "seed " b { (run.seed) } }
                li {
                    "reference " b { (run.title(&run.reference)) }
                    @if run.twin.is_some() { " " small { "(which ran twice)" } }
                }
                @if run.contenders.iter().any(|c| c.name == run.floor && c.absent.is_none()) {
                    li { "floor " b { (run.title(&run.floor)) } }
                }
            }
        }
    }
}

/// Rounds of turns, and cycles of slices, with their samples.
fn course(data: Data<'_>) -> Vec<String> {
    let rows = || data.ladders.iter().flat_map(|l| &l.rows);
    let samples = |are_slices: bool| -> usize {
        rows().filter(|r| r.are_slices() == are_slices).map(|r| r.samples.len()).sum()
    };
    let cycles = rows().filter(|r| r.are_slices()).map(|r| r.samples.len()).max();
    let turns = (samples(false) > 0).then(|| {
        let rounds = counted(data.run.rounds as usize, "round");
        format!("{rounds}, {}", counted(samples(false), "sample"))
    });
    let slices = cycles
        .map(|cycles| format!("{}, {}", counted(cycles, "cycle"), counted(samples(true), "slice")));
    turns.into_iter().chain(slices).collect()
}

/// Sentences on the run as a whole.
fn remarks(data: Data<'_>) -> Markup {
    let all = take_home(data);
    let run = all.iter().find(|findings| findings.about == THE_RUN);
    html! {
        @if let Some(run) = run {
            section #run {
                h2 { "The run" }
                ul.says { @for sentence in &run.sentences { li { (sentence) } } }
            }
        }
    }
}

fn contents(data: Data<'_>) -> Markup {
    let capacity = (!data.beside.limits.is_empty()).then_some(results::CAPACITY);
    let fixed = |(id, heading): (&str, &str)| (id.to_owned(), heading.to_owned());
    let sections = [results::DETAILS].into_iter().chain(SECTIONS);
    let all = capacity.into_iter().map(fixed).chain(works::contents(data));
    let all: Vec<(String, String)> =
        all.chain(sections.chain([("rerun", "Run it again")]).map(fixed)).collect();
    html! {
        nav aria-label="Contents" {
            @for (id, heading) in &all { a href={ "#" (id) } { (heading) } " " }
        }
    }
}

fn section(id: &str, content: &Markup) -> Markup {
    let known = SECTIONS.iter().find(|(known, _)| *known == id);
    let heading = known.map_or(id, |(_, heading)| heading);
    html! { section id=(id) { h2 { (heading) } (content) } }
}

fn two_ways(data: Data<'_>) -> Markup {
    html! {
        @if let Some(cells) = ways::table(data) {
            section #ways {
                h2 { (ways::HEADING) }
                p.note { (ways::NOTE) }
                (tables::plain(&cells))
                h3 { (ways::SEED_HEADING) }
                p.note { (ways::SEED_NOTE) }
                (tables::plain(&ways::seed()))
            }
        }
    }
}

fn pages_and_herds(data: Data<'_>) -> Markup {
    html! {
        @if let Some(cells) = pages::table(data) {
            section #pages {
                h2 { (pages::HEADING) }
                p.note { (pages::note(data)) }
                (tables::plain(&cells))
            }
        }
        @if let Some(cells) = herds::table(data) {
            section #herds {
                h2 { (herds::HEADING) }
                p.note { (herds::NOTE) }
                (tables::plain(&cells))
            }
        }
    }
}

fn reading() -> Markup {
    let content = html! {
        dl { @for (name, note) in &NOTES { dt { (name) } dd { (note) } } }
        p {
            "A line chart shows at most " (chart::LINES_MAX) " contenders: the floor, the reference \
             and those that carried most. The table below it has all. “Holds” is the highest rate \
             with a p99 within 10 ms, at most 0.01 % errors and 99 % of requests answered. ≥: no \
             higher rate was offered, or the generator was the limit. Columns “at” a rate show the \
             highest rate that every contender carried which carried any, or else the highest that \
             half of them carried; – where a contender did not. Contenders whose intervals overlap \
             share their ranks. Rows in which the generator was the limit are not ranked, nor is a \
             p99 of which its lateness is more than a tenth."
        }
    };
    section("reading", &content)
}

fn contenders(data: Data<'_>) -> Markup {
    let version = |contender: &Contender| match &contender.absent {
        Some(why) => format!("did not finish: {why}"),
        None if data.run.twin.as_ref() == Some(&contender.name) => {
            format!("{}: the reference once more, not ranked", contender.version)
        }
        None => contender.version.clone(),
    };
    let content = html! {
        table.words {
            tr { th { "Contender" } th { "version" } }
            @for contender in data.run.contenders.iter().filter(|c| !is_missing(data, c)) {
                tr.unranked[contender.absent.is_some()] {
                    td { (tables::titled(data, &contender.name)) }
                    td { (version(contender)) }
                }
            }
        }
    };
    html! { (section("contenders", &content)) (missing(data)) }
}

/// Contenders that did not run, and the command that installs them.
fn missing(data: Data<'_>) -> Markup {
    let missing = Missing::of(data);
    html! {
        @if !missing.is_empty() {
            section #missing {
                h3 { "Did not run" }
                @if !missing.titles.is_empty() {
                    p { (listed(&missing.titles)) (if missing.titles.len() == 1 { " is" } else { " are" }) " not installed here. As root on Debian:" }
                    pre { (missing.command) }
                }
                ul.says { @for sentence in &missing.others { li { (sentence) } } }
            }
        }
    }
}

fn systems(data: Data<'_>) -> Markup {
    let pair = pair::sentence(data.run, &data.beside.pairs);
    let limits: Vec<&String> = data.run.limits.iter().chain(&pair).collect();
    let content = html! {
        dl { @for fact in &data.run.fingerprint { dt { (fact.name) } dd { (fact.value) } } }
        @if !limits.is_empty() {
            h3 { "What this machine cannot show" }
            ul { @for limit in limits { li { (limit) } } }
        }
    };
    section("systems", &content)
}

fn test(data: Data<'_>) -> Markup {
    let steps = |ladder: &Ladder<'_>| {
        let unit = ladder.steps.words().2;
        ladder.xs().iter().map(|x| step_words(*x, unit)).collect::<Vec<_>>().join(", ")
    };
    let marked: Vec<(&Ladder<'_>, Markup)> =
        data.ladders.iter().filter_map(|l| Some((l, tables::marked(data, l)?))).collect();
    let content = html! {
        ul { @for ladder in data.ladders { li { (ladder.title()) ": " (steps(ladder)) } } }
        p {
            "A contender that returns wrong bytes, before or after a sample, is disqualified. Rounds \
             interleave the contenders in an order drawn from the seed, and one runs at a time. In slices all are \
             alive; a cycle has a slice of each. Points are medians over rounds or cycles. Bars reach from the \
             smallest to the largest round, or over the middle 80 % of the cycles. A request without a response \
             in time counts in the percentiles as long as the timeout."
        }
        (steady(data))
        @if !marked.is_empty() {
            details {
                summary { "Rows with marked samples" }
                @for (ladder, table) in marked { h3 { (ladder.title()) } (table) }
            }
        }
    };
    section("test", &content)
}

fn steady(data: Data<'_>) -> Markup {
    let sentences = steadiness::sentences(data);
    html! {
        @if !sentences.is_empty() {
            h3 { "How steady was the machine?" }
            @for sentence in sentences { p { (sentence) } }
            @if let Some(chart) = steadiness::chart(data) { (results::figure(&chart)) }
        }
    }
}

fn configuration(data: Data<'_>) -> Markup {
    let content = html! {
        div.configs {
            @for contender in data.run.contenders.iter().filter(|c| !is_missing(data, c)) {
                details.config {
                    summary {
                        (tables::titled(data, &contender.name)) " " span { (contender.version) }
                    }
                    (settings(contender))
                }
            }
        }
    };
    section("configuration", &content)
}

fn settings(contender: &Contender) -> Markup {
    html! {
        @if let Some(why) = &contender.absent { p { "Did not finish: " (why) } }
        @if !contender.tuned.is_empty() {
            dl {
                @for tuned in &contender.tuned {
                    dt { code { (tuned.setting) } }
                    dd { (tuned.reason) }
                }
            }
        }
        @if !contender.config.is_empty() { pre { (contender.config) } }
    }
}

fn rerun(data: Data<'_>) -> Markup {
    html! {
        section #rerun {
            h2 { "Run it again" }
            pre { (data.run.command) }
            p {
                "Every sample is in " code { "samples.jsonl" } ", the figures of this page in "
                code { "summary.csv" } ". Test them in your environment and with your work."
            }
        }
        footer {
            "Drawn by deathmatch. Colours after Okabe and Ito; percentiles after HdrHistogram."
        }
    }
}
