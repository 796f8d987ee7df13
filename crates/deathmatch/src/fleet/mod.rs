//! Load from many machines: the file of one generator, the lines of one watched server, and their
//! merging into one report. Programs that the user has already start them and collect their files.

pub mod clock;
mod counts;
mod merged;
mod page;
mod text;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::instant::{parse, rfc3339};
pub use clock::{Clock, unix_now};
pub use counts::{Counts, Sum};
pub use merged::{Generator, Mark, MarkKind, Merged, Server, Slot};

use crate::figures::{Figures, Part};
use crate::load::Bin;
use crate::sample::{MachineUse, ServerUse};

/// First field of a generator's file.
pub const LOAD_FORMAT: &str = "deathmatch-load-1";

/// First field of a watched server's lines.
pub const WATCH_FORMAT: &str = "deathmatch-watch-1";

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The figures of one generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// Format of the file: `LOAD_FORMAT`.
    pub format: String,
    /// Version of deathmatch that wrote the file.
    pub version: String,
    /// Name of the machine.
    pub host: String,
    /// Number of its process on that machine.
    pub pid: u32,
    /// Options of its command line that all generators share.
    pub options: Options,
    /// Requests a second that it offered; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Address at which the server was reached.
    pub address: String,
    /// Facts about its clock.
    pub clock: Clock,
    /// Intended start, in seconds since 1970 by its clock.
    pub start_intended_unix_s: f64,
    /// Actual start, in seconds since 1970 by its clock.
    pub started_unix_s: f64,
    /// Intended end; `None` if it ends with its requests.
    pub end_intended_unix_s: Option<f64>,
    /// End of the last request, or of the offered time.
    pub ended_unix_s: f64,
    /// `true` if it was ended by a signal.
    pub is_interrupted: bool,
    /// Counts and response times.
    pub counts: Counts,
    /// Delay of requests by the generator, in milliseconds.
    pub lateness_p50_ms: f64,
    /// 99th percentile of that delay, in milliseconds.
    pub lateness_p99_ms: f64,
    /// Longest delay, in milliseconds.
    pub lateness_max_ms: f64,
    /// Share of the time in which the generator worked.
    pub busy_share: f64,
    /// `true` if the generator may have limited the figures.
    pub is_limit: bool,
    /// The course, second by second.
    pub seconds: Vec<Second>,
}

/// Options that all generators of a load share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the options of the command line")]
pub struct Options {
    pub url: String,
    pub method: String,
    pub protocol: String,
    /// Without the values of fields that hold secrets.
    pub headers: Vec<String>,
    /// Checksum of a request with a body, of several requests, or of visits.
    pub request_sha256: Option<String>,
    /// Or visitors at once.
    pub connections: u32,
    /// Connections of a visitor; `None`: the load is of requests, not of visits.
    #[serde(default)]
    pub connections_each: Option<u32>,
    pub streams: u32,
    pub duration_s: Option<f64>,
    pub requests: Option<u64>,
    pub timeout_s: f64,
}

/// One second of a generator, or a longer part of a long load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `figures::Part`")]
pub struct Second {
    pub from_s: f64,
    pub seconds: f64,
    pub responses: u64,
    pub failed: u64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

/// One second of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Format of the line: `WATCH_FORMAT`.
    pub format: String,
    /// Name of the machine.
    pub host: String,
    /// The process that was named.
    pub pid: u32,
    /// End of this time, in seconds since 1970.
    pub unix_s: f64,
    /// Use of the server's processes: of its session, and of their descendants.
    pub server: ServerUse,
    /// Use of the machine.
    pub machine: MachineUse,
}

/// Moments of a load that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    /// Intended start, in seconds since 1970 by the generator's clock.
    pub start_intended_unix_s: f64,
    /// Actual start, in seconds since 1970 by the generator's clock.
    pub started_unix_s: f64,
}

impl Generated {
    /// The file of a load that has ended. Its last second, however short, stays apart from the time
    /// in which requests were sent.
    pub fn of(
        options: Options,
        figures: &Figures,
        bins: &[Bin],
        moments: Moments,
        clock: Clock,
    ) -> Generated {
        let second = |part: Part| Second {
            from_s: part.from_s,
            seconds: part.seconds,
            responses: part.responses,
            failed: part.failed,
            p50_ms: part.p50_ms,
            p99_ms: part.p99_ms,
            max_ms: part.max_ms,
        };
        let generator = &figures.generator;
        Generated {
            format: LOAD_FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: host(),
            pid: std::process::id(),
            rate: figures.offered.rate,
            address: figures.address.clone(),
            clock,
            start_intended_unix_s: moments.start_intended_unix_s,
            started_unix_s: moments.started_unix_s,
            end_intended_unix_s: options.duration_s.map(|s| moments.start_intended_unix_s + s),
            ended_unix_s: moments.started_unix_s + figures.seconds,
            is_interrupted: figures.is_interrupted,
            counts: Counts {
                requests: figures.requests,
                responses: figures.responses,
                failed: figures.failed,
                unfinished: figures.unfinished,
                bytes: figures.bytes,
                connections: figures.connections,
                statuses: figures.statuses.clone(),
                errors: figures.errors,
                histogram: Sum::from(&figures.histogram),
            },
            lateness_p50_ms: generator.lateness_p50_ms,
            lateness_p99_ms: generator.lateness_p99_ms,
            lateness_max_ms: generator.lateness_max_ms,
            busy_share: generator.busy_share,
            is_limit: generator.is_limit,
            seconds: bins.iter().map(Part::of).map(second).collect(),
            options,
        }
    }

    /// End of the time in which it sent requests.
    fn active_until(&self) -> f64 {
        let offered = self.options.duration_s.map(|seconds| self.started_unix_s + seconds);
        offered.map_or(self.ended_unix_s, |end| end.min(self.ended_unix_s))
    }
}

/// Name of this machine.
pub fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// The content of files.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Generators, with their files.
    pub generated: Vec<(PathBuf, Generated)>,
    /// Lines of the watched server, in the order of time.
    pub watched: Vec<Watched>,
}

/// Reads files of generators and of watched servers, in any order.
///
/// # Errors
/// The file that cannot be used, and how to replace it.
pub fn read(files: &[PathBuf]) -> Result<Collected, String> {
    let mut all = Collected::default();
    for file in files {
        read_one(file, &mut all).map_err(|why| format!("{}: {why}", file.display()))?;
    }
    if all.generated.is_empty() {
        return Err("none of these files is of a generator: name the files that `deathmatch load \
                    --out FILE` wrote"
            .to_owned());
    }
    all.watched.sort_by(|a, b| a.unix_s.total_cmp(&b.unix_s));
    let mut servers: Vec<_> = all.watched.iter().map(|w| (&w.host, w.pid)).collect();
    servers.dedup();
    if servers.len() > 1 {
        return Err("the `deathmatch watch` files are of several processes: name one".to_owned());
    }
    Ok(all)
}

fn read_one(file: &Path, all: &mut Collected) -> Result<(), String> {
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(|e| read_error(&e))?;
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|e| read_error(&e))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("larger than {} MiB, so of no generator", FILE_BYTES_MAX >> 20));
    }
    if text.trim().is_empty() {
        let why = "empty: its generator has not ended, or failed; see its output, and run it again";
        return Err(why.to_owned());
    }
    if is_watched(&text) {
        return read_watched(&text, &mut all.watched);
    }
    let damaged = |e: serde_json::Error| {
        format!("not a whole file of `deathmatch load` ({e}): collect it again, or leave it out")
    };
    let read: Generated = serde_json::from_str(&text).map_err(damaged)?;
    if read.format != LOAD_FORMAT {
        return Err(format!(
            "its format is {:?}, not {LOAD_FORMAT:?}: use one version of deathmatch everywhere",
            read.format
        ));
    }
    let of = |g: &Generated| (g.host.clone(), g.pid, g.started_unix_s.to_bits());
    if let Some((other, _)) = all.generated.iter().find(|(_, other)| of(other) == of(&read)) {
        let other = other.display();
        return Err(format!("the same generator's as {other}: name one of the two"));
    }
    all.generated.push((file.to_owned(), read));
    Ok(())
}

fn read_error(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::InvalidData => "not text, so of no generator: leave it out".to_owned(),
        io::ErrorKind::NotFound => "no such file: collect it, or leave it out".to_owned(),
        _ => format!("cannot be read: {e}"),
    }
}

fn is_watched(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.contains(WATCH_FORMAT))
}

fn read_watched(text: &str, watched: &mut Vec<Watched>) -> Result<(), String> {
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(read) => watched.push(read),
            // The watch was copied while it wrote its last line.
            Err(_) if at + 1 == lines.len() && !text.ends_with('\n') => {}
            Err(e) => {
                let line = at + 1;
                return Err(format!("line {line} is damaged ({e}): collect it again"));
            }
        }
    }
    Ok(())
}
