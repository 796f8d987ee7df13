//! Tests of range requests (RFC 9110 section 14).

use crate::support::rows::check;
use crate::support::{Response, Server};

#[test]
fn ranges() {
    let server = Server::start(&[("a.txt", "0123456789"), ("empty", "")]);
    let part = |range: &'static str| format!("Content-Range: bytes {range}/10");
    let none: &[&str] = &["Content-Range: bytes */10", "Content-Length: 0"];
    let whole: &[&str] = &["!Content-Range", "Content-Length: 10"];
    let all = Some("0123456789");
    #[rustfmt::skip]
    check(&server, &[
        ("the first two bytes", "/a.txt\nRange: bytes=0-1", 206, &[&part("0-1"), "Content-Length: 2"], Some("01")),
        ("one byte", "/a.txt\nRange: bytes=9-9", 206, &[&part("9-9")], Some("9")),
        ("to the end", "/a.txt\nRange: bytes=7-", 206, &[&part("7-9")], Some("789")),
        ("all of it is a part, too", "/a.txt\nRange: bytes=0-", 206, &[&part("0-9")], all),
        ("the end is cut to the file's", "/a.txt\nRange: bytes=8-100", 206, &[&part("8-9")], Some("89")),
        ("the last three", "/a.txt\nRange: bytes=-3", 206, &[&part("7-9")], Some("789")),
        ("more than there is", "/a.txt\nRange: bytes=-100", 206, &[&part("0-9")], all),
        ("the unit has no case", "/a.txt\nRange: Bytes=0-0", 206, &[], Some("0")),
        ("spaces and empty elements", "/a.txt\nRange: bytes=, 0-0 ,", 206, &[], Some("0")),
        ("one of two is there", "/a.txt\nRange: bytes=50-60, 1-2", 206, &[&part("1-2")], Some("12")),
        ("a number beyond 64 bits", "/a.txt\nRange: bytes=5-99999999999999999999", 206, &[], Some("56789")),
        ("behind the end", "/a.txt\nRange: bytes=10-", 416, none, Some("")),
        ("far behind", "/a.txt\nRange: bytes=99999999999999999999-", 416, none, Some("")),
        ("the last none", "/a.txt\nRange: bytes=-0", 416, none, Some("")),
        ("none of two is there", "/a.txt\nRange: bytes=10-11, 20-", 416, none, Some("")),
        ("backwards", "/a.txt\nRange: bytes=5-4", 200, whole, all),
        ("no numbers", "/a.txt\nRange: bytes=a-b", 200, whole, all),
        ("no range", "/a.txt\nRange: bytes=", 200, whole, all),
        ("only a dash", "/a.txt\nRange: bytes=-", 200, whole, all),
        ("a sign", "/a.txt\nRange: bytes=+1-2", 200, whole, all),
        ("another unit", "/a.txt\nRange: lines=0-1", 200, whole, all),
        ("no unit", "/a.txt\nRange: 0-1", 200, whole, all),
        ("a space in the unit", "/a.txt\nRange: bytes =0-1", 200, whole, all),
        ("two Range fields", "/a.txt\nRange: bytes=0-1\nRange: bytes=2-3", 200, whole, all),
        ("overlapping", "/a.txt\nRange: bytes=0-5, 3-9", 200, whole, all),
        ("the same twice", "/a.txt\nRange: bytes=0-0, 0-0", 200, whole, all),
        ("a missing file", "/none\nRange: bytes=0-1", 404, &["!Content-Range"], None),
    ]);
}

/// Regression: clients begin a download with `bytes=0-`, and 416 ended that of an empty file.
#[test]
fn an_empty_file_has_no_part() {
    let server = Server::start(&[("empty.txt", "")]);
    let fields = ["Content-Length: 0", "!Content-Range"];
    for range in ["0-", "0-99", "-5", "7-", "0-0,3-4"] {
        let target = format!("/empty.txt\nRange: bytes={range}");
        check(&server, &[(range, &target, 200, &fields, Some(""))]);
    }
}

#[test]
fn several_parts() {
    let large: String = (0..40_000).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let server = Server::start(&[("small.txt", "0123456789"), ("large.html", &large)]);
    let rows: &[(&str, &str, &[(usize, usize)])] = &[
        ("two", "bytes=0-1,4-5", &[(0, 2), (4, 6)]),
        ("in the order asked for", "bytes=8-8, 0-2, -1", &[(8, 9), (0, 3), (9, 10)]),
        ("those that are there", "bytes=1-1, 70000-, 3-3", &[(1, 2), (3, 4)]),
        ("side by side", "bytes=0-4,5-9", &[(0, 5), (5, 10)]),
    ];
    for (why, range, wanted) in rows {
        let response = server.get(&format!("/small.txt\nRange: {range}"));
        let parts = parse_parts(&response, "text/plain; charset=utf-8", 10);
        let wanted: Vec<_> = wanted.iter().map(|&(a, b)| b"0123456789"[a..b].to_vec()).collect();
        assert_eq!(parts, wanted, "{why}");
    }
    let response = server.get("/large.html\nRange: bytes=0-9, 20000-39998, -1");
    let parts = parse_parts(&response, "text/html; charset=utf-8", 40_000);
    let bytes = large.as_bytes();
    assert_eq!(parts, [&bytes[..10], &bytes[20_000..39_999], &bytes[39_999..]], "from the disk");
}

/// Splits a multipart/byteranges response (RFC 2046 5.1.1) and checks each part's fields.
fn parse_parts(response: &Response, media_type: &str, len: usize) -> Vec<Vec<u8>> {
    assert_eq!(response.status, 206);
    assert_eq!(response.field("Content-Range"), None, "RFC 9110 15.3.7.2");
    let kind = response.field("Content-Type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let delimiter = format!("\r\n--{boundary}");
    // The line break before the first delimiter is optional.
    let body = [b"\r\n", &*response.body].concat();
    let body = if response.body.starts_with(b"\r\n") { response.body.clone() } else { body };
    let at = |text: &[u8], what: &str| memchr::memmem::find(text, what.as_bytes());
    assert_eq!(at(&body, &delimiter), Some(0), "nothing before the first part");
    let mut rest = &body[delimiter.len()..];
    let mut parts = Vec::new();
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let end = at(part, &delimiter).expect("a delimiter after every part");
        let (part, tail) = (&part[..end], &part[end + delimiter.len()..]);
        let head_end = at(part, "\r\n\r\n").expect("an empty line after the fields");
        let head = std::str::from_utf8(&part[..head_end]).unwrap();
        let content = &part[head_end + 4..];
        assert!(head.lines().any(|l| l == format!("Content-Type: {media_type}")), "{head}");
        let range = head.lines().find_map(|l| l.strip_prefix("Content-Range: bytes ")).unwrap();
        let (range, of) = range.split_once('/').unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        assert_eq!((of.parse(), last - first + 1), (Ok(len), content.len()), "{head}");
        parts.push(content.to_vec());
        rest = tail;
    }
    assert_eq!(rest, b"--\r\n", "closed, and nothing after");
    parts
}

#[test]
fn many_small_ranges_get_the_whole_file() {
    let contents = "x".repeat(1000);
    let server = Server::start(&[("a.txt", &contents)]);
    let ranges = |count: usize| {
        let list: Vec<_> = (0..count).map(|n| format!("{}-{}", n * 4, n * 4)).collect();
        server.get(&format!("/a.txt\nRange: bytes={}", list.join(",")))
    };
    assert_eq!(ranges(16).status, 206);
    assert_eq!(ranges(17).status, 200, "RFC 9110 17.15");
    assert_eq!(ranges(200).status, 200);
}

#[test]
fn parts_of_a_large_file() {
    let contents: Vec<u8> = (0..1_500_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    let server = Server::start(&[]);
    server.dir.write("large", &contents);
    let mut client = server.connect();
    let rows =
        [(0, 0), (262_143, 262_144), (1, 1_499_998), (1_499_999, 1_499_999), (500_000, 1_000_000)];
    for (first, last) in rows {
        let part = client.request("GET", &format!("/large\nRange: bytes={first}-{last}"));
        assert_eq!(part.status, 206);
        assert!(part.body == contents[first..=last], "{first}-{last}");
    }
    assert!(client.request("GET", "/large").body == contents, "whole");
    client.expect_open();
}
