//! `deathmatch URL`: load on one running server, shown live.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use deathmatch::cli::UrlArgs;
use deathmatch::figures::{
    Described, FAILED_STATUS, Figures, Latency, Offer, amount, bars, bars_of, kinds, percentiles,
};
use deathmatch::histogram::Times;
use deathmatch::load::{
    ANY_LENGTH, ANY_STATUS, Client, Expected, Job, Progress, Watch, pin_to, run_watched,
};
use deathmatch::sample::{ConnectionUse, Load, Offered};
use deathmatch::target::targets::{check_targets, order, read_archive, read_body, read_targets};
use deathmatch::target::{Request, Target, Url};
use deathmatch::tls::Protocol;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::run::on_signal;
use super::usage;

/// Duration if neither it nor a number of requests is given.
const DURATION: Duration = Duration::from_secs(10);

/// Duration of a load that ends with its requests.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

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
    report(args, &job, described, &load, &watch)
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

/// Prints and writes the figures.
pub(super) fn report(
    args: &UrlArgs,
    job: &Job,
    described: Described,
    load: &Load,
    watch: &Watch,
) -> io::Result<ExitCode> {
    let is_interrupted = job.stop.load(std::sync::atomic::Ordering::Relaxed);
    let described = Described { is_interrupted, ..described };
    let figures = Figures::of(described, load, &watch.progress());
    let mut out = io::stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&figures)?)?;
    } else {
        write!(out, "{figures}")?;
    }
    if let Some(file) = &args.csv {
        figures.write_csv(file).map_err(|e| named(file, &e))?;
    }
    if let Some(file) = &args.html {
        figures.write_html(file).map_err(|e| named(file, &e))?;
    }
    args.outcomes.write(&figures.url, &figures.checks)?;
    Ok(if figures.is_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn named(file: &std::path::Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", file.display()))
}

/// The requests as the arguments name them.
fn targets(args: &UrlArgs) -> Result<Vec<Target>, String> {
    let mut targets = if let Some(file) = &args.targets {
        read_targets(file)?
    } else if let Some(file) = &args.har {
        let (targets, others) = read_archive(file)?;
        if others > 0 {
            let shown = file.display();
            let mut err = io::stderr();
            // Without a reader of the note the load goes on.
            let _ = writeln!(
                err,
                "note: {others} requests of {shown} are of other servers, and left out"
            );
        }
        targets
    } else {
        let body = args.body.as_deref().map(body).transpose()?;
        let request = Request::new(args.method.as_deref(), &[], body)?;
        let target = |url: &Url| Target { url: url.clone(), request: request.clone() };
        args.urls.iter().map(target).collect()
    };
    if targets.is_empty() && args.targets.is_none() && args.har.is_none() {
        return Err("write a URL or a command; --help lists them".to_owned());
    }
    check_targets(&targets)?;
    for Target { url, request } in &mut targets {
        request.add_fields(&args.headers)?;
        request.is_last = args.disable_keepalive;
        *url = args.routed(url)?;
    }
    Ok(targets)
}

/// The URL that figures are shown for, and the method: those of the only request, or of all.
fn shown(targets: &[Target]) -> (String, String) {
    let first = &targets[0];
    let methods: BTreeSet<&str> = targets.iter().map(|one| one.request.method.as_str()).collect();
    let methods = methods.into_iter().collect::<Vec<_>>().join(", ");
    match targets.len() {
        1 => (first.url.to_string(), methods),
        count => {
            let server = Url { path: String::new(), ..first.url.clone() };
            (format!("{count} requests of {server}"), methods)
        }
    }
}

/// The job, and its description, for a server that accepts connections.
pub(super) fn prepare(args: &UrlArgs) -> Result<(Job, Described), String> {
    let targets = targets(args)?;
    let url = &targets[0].url;
    let (protocol, name, over) = match (args.h2, args.h3) {
        (true, _) => (Protocol::Http2, "HTTP/2", Some(ConnectionUse::Streams(args.streams))),
        (_, true) => (Protocol::Http3, "HTTP/3", Some(ConnectionUse::Http3(args.streams))),
        _ if args.disable_keepalive => {
            let anew = ConnectionUse::Anew { resumed: false };
            (Protocol::Http1, "HTTP/1.1 without keep-alive", Some(anew))
        }
        _ => (Protocol::Http1, "HTTP/1.1", None),
    };
    if protocol == Protocol::Http3 && !url.is_secure {
        return Err("--h3: HTTP/3 is spoken over https only; write https://".to_owned());
    }
    if args.latency_correction && args.rate.is_some() {
        let why = "--latency-correction is for a closed loop; with -r every latency counts from the \
                   intended start: leave it out";
        return Err(why.to_owned());
    }
    let order = order(targets.len(), &args.weights)?;
    let requests = targets.iter().map(|one| one.request.bytes(&one.url, protocol)).collect();
    let reached = url.reach(protocol, args.insecure).map_err(|e| e.to_string())?;
    let streams = if protocol == Protocol::Http1 { 1 } else { args.streams };
    // A closed loop has a request on every connection, or stream, at once.
    let places = args.connections.saturating_mul(streams);
    let connections = match args.requests {
        Some(most) if args.rate.is_none() && u64::from(places) > most => {
            u32::try_from(most).unwrap_or(args.connections).min(args.connections)
        }
        _ => args.connections,
    };
    let offered = match args.rate {
        Some(rate) => Offered::Open { rate, poisson: false, connections },
        None => Offered::Closed { connections },
    };
    let duration = args.duration.unwrap_or(match args.requests {
        Some(_) => DURATION_MAX,
        None => DURATION,
    });
    let (whole, method) = shown(&targets);
    let described = Described {
        url: whole,
        address: match &args.unix_socket {
            Some(socket) => socket.display().to_string(),
            None => reached.address.to_string(),
        },
        method,
        protocol: name.to_owned(),
        offered: Offer {
            connections,
            streams,
            is_anew: args.disable_keepalive,
            rate: args.rate,
            requests_max: args.requests,
            seconds_max: (duration < DURATION_MAX).then_some(duration.as_secs_f64()),
        },
        is_interrupted: false,
        corrects: args.latency_correction,
        conditions: args.fail_if.clone(),
        requests: match targets.len() {
            1 => Vec::new(),
            _ => targets.iter().map(Target::name).collect(),
        },
    };
    let stop: Arc<AtomicBool> = on_signal().map_err(|e| e.to_string())?;
    let job = Job {
        target: reached.address,
        client: Client { socket: args.unix_socket.clone(), sleeps: args.sleep },
        requests,
        bodies: match protocol {
            Protocol::Http1 => Vec::new(),
            _ => targets.iter().map(|one| Bytes::from(one.request.body.clone())).collect(),
        },
        order,
        expected: Expected { status: ANY_STATUS, body_bytes: ANY_LENGTH, body: None },
        offered,
        tls: reached.tls,
        over,
        beside: None,
        warm_up: Duration::ZERO,
        duration,
        timeout: args.timeout,
        stop,
    };
    Ok((job, described))
}

/// The text, or the content of the file after `@`.
fn body(text: &str) -> Result<Vec<u8>, String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.as_bytes().to_vec()) };
    read_body(file).map_err(|e| format!("-b {text}: {e}"))
}

/// Shows the figures until the load is over: a live view on a terminal, else a line a second.
fn follow(described: &Described, watch: &Watch, is_over: impl Fn() -> bool) {
    let Described { url, offered, .. } = described;
    if !io::stderr().is_terminal() {
        return print_lines(watch, is_over);
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

/// The live view.
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
        "  {} responses/s   {} in all   {} failed\n  {}\n",
        amount(rate(now)),
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
        now.load.busy_s / now.seconds.max(1e-9) * 100.0,
        match Latency::of(&now.load.lateness).filter(|_| offered.rate.is_some()) {
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
    let bad = now.statuses.range(FAILED_STATUS..).map(|(_, count)| count).sum::<u64>();
    now.load.errors.total() + bad
}

/// Responses a second of the last second.
fn rate(now: &Progress) -> f64 {
    now.recent.replies as f64 / now.recent.seconds.max(1e-9)
}

fn print_lines(watch: &Watch, is_over: impl Fn() -> bool) {
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
            "{:.0} s   {} responses/s   {}   {} failed",
            now.seconds,
            amount(rate(&now)),
            times(&now.recent.response),
            amount(failed(&now) as f64)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_view_has_outcomes_by_kind_and_no_times_without_responses() {
        let mut now = Progress { seconds: 1.0, ..Progress::default() };
        now.statuses.insert(200, 7);
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
