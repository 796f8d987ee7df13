//! Tests of heuristic lifetimes (RFC 9111 4.2.2).

use super::{Pair, get, reply};

#[test]
fn responses_without_a_lifetime_are_kept_if_the_mount_says_so() {
    const OLD: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    #[rustfmt::skip]
    let rows = [
        ("off unless asked for", "cache = {}", OLD, false),
        ("off", "cache = { heuristic_percent = 0 }", OLD, false),
        ("on", "cache = { heuristic_percent = 10 }", OLD, true),
        ("not without Last-Modified", "cache = { heuristic_percent = 10 }", "ETag: \"a\"\r\n", false),
        ("not against what the response says", "cache = { heuristic_percent = 10 }", "Cache-Control: max-age=0\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n", false),
    ];
    for (sentence, keys, fields, kept) in rows {
        let pair = Pair::with(keys);
        pair.fetch(&get("/", ""), fields, "first");
        let mut client = pair.proxy.send(get("/", ""));
        if !kept {
            let next = pair.upstream.next_request_if_any();
            reply(next.unwrap_or_else(|| panic!("{sentence}: not asked again")).0, "", "second");
        }
        let (head, body) = client.answer();
        assert_eq!(body, if kept { "first" } else { "second" }, "{sentence}: {head}");
        pair.upstream.expect_no_connection();
    }
}
