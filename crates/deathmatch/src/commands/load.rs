//! `deathmatch load`: one generator of many, which starts at a given time and writes its figures to
//! a file.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use deathmatch::cli::{LoadArgs, UrlArgs, check_writable};
use deathmatch::figures::{Described, Figures};
use deathmatch::fleet::{Clock, Generated, Moments, Options, rfc3339, unix_now};
use deathmatch::load::{Job, Step, Watch, websocket_content};
use deathmatch::sample::ConnectionUse;

use super::job::prepare;
use super::url::{generate, is_interrupted, report};
use super::usage;

/// Longest part of a wait between two looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Fields whose values are not written to files.
const SECRETS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Waits for the start, makes the load, and writes its figures.
pub(crate) fn load(args: &LoadArgs) -> io::Result<ExitCode> {
    // The file is then all that is printed.
    let is_stdout = args.out.as_os_str() == "-";
    if is_stdout && (args.load.json || args.load.csv.is_some() || args.load.html.is_some()) {
        return usage("--out - prints nothing but the file: leave --json, --csv and --html out");
    }
    let prepared = args
        .start_unix_s()
        .and_then(|start| Ok((start, prepare(&args.load)?)))
        .and_then(|all| check_writable("--out", &args.out).map(|()| all));
    let (start, (job, described)) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return usage(&why),
    };
    // Its own preparation makes no generator late.
    let start = start.unwrap_or_else(unix_now);
    if !wait_until(start, &job.stop) {
        writeln!(io::stderr(), "deathmatch: stopped before the start at {}", rfc3339(start))?;
        return Ok(ExitCode::FAILURE);
    }
    let watch = Watch::new(args.load.requests);
    let is_quiet = args.load.json || is_stdout;
    let (started, began) = (unix_now(), Instant::now());
    let load = match generate(&args.load, &job, &described, &watch, is_quiet) {
        Ok(load) => load,
        Err(e) => return usage(&e.to_string()),
    };
    let step_s = (unix_now() - started) - began.elapsed().as_secs_f64();
    let progress = watch.progress();
    let described = Described { is_interrupted: is_interrupted(&job, &progress), ..described };
    let figures = Figures::of(described.clone(), &load, &progress);
    let moments = Moments { start_intended_unix_s: start, started_unix_s: started };
    let options = options(&args.load, &job, &described);
    let generated = Generated::of(options, &figures, &progress.bins, moments, Clock::ask(step_s));
    let written = write(&args.out, &generated);
    let is_interrupted = described.is_interrupted;
    let reported = match is_stdout {
        true => args.load.outcomes.write(&figures.url, &figures.checks),
        false => report(&args.load, &job, described, &load, &watch).map(drop),
    };
    written.and(reported)?;
    if let Some(fault) = progress.fault {
        return usage(&fault);
    }
    // Failed requests are figures, and no reason to run this generator again.
    Ok(if is_interrupted { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Options that every generator of a load must share.
fn options(args: &UrlArgs, job: &Job, described: &Described) -> Options {
    let field = |text: &String| match text.split_once(':') {
        Some((name, _)) if SECRETS.contains(&name.trim().to_ascii_lowercase().as_str()) => {
            format!("{name}: (not recorded)")
        }
        _ => text.clone(),
    };
    let is_plain = args.body.is_none() && job.requests.len() == 1 && job.client.steps.is_empty();
    let sum = |bytes: Vec<u8>| {
        let sum = digest::digest(&digest::SHA256, &bytes);
        sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    Options {
        url: described.url.clone(),
        method: described.method.clone(),
        protocol: described.protocol.clone(),
        headers: args.headers.iter().map(field).collect(),
        request_sha256: (!is_plain)
            .then(|| sum([sent(job), visits(job, described.offered.connections_each)].concat())),
        connections: described.offered.connections,
        connections_each: described.offered.connections_each,
        streams: described.offered.streams,
        duration_s: described.offered.seconds_max,
        requests: args.requests,
        timeout_s: args.timeout.as_secs_f64(),
    }
}

/// The requests as sent, their order, and bodies that are sent apart, so that files with other
/// content differ. Without what is random: the key of a WebSocket, and the mask of its messages.
fn sent(job: &Job) -> Vec<u8> {
    let is_websocket = job.over == Some(ConnectionUse::WebSocket);
    let is_key = |line: &[u8]| is_websocket && line.starts_with(b"sec-websocket-key:");
    let lines = job.requests.iter().flat_map(|request| request.split_inclusive(|b| *b == b'\n'));
    let mut sent = lines.filter(|line| !is_key(line)).collect::<Vec<_>>().concat();
    if job.requests.len() > 1 {
        sent.extend(job.order.iter().flat_map(|which| which.to_be_bytes()));
    }
    for body in &job.bodies {
        let content = if is_websocket { websocket_content(body) } else { body.to_vec() };
        sent.extend((content.len() as u64).to_be_bytes());
        sent.extend(content);
    }
    sent
}

/// The course of visits, if the job is of visits: the requests of each step, the pauses, and the
/// connections of a visitor.
fn visits(job: &Job, connections_each: Option<u32>) -> Vec<u8> {
    let steps = job.client.steps.iter().flat_map(|Step { requests, pause }| {
        let indices = requests.iter().flat_map(|which| (*which as u64).to_be_bytes());
        let pauses = pause.iter().flat_map(|pause| pause.as_nanos().to_be_bytes());
        let length = (requests.len() as u64).to_be_bytes();
        length.into_iter().chain(indices).chain(pauses).collect::<Vec<u8>>()
    });
    let connections = connections_each.into_iter().flat_map(u32::to_be_bytes);
    steps.chain(connections).collect()
}

/// Waits for a moment by this machine's clock; `false` after a signal.
fn wait_until(unix_s: f64, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let rest = unix_s - unix_now();
        if rest <= 0.0 {
            return true;
        }
        thread::sleep(Duration::from_secs_f64(rest).min(LOOK_EVERY));
    }
}

/// Writes the file whole or not at all.
fn write(out: &Path, generated: &Generated) -> io::Result<()> {
    let text = serde_json::to_string(generated)? + "\n";
    if out.as_os_str() == "-" {
        let mut stdout = io::stdout();
        return stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
    let mut part = out.as_os_str().to_owned();
    part.push(".part");
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, out))
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", out.display())))
}
