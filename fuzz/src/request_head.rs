//! `request_head`: request heads, and where their bodies end.

use hurtle_http::h1::head::{Progress, Scan};
use hurtle_http::h1::request;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::section::SectionCache;
use hurtle_http::request::{HeadLimits, Joined};

const LIMITS: HeadLimits = HeadLimits { head_bytes: 32 << 10, target_bytes: 8 << 10, fields: 100 };

/// An accepted head has one interpretation only (RFC 9112 section 11.2), as far as a simple second
/// parser can tell.
pub fn request_head(data: &[u8]) {
    let scanned = Scan::default().advance(data, &LIMITS);
    let (joined, sections) = (Joined::default(), SectionCache::default());
    let read = request::parse_cached(data, &joined, &LIMITS, &sections)
        .map(|(_, rest)| data.len() - rest.len());
    if let Ok(end) = read {
        assert_eq!(scanned, Ok(Progress::Complete(end)), "two ends of one head");
    }
    let Ok(Progress::Complete(end)) = scanned else { return };
    assert!(end <= data.len(), "the head ends beyond its bytes");
    let joined = Joined::default();
    let alone = request::parse(&data[..end], &joined, &LIMITS);
    assert_eq!(read.is_ok(), alone.is_ok(), "what follows a head says something of it");
    let Ok(request) = alone else { return };

    let text = data[..end].strip_suffix(b"\r\n\r\n").expect("a head ends with an empty line");
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let (line, fields) = lines.split_first().expect("a split gives at least one part");
    assert_eq!(line.iter().filter(|&&byte| byte == b' ').count(), 2, "spaces in the request line");
    assert!(fields.len() <= LIMITS.fields, "{} fields", fields.len());
    assert!(request.raw_target.len() <= LIMITS.target_bytes, "a target beyond its limit");
    assert!(!text.contains(&0), "a NUL");
    for (at, line) in lines.iter().enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(!line.contains(&b'\r'), "a bare CR");
        assert!(at == 0 || !line.starts_with(b" ") && !line.starts_with(b"\t"), "a folded line");
    }

    let count = |name: &[u8]| {
        let named = |field: &&&[u8]| {
            let colon = field.iter().position(|&byte| byte == b':').unwrap_or(field.len());
            field[..colon].trim_ascii().eq_ignore_ascii_case(name)
        };
        fields.iter().filter(named).count()
    };
    let framed = (count(b"content-length"), count(b"transfer-encoding"));
    match request.body {
        BodyLength::None => assert!(framed.1 == 0, "a coded body is overlooked: {framed:?}"),
        BodyLength::Exactly(_) => assert_eq!(framed, (1, 0), "two lengths"),
        BodyLength::Chunked => assert_eq!(framed, (0, 1), "two lengths"),
    }
    assert!(count(b"host") <= 1, "two hosts");
    assert!(request.http10 || count(b"host") == 1, "HTTP/1.1 without Host");
}
