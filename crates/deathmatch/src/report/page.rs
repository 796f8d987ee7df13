//! The page: one file with its style and its charts inside. It asks the network for nothing and
//! runs no script.

use std::fmt::Write as _;

use super::Data;
use super::charts::QUESTIONS;
use super::numbers::escaped;
use super::rankings::decides;
use super::run::{Contender, Ranking};
use super::scale::step_words;
use super::series::Ladder;
use super::takehome::take_home;
use super::{pair, results, steadiness, streams, tables, ways};

/// How it looks.
const STYLE: &str = include_str!("page.css");

/// A browser that obeys this cannot be made to ask anybody anything, whatever a name may contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Sections before the results: (id, heading).
const SECTIONS: [(&str, &str); 5] = [
    ("summary", "Who is ahead?"),
    ("contenders", "The contenders"),
    ("systems", "The systems"),
    ("test", "The test"),
    ("configuration", "Environment and configuration"),
];

/// The whole page.
pub(super) fn page(data: Data<'_>) -> String {
    let mut out = String::new();
    let plan = escaped(&data.run.plan);
    // Writing into a String does not fail; so it is with every line below.
    let _ = writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Deathmatch: {plan}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>"
    );
    header(&mut out, data);
    home(&mut out, data);
    contents(&mut out);
    summary(&mut out, data);
    contenders(&mut out, data);
    systems(&mut out, data);
    test(&mut out, data);
    configuration(&mut out, data);
    results::capacity(&mut out, data);
    for question in &QUESTIONS {
        results::answer(&mut out, data, question);
    }
    results::details(&mut out, data);
    rerun(&mut out, data);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn header(out: &mut String, data: Data<'_>) {
    let run = data.run;
    let all = || run.contenders.iter().filter(|c| run.competes(&c.name));
    let ran = all().filter(|c| c.absent.is_none()).count();
    let samples: usize = data.ladders.iter().flat_map(|l| &l.rows).map(|r| r.samples.len()).sum();
    let again = match &run.twin {
        Some(_) => " <small>(which ran twice)</small>",
        None => "",
    };
    let _ = writeln!(
        out,
        "<header><p class=\"kicker\">Web server deathmatch</p><h1>{}</h1>\
         <p class=\"lead-in\">{}</p><ul class=\"facts\"><li><b>{ran}</b> of {} contenders ran</li>\
         <li><b>{}</b> rounds</li><li><b>{samples}</b> samples</li><li>seed <b>{}</b></li>\
         <li>reference <b>{}</b>{again}</li><li>floor <b>{}</b></li></ul></header>",
        escaped(&run.plan),
        escaped(&run.description),
        all().count(),
        run.rounds,
        run.seed,
        escaped(run.title(&run.reference)),
        escaped(run.title(&run.floor)),
    );
}

fn home(out: &mut String, data: Data<'_>) {
    out.push_str("<section class=\"home\" id=\"take-home\"><h2>Take home</h2>");
    let all = take_home(data);
    for said in &all {
        if data.ladders.len() > 1 {
            let _ = write!(out, "<h3>{}</h3>", escaped(&said.about));
        }
        out.push_str("<ul>");
        for sentence in &said.sentences {
            let _ = write!(out, "<li>{}</li>", escaped(sentence));
        }
        out.push_str("</ul>");
    }
    if all.is_empty() {
        out.push_str("<p>Nothing was measured.</p>");
    }
    out.push_str("</section>\n");
}

fn contents(out: &mut String) {
    let results = QUESTIONS.iter().map(|q| (q.id, q.heading));
    let results = [results::CAPACITY].into_iter().chain(results).chain([results::DETAILS]);
    let all = SECTIONS.into_iter().chain(results).chain([("rerun", "Run it again")]);
    let links = all.map(|(id, heading)| format!("<a href=\"#{id}\">{heading}</a> "));
    let _ = writeln!(out, "<nav aria-label=\"Contents\">{}</nav>", links.collect::<String>());
}

fn section(out: &mut String, id: &str) {
    let known = SECTIONS.iter().find(|(known, _)| *known == id);
    let heading = known.map_or(id, |(_, heading)| heading);
    let _ = writeln!(out, "<section id=\"{id}\"><h2>{heading}</h2>");
}

fn summary(out: &mut String, data: Data<'_>) {
    section(out, "summary");
    out.push_str(
        "<p class=\"note\">“Holds” is the highest rate with a p99 within 10 ms, at most 0.01 % \
         errors and 99 % of requests answered; ≥ where nobody asked for more, or the generator \
         could not. Columns “at” a rate stand at the highest that all carried who carried any, or \
         else at the highest that half of them did; – where a contender did not.</p>",
    );
    for ladder in data.ladders {
        let _ = write!(out, "<h3>{}</h3>", escaped(&ladder.title()));
        out.push_str(&tables::overview(data, ladder));
        if let Some(cells) = streams::table(data, ladder) {
            let (note, table) = (streams::note(ladder), tables::plain(&cells));
            let _ =
                write!(out, "<h4>The streams beside it</h4><p class=\"note\">{note}</p>{table}");
        }
    }
    if let Some(cells) = ways::table(data) {
        for (heading, note, cells) in [
            (ways::HEADING, ways::NOTE, &cells),
            (ways::SEED_HEADING, ways::SEED_NOTE, &ways::seed()),
        ] {
            let table = tables::plain(cells);
            let _ = write!(out, "<h3>{heading}</h3><p class=\"note\">{note}</p>{table}");
        }
    }
    if let Some(sentence) = pair::sentence(data.run, &data.beside.pairs) {
        let _ = write!(out, "<p><strong>{}</strong></p>", escaped(&sentence));
    }
    ranked(out, data);
    out.push_str("</section>\n");
}

fn ranked(out: &mut String, data: Data<'_>) {
    if data.rankings.is_empty() {
        out.push_str("<p>Too few rounds to rank anybody.</p>");
        return;
    }
    out.push_str(
        "<p class=\"note\">Ratios to the reference are taken within each round; shown is their \
         median with its interval. Those whose intervals overlap share their ranks: too close \
         to call. Rows that the generator could not carry are not ranked, nor is a p99 of which \
         its lateness is more than a tenth.</p>",
    );
    let (first, rest): (Vec<&Ranking>, Vec<&Ranking>) =
        data.rankings.iter().partition(|ranking| decides(data, ranking));
    for ranking in first {
        out.push_str(&tables::ranking(data, ranking));
    }
    if !rest.is_empty() {
        let _ = write!(out, "<details><summary>At the other rates ({})</summary>", rest.len());
        for ranking in rest {
            out.push_str(&tables::ranking(data, ranking));
        }
        out.push_str("</details>");
    }
}

fn contenders(out: &mut String, data: Data<'_>) {
    section(out, "contenders");
    out.push_str("<table class=\"words\"><tr><th>Contender</th><th>version</th></tr>");
    for contender in &data.run.contenders {
        let (class, text) = match &contender.absent {
            Some(why) => (" class=\"unranked\"", format!("did not run, or not to the end: {why}")),
            None if data.run.twin.as_ref() == Some(&contender.name) => {
                ("", format!("{}: the reference once more, not ranked", contender.version))
            }
            None => ("", contender.version.clone()),
        };
        let _ = write!(
            out,
            "<tr{class}><td>{}</td><td>{}</td></tr>",
            tables::titled(data, &contender.name),
            escaped(&text)
        );
    }
    out.push_str("</table></section>\n");
}

fn systems(out: &mut String, data: Data<'_>) {
    section(out, "systems");
    out.push_str("<dl>");
    for fact in &data.run.fingerprint {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escaped(&fact.name), escaped(&fact.value));
    }
    out.push_str("</dl>");
    let pair = pair::sentence(data.run, &data.beside.pairs);
    let limits: Vec<&String> = data.run.limits.iter().chain(&pair).collect();
    if !limits.is_empty() {
        out.push_str("<h3>What this machine cannot show</h3><ul>");
        for limit in limits {
            let _ = write!(out, "<li>{}</li>", escaped(limit));
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
}

fn test(out: &mut String, data: Data<'_>) {
    section(out, "test");
    out.push_str("<ul>");
    for ladder in data.ladders {
        let unit = ladder.steps.words().2;
        let steps: Vec<String> = ladder.xs().iter().map(|x| step_words(*x, unit)).collect();
        let _ =
            write!(out, "<li>{}: {}</li>", escaped(&ladder.title()), escaped(&steps.join(", ")));
    }
    out.push_str(
        "</ul><p>A contender that returns other bytes than the others, before or after, is disqualified. Rounds interleave the \
         contenders in an order drawn from the seed; one is alive at a time. Points are medians \
         over rounds, bars reach from the smallest to the largest round; no round is left out.</p>",
    );
    steady(out, data);
    let marked: Vec<(&Ladder<'_>, String)> = data
        .ladders
        .iter()
        .map(|l| (l, tables::marked(data, l)))
        .filter(|(_, table)| !table.is_empty())
        .collect();
    if !marked.is_empty() {
        out.push_str("<details><summary>Rows with marked samples</summary>");
        for (ladder, table) in marked {
            let _ = write!(out, "<h3>{}</h3>{table}", escaped(&ladder.title()));
        }
        out.push_str("</details>");
    }
    out.push_str("</section>\n");
}

fn steady(out: &mut String, data: Data<'_>) {
    let sentences = steadiness::sentences(data);
    if sentences.is_empty() {
        return;
    }
    out.push_str("<h3>How steady was the machine?</h3>");
    for sentence in sentences {
        let _ = write!(out, "<p>{}</p>", escaped(&sentence));
    }
    if let Some(chart) = steadiness::chart(data) {
        results::figure(out, &chart);
    }
}

fn configuration(out: &mut String, data: Data<'_>) {
    section(out, "configuration");
    out.push_str("<div class=\"configs\">");
    for contender in &data.run.contenders {
        configured(out, contender, &tables::titled(data, &contender.name));
    }
    out.push_str("</div></section>\n");
}

fn configured(out: &mut String, contender: &Contender, title: &str) {
    let _ = write!(
        out,
        "<details class=\"config\"><summary>{title} <span>{}</span></summary>",
        escaped(&contender.version)
    );
    if let Some(why) = &contender.absent {
        let _ = write!(out, "<p>Did not run, or not to the end: {}</p>", escaped(why));
    }
    if !contender.tuned.is_empty() {
        out.push_str("<dl>");
        for tuned in &contender.tuned {
            let (setting, reason) = (escaped(&tuned.setting), escaped(&tuned.reason));
            let _ = write!(out, "<dt><code>{setting}</code></dt><dd>{reason}</dd>");
        }
        out.push_str("</dl>");
    }
    if !contender.config.is_empty() {
        let _ = write!(out, "<pre>{}</pre>", escaped(&contender.config));
    }
    out.push_str("</details>\n");
}

fn rerun(out: &mut String, data: Data<'_>) {
    let _ = writeln!(
        out,
        "<section id=\"rerun\"><h2>Run it again</h2><pre>{}</pre><p>Every sample is in \
         <code>samples.jsonl</code>, the figures of this page in <code>summary.csv</code>. Test \
         them in your environment and with your work.</p></section>\n\
         <footer>Drawn by deathmatch. Colours after Okabe and Ito; percentiles after \
         HdrHistogram.</footer>",
        escaped(&data.run.command)
    );
}
