//! Tests of several upstreams: selection, failures and health checks.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::thread::{self, JoinHandle};

use crate::support::{GET, LAST_OK, NOBODY, OK, Proxy, Upstream};

#[test]
fn upstreams_are_selected_in_turn() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], "");
    for turn in [0, 1, 0, 1] {
        let mut client = proxy.send(GET);
        let (mut peer, _) = upstreams[turn].next_request();
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
}

#[test]
fn an_unreachable_upstream_is_skipped() {
    let upstream = Upstream::new();
    let proxy = Proxy::with(&[NOBODY, upstream.address], "");
    for _ in 0..6 {
        let body = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        let mut client = proxy.send(body);
        let (mut peer, _) = upstream.next_request();
        assert_eq!(peer.take(5), b"hello", "what was never sent may go to another");
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
}

#[test]
fn a_failed_request_is_retried_only_if_that_is_safe() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], "");
    let mut client = proxy.send(GET);
    drop(upstreams[0].next_request());
    let (mut peer, _) = upstreams[1].next_request();
    peer.send(LAST_OK);
    assert_eq!(client.answer().1, "ok");

    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    drop(upstreams[0].next_request());
    assert!(client.head().starts_with("HTTP/1.1 502 "), "it may have been done already");
    upstreams[1].expect_no_connection();
}

#[test]
fn the_least_busy_upstream_is_selected() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let keys = "balance = \"least-connections\"";
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], keys);
    let _waiting = proxy.send(GET);
    let _held = upstreams[0].next_request();
    for _ in 0..3 {
        let mut client = proxy.send(GET);
        let (mut peer, _) = upstreams[1].next_request();
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
}

#[test]
fn a_path_is_hashed_to_one_upstream() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let keys = "balance = \"hash-path\"";
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], keys);
    let requests = upstreams.map(|upstream| {
        thread::spawn(move || {
            let mut requests = Vec::new();
            while let Some((mut peer, head)) = upstream.next_request_if_any() {
                requests.push(head.lines().next().unwrap().to_owned());
                peer.send(LAST_OK);
            }
            requests
        })
    });
    let lines = (0..16).map(|n| format!("GET /{} HTTP/1.1", n % 8)).collect::<Vec<_>>();
    for line in &lines {
        assert_eq!(proxy.send(format!("{line}\r\nHost: a\r\n\r\n")).answer().1, "ok");
    }
    drop(proxy);
    let requests = requests.map(|thread| thread.join().unwrap());
    assert_eq!(requests[0].len() + requests[1].len(), 16);
    for line in &lines {
        assert_ne!(requests[0].contains(line), requests[1].contains(line), "{line} went to both");
    }
}

#[test]
fn an_unhealthy_upstream_gets_no_requests() {
    let upstream = Upstream::new();
    let keys = "health = \"/health z\"\nhealth_interval = \"10ms\"";
    let proxy = Proxy::with(&[upstream.address], keys);
    let check = |answer: &str| {
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("GET /health%20z HTTP/1.1\n"), "{head}");
        peer.send(answer);
    };
    let bad = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    check(bad);
    check(bad);
    // The third health check follows the evaluation of the second.
    let (mut third, _) = upstream.next_request();
    let (head, _) = proxy.send(GET).answer();
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("Retry-After"), "{head}");
    // An interim response is no answer (RFC 9110 section 15.2).
    third.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    third.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    drop(third);
    let (_fourth, _) = upstream.next_request();
    let mut client = proxy.send(GET);
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("GET / HTTP/1.1\n"), "{head}");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok", "well again");
}

#[test]
fn health_checks_have_a_host_statuses_and_thresholds() {
    let upstream = Upstream::new();
    let keys = "health = '/up'\nhealth_interval = '10ms'\nhealth_host = 'app.test:81'\n\
                health_status = [204, '3xx']\nhealth_fails = 3\nhealth_passes = 2";
    let proxy = Proxy::with(&[upstream.address], keys);
    let check = |status: &str| {
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("GET /up HTTP/1.1\nHost: app.test:81\n"), "{head}");
        peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
    };
    // Each check follows the evaluation of the one before; the last is held open meanwhile.
    let is_served = || {
        let (mut held, head) = upstream.next_request();
        assert!(head.starts_with("GET /up "), "{head}");
        let mut client = proxy.send(GET);
        let is_served = match upstream.next_request_if_any() {
            Some((mut peer, head)) => {
                assert!(head.starts_with("GET / "), "{head}");
                peer.send(OK);
                client.answer().0.starts_with("HTTP/1.1 200 ")
            }
            None => false,
        };
        held.send("HTTP/1.1 204 X\r\n\r\n");
        is_served
    };
    ["200", "404", "204", "200", "200"].into_iter().for_each(check);
    assert!(is_served(), "two of three failed in a row");
    ["200", "200", "500"].into_iter().for_each(check);
    assert!(!is_served(), "three failed in a row, one has passed");
    check("200");
    check("301");
    assert!(!is_served(), "one has passed since the last bad one");
    assert!(is_served(), "two have passed");
}

/// Answers every request with `status` until no connection comes for a second; returns the number
/// of requests.
fn answer_all(upstream: Upstream, status: &'static str) -> (SocketAddr, JoinHandle<usize>) {
    let address = upstream.address;
    let thread = thread::spawn(move || {
        let mut requests = 0;
        while let Some((mut peer, _)) = upstream.next_request_if_any() {
            requests += 1;
            let close = "Content-Length: 2\r\nConnection: close";
            peer.send(format!("HTTP/1.1 {status}\r\n{close}\r\n\r\nok"));
        }
        requests
    });
    (address, thread)
}

#[test]
fn weights_divide_the_requests() {
    let upstreams = [(); 2].map(|()| answer_all(Upstream::new(), "200 OK"));
    let (one, three) = (upstreams[0].0, upstreams[1].0);
    let mount = format!("proxy = ['http://{one}', {{ url = 'http://{three}', weight = 3 }}]");
    let proxy = Proxy::of("", &mount);
    for _ in 0..12 {
        assert_eq!(proxy.send(GET).answer().1, "ok");
    }
    assert_eq!(upstreams.map(|(_, thread)| thread.join().unwrap()), [3, 9]);
}

#[test]
fn a_backup_answers_while_the_others_are_down() {
    let (backup, requests) = answer_all(Upstream::new(), "200 OK");
    let mount =
        format!("proxy = ['http://{NOBODY}', {{ url = 'http://{backup}', backup = true }}]");
    let proxy = Proxy::of("", &mount);
    for _ in 0..6 {
        assert_eq!(proxy.send(GET).answer().1, "ok");
    }
    assert_eq!(requests.join().unwrap(), 6);
}

#[test]
fn a_cookie_keeps_a_client_at_its_upstream() {
    let upstreams = [(); 3].map(|()| Upstream::new());
    let addresses = upstreams.each_ref().map(|upstream| upstream.address);
    let proxy = Proxy::with(&addresses, "balance = 'cookie'\ncookie = 'server'");
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstreams[0].next_request();
    peer.send(LAST_OK);
    let (head, _) = client.answer();
    let cookie = head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).expect(&head);
    let (pair, rest) = cookie.split_once(';').unwrap();
    assert!(pair.starts_with("server=") && rest == " Path=/; HttpOnly; SameSite=Lax", "{cookie}");
    assert!(!pair.contains("127"), "the address is not disclosed");
    for _ in 0..4 {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b; {pair}\r\n\r\n"));
        let (mut peer, _) = upstreams[0].next_request();
        peer.send(LAST_OK);
        let (head, _) = client.answer();
        assert!(!head.contains("Set-Cookie"), "{head}");
    }
    // The upstream fails: another one takes over and the cookie names that one.
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {pair}\r\n\r\n"));
    drop(upstreams[0].next_request());
    let (mut peer, _) = upstreams[1].next_request();
    peer.send(LAST_OK);
    let (head, _) = client.answer();
    assert!(head.contains("\nSet-Cookie: server=") && !head.contains(pair), "{head}");
}

#[test]
fn a_header_field_is_hashed_to_one_upstream() {
    let upstreams = [(); 2].map(|()| Upstream::new());
    let addresses = upstreams.each_ref().map(|upstream| upstream.address);
    let proxy = Proxy::with(&addresses, "balance = 'hash-header'\nhash_header = 'X-Tenant'");
    let requests = upstreams.map(|upstream| {
        thread::spawn(move || {
            let mut tenants = Vec::new();
            while let Some((mut peer, head)) = upstream.next_request_if_any() {
                let tenant = head.lines().find_map(|line| line.strip_prefix("X-Tenant: "));
                tenants.push(tenant.unwrap().to_owned());
                peer.send(LAST_OK);
            }
            tenants
        })
    });
    for n in 0..24 {
        let request = format!("GET /{n} HTTP/1.1\r\nHost: a\r\nX-Tenant: t{}\r\n\r\n", n % 8);
        assert_eq!(proxy.send(request).answer().1, "ok");
    }
    let requests = requests.map(|thread| thread.join().unwrap());
    for tenant in (0..8).map(|n| format!("t{n}")) {
        assert_ne!(requests[0].contains(&tenant), requests[1].contains(&tenant), "{tenant}");
    }
}

#[test]
fn a_share_of_error_responses_ejects_an_upstream() {
    let keys = "ejection = { errors_percent = 50, min_requests = 4 }";
    // Beside a cache, responses that it does not store were counted twice.
    for cache in ["", "\ncache = {}"] {
        let (bad, errors) = answer_all(Upstream::new(), "500 No");
        let (good, requests) = answer_all(Upstream::new(), "200 OK");
        let proxy = Proxy::with(&[bad, good], &format!("{keys}{cache}"));
        for _ in 0..20 {
            assert_eq!(proxy.send(GET).answer().1, "ok");
        }
        drop(proxy);
        assert_eq!((errors.join().unwrap(), requests.join().unwrap()), (4, 16), "{cache}");
    }
}

#[test]
fn every_address_of_a_name_is_used() {
    let first = TcpListener::bind("localhost:0").unwrap();
    let port = first.local_addr().unwrap().port();
    let addresses: BTreeSet<SocketAddr> = ("localhost", port).to_socket_addrs().unwrap().collect();
    let own = first.local_addr().unwrap();
    let others = addresses.iter().filter(|address| **address != own);
    // An address that cannot be bound refuses connections, so the others get them.
    let others = others.filter_map(|address| TcpListener::bind(address).ok());
    let upstreams: Vec<Upstream> =
        [first].into_iter().chain(others.collect::<Vec<_>>()).map(Upstream::of).collect();
    let proxy = Proxy::of("", &format!("proxy = 'http://localhost:{port}'"));
    let count = upstreams.len();
    let counts = upstreams.into_iter().map(|upstream| answer_all(upstream, "200 OK").1);
    let counts: Vec<_> = counts.collect();
    for _ in 0..4 * count {
        assert_eq!(proxy.send(GET).answer().1, "ok");
    }
    let counts: Vec<usize> = counts.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(counts.iter().all(|requests| *requests > 0), "{counts:?}");
}
