//! Tables of the bytes of streams. Each row is a connection error, a stream error or no error.

use bytes::Bytes;
use hurtle_http::h3::{Code, Connection, Event, Limits};

use crate::wire::*;

/// Expected state of a connection after it received a row's bytes.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    Ends(Code),
    /// Stream 0 is reset, and the connection continues.
    Resets(Code),
    /// The driver is to stop this unidirectional stream, and the connection continues.
    Stops(u64),
    /// The request of stream 0 is received, and complete once its body is read.
    Asks,
    /// Nothing happens.
    Passes,
}

/// A step of the client.
#[derive(Clone)]
pub(crate) enum Step {
    Send(u64, Vec<u8>),
    /// Bytes and the end of the stream.
    Last(u64, Vec<u8>),
    /// RESET_STREAM.
    Reset(u64),
    /// STOP_SENDING.
    Stop(u64),
}

/// Checks the rows, each on a new connection.
#[track_caller]
pub(crate) fn check(rows: Vec<(&str, Vec<Step>, Expected)>) {
    check_with(&Limits::default(), rows);
}

#[track_caller]
pub(crate) fn check_with(limits: &Limits, rows: Vec<(&str, Vec<Step>, Expected)>) {
    let mut wrong = Vec::new();
    for (why, steps, then) in rows {
        // The input arrives in one piece and in many.
        for piece in [usize::MAX, 1] {
            if let Some(found) = mismatch(begun_with(limits), &steps, piece, then) {
                wrong.push(format!("{why}, in pieces of {piece}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn take(connection: &mut Connection, step: &Step, piece: usize) {
    let (id, bytes, is_last) = match step {
        Step::Send(id, bytes) => (*id, bytes, false),
        Step::Last(id, bytes) => (*id, bytes, true),
        Step::Reset(id) => return connection.reset(*id, 0),
        Step::Stop(id) => return connection.stopped(*id, 0),
    };
    if id % 4 == 0 || id >= OTHER {
        connection.open(id, 0);
    }
    let mut rest = Bytes::copy_from_slice(bytes);
    loop {
        let some = rest.split_to(rest.len().min(piece));
        let is_end = is_last && rest.is_empty();
        connection.receive(id, some, is_end, 0);
        if rest.is_empty() {
            return;
        }
    }
}

fn mismatch(
    mut connection: Connection,
    steps: &[Step],
    piece: usize,
    then: Expected,
) -> Option<String> {
    for step in steps {
        take(&mut connection, step, piece);
    }
    let events = events(&mut connection);
    let found = Some(format!("{events:?}"));
    if let Expected::Ends(code) = then {
        let is_closed = matches!(&events[..], [Event::Closed(error)] if error.code == code);
        return if is_closed && connection.open_streams() == 0 { None } else { found };
    }
    let is_asked = events.iter().any(|event| matches!(event, Event::Request { id: 0, .. }));
    let fits = match then {
        Expected::Resets(code) => events == [Event::Reset(0, code)] && !connection.is_open(0),
        Expected::Stops(id) => events == [Event::Stop(id, Code::STREAM_CREATION_ERROR)],
        Expected::Asks => is_asked && body(&mut connection, 0).2,
        _ => !events.iter().any(|event| matches!(event, Event::Reset(..) | Event::Closed(_))),
    };
    if fits { None } else { found }
}
