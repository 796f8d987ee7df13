//! The response cache, tested by the requests that reach upstreams.

mod again;
mod bodies;
mod crowd;
mod heuristic;
mod interim;
mod kept;
mod known;
mod lifetimes;
mod mixture;
mod orders;
mod parts;
mod stale;

use crate::client::Client;
use crate::support::{Proxy, Upstream};

/// An upstream, and a server that caches its responses.
struct Pair {
    upstream: Upstream,
    proxy: Proxy,
}

impl Pair {
    fn new() -> Pair {
        Pair::with("cache = {}")
    }

    /// A pair whose mount has these keys.
    fn with(keys: &str) -> Pair {
        let upstream = Upstream::new();
        let proxy = Proxy::with(&[upstream.address], keys);
        Pair { upstream, proxy }
    }

    /// Answers the next request that reaches the upstream, and returns its head.
    #[track_caller]
    fn reply(&self, fields: &str, body: &str) -> String {
        let (peer, head) = self.upstream.next_request();
        reply(peer, fields, body);
        head
    }

    /// Sends a request that reaches the upstream, and returns the client's response.
    #[track_caller]
    fn fetch(&self, request: &str, fields: &str, body: &str) -> (String, String) {
        let mut client = self.proxy.send(request);
        self.reply(fields, body);
        client.answer()
    }

    /// Sends a request that does not reach it, and returns the client's response.
    #[track_caller]
    fn hit(&self, request: &str) -> (String, String) {
        let answer = self.proxy.send(request).answer();
        self.upstream.expect_no_connection();
        answer
    }
}

fn reply(mut peer: Client, fields: &str, body: &str) {
    let len = body.len();
    peer.send(format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    ));
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[track_caller]
fn has(head: &str, line: &str) {
    assert!(head.lines().any(|other| other == line), "{line}: {head}");
}

const MINUTE: &str = "Cache-Control: max-age=60\r\n";
