//! `deathmatch URL`: load on one running server, shown live.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use deathmatch::cli::UrlArgs;
use deathmatch::figures::{
    Described, Figures, Latency, Offer, amount, bars, bars_of, kinds, percentiles,
};
use deathmatch::histogram::Times;
use deathmatch::load::{Job, Progress, Watch, pin_to, run_watched};
use deathmatch::sample::Load;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::job::prepare;
use super::{Output, usage};

/// Redraws a second of the live view.
const REDRAWS: u8 = 8;

/// Interval of lines if standard error is not a terminal.
const LINE: Duration = Duration::from_secs(1);

/// Puts load on a URL.
pub(crate) fn url(args: &UrlArgs) -> io::Result<ExitCode> {
    let (job, described) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(why) => return usage(&why),
    };
    let watch = Watch::new(args.requests);
    let generated = generate(args, &job, &described, &watch, args.json);
    let load = match generated {
        Ok(load) => load,
        Err(e) => return usage(&e.to_string()),
    };
    let reported = report(args, &job, described, &load, &watch)?;
    watch.progress().fault.map_or(Ok(reported), |fault| usage(&fault))
}

/// Makes the load on a thread of its own, and shows it meanwhile.
pub(super) fn generate(
    args: &UrlArgs,
    job: &Job,
    described: &Described,
    watch: &Watch,
    is_quiet: bool,
) -> io::Result<Load> {
    thread::scope(|scope| {
        let generator =
            thread::Builder::new().name("generator".to_owned()).spawn_scoped(scope, || {
                if !args.cores.is_empty() {
                    pin_to(&args.cores)?;
                }
                run_watched(job, watch)
            })?;
        if !is_quiet {
            follow(described, watch, || generator.is_finished());
        }
        generator.join().unwrap_or_else(|_| Err(io::Error::other("the generator failed")))
    })
}

/// Writes and prints the figures. Files that cannot be written are an error after that.
pub(super) fn report(
    args: &UrlArgs,
    job: &Job,
    described: Described,
    load: &Load,
    watch: &Watch,
) -> io::Result<ExitCode> {
    let progress = watch.progress();
    let described = Described { is_interrupted: is_interrupted(job, &progress), ..described };
    let figures = Figures::of(described, load, &progress);
    let written = write_files(args, &figures);
    if args.json {
        writeln!(Output, "{}", serde_json::to_string_pretty(&figures)?)?;
    } else {
        write!(Output, "{figures}")?;
    }
    written?;
    Ok(if figures.is_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `true` if the user or an error of the generator ended the load.
pub(super) fn is_interrupted(job: &Job, progress: &Progress) -> bool {
    job.stop.load(Ordering::Relaxed) || progress.fault.is_some()
}

/// Writes each file that can be written.
fn write_files(args: &UrlArgs, figures: &Figures) -> io::Result<()> {
    let written = |file: &Path, result: io::Result<()>| result.map_err(|e| named(file, &e));
    let csv = args.csv.as_deref().map_or(Ok(()), |file| written(file, figures.write_csv(file)));
    let html = args.html.as_deref().map_or(Ok(()), |file| written(file, figures.write_html(file)));
    let outcomes = args.outcomes.write(&figures.url, &figures.checks);
    csv.and(html).and(outcomes)
}

fn named(file: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", file.display()))
}

/// Shows the figures until the load is over: a live view on a terminal, else a line a second.
fn follow(described: &Described, watch: &Watch, is_over: impl Fn() -> bool) {
    let Described { url, offered, .. } = described;
    if !io::stderr().is_terminal() {
        return print_lines(watch, offered.counted(), is_over);
    }
    let view = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(REDRAWS));
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        view.set_style(style);
    }
    while !is_over() {
        view.set_message(live(url, offered, &watch.progress()));
        thread::sleep(Duration::from_secs(1) / u32::from(REDRAWS));
    }
    // The summary takes its place.
    view.finish_and_clear();
}

fn live(url: &str, offered: &Offer, now: &Progress) -> String {
    let whole = match (offered.requests_max, offered.seconds_max) {
        (Some(most), _) => {
            format!("{} of {} requests", amount(now.load.intended as f64), amount(most as f64))
        }
        (None, Some(most)) => format!("{:.1} of {most:.0} s", now.seconds.min(most)),
        (None, None) => format!("{:.1} s", now.seconds),
    };
    let mut text = format!("{url}   {whole}   Ctrl-C ends it with the figures so far\n\n");
    text += &format!(
        "  {} {}/s   {} in all   {} failed\n  {}\n",
        amount(rate(now)),
        offered.counted(),
        amount(now.load.replies as f64),
        amount(failed(now) as f64),
        times(&now.load.response)
    );
    let statuses: Vec<String> = now
        .statuses
        .iter()
        .map(|(status, count)| format!("{status}: {}", amount(*count as f64)))
        .collect();
    let kinds = kinds(&now.load.errors);
    let kinds = kinds.iter().map(|(kind, count)| format!("{kind}: {}", amount(*count as f64)));
    let outcomes: Vec<String> = statuses.into_iter().chain(kinds).collect();
    text += &format!("  {}\n", outcomes.join("   "));
    text += &format!(
        "  generator: busy {:.0} %{}\n\n",
        now.load.busy_s / now.seconds.min(now.load.offering_s()).max(1e-9) * 100.0,
        match Latency::of(&now.load.lateness) {
            Some(late) => format!(", late: {}", percentiles(&late)),
            None => String::new(),
        }
    );
    text + &bars(&bars_of(&now.load.response))
}

/// The percentiles of these times.
fn times(times: &Times) -> String {
    Latency::of(times).map_or_else(|| "no response".to_owned(), |latency| percentiles(&latency))
}

/// Requests without a response, and responses that are failures.
fn failed(now: &Progress) -> u64 {
    now.load.errors.total() + now.bad_statuses()
}

/// Responses a second of the last second.
fn rate(now: &Progress) -> f64 {
    now.recent.replies as f64 / now.recent.seconds.max(1e-9)
}

fn print_lines(watch: &Watch, counted: &str, is_over: impl Fn() -> bool) {
    let (mut waited, step) = (Duration::ZERO, Duration::from_millis(50));
    while !is_over() {
        thread::sleep(step);
        waited += step;
        if waited < LINE {
            continue;
        }
        waited = Duration::ZERO;
        let now = watch.progress();
        // Without a reader of the lines the load goes on.
        let _ = writeln!(
            io::stderr(),
            "{:.0} s   {} {counted}/s   {}   {} failed",
            now.seconds,
            amount(rate(&now)),
            times(&now.recent.response),
            amount(failed(&now) as f64)
        );
    }
}

#[cfg(test)]
mod tests {
    use deathmatch::load::Status;

    use super::*;

    #[test]
    fn the_live_view_has_outcomes_by_kind_and_no_times_without_responses() {
        let mut now = Progress { seconds: 1.0, ..Progress::default() };
        now.statuses.insert(Status::Http(200), 7);
        now.load.errors.refused = 3;
        now.load.errors.timeout = 1;
        let text = live("http://a/", &Offer { seconds_max: Some(10.0), ..Offer::default() }, &now);
        for words in ["200: 7", "connection refused: 3", "no response in time: 1", "no response\n"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("p50"), "{text}");
    }
}
