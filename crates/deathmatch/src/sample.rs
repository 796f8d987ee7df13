//! A sample: everything measured while one contender served one piece of work once. Written as one
//! JSON line the moment it is over, and never changed; what a report says is computed from these.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::histogram::Times;

pub mod journal;

/// One line of `samples.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The plan's name.
    pub plan: String,
    /// The round, from 0; contenders are compared within a round.
    pub round: u32,
    /// 0, or 1 where the round was repeated because the machine had changed meanwhile.
    #[serde(default)]
    pub attempt: u32,
    /// 0, or which further sample of the same rate this is: in a search one bad sample in three may be
    /// the machine's fault.
    #[serde(default)]
    pub trial: u32,
    /// A short look at the floor before or after a round: it tells how steady the machine was, and
    /// belongs to no comparison.
    #[serde(default)]
    pub probe: bool,
    /// The contender's name.
    pub contender: String,
    /// The work's name within the plan, such as `10k at 5000/s`.
    pub work: String,
    /// The file asked for.
    pub file: String,
    /// How load was offered.
    pub offered: Offered,
    /// What was particular about connections, if anything was.
    #[serde(default)]
    pub over: Option<Over>,
    /// What ran beside it, if anything did.
    #[serde(default)]
    pub beside: Option<Beside>,
    /// How the files beside it were made cold, if they were.
    #[serde(default)]
    pub cooling: Option<Cooling>,
    /// When it began, in seconds since 1970.
    pub began_unix_s: f64,
    /// What the generator saw.
    pub load: Load,
    /// What the server used; `None` where it runs on another machine.
    pub server: Option<ServerUse>,
    /// What the whole machine did; `None` likewise.
    pub machine: Option<MachineUse>,
    /// Why this sample must not be ranked, if it must not: the generator was the limit, Little's
    /// law was broken, somebody else used the processor.
    pub marks: Vec<Mark>,
}

/// How load is offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// Requests a second, whatever the answers do; timed from when each should have been sent.
    Open {
        /// Requests a second.
        rate: f64,
        /// Exponential gaps, else equal ones.
        poisson: bool,
        /// Connections they are spread over.
        connections: u32,
    },
    /// As httperf: new connections at a rate, each with so many calls one after the other.
    Sessions {
        /// Connections a second.
        rate: f64,
        /// Calls on each.
        calls: u32,
    },
    /// So many connections, each asking again as soon as it is answered.
    Closed {
        /// Connections.
        connections: u32,
    },
}

/// What is particular about connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// A new one for each request.
    Anew {
        /// Whether its handshake resumes what an earlier connection began; else it is a full one.
        resumed: bool,
    },
    /// HTTP/2, so many requests at once on each.
    Streams(u32),
}

/// As in `a full handshake each`.
impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Over::Anew { resumed: false } => write!(f, "a full handshake each"),
            Over::Anew { resumed: true } => write!(f, "a resumed handshake each"),
            Over::Streams(1) => write!(f, "1 stream a connection"),
            Over::Streams(streams) => write!(f, "{streams} streams a connection"),
        }
    }
}

/// Streams beside the requests: downloads and uploads, one after the other without end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The file that is downloaded; of many, with `{}` for their number.
    pub file: String,
    /// Its length, and an upload's; of cold files that of the smallest.
    pub file_bytes: u64,
    /// Downloads at once.
    pub downloads: u32,
    /// Uploads at once.
    pub uploads: u32,
    /// Bytes a second in all, shared as the numbers are; `None`: as fast as they go.
    pub bytes_per_s: Option<f64>,
    /// Where the downloads are of many files that are in nobody's memory.
    #[serde(default)]
    pub cold: Option<Cold>,
}

/// Many files, each downloaded once at most, which a server must have from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cold {
    /// How many there are.
    pub files: u32,
    /// The length of the largest, in bytes.
    pub bytes_max: u64,
    /// Reads a second the server may ask of the disk; `None`: as many as it likes.
    pub reads_per_s: Option<u32>,
}

/// How files were made cold before a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// The disk they are on, as /proc/diskstats calls it.
    pub disk: String,
    /// Whether their names and inodes were forgotten too, for which one must be root; else only
    /// what is in them.
    pub inodes: bool,
}

impl Beside {
    /// Its downloads, at their share of the rate.
    pub fn downloads_only(&self) -> Beside {
        let share = f64::from(self.downloads) / f64::from(self.downloads + self.uploads);
        let bytes_per_s = self.bytes_per_s.map(|rate| rate * share);
        Beside { uploads: 0, bytes_per_s, ..self.clone() }
    }
}

/// As in `8 downloads and 8 uploads of 20 MB at 200 MB/s`, or `64 downloads of 27000 cold files of 10 KB
/// to 100 KB at 2000 reads/s`.
impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Why a sample is shown but not ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The generator sent late: its lateness is more than a tenth of what it measured.
    GeneratorLate,
    /// The generator had no processor time left.
    GeneratorBusy,
    /// Connections, rate and time of a closed loop do not agree (Little's law).
    LittlesLaw,
    /// Others than the server and the generator used more than 1 % of the machine.
    ForeignCpu,
    /// The bytes were not those asked for.
    WrongBytes,
    /// The streams beside the requests were not served at their rate: that made it easier for the
    /// requests.
    StreamsSlow,
    /// The cold files had all been sent before the sample was over: the rest of it was quiet.
    ColdOver,
    /// Less was read from the disk than was sent of cold files: they were not cold.
    NotCold,
    /// Not every handshake was of the kind that was to be measured.
    OtherHandshakes,
    /// The floor beside this round was more than 5 % off the other rounds': the round was repeated.
    FloorMoved,
}

/// What the generator saw, warm-up excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Seconds measured.
    pub seconds: f64,
    /// Requests that should have been sent.
    pub intended: u64,
    /// Complete, right answers.
    pub replies: u64,
    /// The same in each whole second.
    pub replies_per_second: Vec<u64>,
    /// Bytes of answers, heads included.
    pub bytes: u64,
    /// From when a request should have been sent to its answer's last byte.
    pub response: Times,
    /// From when it was sent.
    pub service: Times,
    /// From when it should have been sent to when it was.
    pub lateness: Times,
    /// By kind.
    pub errors: Errors,
    /// Handshakes of TLS, by kind.
    #[serde(default)]
    pub handshakes: Handshakes,
    /// Processor time the generator used for work, not for waiting, in seconds.
    pub busy_s: f64,
    /// Calls that received something.
    pub reads: u64,
    /// What the streams beside the requests did, if there were any.
    #[serde(default)]
    pub bulk: Option<BulkLoad>,
}

/// What streams beside the requests moved, warm-up excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkLoad {
    /// Bytes of downloads' answers received, heads included.
    pub down_bytes: u64,
    /// Bytes of uploads sent, heads included.
    pub up_bytes: u64,
    /// Downloads that were completed and right.
    pub downloads: u64,
    /// Uploads that were completed and taken.
    pub uploads: u64,
    /// Where each file is downloaded once: nanoseconds after which none was left, if that came.
    #[serde(default)]
    pub over_ns: Option<u64>,
    /// Streams that failed; each was begun again.
    pub failures: u64,
}

impl Load {
    /// Right answers a second. Where there are whole seconds, by when they ended: of a server that
    /// falls behind, what it answers after the end is not its throughput.
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
    /// With a certificate.
    pub full: u64,
    /// That took up an earlier one (RFC 8446, 2.2).
    pub resumed: u64,
}

/// Requests that failed, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Nobody accepted the connection.
    pub refused: u64,
    /// The connection ended before the answer did.
    pub reset: u64,
    /// No answer in time.
    pub timeout: u64,
    /// No handshake, or bytes that could not be decrypted.
    #[serde(default)]
    pub tls: u64,
    /// A reset stream, a GOAWAY, frames against the protocol, too few streams allowed.
    #[serde(default)]
    pub http2: u64,
    /// Another status than expected.
    pub status: u64,
    /// Another length or other bytes than expected.
    pub bytes: u64,
}

impl Errors {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.refused + self.reset + self.timeout + self.tls + self.http2 + self.status + self.bytes
    }
}

/// What a server's processes used during a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// Processor time, in seconds, of all its processes.
    pub cpu_s: f64,
    /// Of that, in user mode; ticks, so only meaningful in long samples.
    pub user_s: f64,
    /// Of that, in the kernel.
    pub system_s: f64,
    /// Context switches it asked for by waiting.
    pub voluntary_switches: u64,
    /// Context switches forced on it.
    pub involuntary_switches: u64,
    /// Resident memory at the end, in bytes, of all its processes.
    pub resident_bytes: u64,
    /// The most resident memory at any moment since the sample began, where the kernel lets that be
    /// asked; else since the processes did. Of several processes the sum, though they may not have
    /// had theirs at once.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Runnable threads on average: running or waiting for a processor.
    pub runnable: f64,
}

/// What the machine did during a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Seconds between the two looks.
    pub seconds: f64,
    /// Hardware interrupts.
    pub interrupts: u64,
    /// Context switches.
    pub switches: u64,
    /// Pages freed (`pgfree`); on loopback the pages of payload count too.
    pub pages_freed: u64,
    /// Load average over a minute, at the end.
    pub load_1m: f64,
    /// Share of all processor time (0 to 1) taken by the host.
    pub steal: f64,
    /// Share of all processor time (0 to 1) spent waiting for disks.
    pub iowait: f64,
    /// Share of all processor time (0 to 1) used by neither the server, its upstream nor the generator.
    pub foreign: f64,
    /// Processor time of what the server passes requests on to, in seconds.
    #[serde(default)]
    pub upstream_cpu_s: f64,
    /// Per disk that did anything.
    pub disks: BTreeMap<String, DiskUse>,
}

/// What a disk did during a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Milliseconds a read took, on average.
    pub await_ms: f64,
    /// Share of the time (0 to 1) it was busy.
    pub busy: f64,
}
