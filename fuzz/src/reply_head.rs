//! `reply_head`: response heads from upstreams, and where their bodies end.

use hurtle_http::h1::response;
use hurtle_http::h1::response_head::{Scan, parse};
use hurtle_http::message::forward;
use hurtle_http::message::response::{Delimiter, Fields, Persistence};
use hurtle_http::message::response_head::{FIELDS_MAX, HEAD_BYTES_MAX, Length};
use hurtle_http::request::fields::pairs;
use hurtle_http::request::framing::BodyLength;

/// An accepted head has one interpretation only, as far as a simple second parser can tell. The
/// head that the client gets is valid, and without fields of the connection or of the server.
pub fn reply_head(data: &[u8]) {
    let Ok(Some(end)) = Scan::default().advance(data) else { return };
    assert!(end <= data.len() && end <= HEAD_BYTES_MAX, "the head ends beyond its bounds");
    let Ok(response) = parse(&data[..end]) else { return };

    let text = data[..end].strip_suffix(b"\r\n\r\n").expect("a head ends with an empty line");
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    assert!(lines.len() - 1 <= FIELDS_MAX, "{} fields", lines.len() - 1);
    for (at, line) in lines.iter().enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(!line.contains(&b'\r'), "a bare CR");
        assert!(at == 0 || !line.starts_with(b" ") && !line.starts_with(b"\t"), "a folded line");
    }
    let count = |name: &[u8]| {
        pairs(response.field_lines).filter(|(other, _)| other.eq_ignore_ascii_case(name)).count()
    };
    let framed = (count(b"content-length"), count(b"transfer-encoding"));
    match response.length {
        Length::UntilClose => assert_eq!(framed, (0, 0), "a framing is overlooked"),
        Length::Framed(BodyLength::Chunked) => assert_eq!(framed, (0, 1), "two framings"),
        Length::Framed(_) => assert_eq!(framed, (1, 0), "two framings"),
        Length::Frames => panic!("text is framed as a stream"),
    }

    let (mut lines, mut passed) = (Vec::new(), Vec::new());
    let (date, delimiter, persistence) = (&[b'D'; 29], Delimiter::Length(7), Persistence::Close);
    forward::response_fields(&mut lines, &response, date);
    let fields = Fields::Dated(lines);
    response::encode(&mut passed, response.status, date, &fields, delimiter, persistence);
    let again = parse(&passed).expect("what is passed on is a response");
    assert_eq!(again.status, response.status);
    assert_eq!(again.length, Length::Framed(BodyLength::Exactly(7)), "another framing came along");
    assert!(!again.keep_alive && again.upgrade.is_none() && again.file.is_none());
    assert_eq!(again.connection, [b"close".as_slice()], "the upstream's own came along");
}
