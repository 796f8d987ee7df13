//! Tests that splits of the input do not change the result, and that no input causes a panic.

use hurtle_http::h2::{Body, Connection, Event, Limits};
use proptest::prelude::*;

use crate::wire::*;

/// The visible behaviour of a connection: its events and its output.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    events: Vec<Event>,
    bodies: Vec<(u32, Vec<u8>, bool)>,
    written: Vec<u8>,
}

/// Sends the bytes in pieces. Bodies are read at the end, since the time of their events is not
/// specified.
fn see(bytes: &[u8], cuts: &[usize]) -> Seen {
    let mut connection = Connection::new(&Limits::default(), 0);
    let mut seen = Seen::default();
    let mut rest = bytes;
    for cut in cuts {
        let (piece, behind) = rest.split_at(rest.len().min(*cut));
        connection.receive(piece, 0);
        rest = behind;
    }
    connection.receive(rest, 0);
    seen.events = events(&mut connection);
    for event in &seen.events {
        if let Event::Request { id, .. } = event {
            let mut body = Vec::new();
            let is_whole = loop {
                match connection.read(*id) {
                    Ok(Body::Data(data)) => body.extend(data),
                    Ok(Body::Trailers(_)) => body.push(b'T'),
                    Ok(Body::End) => break true,
                    Ok(Body::NotYet) | Err(_) => break false,
                }
            };
            seen.bodies.push((*id, body, is_whole));
            let _ = connection.send_head(*id, 200, [(&b"server"[..], &b"x"[..])], true);
        }
    }
    seen.written = connection.output().flatten().copied().collect();
    seen
}

/// A valid or slightly invalid frame.
fn a_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = || (0..5_u32).prop_map(|n| 2 * n + 1);
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        8 => stream().prop_map(|stream| whole(stream, &GET)),
        8 => stream().prop_map(|stream| open(stream, &POST)),
        8 => (stream(), bytes(), any::<bool>())
            .prop_map(|(stream, data, end)| frame(DATA, end.into(), stream, &data)),
        3 => (stream(), bytes(), 0..10_u8).prop_map(|(stream, data, padding)| {
            let payload = [&[padding][..], &data, &vec![0; padding.into()]].concat();
            frame(DATA, PADDED, stream, &payload)
        }),
        3 => stream().prop_map(|stream| {
            let block = block(&GET);
            let begun = frame(HEADERS, END_STREAM, stream, &block[..7]);
            [begun, frame(CONTINUATION, END_HEADERS, stream, &block[7..])].concat()
        }),
        3 => stream().prop_map(|stream| {
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &field("x-sum", "1"))
        }),
        3 => stream().prop_map(|stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])),
        3 => (stream(), 0..9_u32).prop_map(|(stream, by)| window(stream - 1, by)),
        2 => (1..7_u16, 0..70_000_u32).prop_map(|(id, value)| setting(id, value)),
        2 => Just(frame(PING, 0, 0, b"12345678")),
        2 => stream().prop_map(|stream| frame(PRIORITY, 0, stream, &[0, 0, 0, 3, 7])),
        1 => bytes().prop_map(|bytes| frame(PRIORITY_UPDATE, 0, 0, &bytes)),
        1 => (any::<u8>(), any::<u8>(), stream(), bytes())
            .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload)),
    ]
}

fn traffic() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(a_frame(), 0..30)
        .prop_map(|frames| [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frames.concat()].concat())
}

proptest! {
    #[test]
    fn any_split_of_the_input_gives_the_same_events(
        bytes in traffic(),
        cuts in prop::collection::vec(1..60_usize, 0..200),
    ) {
        let at_once = see(&bytes, &[]);
        prop_assert_eq!(&at_once, &see(&bytes, &cuts));
        prop_assert_eq!(&at_once, &see(&bytes, &vec![1; bytes.len()]));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, cut: usize) {
        see(&bytes, &[cut % 64]);
        see(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &bytes].concat(), &[cut % 64]);
    }
}
