//! Two servers that share a real Redis: rate limits over both, and the server's own while the store
//! is dead, stopped or hostile.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{Child, eventually, hurtle, write_config};
use crate::redis::{Redis, figure};
use crate::support::Dir;

/// Requests at once of the limit.
const BURST: usize = 6;

/// Longest response while the store does not respond. Most of it is patience with a loaded machine:
/// without a bound, the response would take as long as the store is stopped.
const RESPONSE_MAX: Duration = Duration::from_secs(5);

/// A server with a limit, and its directory.
fn server(url: &str) -> (Dir, Child) {
    limited(url, "requests = '6/h'")
}

fn limited(url: &str, limit: &str) -> (Dir, Child) {
    let dir = Dir::new(&[("a.txt", "a")]);
    let config = format!(
        "store = '{url}'\nadmin = '{{root}}/../admin.sock'\n[[site]]\n[[site.rate_limit]]\n\
         {limit}\nkey = 'header:X-Key'\n[[site.mount]]\nfiles = '{{root}}'\n"
    );
    let child = Child::configured(&dir, &config);
    (dir, child)
}

#[test]
fn explain_says_that_a_limit_is_shared() {
    let dir = Dir::new(&[("a.txt", "a")]);
    let config = write_config(
        &dir,
        "store = 'redis://store.internal'\nstore_prefix = 'shop:'\n[[site]]\n\
         rate_limit = [{ requests = '10/s' }]\n[[site.mount]]\nfiles = '{root}'\n",
    );
    let output = hurtle().args(["explain", "/a.txt", "--config"]).arg(&config).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = "limit    10/s for each address, 10 at once, else 429\n         over all servers that \
                    share redis://store.internal:6379, prefix \"shop:\"\n";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_password_is_sent_and_others_must_not_be_able_to_read_its_file() {
    let Some(redis) = Redis::start() else { return };
    redis.set("requirepass", "secret");
    let dir = Dir::new(&[("a.txt", "a")]);
    let password = dir.path("../password");
    fs::write(&password, "secret\n").unwrap();
    let config = |mode| {
        fs::set_permissions(&password, Permissions::from_mode(mode)).unwrap();
        let text = format!(
            "store = '{}'\nstore_password_file = {password:?}\nadmin = '{{root}}/../admin.sock'\n\
             [[site]]\n[[site.mount]]\nfiles = '{{root}}'\n",
            redis.url()
        );
        write_config(&dir, &text)
    };
    let open = config(0o644);
    let output = hurtle().args(["check", "--config"]).arg(&open).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("its mode is 0644"), "{said}");
    let child = Child::start(hurtle().arg("--config").arg(config(0o600)));
    eventually("it is connected", || is_connected(&dir));
    drop(child);
    fs::write(&password, "wrong").unwrap();
    let child = Child::start(hurtle().arg("--config").arg(config(0o600)));
    eventually("it is refused", || figure(&dir, "hurtle_store_failures_total") >= 1.0);
    assert_eq!(child.get("/a.txt").status, 200);
}

fn is_connected(dir: &Dir) -> bool {
    figure(dir, "hurtle_store_connected_workers") == 1.0
}

/// Sends requests with a key; returns how many were accepted. Fails if one gets neither 200 nor
/// 429.
#[track_caller]
fn accepted(child: &Child, key: &str, requests: usize) -> usize {
    let mut client = child.connect();
    let mut accepted = 0;
    for _ in 0..requests {
        let begun = Instant::now();
        let response = client.request("GET", &format!("/a.txt\nX-Key: {key}"));
        let took = begun.elapsed();
        assert!(took < RESPONSE_MAX, "{took:?}");
        match response.status {
            200 => accepted += 1,
            429 => assert!(response.field("Retry-After").is_some()),
            status => panic!("{status}"),
        }
    }
    accepted
}

/// Regression: the fraction of a microsecond was lost in the time since 1970, so that a client that
/// was idle was refused.
#[test]
fn an_idle_client_is_accepted_at_every_rate() {
    let Some(redis) = Redis::start() else { return };
    for rate in ["6/s", "7/s", "60/s", "9/m", "11/m", "3/s", "1/h"] {
        let (dir, child) = limited(&redis.url(), &format!("requests = '{rate}'\nburst = 1"));
        eventually("it is connected", || is_connected(&dir));
        for key in 0..5 {
            assert_eq!(accepted(&child, &format!("{rate} {key}"), 1), 1, "{rate}");
        }
        assert_eq!(figure(&dir, "hurtle_store_local_decisions_total"), 0.0, "{rate}");
    }
}

#[test]
fn a_limit_holds_over_both_servers_and_each_decides_alone_without_the_store() {
    let Some(mut redis) = Redis::start() else { return };
    let (port, url) = (redis.port, redis.url());
    let ((dir, a), (other, b)) = (server(&url), server(&url));
    let both = |what: &str| eventually(what, || is_connected(&dir) && is_connected(&other));
    both("both are connected");
    assert_eq!((accepted(&a, "1", 4), accepted(&b, "1", 4)), (4, 2), "over both");
    let refused = b.connect().request("GET", "/a.txt\nX-Key: 1");
    assert_eq!(
        (refused.status, refused.field("RateLimit-Policy")),
        (429, Some("\"default\";q=6;w=3600"))
    );
    let wait: u64 = refused.field("Retry-After").unwrap().parse().unwrap();
    assert!((590..=600).contains(&wait), "{wait}");
    assert_eq!(accepted(&a, "2", 10), BURST, "another key");
    assert!(figure(&dir, "hurtle_store_decision_seconds_count") >= 10.0);
    assert_eq!(figure(&dir, "hurtle_store_local_decisions_total"), 0.0);

    // Killed.
    drop(redis);
    eventually("both notice", || !is_connected(&dir) && !is_connected(&other));
    assert_eq!((accepted(&a, "3", 7), accepted(&b, "3", 7)), (BURST, BURST), "each alone");
    assert!(figure(&dir, "hurtle_store_local_decisions_total") >= BURST as f64);
    let warned = a.stderr().matches("rate limits are this server's own meanwhile").count();
    assert_eq!(warned, 1, "{}", a.stderr());

    // Back.
    redis = Redis::start_at(port).unwrap();
    both("both are connected again");
    assert_eq!((accepted(&a, "4", 4), accepted(&b, "4", 4)), (4, 2), "shared again");

    // Stopped: connections stay open, and nothing answers.
    redis.signal(Signal::STOP);
    assert_eq!((accepted(&a, "5", 7), accepted(&b, "5", 7)), (BURST, BURST), "each alone");
    eventually("the connections are given up", || !is_connected(&dir) && !is_connected(&other));
    assert!(figure(&dir, "hurtle_store_late_decisions_total") >= 3.0);
    redis.signal(Signal::CONT);
    both("both are connected after the stop");
    assert_eq!((accepted(&a, "6", 4), accepted(&b, "6", 4)), (4, 2), "shared again");
}

/// A store that answers every connection with these bytes, `times` times.
fn hostile(answer: &'static [u8], times: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let Ok(mut peer) = peer else { return };
            thread::spawn(move || {
                let _ = peer.read(&mut [0; 4_096]);
                (0..times).try_for_each(|_| peer.write_all(answer)).ok()
            });
        }
    });
    address
}

#[test]
fn a_hostile_store_costs_neither_requests_nor_memory() {
    let table: [(&str, &[u8], usize); 5] = [
        ("garbage", b"HTTP/1.1 400 Bad Request\r\n\r\n", 1),
        ("an endless string", &[b'+'; 4_096], 1 << 16),
        ("an endless array", b"*1000000000\r\n", 1 << 20),
        ("replies to no command", b"+OK\r\n", 1 << 20),
        ("no script", b"-ERR unknown command\r\n", 1),
    ];
    for (sentence, answer, times) in table {
        let (dir, child) = server(&format!("redis://{}", hostile(answer, times)));
        eventually(sentence, || figure(&dir, "hurtle_store_failures_total") >= 2.0);
        assert_eq!(accepted(&child, "1", 7), BURST, "{sentence}");
        let kib = child.resident_kib();
        assert!(kib < 128 << 10, "{sentence}: {kib} KiB");
    }
}
