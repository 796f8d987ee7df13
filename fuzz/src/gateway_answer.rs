//! `gateway_answer`: what a FastCGI application sends, and the head of the CGI answer in it.

use hurtle::cgi::{Head, head_end};
use hurtle::fcgi::{Decoder, Ended, Flaw, Said};

/// Output, complaints, and how it ended, if it did.
type Read = (Vec<u8>, Vec<u8>, Option<Result<Ended, Flaw>>);

/// Beginnings of a head that are tried one by one.
const PREFIXES_MAX: usize = 256;

/// Records say the same in whatever pieces they come, and never more than came; so does the head of
/// the answer in them, and what is accepted of it is accepted when it is written anew.
pub fn gateway_answer(data: &[u8]) {
    let (step, bytes) = data.split_first().map_or((1, data), |(first, rest)| (*first, rest));
    let whole = read(bytes, usize::MAX);
    assert_eq!(read(bytes, usize::from(step).max(1)), whole, "in pieces of {step}");
    assert!(whole.0.len() + whole.1.len() <= bytes.len(), "more than came");
    head(&whole.0);
    // The fuzzer need not find the way through a record.
    head(bytes);
}

fn read(bytes: &[u8], step: usize) -> Read {
    let (mut output, mut complaints) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    let mut held = Vec::new();
    for piece in bytes.chunks(step.min(bytes.len().max(1))) {
        held.extend_from_slice(piece);
        loop {
            let (said, len) = match decoder.next(&held) {
                Err(flaw) => return (output, complaints, Some(Err(flaw))),
                Ok(None) => break,
                Ok(Some(next)) => next,
            };
            match said {
                Said::Output(bytes) => output.extend_from_slice(bytes),
                Said::Complaint(bytes) => complaints.extend_from_slice(bytes),
                Said::End(end) => return (output, complaints, Some(Ok(end))),
                Said::Nothing => {}
            }
            held.drain(..len);
        }
        assert!(held.len() < 16, "{} bytes are kept", held.len());
    }
    (output, complaints, None)
}

fn head(bytes: &[u8]) {
    let Some(end) = head_end(bytes) else { return };
    for early in 0..end.min(PREFIXES_MAX) {
        assert_eq!(head_end(&bytes[..early]), None, "of {early} bytes, and of {end}");
    }
    let Ok(Head { status, fields, file }) = Head::parse(&bytes[..end]) else { return };
    assert!((200..600).contains(&status.as_u16()), "{status} is final");
    let mut again = format!("Status: {}\r\n", status.as_str()).into_bytes();
    for (name, value) in fields.iter().chain(file.as_ref().map(|(name, value)| (name, value))) {
        again.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    again.extend(b"\r\n");
    assert_eq!(head_end(&again), Some(again.len()));
    assert_eq!(Head::parse(&again), Ok(Head { status, fields, file }), "written anew");
}
