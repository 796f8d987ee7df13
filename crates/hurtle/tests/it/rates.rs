//! Tests of bandwidth limits, for one response and for one client address.

use std::thread;
use std::time::{Duration, Instant};

use hurtle::config::Sendfile;

use crate::support::Server;
use crate::support::site::files;

/// Bytes a second. A connection may send a burst of a quarter of a second: unused allowance and
/// its first piece.
const RATE: u64 = 400_000;

fn body(len: usize) -> String {
    (0..len).map(|i| char::from(b'a' + (i * 31 + i / 251) as u8 % 26)).collect()
}

/// Least time for `len` bytes at `RATE`, less 250 ms of tolerance.
fn least(len: usize) -> Duration {
    Duration::from_millis(len as u64 * 1_000 / RATE) - Duration::from_millis(250)
}

#[test]
fn a_mounts_rate_limits_each_response() {
    let large = body(600_000);
    let tree = [("large", &*large), ("small", "hello")];
    let ways = [Sendfile::Auto, Sendfile::On, Sendfile::Off];
    thread::scope(|scope| {
        for sendfile in ways {
            let (tree, large) = (&tree, &large);
            scope.spawn(move || {
                let server = Server::with(tree, |config| {
                    files(config).rate = RATE;
                    config.sendfile = sendfile;
                });
                let begun = Instant::now();
                let got = server.get("/large");
                let took = begun.elapsed();
                assert!(got.text() == large, "{sendfile:?}");
                assert!(took >= least(large.len()), "{sendfile:?}: {took:?}");
                let begun = Instant::now();
                let parts = server.get("/large\nRange: bytes=0-299999,300001-599999");
                assert_eq!(parts.status, 206, "{sendfile:?}");
                let took = begun.elapsed();
                assert!(took >= least(large.len()), "{sendfile:?}, in parts: {took:?}");
                // The rate limits each response by itself, so small ones are sent at once.
                let begun = Instant::now();
                for _ in 0..20 {
                    assert_eq!(server.get("/small").text(), "hello");
                }
                assert!(begun.elapsed() < Duration::from_secs(5));
            });
        }
    });
}

#[test]
fn all_connections_of_an_address_share_its_limit() {
    let tree = [("large", &*body(300_000)), ("small", &*body(10_000))];
    let server = Server::with(&tree, |config| {
        config.limits.address_rate = RATE;
        // Waiting for a rate limit does not count as a stalled write.
        config.limits.write_stall = Duration::from_millis(20);
        // The limit holds across workers.
        config.workers = 2.try_into().unwrap();
    });
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let got = server.get("/large");
                assert!(got.text() == tree[0].1);
            });
        }
    });
    assert!(begun.elapsed() >= least(600_000), "{:?}", begun.elapsed());
    // New connections share the limit too, also for small and cached responses.
    let begun = Instant::now();
    for _ in 0..60 {
        assert!(server.get("/small").text() == tree[1].1);
    }
    assert!(begun.elapsed() >= least(600_000), "{:?}", begun.elapsed());
}

#[test]
fn clients_behind_a_trusted_proxy_have_a_limit_each() {
    let tree = [("a", &*body(50_000))];
    let server = Server::with(&tree, |config| {
        config.limits.address_rate = RATE;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let mut proxy = server.connect();
    let mut ask = |client: usize| {
        let got = proxy.request("GET", &format!("/a\nX-Forwarded-For: 192.0.2.{client}"));
        assert!(got.text() == tree[0].1);
    };
    let begun = Instant::now();
    (0..12).for_each(|_| ask(1));
    assert!(begun.elapsed() >= least(600_000), "{:?}", begun.elapsed());
    // As one client, these would take four times as long.
    let begun = Instant::now();
    (2..50).for_each(&mut ask);
    assert!(begun.elapsed() < least(48 * 50_000) / 2, "{:?}", begun.elapsed());
}
