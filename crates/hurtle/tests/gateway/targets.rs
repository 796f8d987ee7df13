//! The targets of requests to FastCGI applications.

use crate::fastcgi::{DOCUMENT, server};
use crate::peer::receive;
use crate::support::Upstream;

/// Regression: they were answered 400.
#[test]
fn targets_have_characters_that_no_uri_has() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    for (target, query) in [("/x?a=\"<b>`", "a=\"<b>`"), ("/a\"<b>`?q", "q")] {
        let mut client = server.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let received = receive(&upstream);
        assert_eq!(received.variables["REQUEST_URI"], target);
        assert_eq!(received.variables["QUERY_STRING"], query);
        received.answer(DOCUMENT);
        assert_eq!(client.answer().1, "hello");
    }
}
