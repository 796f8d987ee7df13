//! Tests of compressed files over HTTP/2.

use crate::peer::{answer, ask, talk};
use crate::support::coding::{decode, text};
use crate::support::{Server, eventually};

#[test]
fn compressed_files_are_those_of_http1() {
    let page = text(100_000, 1);
    let server = Server::start(&[("a.html", &page)]);
    for coding in ["br", "zstd", "gzip"] {
        let target = format!("/a.html\nAccept-Encoding: {coding}");
        let found = eventually(&format!("content-encoding {coding}"), || {
            let response = talk(server.address, async |mut client| {
                answer(ask(&mut client, "GET", &target).await).await
            });
            let is_coded = response.field("content-encoding").is_some();
            // One that is encoded while it is sent has a weak tag.
            if is_coded && response.field("etag").is_some_and(|tag| tag.starts_with('"')) {
                return Some(response);
            }
            let plain = if is_coded { decode(coding, &response.body) } else { None };
            assert!(plain.as_ref().unwrap_or(&response.body) == page.as_bytes());
            None
        });
        assert_eq!(decode(coding, &found.body).unwrap(), page.as_bytes());
        let other = server.get(&target);
        assert_eq!(found.field("etag"), other.field("ETag"));
        assert!(found.body == other.body);
        assert_eq!(found.field("vary"), Some("Accept-Encoding"));
    }
}
