//! The report as a reader gets it: written to a directory, and opened in a browser if there is one.

#![allow(clippy::unwrap_used)] // A test that cannot write has failed.

mod invented;

use std::path::{Path, PathBuf};
use std::process::Command;

use deathmatch::report::{self, Measure, PAGE, TABLE};
use deathmatch::sample::Mark;
use deathmatch::summary;

/// Browsers that can dump a page's document, by the names they are installed under.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Largest size of the page of a whole deck.
const PAGE_BYTES_MAX: usize = 1_000_000;

/// Largest number of lines in a chart.
const LINES_MAX: usize = 6;

/// Charts of the invented run: two comparisons; of its rates, thirteen measures and a distribution;
/// of its closed loop, in which nothing fails, one less; the brackets are not searched.
const CHARTS: usize = 2 + 14 + 13;

/// A directory of a test's own, emptied first.
fn directory(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The full deck, written as `deathmatch run` does it.
fn full(name: &str) -> (PathBuf, String) {
    let (run, samples) = invented::full::run();
    let rankings = summary::rankings(&samples, &run.reference, &run.floor);
    let dir = directory(name);
    report::write(&dir, &run, &samples, &rankings).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    (dir, page)
}

#[test]
fn the_full_report_has_its_expected_text() {
    let (dir, page) = full("report-full");
    let text = page.replace('\u{202f}', " ");
    let rows = [
        ("Round 3 was repeated: the floor beside it", "which rounds, and why"),
        ("In round 5 the floor was more than 5 % off", "and which were not"),
        ("The machine was fit", "the reference against itself"),
        ("(which ran twice)", "that it ran twice"),
        ("wrong bytes: disqualified", "who is disqualified"),
        ("Mongrel did not finish: it died in round 2", "who died"),
        ("the generator's lateness exceeds a tenth of the value", "whose p99 is the generator's"),
        ("Failures by kind", "errors"),
        ("wrong status", "by kind"),
        ("vda: 80.0 reads/s, 1.80 MB/s, await 0.700 ms, 6.00 % busy", "disks"),
        ("load-limited", "what the generator could not offer"),
        ("it answers", "overload"),
        ("Offered 1.5 times what each carries, these fell below", "in a sentence"),
        (">all out<", "a cost of going all out"),
        ("Other programs disturbed none of the", "the disturbed share"),
        ("is surely first in", "a verdict"),
        ("not measured: it failed a lower rate", "a contender that dropped out"),
    ];
    for (part, why) in rows {
        assert!(text.contains(part), "{why}: {part} is not in the page");
    }
    let csv = std::fs::read_to_string(dir.join(TABLE)).unwrap();
    let works = page.split("id=\"work-1\"").nth(1).unwrap();
    for table in [&csv, works.split("id=\"contenders\"").next().unwrap()] {
        assert!(!table.contains("floor before") && !table.contains("times what it carries"));
        assert!(!table.contains("nginx-again") && !table.contains("nginx once more"));
    }
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
}

#[test]
fn a_reference_to_which_nothing_was_compared_is_not_first() {
    let (run, samples) = invented::full::run();
    let mut rankings = summary::rankings(&samples, &run.reference, &run.floor);
    let others = rankings.iter_mut().flat_map(|ranking| &mut ranking.rows);
    for standing in others.filter(|standing| standing.contender != run.reference) {
        standing.interval = None;
    }
    let dir = directory("report-alone");
    report::write(&dir, &run, &samples, &rankings).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    assert!(page.contains("None: no comparison has an interval"), "what is missing");
    assert!(!page.contains("surely first"), "a verdict on one contender");
}

#[test]
fn a_page_without_ranks_begins_with_results_and_ends_with_what_is_missing() {
    let (run, mut samples) = invented::full::run();
    samples.retain(|s| s.round == 0);
    let rankings = summary::rankings(&samples, &run.reference, &run.floor);
    let dir = directory("report-glance");
    report::write(&dir, &run, &samples, &rankings).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    let body = page.split("<body>").nth(1).unwrap();
    let parts =
        ["div class=\"glance\"", "ul class=\"verdict\"", "<nav", "id=\"work-1\"", "id=\"missing\""];
    let places: Vec<usize> =
        parts.iter().map(|part| body.find(part).unwrap_or_else(|| panic!("{part}"))).collect();
    assert!(places.is_sorted(), "{parts:?} at {places:?}");
    assert!(body.contains("unknown\"><b>Verdict</b>"), "an absent verdict is not green");
    assert!(body.contains("<pre>deathmatch install swazoo</pre>"), "one command for all");
    assert_eq!(body.matches("deathmatch install").count(), 1, "nothing twice");
    let unknown = report::Run { twin: None, ..run };
    report::write(&dir, &unknown, &samples, &rankings).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    assert!(page.contains("unknown\"><b>Machine</b>"), "unknown is not green");
}

#[test]
fn charts_have_few_lines_that_run_to_the_right_and_no_bars() {
    // The first probes come last, as in a run whose first round was repeated at its end.
    let (run, mut samples) = invented::full::run();
    let first = samples.iter().rposition(|s| s.round == 0).unwrap() + 1;
    samples.rotate_left(first);
    let dir = directory("report-lines");
    let rankings = summary::rankings(&samples, &run.reference, &run.floor);
    report::write(&dir, &run, &samples, &rankings).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    let charts: Vec<&str> = page.split("<svg class=\"chart\"").skip(1).collect();
    let mut drawn = 0;
    for chart in charts {
        let chart = chart.split("</svg>").next().unwrap();
        let lines: Vec<&str> = chart.split("<path class=\"l\" d=\"").skip(1).collect();
        assert!(lines.len() <= LINES_MAX, "{} lines: {chart}", lines.len());
        for line in lines {
            let path = line.split('"').next().unwrap();
            let points = path.split(['M', 'L']).filter(|point| !point.is_empty());
            let xs: Vec<f64> =
                points.map(|point| point.split(' ').next().unwrap().parse().unwrap()).collect();
            assert!(xs.is_sorted(), "a line runs backwards: {path}");
            drawn += 1;
        }
        let is_log = chart.contains("log scale");
        let bars = chart.matches("<rect").count()
            - chart.matches("<rect class=\"hit\"").count()
            - chart.matches("<rect class=\"band\"").count();
        assert!(!is_log || bars == 0, "bars on a logarithmic scale: {chart}");
    }
    assert!(drawn > 50, "{drawn} lines");
}

#[test]
fn disturbed_samples_are_told_first_and_their_rows_flagged() {
    let (run, mut samples, _) = invented::run();
    samples.retain(|s| s.work == "10k at 1000/s");
    for sample in samples.iter_mut().filter(|s| s.contender != "nginx") {
        sample.marks.push(Mark::ForeignCpu);
    }
    let all = samples.len();
    let dir = directory("report-disturbed");
    let rankings = summary::rankings(&samples, &run.reference, &run.floor);
    report::write(&dir, &run, &samples, &rankings).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    let text = report::terminal(&run, &samples, &rankings).replace("\n  ", " ");
    let share = format!("Other programs ran beside {} of {all} samples (94.4 %)", all - 3);
    let first = page.split("<nav").next().unwrap();
    assert!(first.contains(&share), "{share} is not before the sections: {first}");
    assert!(text.lines().take(6).any(|line| line.contains(&share)), "{text}");
    assert!(!text.contains("used the least CPU"), "all but one are disturbed: {text}");
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("Hurtle ").contains('*') && !row("nginx ").contains('*'), "{text}");
}

#[test]
fn a_load_limited_row_is_not_said_to_hold_nothing() {
    let (run, mut samples, _) = invented::run();
    samples.retain(|s| s.work == "10k at 1000/s" && ["nginx", "hurtle"].contains(&&*s.contender));
    for sample in samples.iter_mut().filter(|s| s.contender == "nginx") {
        sample.marks.push(Mark::GeneratorBusy);
        (0..sample.load.response.count()).for_each(|_| sample.load.response.record(30_000_000));
    }
    let text = report::terminal(&run, &samples, &[]).replace("\n  ", " ");
    assert!(!text.contains("nginx held none"), "{text}");
    assert!(text.contains("Unknown for nginx: the generator was the limit."), "{text}");
}

#[test]
fn a_run_with_sendfile_and_without_has_the_table_of_2008() {
    let (run, mut samples) = invented::full::run();
    samples.retain(|s| s.contender == "nginx" && s.work.contains("as fast as they go"));
    let mut other = samples.clone();
    other.iter_mut().for_each(|s| s.file = "64k.png".into());
    samples.append(&mut other);
    let mut copying = samples.clone();
    copying.iter_mut().for_each(|s| s.contender = "nginx-copy".into());
    samples.append(&mut copying);
    let dir = directory("report-ways");
    report::write(&dir, &run, &samples, &[]).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    let table =
        page.split("in the form of Yaws").nth(1).expect("the table").replace('\u{202f}', " ");
    let rows = [
        ("<td>nginx</td><td>10k.png</td>", "who, and which file"),
        ("<td>+0 %</td>", "the same samples under two names are the same"),
        ("<td>+5 %</td>", "the seed's 64 KB"),
        ("<td>−44 %</td>", "and its 256 KB"),
    ];
    for (part, why) in rows {
        assert!(table.contains(part), "{why}: {part} is not in the page");
    }
    assert!(!full("report-no-ways").1.contains("in the form of Yaws"), "nobody there has two ways");
}

fn written(name: &str) -> (PathBuf, String) {
    let (run, samples, rankings) = invented::run();
    let dir = directory(name);
    report::write(&dir, &run, &samples, &rankings).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    (dir, page)
}

#[test]
fn the_page_stands_alone() {
    let (dir, page) = written("report-alone");
    for reference in
        ["src=", "<script", "<link", "@import", "url(", "href=\"http", "http://", "https://"]
    {
        assert!(!page.contains(reference), "the page has {reference}");
    }
    let links = page.split("href=\"").skip(1);
    assert!(links.clone().count() > 5 && links.clone().all(|l| l.starts_with('#')), "links stay");
    for link in links {
        let id = link[1..].split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id} is linked but not there");
    }
    assert!(!page.contains("<b>\"Evil\""), "a title is text");
    assert!(page.contains("&lt;b&gt;&quot;Evil&quot; &amp; Söhne"), "and is shown as it is");
    for number in ["NaN", "\"inf", "Minf", "Linf", "Vinf", "Hinf", " inf"] {
        assert!(!page.contains(number), "every place in a drawing is a number, not {number}");
    }
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(files.len(), 2, "{PAGE} and {TABLE} alone: {files:?}");
}

#[test]
fn an_empty_run_is_a_page_without_results() {
    let dir = directory("report-empty");
    report::write(&dir, &report::Run::default(), &[], &[]).unwrap();
    let page = std::fs::read_to_string(dir.join(PAGE)).unwrap();
    assert!(page.contains("Nothing was measured"));
}

#[test]
fn a_plot_shows_every_contender_at_the_works_that_decide() {
    let (run, samples, _) = invented::run();
    let file = directory("report-plot").join("plot.svg");
    report::plot(&file, &run, &samples, Measure::CpuPerRequest).unwrap();
    let plot = std::fs::read_to_string(&file).unwrap();
    for part in
        ["CPU per request, µs", "Hurtle", "&lt;b&gt;&quot;Evil&quot;", "10k at 50 connections"]
    {
        assert!(plot.contains(part), "{part} is missing");
    }
    assert!(plot.contains("xmlns=\"http://www.w3.org/2000/svg\""), "a viewer needs the namespace");
    assert!(
        !plot.contains("NaN") && !plot.contains("<b>"),
        "every place is a number, a title text"
    );
    let ends = plot.matches("</").count() + plot.matches("/>").count();
    let begins = plot.matches('<').count() - plot.matches("</").count();
    assert_eq!(begins, ends, "every element ends");

    let error = report::plot(&file, &run, &[], Measure::P99).unwrap_err().to_string();
    assert!(error.contains("no sample of this run has"), "{error}");
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let error = report::write(Path::new("/nowhere/at/all"), &report::Run::default(), &[], &[]);
    assert!(error.unwrap_err().to_string().contains("/nowhere/at/all/report.html"));
}

#[test]
fn a_browser_finds_every_heading_and_chart() {
    let (dir, _) = written("report-browser");
    let Some(document) = BROWSERS.iter().find_map(|name| dumped(name, &dir)) else {
        eprintln!("no browser is installed: nothing was opened");
        return;
    };
    for heading in [
        "10k.png, sessions as of httperf",
        "10k.png, closed loop",
        "The figures behind it",
        "The contenders",
        "The test",
        "How to read it",
        "The systems",
        "Environment and configuration",
        "Run it again",
    ] {
        assert!(document.contains(&format!("<h2>{heading}</h2>")), "{heading} is missing");
    }
    assert_eq!(document.matches("<svg class=\"chart").count(), CHARTS);
    assert_eq!(document.matches("<figure>").count(), CHARTS);
}

/// Height of the window, in pixels.
const HEIGHT: u32 = 844;

/// A page is opened at these widths, in pixels: a desk's and a telephone's.
const WIDTHS: [u32; 2] = [1_280, 390];

#[test]
fn in_a_browser_every_element_has_a_size_and_no_error_is_logged() {
    let (dir, page) = full("report-seen");
    // The page itself runs no script; a copy of it contains one that inspects it.
    let asked =
        page.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'");
    let asked = asked.replace("</body>", &format!("<script>{QUESTION}</script></body>"));
    std::fs::write(dir.join(PAGE), asked).unwrap();
    for width in WIDTHS {
        let size = format!("--window-size={width},{HEIGHT}");
        let Some((document, log)) = BROWSERS.iter().find_map(|name| opened(name, &dir, &size))
        else {
            eprintln!("skipped: no browser is installed");
            return;
        };
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "at {width} pixels: {complaints:?}");
        // The last one: the script's own text contains the first.
        let answer = document.rsplit("id=\"answer\">").next().expect("an answer");
        let answer = answer.split('<').next().unwrap();
        assert_eq!(answer, "all is well", "at {width} pixels");
    }
}

/// Finds elements that must be visible but have no size, or reach beyond the page's sides.
const QUESTION: &str = "
const faults = [];
const see = (what, least, wide = 20, high = 8) => {
  const all = [...document.querySelectorAll(what)].filter(e => !e.closest('details:not([open])'));
  if (all.length < least) faults.push(what + ': ' + all.length);
  for (const e of all) {
    const box = e.getBoundingClientRect();
    if (box.width < wide || box.height < high) faults.push(what + ' has no size');
  }
};
see('h1', 1); see('h2', 10); see('section', 10); see('nav a', 8); see('figure', 20);
see('svg.chart', 20); see('svg.chart .m', 300, 2, 2); see('svg.chart .dot', 50, 2, 2);
see('table', 4); see('.says li', 10); see('.verdict li', 3);
const first = document.querySelector('svg.chart').getBoundingClientRect();
if (first.top > 0.7 * innerHeight) faults.push('the first chart begins at ' + first.top);
if (innerWidth > 1000 && first.bottom > innerHeight)
  faults.push('the first chart ends at ' + first.bottom);
for (const text of document.querySelectorAll('svg.chart text')) {
  if (text.closest('details:not([open])')) continue;
  const own = text.getBoundingClientRect(), frame = text.closest('svg').getBoundingClientRect();
  if (own.left < frame.left - 1 || own.right > frame.right + 1)
    faults.push('cut off: ' + text.textContent.replaceAll('<', '&lt;'));
}
for (const mark of document.querySelectorAll('svg.chart .m, svg.chart .dot'))
  if (!mark.closest('g:has(> title)')) faults.push('a mark has no title');
if (document.documentElement.scrollWidth > innerWidth) faults.push('it scrolls sideways');
for (const svg of document.querySelectorAll('svg.chart'))
  if (!svg.getAttribute('aria-label')) faults.push('a chart has no name');
for (const figure of document.querySelectorAll('section[id] figure'))
  if (!figure.querySelector('table') && figure.nextElementSibling?.querySelector('table') == null)
    faults.push('a chart has no table');
document.body.insertAdjacentHTML('beforeend',
  '<p id=\"answer\">' + (faults.join('; ') || 'all is well') + '</p>');
";

/// The document as a browser parsed it; `None` if that browser is not installed.
fn dumped(browser: &str, dir: &Path) -> Option<String> {
    opened(browser, dir, "--window-size=1100,900").map(|(document, _)| document)
}

/// (document, log) of a browser that opened the page; `None` if it is not installed.
fn opened(browser: &str, dir: &Path, size: &str) -> Option<(String, String)> {
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    let page = format!("file://{}", dir.join(PAGE).display());
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--enable-logging=stderr",
        "--dump-dom",
        size,
    ];
    let output = Command::new(browser).args(flags).args([&profile, &page]).output().ok()?;
    assert!(output.status.success(), "{browser} gave up: {output:?}");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn the_terminal_gets_a_table_and_the_take_home() {
    let (run, samples, rankings) = invented::run();
    let text = report::terminal(&run, &samples, &rankings);
    for part in [
        "10k.png, sessions as of httperf",
        "10k.png, closed loop",
        "Hurtle",
        "Take home",
        "load-limited",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    println!("{text}");
}
