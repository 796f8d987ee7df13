//! Tests of request rate limits. Rates are so low that no allowance grows back during a test.

use hurtle::config::{LimitKey, MountHandler, Period, RateLimit};

use crate::support::site::{files_of, mount};
use crate::support::{Client, Server};

/// A limit of this burst for each client address.
fn burst(burst: u64) -> RateLimit {
    RateLimit { burst, ..RateLimit::new(1, Period::Hour) }
}

/// The statuses of this many GETs on one connection.
fn statuses(client: &mut Client, target: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| client.request("GET", target).status).collect()
}

#[test]
fn a_burst_is_served_and_then_refused_over_all_workers() {
    let server = Server::with(&[("a.txt", "hello")], |config| {
        config.workers = 2.try_into().unwrap();
        config.sites[0].limits.rates = vec![burst(5)];
    });
    // The first response puts the file into the cache; the later ones come from there.
    let got: Vec<u16> = (0..8).map(|_| server.get("/a.txt").status).collect();
    assert_eq!(got, [200, 200, 200, 200, 200, 429, 429, 429]);
    let refused = server.get("/a.txt");
    assert_eq!(refused.text(), "429 Too Many Requests: the limit is 1/h\n");
    let wait: u64 = refused.field("Retry-After").unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&wait), "{wait}");
    assert_eq!(refused.field("RateLimit-Policy"), Some("\"default\";q=5;w=18000"));
    assert_eq!(refused.field("RateLimit"), Some(&*format!("\"default\";r=0;t={wait}")));
    assert_eq!(server.head("/a.txt").status, 429);
    assert_eq!(server.request("OPTIONS", "/a.txt").status, 429);
}

#[test]
fn a_refused_request_leaves_its_connection_open() {
    let server = Server::with(&[("a.txt", "hello")], |config| {
        config.sites[0].limits.rates = vec![burst(1)];
    });
    assert_eq!(statuses(&mut server.connect(), "/a.txt", 3), [200, 429, 429]);
}

#[test]
fn a_limit_of_a_mount_holds_only_there() {
    let server = Server::with(&[("a.txt", "hello")], |config| {
        let root = match &config.sites[0].mounts[0].handler {
            MountHandler::Files(files) => files.root.clone(),
            other => panic!("{other:?}"),
        };
        let mut inner = mount("/m", MountHandler::Files(Box::new(files_of(&root))));
        inner.limits.rates = vec![burst(2)];
        config.sites[0].mounts.push(inner);
    });
    let mut client = server.connect();
    assert_eq!(statuses(&mut client, "/m/a.txt", 3), [200, 200, 429]);
    assert_eq!(statuses(&mut client, "/a.txt", 5), [200; 5]);
}

#[test]
fn a_request_that_one_limit_refuses_costs_nothing_of_another() {
    let server = Server::with(&[("a.txt", "a"), ("b.txt", "b")], |config| {
        let by_path = RateLimit { key: vec![LimitKey::Path], ..burst(1) };
        config.sites[0].limits.rates = vec![burst(3), by_path];
    });
    let mut client = server.connect();
    assert_eq!(statuses(&mut client, "/a.txt", 5), [200, 429, 429, 429, 429]);
    assert_eq!(statuses(&mut client, "/b.txt", 1), [200], "four refusals cost nothing");
    assert_eq!(statuses(&mut client, "/c.txt", 1), [404]);
    assert_eq!(statuses(&mut client, "/d.txt", 1), [429]);
}

#[test]
fn keys_are_fields_paths_and_addresses_behind_a_proxy() {
    let field = |name: &'static str| LimitKey::Header(http::HeaderName::from_static(name));
    let rows = [
        ("a field", vec![field("x-key")], "/a.txt\nX-Key: 1", "/a.txt\nx-key: 2"),
        ("a path", vec![LimitKey::Path], "/a.txt", "/b.txt?a.txt"),
        (
            "an address",
            vec![LimitKey::Address],
            "/a.txt\nX-Forwarded-For: 2001:db8::1",
            "/a.txt\nX-Forwarded-For: 2001:db8:0:1::1",
        ),
        (
            "a field or the address",
            vec![field("x-key")],
            "/a.txt\nX-Forwarded-For: 192.0.2.1",
            "/a.txt\nX-Forwarded-For: 192.0.2.2",
        ),
    ];
    for (sentence, key, one, other) in rows {
        let server = Server::with(&[("a.txt", "a"), ("b.txt", "b")], |config| {
            config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
            config.sites[0].limits.rates = vec![RateLimit { key, ..burst(1) }];
        });
        let mut client = server.connect();
        assert_eq!(statuses(&mut client, one, 2), [200, 429], "{sentence}");
        assert_eq!(statuses(&mut client, other, 2), [200, 429], "{sentence}");
    }
}

#[test]
fn a_refusal_gets_the_sites_page() {
    let server = Server::with(&[("a.txt", "a"), ("429.html", "later")], |config| {
        config.sites[0].error_pages.insert(http::StatusCode::TOO_MANY_REQUESTS, "/429.html".into());
        config.sites[0].limits.rates = vec![burst(1)];
    });
    assert_eq!(server.get("/a.txt").status, 200);
    let refused = server.get("/a.txt");
    assert_eq!((refused.status, refused.text()), (429, "later"));
    assert!(refused.field("Retry-After").is_some(), "{refused:?}");
}
