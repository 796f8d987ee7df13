//! Forwards an application's output to the error log, line by line.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line; the rest of a longer one is cut.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Reads to the end of the stream and passes each line that is not blank to `sink`.
pub(super) fn lines(from: impl Read, mut sink: impl FnMut(&str)) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        let piece = match from.fill_buf() {
            Ok(piece) => piece,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let end = memchr::memchr(b'\n', piece);
        let part = &piece[..end.unwrap_or(piece.len())];
        let room = LINE_BYTES_MAX + 1 - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let is_last = piece.is_empty();
        let consumed = end.map_or(piece.len(), |end| end + 1);
        from.consume(consumed);
        if (end.is_some() || is_last) && !line.is_empty() {
            forward_line(&line, &mut sink);
            line.clear();
        }
        if is_last {
            return Ok(());
        }
    }
}

fn forward_line(line: &[u8], sink: &mut impl FnMut(&str)) {
    let cut = line.len() > LINE_BYTES_MAX;
    let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
    let text = text.trim_end();
    match cut {
        true => sink(&format!("{text} [cut]")),
        false if text.is_empty() => {}
        false => sink(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(text: &[u8]) -> Vec<String> {
        let mut forwarded = Vec::new();
        lines(text, |line| forwarded.push(line.to_owned())).expect("memory can be read");
        forwarded
    }

    #[test]
    fn output_is_split_into_lines_and_long_ones_are_cut() {
        let long = "x".repeat(LINE_BYTES_MAX);
        let table = [
            ("lines", "a\nb\r\n\n c\n".to_owned(), vec!["a".to_owned(), "b".into(), " c".into()]),
            ("the last without its end", "a\nb".into(), vec!["a".into(), "b".into()]),
            ("just short enough", format!("{long}\nb\n"), vec![long.clone(), "b".into()]),
            ("too long", format!("{long}yz\nb\n"), vec![format!("{long} [cut]"), "b".into()]),
            ("far too long", long.repeat(9), vec![format!("{long} [cut]")]),
            ("nothing", String::new(), vec![]),
        ];
        for (sentence, text, expected) in table {
            assert_eq!(forwarded(text.as_bytes()), expected, "{sentence}");
        }
        assert_eq!(forwarded(b"\xff\n"), ["\u{fffd}"]);
    }
}
