//! `gateway_answer`: records from a FastCGI application, and the CGI response head in them.

use hurtle_http::cgi::{Head, head_end};
use hurtle_http::fcgi::{Decoder, EndStatus, Event, RecordError};

/// Standard output, standard error, and the end, if it was reached.
type Read = (Vec<u8>, Vec<u8>, Option<Result<EndStatus, RecordError>>);

/// Number of prefixes of a head that are tested.
const PREFIXES_MAX: usize = 256;

/// Splitting the input changes neither the records nor the head in them. The output is never longer
/// than the input. An accepted head, encoded again, parses to the same head.
pub fn gateway_answer(data: &[u8]) {
    let (step, bytes) = data.split_first().map_or((1, data), |(first, rest)| (*first, rest));
    let whole = read(bytes, usize::MAX);
    assert_eq!(read(bytes, usize::from(step).max(1)), whole, "in pieces of {step}");
    assert!(whole.0.len() + whole.1.len() <= bytes.len(), "more output than input");
    head(&whole.0);
    // Parses the input as a head, too, so that the fuzzer need not build records around it.
    head(bytes);
}

fn read(bytes: &[u8], step: usize) -> Read {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    let mut held = Vec::new();
    for piece in bytes.chunks(step.min(bytes.len().max(1))) {
        held.extend_from_slice(piece);
        loop {
            let (event, len) = match decoder.next(&held) {
                Err(error) => return (output, errors, Some(Err(error))),
                Ok(None) => break,
                Ok(Some(next)) => next,
            };
            match event {
                Event::Stdout(bytes) => output.extend_from_slice(bytes),
                Event::Stderr(bytes) => errors.extend_from_slice(bytes),
                Event::End(end) => return (output, errors, Some(Ok(end))),
                Event::Skipped => {}
            }
            held.drain(..len);
        }
        assert!(held.len() < 16, "{} bytes are kept", held.len());
    }
    (output, errors, None)
}

fn head(bytes: &[u8]) {
    let Some(end) = head_end(bytes) else { return };
    for early in 0..end.min(PREFIXES_MAX) {
        assert_eq!(head_end(&bytes[..early]), None, "of {early} bytes, and of {end}");
    }
    let Ok(head) = Head::parse(&bytes[..end]) else { return };
    let Head { status, fields, file, is_unbuffered } = head;
    assert!((200..600).contains(&status.as_u16()), "{status} is final");
    let mut again = format!("Status: {}\r\n", status.as_str()).into_bytes();
    if is_unbuffered {
        again.extend(b"X-Accel-Buffering: no\r\n");
    }
    for (name, value) in fields.iter().chain(file.as_ref().map(|(name, value)| (name, value))) {
        again.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    again.extend(b"\r\n");
    assert_eq!(head_end(&again), Some(again.len()));
    assert_eq!(
        Head::parse(&again),
        Ok(Head { status, fields, file, is_unbuffered }),
        "encoded again"
    );
}
