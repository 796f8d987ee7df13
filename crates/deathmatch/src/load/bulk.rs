//! Streams beside the requests that are timed: downloads and uploads, one after the other without end,
//! at a fixed rate in all. The generator spins anyway, so they are not watched for readiness: each
//! turn of its loop tries the next few, and moves one piece at most, which is all that a small
//! answer can be delayed by. How an answer is read is `reader`'s.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;

use super::Expected;
use super::bucket::Bucket;
use super::reader::{Memo, Reader, Step};
use super::wire::{self, HEAD_RECEIVE_BYTES, Moved, Opened};
use crate::sample::BulkLoad;

/// The most an upload sends at once, and the least for which the rate must allow before a stream is
/// tried: smaller pieces would cost more calls than they carry.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// What uploads consist of.
static PIECE: [u8; PIECE_BYTES] = [b'u'; PIECE_BYTES];

/// Streams tried in a turn until one moves something: one that is not ready costs a system call.
const ATTEMPTS_MAX: usize = 4;

/// A stream that failed is begun again after this.
const PAUSE_NS: u64 = 100_000_000;

/// What runs beside the requests.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Downloads at once.
    pub downloads: u32,
    /// What each asks for, over and over: a whole request.
    pub download: Vec<u8>,
    /// What is asked for instead: each once, in this order, by whichever download is free, until
    /// none is left.
    pub once: Vec<Once>,
    /// The head of each upload at once, sent over and over, each with its own path; it announces
    /// `body_bytes`.
    pub uploads: Vec<Vec<u8>>,
    /// The length of every body, in bytes, either way.
    pub body_bytes: u64,
    /// Bytes a second, shared by downloads and uploads as their numbers are, so that neither gets
    /// what a server leaves of the other; `None`: as fast as they go.
    pub rate: Option<f64>,
}

/// A download that is asked for once.
#[derive(Clone, Debug)]
pub struct Once {
    /// A whole request.
    pub request: Vec<u8>,
    /// The length of its answer's body, in bytes.
    pub body_bytes: u64,
}

/// The streams of one run. Times are nanoseconds since its start.
pub(super) struct Streams<'a> {
    bulk: &'a Bulk,
    target: SocketAddr,
    timeout: u64,
    measured: Range<u64>,
    all: Vec<Stream<'a>>,
    next: usize,
    /// How many of those asked for once have been.
    begun: usize,
    down: Bucket,
    up: Bucket,
    memo: Memo,
    counts: BulkLoad,
}

/// Which way a stream's bodies go.
#[derive(Clone, Copy)]
enum Way {
    Down,
    /// Which of the uploads.
    Up(usize),
}

struct Stream<'a> {
    way: Way,
    /// What it asks for, where that is asked for once.
    once: Option<&'a Once>,
    expected: Expected,
    socket: Option<OwnedFd>,
    state: State,
    reader: Reader,
    /// Since when it could neither send nor receive.
    blocked: Option<u64>,
}

#[derive(Clone, Copy)]
enum State {
    /// Not connected until then.
    Shut { until: u64 },
    /// So many bytes of the request, an upload's body included, have left.
    Asking { sent: u64 },
    /// The answer is coming.
    Answered,
}

/// What became of trying a stream.
enum Tried {
    Moved(usize),
    Blocked,
    /// The answer was over with so many bytes.
    Done {
        bytes: usize,
        close: bool,
    },
    Failed,
}

impl<'a> Streams<'a> {
    /// `measured`: when what they move is counted. They go on for as long as a request is under way:
    /// who waits behind one would otherwise wait for ever.
    pub(super) fn new(
        bulk: &'a Bulk,
        target: SocketAddr,
        timeout: u64,
        measured: Range<u64>,
    ) -> io::Result<Streams<'a>> {
        let (downs, ups) = (bulk.downloads as usize, bulk.uploads.len());
        let rate_ok = bulk.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0);
        if downs + ups == 0 || !rate_ok {
            let why = "streams beside the requests need a number and a rate above 0";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // In turns of one each, for as long as there are both.
        let mut ways: Vec<(usize, Way)> = (0..downs).map(|at| (2 * at, Way::Down)).collect();
        ways.extend((0..ups).map(|at| (2 * at + 1, Way::Up(at))));
        ways.sort_by_key(|(place, _)| *place);
        let share = |count: usize| bulk.rate.map(|rate| rate * count as f64 / (downs + ups) as f64);
        let mut streams = Streams {
            bulk,
            target,
            timeout,
            measured,
            all: ways.into_iter().map(|(_, way)| Stream::new(way, bulk.body_bytes)).collect(),
            next: 0,
            begun: 0,
            down: Bucket::new(share(downs)),
            up: Bucket::new(share(ups)),
            memo: Memo::default(),
            counts: BulkLoad::default(),
        };
        (0..downs + ups).for_each(|at| streams.choose(at, 0));
        Ok(streams)
    }

    /// Tries the next few; true once one moved something. An error is the generator's own.
    pub(super) fn turn(&mut self, now: u64, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..ATTEMPTS_MAX.min(self.all.len()) {
            let at = self.next;
            self.next = (at + 1) % self.all.len();
            if self.attempt(at, now, buffer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What was moved in the time that is measured.
    pub(super) fn finish(self) -> BulkLoad {
        self.counts
    }

    fn attempt(&mut self, at: usize, now: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let stream = &mut self.all[at];
        if let State::Shut { until } = stream.state {
            return if now < until { Ok(false) } else { self.open(at, now) };
        }
        let bucket = match stream.way {
            Way::Down => &mut self.down,
            Way::Up(_) => &mut self.up,
        };
        let allowed = bucket.allowed(now);
        if allowed < PIECE_BYTES {
            return Ok(false);
        }
        let carries = match (stream.way, stream.state) {
            (Way::Down, State::Answered) => Some(&mut self.counts.down_bytes),
            (Way::Up(_), State::Asking { .. }) => Some(&mut self.counts.up_bytes),
            _ => None,
        };
        let tried = match stream.state {
            State::Asking { sent } => stream.ask(sent, self.bulk),
            _ => {
                let most = allowed.min(buffer.len());
                stream.take(&mut buffer[..most], &mut self.memo)
            }
        };
        let (bytes, over) = match tried {
            Tried::Moved(bytes) => (bytes, None),
            Tried::Done { bytes, close } => (bytes, Some(close)),
            Tried::Blocked => {
                let since = *stream.blocked.get_or_insert(now);
                if now - since > self.timeout {
                    self.fail(at, now);
                }
                return Ok(false);
            }
            Tried::Failed => {
                self.fail(at, now);
                return Ok(true);
            }
        };
        stream.blocked = None;
        let is_measured = self.measured.contains(&now);
        if let Some(count) = carries {
            bucket.spend(bytes);
            *count += if is_measured { bytes as u64 } else { 0 };
        }
        if let Some(close) = over {
            stream.again(close, now);
            let count = match stream.way {
                Way::Down => &mut self.counts.downloads,
                Way::Up(_) => &mut self.counts.uploads,
            };
            *count += u64::from(is_measured);
            self.choose(at, now);
        }
        Ok(true)
    }

    /// Gives a stream what it asks for next, or ends it where nothing is left.
    fn choose(&mut self, at: usize, now: u64) {
        let stream = &mut self.all[at];
        stream.once = self.bulk.once.get(self.begun);
        self.begun += 1;
        if let Some(once) = stream.once {
            stream.expected.body_bytes = once.body_bytes;
        } else if !self.bulk.once.is_empty() {
            stream.socket = None;
            stream.state = State::Shut { until: u64::MAX };
            if self.measured.contains(&now) {
                self.counts.over_ns.get_or_insert(now - self.measured.start);
            }
        }
    }

    fn open(&mut self, at: usize, now: u64) -> io::Result<bool> {
        match wire::open(self.target)? {
            Opened::Refused => self.fail(at, now),
            // Until it stands, sending is blocked.
            Opened::Begun(socket) => {
                let stream = &mut self.all[at];
                stream.socket = Some(socket);
                stream.state = State::Asking { sent: 0 };
            }
        }
        Ok(true)
    }

    fn fail(&mut self, at: usize, now: u64) {
        let stream = &mut self.all[at];
        stream.socket = None;
        stream.blocked = None;
        stream.state = State::Shut { until: now + PAUSE_NS };
        self.counts.failures += u64::from(self.measured.contains(&now));
        self.choose(at, now);
    }
}

impl Stream<'_> {
    fn new<'a>(way: Way, body_bytes: u64) -> Stream<'a> {
        Stream {
            way,
            once: None,
            expected: Expected { status: 200, body_bytes, body: None },
            socket: None,
            state: State::Shut { until: 0 },
            reader: Reader::default(),
            blocked: None,
        }
    }

    /// Sends a piece of the request.
    fn ask(&mut self, sent: u64, bulk: &Bulk) -> Tried {
        let (head, body_bytes) = match self.way {
            Way::Down => (self.once.map_or(&bulk.download, |once| &once.request), 0),
            Way::Up(which) => (&bulk.uploads[which], bulk.body_bytes),
        };
        let whole = head.len() as u64 + body_bytes;
        let piece = match usize::try_from(sent).ok().and_then(|sent| head.get(sent..)) {
            Some(rest) if !rest.is_empty() => rest,
            _ => {
                &PIECE[..usize::try_from(whole - sent).map_or(PIECE_BYTES, |n| n.min(PIECE_BYTES))]
            }
        };
        let Some(socket) = &self.socket else { return Tried::Failed };
        match wire::push(socket, piece) {
            Moved::Bytes(count) => {
                let sent = sent + count as u64;
                self.state = State::Asking { sent };
                if sent == whole {
                    self.reader.reset();
                    self.state = State::Answered;
                }
                Tried::Moved(count)
            }
            Moved::Blocked => Tried::Blocked,
            Moved::Broken => Tried::Failed,
        }
    }

    /// Receives a piece of the answer, at most as much as the buffer holds.
    fn take(&mut self, buffer: &mut [u8], memo: &mut Memo) -> Tried {
        let expected = &self.expected;
        let Some(socket) = &self.socket else { return Tried::Failed };
        let discard = self.reader.may_discard(expected);
        let most = if self.reader.in_head() { HEAD_RECEIVE_BYTES } else { buffer.len() };
        let buffer = &mut buffer[..most];
        let how = if discard { wire::discard } else { wire::receive };
        let (count, step) = match how(socket, buffer) {
            Moved::Blocked => return Tried::Blocked,
            Moved::Broken => return Tried::Failed,
            Moved::Bytes(0) => (0, self.reader.ended(expected)),
            Moved::Bytes(count) if discard => {
                (count, Some(self.reader.skip(count as u64, expected)))
            }
            Moved::Bytes(count) => {
                (count, Some(self.reader.feed(&buffer[..count], expected, memo, false)))
            }
        };
        match step {
            Some(Step::More) => Tried::Moved(count),
            Some(Step::Done { wrong, close }) if self.is_right(wrong.is_none()) => {
                Tried::Done { bytes: count, close }
            }
            _ => Tried::Failed,
        }
    }

    /// Whether the answer is what was asked for: a download as it was expected, an upload taken
    /// (RFC 9110, 15.3), whatever is said of it.
    fn is_right(&self, as_expected: bool) -> bool {
        match self.way {
            Way::Down => as_expected,
            Way::Up(_) => (200..300).contains(&self.reader.status()),
        }
    }

    /// Begins the next request, over a new connection where this one closes.
    fn again(&mut self, close: bool, now: u64) {
        self.state = State::Asking { sent: 0 };
        if close {
            self.socket = None;
            self.state = State::Shut { until: now };
        }
    }
}
