//! A sample: all measurements of one contender at one work, once. It is written as one JSON line as
//! soon as it is over, and never changed; reports are computed from samples.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::histogram::Times;

mod connection_use;
pub mod journal;
mod network;

pub use connection_use::{ConnectionUse, Version};
pub use network::{Network, NetworkUse};

/// One line of `samples.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the plan that it belongs to.
    pub plan: String,
    /// The round, from 0; contenders are compared within a round.
    pub round: u32,
    /// 0, or 1 in the repetition of a round, after the machine had changed.
    #[serde(default)]
    pub attempt: u32,
    /// 0, or the number of a further sample of the same rate: in a search one bad sample in three
    /// may be the machine's fault.
    #[serde(default)]
    pub trial: u32,
    /// A short sample of the floor before or after a round: it shows how steady the machine was,
    /// and is not compared.
    #[serde(default)]
    pub probe: bool,
    /// Name of the contender, as in the plan.
    pub contender: String,
    /// The work's name within the plan, such as `10k at 5000/s`.
    pub work: String,
    /// Name of the requested file.
    pub file: String,
    /// The load that the generator offered, whatever the server carried.
    pub offered: Offered,
    /// Special use of connections, if any.
    #[serde(default)]
    pub over: Option<ConnectionUse>,
    /// Streams beside it, if any.
    #[serde(default)]
    pub beside: Option<Beside>,
    /// Method by which the files of `beside` were dropped from the page cache; `None` if they were
    /// not.
    #[serde(default)]
    pub cooling: Option<Cooling>,
    /// The idle connections or slow readers of `beside`; `None` if there were none.
    #[serde(default)]
    pub idle: Option<IdleUse>,
    /// The network between the generator and the server; `None`: loopback.
    #[serde(default)]
    pub network: Option<NetworkUse>,
    /// The herds of `ConnectionUse::Herd`; `None` for other uses.
    #[serde(default)]
    pub herd: Option<HerdUse>,
    /// Set if it is a slice of a duel: all contenders are alive, and the load goes round between
    /// them. Its round is the cycle.
    #[serde(default)]
    pub slice: Option<Slice>,
    /// Its start, in seconds since 1970.
    pub began_unix_s: f64,
    /// Figures of the generator.
    pub load: Load,
    /// Use of the server; `None` if it runs on another machine.
    pub server: Option<ServerUse>,
    /// Use of the whole machine; `None` likewise.
    pub machine: Option<MachineUse>,
    /// Reasons for which this sample must not be ranked: the generator was the limit, Little's law
    /// was broken, other programs used the processor.
    pub marks: Vec<Mark>,
}

/// The first round of turns at a work that others do in slices: their cycles are below it.
pub(crate) const TURNS_FROM: u32 = 10_000;

/// The plan's round, from 0, of a sample that is no slice: also of turns at a work that others do
/// in slices, which are numbered from `TURNS_FROM` on.
pub(crate) fn plan_round(round: u32) -> u32 {
    round % TURNS_FROM
}

/// A slice of a duel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The burst of successive cycles of one work, from 0; between bursts other works have theirs.
    pub burst: u32,
    /// Its place in the cycle, from 0.
    pub place: u32,
    /// Share of a processor (0 to 1) that the server used without load, since its last slice;
    /// `None` in its first slice and for servers elsewhere.
    pub idle_cpu: Option<f64>,
    /// Instructions for each reply of a further slice that followed this one, the last of its
    /// burst; `None` in others, and where perf cannot count them.
    #[serde(default)]
    pub instructions: Option<f64>,
    /// Cycles of the processor likewise.
    #[serde(default)]
    pub cycles: Option<f64>,
    /// Time of a read from the first-level cache of the server's processor, in multiplications: the
    /// longer of one before the slice and one after it. `None` for servers elsewhere.
    #[serde(default)]
    pub first_level_read: Option<f64>,
}

/// The load that a generator offers: an open loop, sessions or a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// Requests a second, whatever the responses do; timed from the intended start of each.
    Open {
        /// Requests a second over all connections.
        rate: f64,
        /// `true` for exponential gaps, `false` for equal ones.
        poisson: bool,
        /// Connections they are spread over.
        connections: u32,
    },
    /// As in httperf: new connections at a rate, each with a number of successive calls.
    Sessions {
        /// New connections a second.
        rate: f64,
        /// Successive requests on each connection.
        calls: u32,
    },
    /// Connections that each send the next request after the response.
    Closed {
        /// Number of connections, each with one request at a time.
        connections: u32,
    },
}

/// Further work of the server beside the requests: downloads and uploads, one after the other
/// without end, idle connections, or reloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The file that is downloaded; of several, with `{}` for their number. Empty without streams.
    pub file: String,
    /// Its length, and an upload's; of cold files that of the smallest, in bytes.
    pub file_bytes: u64,
    /// Number of downloads at a time.
    pub downloads: u32,
    /// Number of uploads at a time.
    pub uploads: u32,
    /// Bytes a second in all, shared in proportion to their numbers; `None`: unlimited.
    pub bytes_per_s: Option<f64>,
    /// Set if the downloads are of many files that are not in the page cache.
    #[serde(default)]
    pub cold: Option<Cold>,
    /// Connections that send nothing after the response to their first request.
    #[serde(default)]
    pub idle: u32,
    /// Connections that each request the file once and read it slowly, at their share of
    /// `bytes_per_s`.
    #[serde(default)]
    pub slow: u32,
    /// `true`: those send a body of the file's length in place of reading one.
    #[serde(default)]
    pub sends: bool,
    /// Reloads of the server's configuration a second; `None`: it is not reloaded.
    #[serde(default)]
    pub reloads_per_s: Option<f64>,
}

/// Memory of a server with and without idle connections or slow readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleUse {
    /// Idle connections, or slow readers.
    pub connections: u32,
    /// Resident memory before the first of them, in bytes, of all the server's processes.
    pub before_bytes: u64,
    /// Resident memory with all of them, likewise: before the requests began; of slow readers after
    /// them.
    pub after_bytes: u64,
}

impl IdleUse {
    /// Growth of resident memory for each connection, in bytes; 0 if it shrank.
    pub fn bytes_per_connection(&self) -> f64 {
        let grown = self.after_bytes.saturating_sub(self.before_bytes);
        grown as f64 / f64::from(self.connections.max(1))
    }
}

/// Herds: connections that request the same object at once, each herd another object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HerdUse {
    /// Number of herds that were sent.
    pub herds: u64,
    /// Requests that reached the upstream.
    pub upstream_requests: u64,
    /// From the first request of a herd to the end of its last response.
    pub complete: Times,
}

/// Many files, each downloaded at most once, which a server must read from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cold {
    /// Number of files, each downloaded at most once.
    pub files: u32,
    /// The length of the largest, in bytes.
    pub bytes_max: u64,
    /// Limit of the server's reads a second; `None`: unlimited.
    pub reads_per_s: Option<u32>,
}

/// Method by which files were dropped from the page cache before a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// Their disk, as in /proc/diskstats.
    pub disk: String,
    /// `true` if names and inodes were dropped too, which needs root; otherwise only contents.
    pub inodes: bool,
}

impl Beside {
    /// `true` if files are downloaded or uploaded.
    pub fn has_streams(&self) -> bool {
        self.downloads + self.uploads > 0
    }

    /// Its downloads, at their share of the rate.
    pub fn downloads_only(&self) -> Beside {
        if self.uploads == 0 {
            return self.clone();
        }
        let share = f64::from(self.downloads) / f64::from(self.downloads + self.uploads);
        let bytes_per_s = self.bytes_per_s.map(|rate| rate * share);
        Beside { uploads: 0, bytes_per_s, ..self.clone() }
    }
}

/// As in `8 downloads and 8 uploads of 20 MB at 200 MB/s`, or `64 downloads of 27000 cold files of
/// 10 KB to 100 KB at 2000 reads/s`, `10000 idle connections`, or `1 reload/s`.
impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.idle > 0 {
            return write!(f, "{} idle connections", self.idle);
        }
        if let Some(rate) = self.bytes_per_s.filter(|_| self.slow > 0) {
            let each = rate / f64::from(self.slow) / 1e3;
            let of = size(self.file_bytes);
            let what = if self.sends { "senders" } else { "readers" };
            return write!(f, "{} slow {what} of {of} at {each} KB/s each", self.slow);
        }
        if let Some(rate) = self.reloads_per_s {
            let noun = if rate == 1.0 { "reload" } else { "reloads" };
            return write!(f, "{rate} {noun}/s");
        }
        let some = |count: u32, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let streams = [some(self.downloads, "download"), some(self.uploads, "upload")];
        let streams: Vec<String> = streams.into_iter().flatten().collect();
        if let Some(Cold { files, bytes_max, reads_per_s }) = &self.cold {
            let (least, most) = (size(self.file_bytes), size(*bytes_max));
            write!(f, "{} of {files} cold files of {least} to {most}", streams.join(" and "))?;
            return match reads_per_s {
                Some(reads) => write!(f, " at {reads} reads/s"),
                None => write!(f, " at full speed"),
            };
        }
        write!(f, "{} of {}", streams.join(" and "), size(self.file_bytes))?;
        match self.bytes_per_s {
            Some(rate) => write!(f, " at {} MB/s", rate / 1e6),
            None => write!(f, " at full speed"),
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        b if b % 1_000_000 == 0 => format!("{} MB", b / 1_000_000),
        b if b % 1000 == 0 => format!("{} KB", b / 1000),
        b => format!("{b} bytes"),
    }
}

/// Reason for which a sample is shown but not ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The generator sent late: its lateness is more than a tenth of the response time.
    GeneratorLate,
    /// The generator had no processor time left.
    GeneratorBusy,
    /// Connections, rate and time of a closed loop do not agree (Little's law).
    LittlesLaw,
    /// Other programs used more than 1 % of the machine.
    ForeignCpu,
    /// Another hardware thread of the server's core was busy: its first-level cache was slow.
    SharedCore,
    /// The bytes were not those of the file.
    WrongBytes,
    /// The streams beside the requests were below their rate, which left more for the requests.
    StreamsSlow,
    /// All cold files had been sent before the end of the sample: the rest of it had no streams.
    ColdOver,
    /// Less was read from the disk than was sent of cold files: they were not cold.
    NotCold,
    /// Some handshakes were not of the measured kind.
    OtherHandshakes,
    /// The floor beside this round was more than 5 % off the other rounds': the round was repeated.
    FloorMoved,
}

impl Mark {
    /// All marks, in the order in which reports show them.
    pub const ALL: [Mark; 11] = [
        Mark::GeneratorLate,
        Mark::GeneratorBusy,
        Mark::LittlesLaw,
        Mark::ForeignCpu,
        Mark::SharedCore,
        Mark::WrongBytes,
        Mark::StreamsSlow,
        Mark::ColdOver,
        Mark::NotCold,
        Mark::OtherHandshakes,
        Mark::FloorMoved,
    ];
}

/// As in the report's tables.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mark::GeneratorLate => "generator late",
            Mark::GeneratorBusy => "generator busy",
            Mark::LittlesLaw => "Little's law",
            Mark::ForeignCpu => "foreign CPU",
            Mark::SharedCore => "shared core",
            Mark::WrongBytes => "wrong bytes",
            Mark::StreamsSlow => "streams slow",
            Mark::ColdOver => "no cold file left",
            Mark::NotCold => "not cold",
            Mark::OtherHandshakes => "other handshakes",
            Mark::FloorMoved => "floor moved",
        })
    }
}

/// Figures of the generator, warm-up excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Length of the measured time, in seconds.
    pub seconds: f64,
    /// Last part of it in which no request begins, in seconds: the slice of a closed loop waits
    /// there for the responses that are due, and a load by number has made its requests.
    #[serde(default)]
    pub draining_s: f64,
    /// Requests that should have been sent.
    pub intended: u64,
    /// Complete and right responses.
    pub replies: u64,
    /// Replies in each whole second.
    pub replies_per_second: Vec<u64>,
    /// Bytes of responses, heads included.
    pub bytes: u64,
    /// From the intended start of a request to its response's last byte; of a request without a
    /// response in time, the timeout.
    pub response: Times,
    /// From the sending of a request to its response's last byte.
    pub service: Times,
    /// From the intended start of a request to its sending.
    pub lateness: Times,
    /// Requests of an open loop, or visits, that had to wait for a free connection or visitor.
    #[serde(default)]
    pub waits: u64,
    /// Sum of these waits, in seconds.
    #[serde(default)]
    pub waited_s: f64,
    /// Requests that failed, by kind.
    pub errors: Errors,
    /// Handshakes of TLS, by kind.
    #[serde(default)]
    pub handshakes: Handshakes,
    /// Processor time the generator used for work, not for waiting, in seconds.
    pub busy_s: f64,
    /// Receive calls that returned data.
    pub reads: u64,
    /// Figures of the streams beside the requests, if any.
    #[serde(default)]
    pub bulk: Option<BulkLoad>,
    /// Figures of the slow readers or senders beside the requests, if any.
    #[serde(default)]
    pub slow: Option<SlowLoad>,
}

/// Figures of slow readers or senders, warm-up excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowLoad {
    /// Bytes that all of them have read, or sent.
    pub bytes: u64,
    /// Connections that the server closed, or whose response was complete.
    pub closed: u64,
}

/// Figures of streams beside the requests, warm-up excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkLoad {
    /// Bytes of downloads' responses received, heads included.
    pub down_bytes: u64,
    /// Bytes of uploads sent, heads included.
    pub up_bytes: u64,
    /// Downloads that were complete and correct.
    pub downloads: u64,
    /// Uploads completed and accepted.
    pub uploads: u64,
    /// If each file is downloaded once: nanoseconds after which none was left, if that happened.
    #[serde(default)]
    pub over_ns: Option<u64>,
    /// Streams that failed; each was started again.
    pub failures: u64,
}

impl Load {
    /// Adds the figures of a later part of the same sample, except its seconds' bins.
    pub fn add(&mut self, part: &Load) {
        self.seconds += part.seconds;
        self.draining_s += part.draining_s;
        self.intended += part.intended;
        self.replies += part.replies;
        self.bytes += part.bytes;
        self.response.merge(&part.response);
        self.service.merge(&part.service);
        self.lateness.merge(&part.lateness);
        self.waits += part.waits;
        self.waited_s += part.waited_s;
        self.errors.add(&part.errors);
        self.busy_s += part.busy_s;
        self.reads += part.reads;
    }

    /// Time in which requests begin, and in which the generator's work is counted, in seconds.
    pub fn offering_s(&self) -> f64 {
        self.seconds - self.draining_s
    }

    /// Right responses a second. With whole seconds, by the time they ended: responses after the
    /// end do not count as throughput.
    pub fn throughput(&self) -> f64 {
        match self.replies_per_second.len() {
            0 => self.replies as f64 / self.seconds,
            seconds => self.replies_per_second.iter().sum::<u64>() as f64 / seconds as f64,
        }
    }
}

/// Handshakes that were completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// Full handshakes, with a certificate.
    pub full: u64,
    /// Resumed handshakes (RFC 8446, 2.2).
    pub resumed: u64,
}

/// Requests that failed, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The connection was refused.
    pub refused: u64,
    /// The connection ended before the response did.
    pub reset: u64,
    /// The response did not arrive in time.
    pub timeout: u64,
    /// The TLS handshake failed, or received bytes could not be decrypted.
    #[serde(default)]
    pub tls: u64,
    /// A reset stream, a GOAWAY, malformed frames, or too few streams allowed.
    #[serde(default)]
    pub http2: u64,
    /// The response had an unexpected status.
    pub status: u64,
    /// An unexpected length or unexpected bytes.
    pub bytes: u64,
}

impl Errors {
    /// Adds the counts of other errors, kind by kind.
    pub fn add(&mut self, other: &Errors) {
        self.refused += other.refused;
        self.reset += other.reset;
        self.timeout += other.timeout;
        self.tls += other.tls;
        self.http2 += other.http2;
        self.status += other.status;
        self.bytes += other.bytes;
    }

    /// The sum of all kinds.
    pub fn total(&self) -> u64 {
        self.refused + self.reset + self.timeout + self.tls + self.http2 + self.status + self.bytes
    }
}

/// Use of a server's processes during a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// Processor time, in seconds, of all its processes.
    pub cpu_s: f64,
    /// Part of `cpu_s` in user mode. Counted in ticks, so only meaningful in long samples.
    pub user_s: f64,
    /// Part of `cpu_s` in the kernel, counted likewise.
    pub system_s: f64,
    /// Context switches it asked for by waiting.
    pub voluntary_switches: u64,
    /// Context switches forced on it.
    pub involuntary_switches: u64,
    /// Resident memory at the end, in bytes, of all its processes.
    pub resident_bytes: u64,
    /// Peak of resident memory since the sample began, if the kernel supports that; otherwise since
    /// the processes began. For several processes the sum, though their peaks may not coincide.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Runnable threads on average: running or waiting for a processor.
    pub runnable: f64,
}

/// Use of the machine during a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Seconds between the two looks.
    pub seconds: f64,
    /// Hardware interrupts of all processors.
    pub interrupts: u64,
    /// Context switches of all processors.
    pub switches: u64,
    /// Pages freed (`pgfree`); on loopback the pages of payload count too.
    pub pages_freed: u64,
    /// Load average over a minute, at the end.
    pub load_1m: f64,
    /// Share of all processor time (0 to 1) taken by the host.
    pub steal: f64,
    /// Share of all processor time (0 to 1) spent waiting for disks.
    pub iowait: f64,
    /// Share of all processor time (0 to 1) used by neither the server, its upstream nor the
    /// generator.
    pub foreign: f64,
    /// Processor time of the server's upstream, in seconds.
    #[serde(default)]
    pub upstream_cpu_s: f64,
    /// Disks that were used, by name.
    pub disks: BTreeMap<String, DiskUse>,
}

/// Use of a disk during a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Reads that the disk completed.
    pub reads: u64,
    /// Bytes that were read from the disk.
    pub read_bytes: u64,
    /// Milliseconds a read took, on average.
    pub await_ms: f64,
    /// Share of the time (0 to 1) it was busy.
    pub busy: f64,
}
