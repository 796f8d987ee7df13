//! The five preconditions in their order (RFC 9110 13.2.2), and If-Range.

use crate::support::rows::check;
use crate::support::{MODIFIED, Server};

const OLDER: &str = "Tue, 30 Apr 2024 12:00:00 GMT";
const NEWER: &str = "Thu, 02 May 2024 12:00:00 GMT";

#[test]
fn preconditions() {
    let server = Server::start(&[("a.txt", "0123456789")]);
    let tag = server.get("/a.txt").field("ETag").unwrap().to_owned();
    let same = MODIFIED.1;
    let rows: &[(&str, &str, u16)] = &[
        ("its tag: not modified", "If-None-Match: TAG", 304),
        ("a weak form of it is the same to a cache", "If-None-Match: W/TAG", 304),
        ("in a list", "If-None-Match: \"x\", TAG , \"y\"", 304),
        ("in a second line", "If-None-Match: \"x\"\nIf-None-Match: TAG", 304),
        ("any", "If-None-Match: *", 304),
        ("another tag", "If-None-Match: \"x\"", 200),
        ("a comma inside a tag is no separator", "If-None-Match: \"x,TAG,y\"", 200),
        ("a tag without quotes is none", "If-None-Match: x", 200),
        ("nothing", "If-None-Match:", 200),
        ("not since", "If-Modified-Since: SAME", 304),
        ("not since it was put there", "If-Modified-Since: FUTURE", 304),
        ("put there since", "If-Modified-Since: NEWER", 200),
        ("since", "If-Modified-Since: OLDER", 200),
        ("not a date", "If-Modified-Since: yesterday", 200),
        ("an old form of the date", "If-Modified-Since: Wednesday, 01-May-24 12:00:00 GMT", 304),
        ("an older one", "If-Modified-Since: Wed May  1 12:00:00 2024", 304),
        ("two dates are none", "If-Modified-Since: SAME\nIf-Modified-Since: SAME", 200),
        ("its tag", "If-Match: TAG", 200),
        ("any", "If-Match: *", 200),
        ("in a list", "If-Match: \"x\", TAG", 200),
        ("another tag", "If-Match: \"x\"", 412),
        ("a weak tag is never strong", "If-Match: W/TAG", 412),
        ("not modified since", "If-Unmodified-Since: SAME", 200),
        ("modified since", "If-Unmodified-Since: OLDER", 412),
        ("put there since", "If-Unmodified-Since: NEWER", 412),
        ("not a date", "If-Unmodified-Since: tomorrow", 200),
        // The order (RFC 9110 13.2.2).
        ("If-Match silences its date", "If-Match: TAG\nIf-Unmodified-Since: OLDER", 200),
        ("even when it fails", "If-Match: \"x\"\nIf-Unmodified-Since: NEWER", 412),
        ("If-None-Match silences its date", "If-None-Match: \"x\"\nIf-Modified-Since: NEWER", 200),
        ("even when it matches", "If-None-Match: TAG\nIf-Modified-Since: OLDER", 304),
        ("412 comes before 304", "If-Match: \"x\"\nIf-None-Match: TAG", 412),
        ("both dates", "If-Unmodified-Since: OLDER\nIf-Modified-Since: NEWER", 412),
        ("the first holds, so the second decides", "If-Match: TAG\nIf-None-Match: TAG", 304),
        // They come before the range (step 5).
        ("304 comes before 206", "Range: bytes=0-1\nIf-None-Match: TAG", 304),
        ("412 comes before 416", "Range: bytes=99-\nIf-Match: \"x\"", 412),
        ("a range then", "Range: bytes=0-1\nIf-Match: TAG", 206),
        // If-Range (RFC 9110 13.1.5).
        ("the same representation", "Range: bytes=0-1\nIf-Range: TAG", 206),
        ("another", "Range: bytes=0-1\nIf-Range: \"x\"", 200),
        ("a weak tag is not enough", "Range: bytes=0-1\nIf-Range: W/TAG", 200),
        ("a list is no tag", "Range: bytes=0-1\nIf-Range: TAG, \"x\"", 200),
        ("its date", "Range: bytes=0-1\nIf-Range: SAME", 206),
        ("a later date is not its date", "Range: bytes=0-1\nIf-Range: NEWER", 200),
        ("an earlier one", "Range: bytes=0-1\nIf-Range: OLDER", 200),
        ("neither", "Range: bytes=0-1\nIf-Range: x", 200),
        ("without Range it means nothing", "If-Range: \"x\"", 200),
        ("a changed file has no range to fail", "Range: bytes=99-\nIf-Range: \"x\"", 200),
    ];
    for (why, fields, status) in rows {
        let fields = fields.replace("TAG", &tag).replace("SAME", same);
        let fields = fields.replace("OLDER", OLDER).replace("NEWER", NEWER);
        let fields = fields.replace("FUTURE", "Thu, 31 Dec 2099 00:00:00 GMT");
        let target = format!("/a.txt\n{fields}");
        let body = match status {
            200 => "0123456789",
            206 => "01",
            _ => "",
        };
        check(&server, &[(why, &target, *status, &[], Some(body))]);
    }
}

#[test]
fn a_304_has_the_fields_of_the_200() {
    let server = Server::start(&[("a.txt", "0123456789"), ("a.txt.gz", "gz")]);
    let whole = server.get("/a.txt");
    let not_modified = server.get("/a.txt\nIf-None-Match: *");
    assert_eq!(not_modified.status, 304);
    for name in ["ETag", "Last-Modified", "Vary"] {
        // RFC 9110 15.4.5.
        assert_eq!(not_modified.field(name), whole.field(name), "{name}");
    }
    assert_eq!(not_modified.field("Content-Length"), None);
}

#[test]
fn a_304_leaves_the_connection_whole() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut client = server.connect();
    for method in ["GET", "HEAD"] {
        assert_eq!(client.request(method, "/a.txt\nIf-None-Match: *").status, 304, "{method}");
    }
    client.expect_open();
}

#[test]
fn a_young_file_has_no_strong_validator() {
    let server = Server::start(&[("a.txt", "0123456789")]);
    // Another time would be one that a program has set.
    std::fs::write(server.dir.path("a.txt"), "0123456789").unwrap();
    let young = server.get("/a.txt");
    let (tag, date) = (young.field("ETag").unwrap(), young.field("Last-Modified").unwrap());
    let part = |validator| server.get(&format!("/a.txt\nRange: bytes=0-1\nIf-Range: {validator}"));
    assert_eq!(part(tag).status, 200, "a weak tag cannot join parts");
    assert_eq!(part(date).status, 200, "nor can a date that is as young");
    assert_eq!(server.get(&format!("/a.txt\nIf-None-Match: {tag}")).status, 304, "a cache may");
}
