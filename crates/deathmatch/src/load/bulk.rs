//! Streams beside the timed requests: downloads and uploads, repeated without end, at a common
//! fixed rate. The generator spins, so streams are not watched for readiness. Each turn of its loop
//! tries the next few and moves one piece at most, which limits the delay of a small response.
//! `reader` reads the responses.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;

use super::Expected;
use super::bucket::Bucket;
use super::reader::{Memo, Progress, Reader};
use super::wire::{self, HEAD_RECEIVE_BYTES, OpenResult, Transfer};
use crate::sample::BulkLoad;

/// Largest piece of an upload, and the smallest allowance for which a stream is tried: smaller
/// pieces would cost more system calls.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// Content of uploads.
static PIECE: [u8; PIECE_BYTES] = [b'u'; PIECE_BYTES];

/// Streams tried in a turn until one moves bytes: a stream that is not ready costs a system call.
const ATTEMPTS_MAX: usize = 4;

/// Pause before a failed stream is begun again.
const PAUSE_NS: u64 = 100_000_000;

/// Streams beside the requests.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Number of downloads at a time.
    pub downloads: u32,
    /// The request that each download repeats, as bytes.
    pub download: Vec<u8>,
    /// Requests to send once each instead, in this order, by any idle download, until none is left.
    pub once: Vec<OneTimeDownload>,
    /// The head of each upload, repeated, each with its own path; it announces `body_bytes`.
    pub uploads: Vec<Vec<u8>>,
    /// The length of every body, in bytes, in both directions.
    pub body_bytes: u64,
    /// Bytes a second, shared by downloads and uploads in proportion to their numbers, so that
    /// neither gets the other's unused part; `None`: unlimited.
    pub rate: Option<f64>,
}

/// A download that is requested once.
#[derive(Clone, Debug)]
pub struct OneTimeDownload {
    /// The bytes of a whole request.
    pub request: Vec<u8>,
    /// The length of its response's body, in bytes.
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
    /// Number of one-time requests begun.
    begun: usize,
    down: Bucket,
    up: Bucket,
    memo: Memo,
    counts: BulkLoad,
}

/// Direction of a stream's bodies.
#[derive(Clone, Copy)]
enum Direction {
    Down,
    /// Index of the upload.
    Up(usize),
}

struct Stream<'a> {
    direction: Direction,
    /// Its request, if requests are sent once.
    once: Option<&'a OneTimeDownload>,
    expected: Expected,
    socket: Option<OwnedFd>,
    state: BulkState,
    reader: Reader,
    /// Start of the time in which it could neither send nor receive.
    blocked: Option<u64>,
}

#[derive(Clone, Copy)]
enum BulkState {
    /// Not connected until then.
    Shut { until: u64 },
    /// Bytes of the request sent so far, an upload's body included.
    Asking { sent: u64 },
    /// The response is being received.
    Answered,
}

/// Result of trying a stream.
enum Attempt {
    Transfer(usize),
    Blocked,
    /// The response was complete with so many bytes.
    Done {
        bytes: usize,
        close: bool,
    },
    Failed,
}

impl<'a> Streams<'a> {
    /// `measured`: time in which bytes are counted. Streams continue while a request is under way:
    /// a request behind one would otherwise never end.
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
        // Alternately, while there are both.
        let mut ways: Vec<(usize, Direction)> =
            (0..downs).map(|at| (2 * at, Direction::Down)).collect();
        ways.extend((0..ups).map(|at| (2 * at + 1, Direction::Up(at))));
        ways.sort_by_key(|(place, _)| *place);
        let share = |count: usize| bulk.rate.map(|rate| rate * count as f64 / (downs + ups) as f64);
        let mut streams = Streams {
            bulk,
            target,
            timeout,
            measured,
            all: ways
                .into_iter()
                .map(|(_, direction)| Stream::new(direction, bulk.body_bytes))
                .collect(),
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

    /// Tries the next few streams; `true` once one moved bytes. An error is the generator's own.
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

    /// Totals of the measured time.
    pub(super) fn finish(self) -> BulkLoad {
        self.counts
    }

    fn attempt(&mut self, at: usize, now: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let stream = &mut self.all[at];
        if let BulkState::Shut { until } = stream.state {
            return if now < until { Ok(false) } else { self.open(at, now) };
        }
        let bucket = match stream.direction {
            Direction::Down => &mut self.down,
            Direction::Up(_) => &mut self.up,
        };
        let allowed = bucket.allowed(now);
        if allowed < PIECE_BYTES {
            return Ok(false);
        }
        let carries = match (stream.direction, stream.state) {
            (Direction::Down, BulkState::Answered) => Some(&mut self.counts.down_bytes),
            (Direction::Up(_), BulkState::Asking { .. }) => Some(&mut self.counts.up_bytes),
            _ => None,
        };
        let tried = match stream.state {
            BulkState::Asking { sent } => stream.ask(sent, self.bulk),
            _ => {
                let most = allowed.min(buffer.len());
                stream.take(&mut buffer[..most], &mut self.memo)
            }
        };
        let (bytes, over) = match tried {
            Attempt::Transfer(bytes) => (bytes, None),
            Attempt::Done { bytes, close } => (bytes, Some(close)),
            Attempt::Blocked => {
                let since = *stream.blocked.get_or_insert(now);
                if now - since > self.timeout {
                    self.fail(at, now);
                }
                return Ok(false);
            }
            Attempt::Failed => {
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
            stream.begin_next(close, now);
            let count = match stream.direction {
                Direction::Down => &mut self.counts.downloads,
                Direction::Up(_) => &mut self.counts.uploads,
            };
            *count += u64::from(is_measured);
            self.choose(at, now);
        }
        Ok(true)
    }

    /// Gives a stream its next request, or ends it if none is left.
    fn choose(&mut self, at: usize, now: u64) {
        let stream = &mut self.all[at];
        stream.once = self.bulk.once.get(self.begun);
        self.begun += 1;
        if let Some(once) = stream.once {
            stream.expected.body_bytes = once.body_bytes;
        } else if !self.bulk.once.is_empty() {
            stream.socket = None;
            stream.state = BulkState::Shut { until: u64::MAX };
            if self.measured.contains(&now) {
                self.counts.over_ns.get_or_insert(now - self.measured.start);
            }
        }
    }

    fn open(&mut self, at: usize, now: u64) -> io::Result<bool> {
        match wire::open(self.target)? {
            OpenResult::Refused => self.fail(at, now),
            // Sending is blocked until the connection is established.
            OpenResult::Begun(socket) => {
                let stream = &mut self.all[at];
                stream.socket = Some(socket);
                stream.state = BulkState::Asking { sent: 0 };
            }
        }
        Ok(true)
    }

    fn fail(&mut self, at: usize, now: u64) {
        let stream = &mut self.all[at];
        stream.socket = None;
        stream.blocked = None;
        stream.state = BulkState::Shut { until: now + PAUSE_NS };
        self.counts.failures += u64::from(self.measured.contains(&now));
        self.choose(at, now);
    }
}

impl Stream<'_> {
    fn new<'a>(direction: Direction, body_bytes: u64) -> Stream<'a> {
        Stream {
            direction,
            once: None,
            expected: Expected { status: 200, body_bytes, body: None },
            socket: None,
            state: BulkState::Shut { until: 0 },
            reader: Reader::default(),
            blocked: None,
        }
    }

    /// Sends a piece of the request.
    fn ask(&mut self, sent: u64, bulk: &Bulk) -> Attempt {
        let (head, body_bytes) = match self.direction {
            Direction::Down => (self.once.map_or(&bulk.download, |once| &once.request), 0),
            Direction::Up(which) => (&bulk.uploads[which], bulk.body_bytes),
        };
        let whole = head.len() as u64 + body_bytes;
        let piece = match usize::try_from(sent).ok().and_then(|sent| head.get(sent..)) {
            Some(rest) if !rest.is_empty() => rest,
            _ => {
                &PIECE[..usize::try_from(whole - sent).map_or(PIECE_BYTES, |n| n.min(PIECE_BYTES))]
            }
        };
        let Some(socket) = &self.socket else { return Attempt::Failed };
        match wire::push(socket, piece) {
            Transfer::Bytes(count) => {
                let sent = sent + count as u64;
                self.state = BulkState::Asking { sent };
                if sent == whole {
                    self.reader.reset();
                    self.state = BulkState::Answered;
                }
                Attempt::Transfer(count)
            }
            Transfer::Blocked => Attempt::Blocked,
            Transfer::Broken => Attempt::Failed,
        }
    }

    /// Receives a piece of the response, at most the buffer's size.
    fn take(&mut self, buffer: &mut [u8], memo: &mut Memo) -> Attempt {
        let expected = &self.expected;
        let Some(socket) = &self.socket else { return Attempt::Failed };
        let discard = self.reader.may_discard(expected);
        let most = if self.reader.in_head() { HEAD_RECEIVE_BYTES } else { buffer.len() };
        let buffer = &mut buffer[..most];
        let how = if discard { wire::discard } else { wire::receive };
        let (count, step) = match how(socket, buffer) {
            Transfer::Blocked => return Attempt::Blocked,
            Transfer::Broken => return Attempt::Failed,
            Transfer::Bytes(0) => (0, self.reader.ended(expected)),
            Transfer::Bytes(count) if discard => {
                (count, Some(self.reader.skip(count as u64, expected)))
            }
            Transfer::Bytes(count) => {
                (count, Some(self.reader.feed(&buffer[..count], expected, memo, false)))
            }
        };
        match step {
            Some(Progress::More) => Attempt::Transfer(count),
            Some(Progress::Done { wrong, close }) if self.is_right(wrong.is_none()) => {
                Attempt::Done { bytes: count, close }
            }
            _ => Attempt::Failed,
        }
    }

    /// `true` if the response is right: a download as expected, an upload accepted (RFC 9110,
    /// 15.3), with any body.
    fn is_right(&self, as_expected: bool) -> bool {
        match self.direction {
            Direction::Down => as_expected,
            Direction::Up(_) => (200..300).contains(&self.reader.status()),
        }
    }

    /// Begins the next request, on a new connection if this one closes.
    fn begin_next(&mut self, close: bool, now: u64) {
        self.state = BulkState::Asking { sent: 0 };
        if close {
            self.socket = None;
            self.state = BulkState::Shut { until: now };
        }
    }
}
