//! Tests of priorities (RFC 9218): urgent responses go first, and streams that cannot proceed delay
//! no others.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::support::Server;
use crate::wire::*;

/// Several times the connection's default window.
const LARGE: usize = 400_000;

/// Bytes that may be sent before the first priority is known: an initial window and one piece.
const AHEAD: usize = 65_535 + (64 << 10);

fn large() -> Server {
    let large = "x".repeat(LARGE);
    let server = Server::with(&[("large", &large), ("small", "small")], |config| {
        config.revalidate = Duration::from_secs(3_600);
    });
    // The file is cached from now on, so all responses are ready at once.
    assert_eq!(server.get("/large").body.len(), LARGE);
    assert_eq!(server.get("/small").text(), "small");
    server
}

/// A connection with large windows for its streams and the default one for itself.
fn begin(server: &Server) -> Wire {
    Wire::begin(server.address, &[(INITIAL_WINDOW_SIZE, 1 << 30)])
}

fn ask(stream: u32, path: &str, priority: &str) -> Vec<u8> {
    let said = if priority.is_empty() { vec![] } else { field("priority", priority) };
    let head = [request("GET", path), said].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head)
}

/// Reads an exchange and counts the bytes of each stream.
struct Reading<'a> {
    wire: &'a mut Wire,
    /// Bytes received, by stream.
    bytes: BTreeMap<u32, usize>,
}

impl Reading<'_> {
    fn of(wire: &mut Wire) -> Reading<'_> {
        Reading { wire, bytes: BTreeMap::new() }
    }

    /// Reads a DATA frame and opens the connection's window by its length; returns the stream if it
    /// has ended.
    #[track_caller]
    fn piece(&mut self) -> Option<u32> {
        let data = self.wire.next_of(DATA);
        let len = data.payload.len();
        *self.bytes.entry(data.stream).or_default() += len;
        if len > 0 {
            self.wire.send(&frame(WINDOW_UPDATE, 0, 0, &(len as u32).to_be_bytes()));
        }
        (data.flags & END_STREAM != 0).then_some(data.stream)
    }

    /// Reads pieces until a stream ends.
    #[track_caller]
    fn next_end(&mut self) -> u32 {
        loop {
            if let Some(ended) = self.piece() {
                return ended;
            }
        }
    }

    fn bytes(&self, stream: u32) -> usize {
        self.bytes.get(&stream).copied().unwrap_or(0)
    }
}

#[test]
fn without_priorities_files_arrive_concurrently() {
    // The file fits one turn of the server, and the window allows all of it.
    let len = 1 << 20;
    let server = Server::with(&[("long", &"x".repeat(len))], |config| {
        config.revalidate = Duration::from_secs(3_600);
    });
    assert_eq!(server.get("/long").body.len(), len);
    let mut wire = begin(&server);
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()));
    wire.send(&[ask(1, "/long", ""), ask(3, "/long", "")].concat());
    let mut reading = Reading::of(&mut wire);
    let first = reading.next_end();
    let other = reading.bytes(4 - first);
    assert!(other > len / 2, "when one has ended, {other} bytes of its equal have come");
}

/// A client requests another file whenever it has received one. Regression: the oldest requests
/// waited for all newer ones.
#[test]
fn files_asked_for_later_do_not_overtake_for_long() {
    const AT_ONCE: u32 = 10;
    const ENDS: u32 = 60;
    let server = Server::with(&[("long", &"x".repeat(1 << 20))], |config| {
        config.revalidate = Duration::from_secs(3_600);
    });
    assert_eq!(server.get("/long").body.len(), 1 << 20);
    let mut wire = begin(&server);
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()));
    wire.send(&(0..AT_ONCE).flat_map(|n| ask(2 * n + 1, "/long", "")).collect::<Vec<_>>());
    let mut reading = Reading::of(&mut wire);
    let mut ends = Vec::new();
    for n in AT_ONCE..AT_ONCE + ENDS {
        ends.push((reading.next_end() - 1) / 2);
        let overtaken = n - (0..n).find(|stream| !ends.contains(stream)).unwrap_or(n);
        assert!(overtaken <= 2 * AT_ONCE, "the first of {overtaken} under way waits: {ends:?}");
        reading.wire.send(&ask(2 * n + 1, "/long", ""));
    }
}

#[test]
fn urgent_streams_go_first_and_equal_ones_keep_their_order() {
    let server = large();
    // Priorities in the order of the requests, and streams in the order of their ends.
    let rows: [(&str, &[&str], &[u32]); 6] = [
        ("the more urgent first", &["u=5", "u=1"], &[3, 1]),
        ("of three", &["u=7", "u=4, i", "u=0"], &[5, 3, 1]),
        ("equals in their order", &["u=3", "u=3", "u=3"], &[1, 3, 5]),
        ("no priority is the default", &["u=5", "", "u=1"], &[5, 3, 1]),
        ("an invalid priority is ignored", &["u=9", "u=2"], &[3, 1]),
        ("non-incremental before incremental", &["u=2, i", "u=2"], &[3, 1]),
    ];
    for (why, wishes, expected) in rows {
        let mut wire = begin(&server);
        let asked = wishes.iter().zip(0..).map(|(wish, n)| ask(2 * n + 1, "/large", wish));
        wire.send(&asked.collect::<Vec<_>>().concat());
        let mut reading = Reading::of(&mut wire);
        let mut ends = Vec::new();
        for (stream, later) in expected.iter().zip(1..) {
            ends.push(reading.next_end());
            assert_eq!(reading.bytes(*stream), LARGE, "{why}: {ends:?}");
            for later in &expected[later..] {
                let early = reading.bytes(*later);
                assert!(early <= AHEAD, "{why}: {early} bytes of {later} before {stream}'s end");
            }
        }
        assert_eq!(ends, expected, "{why}");
    }
}

/// A stream whose task has not run yet has nothing to send, so on a busy machine one attempt may be
/// uneven. A server that does not interleave is uneven in all of them.
const ATTEMPTS: usize = 3;

#[test]
fn incremental_responses_are_interleaved() {
    let server = large();
    for wishes in [["u=3, i"; 3], ["u=6, i"; 3], ["u=3, i", "", "u=3, i"]] {
        let least = (0..ATTEMPTS).map(|_| least_at_first_end(&server, &wishes)).max().unwrap();
        assert!(least >= LARGE - 2 * AHEAD, "{wishes:?}: {least} bytes of a stream only");
    }
}

/// Requests the file with each priority at once. Returns the bytes of the stream with the fewest
/// when the first one ends.
fn least_at_first_end(server: &Server, wishes: &[&str]) -> usize {
    let mut wire = begin(server);
    let asked = wishes.iter().zip(0..).map(|(wish, n)| ask(2 * n + 1, "/large", wish));
    wire.send(&asked.collect::<Vec<_>>().concat());
    let mut reading = Reading::of(&mut wire);
    reading.next_end();
    (1..).step_by(2).take(wishes.len()).map(|stream| reading.bytes(stream)).min().unwrap()
}

#[test]
fn an_urgent_response_overtakes_a_download() {
    let server = large();
    let mut wire = begin(&server);
    wire.send(&ask(1, "/large", "u=6"));
    let mut reading = Reading::of(&mut wire);
    reading.piece();
    reading.wire.send(&ask(3, "/small", "u=1, i"));
    assert_eq!(reading.next_end(), 3);
    assert!(reading.bytes(1) <= 2 * AHEAD, "{} bytes of the other before", reading.bytes(1));
    assert_eq!(reading.next_end(), 1);
}

#[test]
fn a_priority_may_change_during_the_response() {
    let server = large();
    let mut wire = begin(&server);
    let update = |stream: u32, wish: &str| {
        frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], wish.as_bytes()].concat())
    };
    // PRIORITY_UPDATE before its request, for a waiting request, and for one that is never sent.
    wire.send(&[update(3, "u=6"), ask(1, "/large", "u=3"), ask(3, "/large", "u=1")].concat());
    wire.send(&[ask(5, "/large", "u=7"), update(5, "u=0"), update(99, "u=0")].concat());
    let mut reading = Reading::of(&mut wire);
    assert_eq!([(); 3].map(|()| reading.next_end()), [5, 1, 3]);
}

#[test]
fn a_stream_with_a_closed_window_delays_no_other() {
    let server = large();
    let mut wire = Wire::begin(server.address, &[(INITIAL_WINDOW_SIZE, 1_000)]);
    // The windows of the connection and of stream 3 are large.
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 24).to_be_bytes()));
    wire.send(&[ask(1, "/large", "u=0"), ask(3, "/large", "u=7")].concat());
    wire.send(&frame(WINDOW_UPDATE, 0, 3, &(1_u32 << 24).to_be_bytes()));
    let mut reading = Reading::of(&mut wire);
    assert_eq!(reading.next_end(), 3);
    assert_eq!(reading.bytes(1), 1_000);
    // The stream gets its turn again.
    reading.wire.send(&ask(5, "/large", "u=7"));
    let wide = (1_u32 << 24).to_be_bytes();
    reading
        .wire
        .send(&[frame(WINDOW_UPDATE, 0, 1, &wide), frame(WINDOW_UPDATE, 0, 5, &wide)].concat());
    assert_eq!([reading.next_end(), reading.next_end()], [1, 5]);
}

#[test]
fn a_stream_that_waits_for_its_turn_does_not_time_out() {
    let large = "x".repeat(LARGE);
    let stall = Duration::from_millis(400);
    let server = Server::with(&[("large", &large)], |config| config.limits.write_stall = stall);
    assert_eq!(server.get("/large").body.len(), LARGE);
    let mut wire = begin(&server);
    wire.send(&[ask(1, "/large", "u=1"), ask(3, "/large", "u=5")].concat());
    let mut reading = Reading::of(&mut wire);
    // The other stream waits for longer than `write_stall`.
    let begun = std::time::Instant::now();
    while begun.elapsed() < 3 * stall {
        assert_eq!(reading.piece(), None, "it is over too soon");
        thread::sleep(stall / 8);
    }
    assert_eq!([reading.next_end(), reading.next_end()], [1, 3]);
}
