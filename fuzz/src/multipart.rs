//! `multipart`: the parts of a form.

use hurtle_http::semantics::multipart::{Event, Multipart, MultipartError, boundary};

/// The first byte is the size of the pieces in which the rest is parsed. The parts do not depend on
/// it, and no part holds a delimiter.
pub fn multipart(data: &[u8]) {
    let _ = boundary(data);
    let Some((size, body)) = data.split_first() else { return };
    let whole = parse(body, body.len().max(1));
    let pieces = parse(body, usize::from(*size).max(1));
    assert_eq!(whole, pieces);
    for content in whole.into_iter().flatten() {
        assert!(!content.windows(5).any(|bytes| bytes == b"\r\n--b"), "a part holds a delimiter");
    }
}

/// Returns the heads and contents of the parts.
fn parse(body: &[u8], size: usize) -> Result<Vec<Vec<u8>>, MultipartError> {
    let mut parser = Multipart::new(b"b");
    let mut contents = Vec::<Vec<u8>>::new();
    for piece in body.chunks(size) {
        parser.push(piece);
        while let Some(event) = parser.next_event()? {
            match event {
                Event::Part(_) => contents.push(Vec::new()),
                Event::Data(data) => contents.last_mut().expect("in a part").extend(data),
                Event::PartEnd => {}
            }
        }
    }
    // The last bytes of an incomplete part may begin a delimiter.
    Ok(if parser.is_complete() { contents } else { Vec::new() })
}
