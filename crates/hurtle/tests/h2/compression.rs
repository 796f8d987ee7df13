//! Tests of compressed files over HTTP/2.

use std::time::Instant;

use crate::peer::{answer, ask, talk};
use crate::support::Server;
use crate::support::client::PATIENCE;
use crate::support::coding::{decode, text};
use crate::support::waiting::PAUSE;

#[test]
fn compressed_files_are_those_of_http1() {
    let page = text(100_000, 1);
    let server = Server::start(&[("a.html", &page)]);
    for coding in ["br", "zstd", "gzip"] {
        let target = format!("/a.html\nAccept-Encoding: {coding}");
        let name = format!("content-encoding {coding}");
        let found = talk(server.address, async |mut client| {
            let end = Instant::now() + PATIENCE;
            loop {
                let response = answer(ask(&mut client, "GET", &target).await).await;
                assert!(Instant::now() < end, "no {name}");
                let is_coded = response.field("content-encoding").is_some();
                // One that is encoded while it is sent has a weak tag.
                if is_coded && response.field("etag").is_some_and(|tag| tag.starts_with('"')) {
                    return response;
                }
                let plain = if is_coded { decode(coding, &response.body) } else { None };
                assert!(plain.as_ref().unwrap_or(&response.body) == page.as_bytes());
                tokio::time::sleep(PAUSE).await;
            }
        });
        assert_eq!(decode(coding, &found.body).unwrap(), page.as_bytes());
        let other = server.get(&target);
        assert_eq!(found.field("etag"), other.field("ETag"));
        assert!(found.body == other.body);
        assert_eq!(found.field("vary"), Some("Accept-Encoding"));
    }
}
