//! Random requests for a representation that changes at random.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use crate::client::Client;
use crate::support::{Proxy, Upstream};

/// Clients that send requests at the same time.
const CLIENTS: u64 = 3;
const REQUESTS: u64 = 250;

/// A pseudo-random sequence (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// All bytes of a version are the same, so that a mixture shows.
fn content(version: u64) -> String {
    let letter = char::from(b'a' + (version % 26) as u8);
    letter.to_string().repeat(60 + (version % 3) as usize)
}

fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns the first position and the one after the last of a Range field.
fn positions(range: &str, len: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => (first, len.min(last + 1)),
        (Ok(first), Err(_)) => (first, len),
        (Err(_), Ok(suffix)) => (len - suffix.min(len), len),
        _ => return None,
    };
    (start < end).then_some((start, end))
}

/// Answers one request; `false` ends the upstream.
fn respond(upstream: &Upstream, version: u64, breaks_off: bool) -> bool {
    let (mut peer, head) = upstream.next_request();
    if head.starts_with("GET /end ") {
        return false;
    }
    let (tag, body) = (format!("\"{version}\""), content(version));
    let fields = format!("ETag: {tag}\r\nCache-Control: max-age=60\r\nConnection: close\r\n");
    if value(&head, "If-None-Match") == Some(&tag) {
        peer.send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"));
        return true;
    }
    let may_be_part = value(&head, "If-Range").is_none_or(|validator| validator == tag);
    let range = value(&head, "Range").filter(|_| may_be_part);
    let (status, more, body) = match range.and_then(|range| positions(range, body.len())) {
        Some((start, end)) => {
            let range = format!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, body.len());
            ("206 Partial Content", range, body[start..end].to_owned())
        }
        None => ("200 OK", String::new(), body),
    };
    let sent = if breaks_off { &body[..body.len() / 2] } else { &body };
    let len = body.len();
    peer.send(format!("HTTP/1.1 {status}\r\n{fields}{more}Content-Length: {len}\r\n\r\n{sent}"));
    true
}

fn request(random: &mut Random, last_tag: &str) -> String {
    let mut fields = String::new();
    let (a, b) = (random.below(58), random.below(58));
    match random.below(6) {
        0 => {}
        1 => fields += &format!("Range: bytes={a}-\r\n"),
        2 => fields += &format!("Range: bytes=-{}\r\n", b + 1),
        _ => fields += &format!("Range: bytes={}-{}\r\n", a.min(b), a.max(b)),
    }
    if random.below(5) == 0 && !last_tag.is_empty() {
        fields += &format!("If-Range: {last_tag}\r\n");
    }
    if random.below(10) == 0 {
        fields += "Cache-Control: no-cache\r\n";
    }
    format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n")
}

/// Asserts that a response has the bytes of one version, at the right positions.
fn check(answer: &str, request: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    if head.starts_with("HTTP/1.1 502") {
        return None;
    }
    let tag = value(head, "ETag").expect(answer);
    let whole = content(tag.trim_matches('"').parse().unwrap());
    let expected = match value(head, "Content-Range") {
        Some(range) => {
            assert!(head.starts_with("HTTP/1.1 206 "), "{request}{answer}");
            let (ours, len) = range.split_once('/').unwrap();
            assert_eq!(len.parse(), Ok(whole.len()), "{request}{answer}");
            let wanted = value(request, "Range").unwrap();
            let (start, end) = positions(wanted, whole.len()).unwrap();
            assert_eq!(ours, format!("bytes {start}-{}", end - 1), "{request}{answer}");
            &whole[start..end]
        }
        None => {
            assert!(head.starts_with("HTTP/1.1 200 "), "{request}{answer}");
            &whole
        }
    };
    let is_truncated = body.len() < value(head, "Content-Length").unwrap().parse().unwrap();
    let expected = if is_truncated { &expected[..body.len()] } else { expected };
    assert_eq!(body, expected, "{request}{answer}");
    if let Some(validator) = value(request, "If-Range")
        && head.starts_with("HTTP/1.1 206 ")
    {
        assert_eq!(tag, validator, "{request}{answer}");
    }
    Some(tag.to_owned())
}

#[test]
fn no_response_mixes_two_representations() {
    let upstream = Upstream::new();
    let proxy = Proxy::with(&[upstream.address], "cache = {}");
    let (version, hits) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(0x9E37_79B9_7F4A_7C15);
            while respond(&upstream, version.load(SeqCst), random.below(12) == 0) {}
        });
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|seed| {
                let (proxy, version, hits) = (&proxy, &version, &hits);
                scope.spawn(move || {
                    let (mut random, mut last_tag) = (Random(seed << 20 | 7), String::new());
                    for _ in 0..REQUESTS {
                        if random.below(30) == 0 {
                            version.fetch_add(1, SeqCst);
                        }
                        let request = request(&mut random, &last_tag);
                        let answer = proxy.send(&request).rest();
                        hits.fetch_add(u64::from(answer.contains("; hit")), SeqCst);
                        last_tag = check(&answer, &request).unwrap_or(last_tag);
                    }
                })
            })
            .collect();
        let results: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        Client::connect(upstream.address).send("GET /end HTTP/1.1\r\n\r\n");
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert!(hits.load(SeqCst) > CLIENTS * REQUESTS / 4, "{hits:?} hits");
}
