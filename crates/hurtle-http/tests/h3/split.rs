//! Tests that splits of the input do not change the result, and that no input causes a panic.

use bytes::Bytes;
use hurtle_http::h3::{Connection, Event, Limits};
use proptest::prelude::*;

use crate::wire::*;

/// The visible behaviour of a connection: its events, and the requests' bodies.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    events: Vec<String>,
    bodies: Vec<(u64, Vec<u8>, String, bool)>,
}

/// Sends the bytes of streams in pieces. Bodies are read at the end, since the time of their events
/// is not specified.
fn see(sent: &[(u64, Vec<u8>, bool)], cuts: &[usize]) -> Seen {
    let mut connection = begun();
    let mut cuts = cuts.iter().cycle();
    for (id, bytes, is_last) in sent {
        connection.open(*id, 0);
        let mut rest = Bytes::copy_from_slice(bytes);
        loop {
            let len = rest.len().min(*cuts.next().unwrap_or(&usize::MAX));
            let piece = rest.split_to(len);
            connection.receive(*id, piece, *is_last && rest.is_empty(), 0);
            if rest.is_empty() {
                break;
            }
        }
    }
    let events = events(&mut connection);
    let ids = events.iter().filter_map(|event| match event {
        Event::Request { id, .. } => Some(*id),
        _ => None,
    });
    let mut bodies = Vec::new();
    for id in ids {
        let (bytes, trailers, is_whole) = body(&mut connection, id);
        bodies.push((id, bytes, trailers, is_whole));
    }
    Seen { events: events.iter().map(|event| format!("{event:?}")).collect(), bodies }
}

/// A valid or slightly invalid frame of a request.
fn a_frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        8 => Just(headers(&GET)),
        8 => Just(headers(&POST)),
        4 => Just(headers(&[&POST[..], &[("content-length", "10")]].concat())),
        4 => Just(frame(HEADERS, &[&[2, 0][..], &section(&GET)[2..], &[0x80]].concat())),
        8 => bytes().prop_map(|data| frame(DATA, &data)),
        3 => Just(headers(&[("x-sum", "1")])),
        2 => bytes().prop_map(|payload| frame(GREASE, &payload)),
        1 => bytes().prop_map(|block| frame(HEADERS, &[&[0, 0], &block[..]].concat())),
        1 => (any::<u8>(), bytes()).prop_map(|(kind, payload)| frame(kind.into(), &payload)),
        1 => bytes(),
    ]
}

/// A frame of the control stream.
fn a_control_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..9_u8).prop_map(|id| frame(GOAWAY, &[id])),
        (0..9_u8).prop_map(|id| frame(MAX_PUSH_ID, &[id])),
        (0..9_u8).prop_map(|id| frame(PRIORITY_UPDATE, &[4 * id, b'u', b'=', b'1'])),
        Just(frame(GREASE, b"grease")),
    ]
}

fn an_instruction() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(insertion("x-a", "1")),
        (0..200_u64).prop_map(capacity),
        Just(vec![0]),
        Just(vec![0xd1, 0x01, b'z']),
        Just(vec![0x80, 0x01, b'y']),
    ]
}

fn streams() -> impl Strategy<Value = Vec<(u64, Vec<u8>, bool)>> {
    let request = prop::collection::vec(a_frame(), 0..5);
    let one = prop_oneof![
        6 => (0..6_u64, request, any::<bool>())
            .prop_map(|(n, frames, is_last)| (4 * n, frames.concat(), is_last)),
        1 => prop::collection::vec(a_control_frame(), 0..4)
            .prop_map(|frames| (CONTROL, frames.concat(), false)),
        2 => prop::collection::vec(an_instruction(), 0..4)
            .prop_map(|all| (ENCODER, [capacity(200), all.concat()].concat(), false)),
    ];
    prop::collection::vec(one, 0..12)
}

proptest! {
    #[test]
    fn any_split_of_the_input_gives_the_same_events(
        sent in streams(),
        cuts in prop::collection::vec(1..60_usize, 1..20),
    ) {
        let at_once = see(&sent, &[]);
        prop_assert_eq!(&at_once, &see(&sent, &cuts));
        prop_assert_eq!(&at_once, &see(&sent, &[1]));
    }

    #[test]
    fn no_bytes_make_it_panic(streams: Vec<(u8, Vec<u8>)>) {
        let mut connection = Connection::new(&Limits::default(), 0);
        for (id, bytes) in streams {
            let id = u64::from(id % 32);
            connection.open(id, 0);
            connection.receive(id, bytes.into(), false, 0);
        }
        events(&mut connection);
    }
}
