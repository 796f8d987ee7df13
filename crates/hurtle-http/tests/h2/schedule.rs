//! Tests of the order of streams: priorities (RFC 9218), flow control and the limit on queued
//! output.

use std::collections::BTreeMap;

use bytes::Bytes;
use hurtle_http::h2::{Connection, Event, Limits};

use crate::wire::*;

const LARGE: usize = 400_000;

/// Answers each request with a number of bytes, within windows and turns, and reads the output.
struct Driver {
    connection: Connection,
    /// Bytes of each response still to be sent, by stream.
    left: BTreeMap<u32, usize>,
    /// Bytes of each response already written, by stream.
    sent: BTreeMap<u32, usize>,
    /// Streams in the order in which they ended.
    ends: Vec<u32>,
}

impl Driver {
    fn new(bytes: &[u8]) -> Driver {
        let mut connection = begun();
        connection.receive(bytes, 0);
        Driver { connection, left: BTreeMap::new(), sent: BTreeMap::new(), ends: vec![] }
    }

    /// Handles all events.
    fn act(&mut self) {
        for event in events(&mut self.connection) {
            match event {
                Event::Request { id, head, .. } => {
                    let len = if head.path() == b"/small" { 5 } else { LARGE };
                    self.left.insert(id, len);
                    self.connection.send_head(id, 200, [], false).unwrap();
                    self.go_on(id);
                }
                Event::Writable(id) => self.go_on(id),
                event => panic!("{event:?}"),
            }
        }
    }

    fn go_on(&mut self, id: u32) {
        while let Some(&left) = self.left.get(&id)
            && left > 0
        {
            let n = self.connection.capacity(id, left).unwrap();
            if n == 0 {
                return;
            }
            self.left.insert(id, left - n);
            self.connection.send_data(id, Bytes::from(vec![0; n]), n == left).unwrap();
        }
    }

    /// Acts and writes until nothing happens, then enlarges the connection's window by one frame.
    fn turn(&mut self) {
        loop {
            self.act();
            self.act();
            let frames = written(&mut self.connection);
            if frames.is_empty() {
                break;
            }
            for frame in frames {
                if frame.kind == DATA {
                    *self.sent.entry(frame.stream).or_default() += frame.payload.len();
                    if frame.flags & END_STREAM != 0 {
                        self.ends.push(frame.stream);
                    }
                }
            }
        }
        self.connection.receive(&window(0, 16_384), 0);
    }

    fn run(&mut self, ends: usize) {
        for _ in 0..1_000 {
            if self.ends.len() >= ends {
                return;
            }
            self.turn();
        }
        panic!("{:?} sent, {:?} ended", self.sent, self.ends);
    }
}

fn ask(stream: u32, path: &'static str, priority: &'static str) -> Vec<u8> {
    let mut fields = vec![GET[0], GET[1], GET[2], (":path", path)];
    if !priority.is_empty() {
        fields.push(("priority", priority));
    }
    whole(stream, &fields)
}

/// The requests, after a setting that gives streams large windows.
fn wide(requests: &[Vec<u8>]) -> Vec<u8> {
    [setting(4, 1 << 30), requests.concat()].concat()
}

#[test]
fn the_more_urgent_ends_first_and_equals_in_their_order() {
    let rows: [(&str, &[&'static str], &[u32]); 6] = [
        ("the more urgent first", &["u=5", "u=1"], &[3, 1]),
        ("of three", &["u=7", "u=4, i", "u=0"], &[5, 3, 1]),
        ("equals in their order", &["u=3", "u=3", "u=3"], &[1, 3, 5]),
        ("no priority is of the middle", &["u=5", "", "u=1"], &[5, 3, 1]),
        ("an unreadable one likewise", &["u=9", "u=2"], &[3, 1]),
        ("whole before in parts", &["u=2, i", "u=2"], &[3, 1]),
    ];
    for (why, priorities, expected) in rows {
        let asked: Vec<_> = priorities
            .iter()
            .zip(0..)
            .map(|(priority, n)| ask(2 * n + 1, "/large", priority))
            .collect();
        let mut driver = Driver::new(&wide(&asked));
        driver.run(expected.len());
        assert_eq!(driver.ends, expected, "{why}");
    }
}

#[test]
fn incremental_responses_share() {
    for priorities in [["u=3, i"; 3], ["u=6, i"; 3], ["u=3, i", "", "u=3, i"], ["", "", ""]] {
        let asked: Vec<_> = priorities
            .iter()
            .zip(0..)
            .map(|(priority, n)| ask(2 * n + 1, "/large", priority))
            .collect();
        let mut driver = Driver::new(&wide(&asked));
        driver.run(1);
        for stream in [1, 3, 5] {
            assert!(
                driver.sent[&stream] > LARGE - (150 << 10),
                "{priorities:?}: {:?}",
                driver.sent
            );
        }
    }
}

#[test]
fn an_urgent_response_overtakes_a_download() {
    let mut driver = Driver::new(&wide(&[ask(1, "/large", "u=6")]));
    driver.turn();
    driver.connection.receive(&ask(3, "/small", "u=1, i"), 0);
    driver.run(2);
    assert_eq!(driver.ends, [3, 1]);
}

#[test]
fn a_priority_may_change() {
    let update = |stream: u32, priority: &str| {
        let payload = [&stream.to_be_bytes()[..], priority.as_bytes()].concat();
        frame(PRIORITY_UPDATE, 0, 0, &payload)
    };
    let mut driver = Driver::new(&wide(&[
        update(3, "u=6"),
        ask(1, "/large", "u=3"),
        ask(3, "/large", "u=1"),
        ask(5, "/large", "u=7"),
        update(5, "u=0"),
        update(99, "u=0"),
    ]));
    driver.run(3);
    assert_eq!(driver.ends, [5, 1, 3]);
}

#[test]
fn a_stream_with_a_closed_window_delays_no_other() {
    let requests = [ask(1, "/large", "u=0"), ask(3, "/large", "u=7")].concat();
    let mut driver = Driver::new(&[setting(4, 1_000), requests, window(3, 1 << 24)].concat());
    driver.run(1);
    assert_eq!((&driver.ends[..], driver.sent[&1]), (&[3][..], 1_000));
    driver.connection.receive(&[window(1, 1 << 24), ask(5, "/small", "u=7")].concat(), 0);
    driver.run(3);
    assert_eq!(driver.ends[1..], [1, 5]);
}

#[test]
fn a_stream_with_an_unused_share_delays_no_other() {
    let mut driver = Driver::new(&wide(&[ask(1, "/large", "u=0"), ask(3, "/large", "u=7")]));
    driver.act();
    written(&mut driver.connection);
    let connection = &mut driver.connection;
    assert_eq!(events(connection), [], "the window is used up, and both wait");
    assert!(connection.waits_for_turn(1) && connection.waits_for_turn(3));
    assert!(connection.sent_data() > 65_535);
    let sent = connection.sent_data();
    connection.receive(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], 0);
    assert_eq!(written(connection).len(), 1, "the reply to a PING");
    assert_eq!(connection.sent_data(), sent, "a reply is no data");
    connection.receive(&window(0, 1_000), 0);
    assert_eq!(events(connection), [Event::Writable(1)]);
    // The stream has a share but no data yet, so the other one gets its turn.
    assert_eq!(events(connection), [Event::Writable(3)]);
    assert_eq!(connection.capacity(3, 600), Ok(600));
    connection.send_data(3, Bytes::from(vec![0; 600]), false).unwrap();
    // The first stream has data again, and goes first.
    assert_eq!(connection.capacity(1, 600), Ok(400));
    connection.send_data(1, Bytes::from(vec![0; 400]), false).unwrap();
    for stream in [3, 1] {
        assert_eq!(connection.capacity(stream, 600), Ok(0));
    }
    written(connection);
    connection.receive(&window(0, 100), 0);
    assert_eq!(events(connection), [Event::Writable(1)]);
}

#[test]
fn a_new_stream_waits_behind_earlier_ones() {
    let asked: Vec<_> = (0..10).map(|n| ask(2 * n + 1, "/large", "")).collect();
    let mut driver = Driver::new(&wide(&asked));
    for n in 10..60 {
        driver.run(n as usize - 9);
        let first = (0..n).find(|n| !driver.ends.contains(&(2 * n + 1))).unwrap_or(n);
        assert!(n - first <= 20, "{first} waits: {:?}", driver.ends);
        driver.connection.receive(&ask(2 * n + 1, "/large", ""), 0);
    }
}

#[test]
fn queued_output_is_bounded() {
    let limits = Limits { queued_bytes_max: 100_000, ..Limits::default() };
    let mut connection = begun_with(&limits);
    connection.receive(&[setting(4, 1 << 30), window(0, 1 << 30)].concat(), 0);
    for n in 0..100 {
        connection.receive(&ask(2 * n + 1, "/large", ""), 0);
    }
    let mut waiting = 0;
    for event in events(&mut connection) {
        let Event::Request { id, .. } = event else { panic!("{event:?}") };
        connection.send_head(id, 200, [], false).unwrap();
        while let n @ 1.. = connection.capacity(id, LARGE).unwrap() {
            connection.send_data(id, Bytes::from(vec![0; n]), false).unwrap();
        }
        waiting += 1;
        assert!(connection.queued() < 100_000 + (64 << 10) + waiting * 20);
    }
    assert_eq!(events(&mut connection), []);
    connection.consume(60_000);
    assert_eq!(events(&mut connection), [], "more than half is queued");
    connection.consume(60_000);
    assert_eq!(events(&mut connection)[0], Event::Writable(1));
}

#[test]
fn a_window_opens_byte_by_byte_and_may_be_negative() {
    let mut driver = Driver::new(&[setting(4, 3), ask(1, "/small", "")].concat());
    let sent = |driver: &mut Driver, bytes: &[u8]| {
        driver.connection.receive(bytes, 0);
        driver.turn();
        driver.sent[&1]
    };
    assert_eq!(sent(&mut driver, &[]), 3);
    // RFC 9113 section 6.9.2: -2, -1, 0.
    assert_eq!(sent(&mut driver, &[setting(4, 1), window(1, 1), window(1, 1)].concat()), 3);
    assert_eq!(sent(&mut driver, &window(1, 1)), 4);
    assert_eq!(sent(&mut driver, &setting(4, 100)), 5);
    assert_eq!(driver.ends, [1]);
}

#[test]
fn frames_are_as_large_as_the_peer_takes() {
    for (size, lens) in [(16_384, vec![16_384, 16_384, 7_232]), (1 << 20, vec![40_000])] {
        let mut connection = begun();
        connection.receive(&[setting(5, size), whole(1, &GET)].concat(), 0);
        connection.send_head(1, 200, [], false).unwrap();
        assert_eq!(connection.capacity(1, 40_000), Ok(40_000));
        connection.send_data(1, Bytes::from(vec![0; 40_000]), true).unwrap();
        let data = written(&mut connection).into_iter().filter(|frame| frame.kind == DATA);
        assert_eq!(data.map(|frame| frame.payload.len()).collect::<Vec<_>>(), lens);
    }
}
