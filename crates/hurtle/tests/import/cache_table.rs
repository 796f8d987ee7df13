//! Lifetimes of nginx's cache: the key that they become, or the reason why not, and the remarks.

use hurtle::import::nginx;
use hurtle::import::syntax::parse;

/// Imports a location with a cache and these directives.
fn import(directives: &str) -> Result<String, Vec<String>> {
    let text = format!(
        "http {{ proxy_cache_path /cache keys_zone=c:1m;
           server {{ listen 80; location / {{ proxy_pass http://a; proxy_cache c;\n{directives} }} }} }}"
    );
    nginx(&parse(&text, "nginx.conf").expect(&text))
}

#[test]
fn lifetimes_become_those_of_hurtle() {
    let table = [
        ("proxy_cache_valid 200 302 10m;", "lifetimes = { 200 = \"600s\", 302 = \"600s\" }"),
        ("proxy_cache_valid 90;", "{ 200 = \"90s\", 301 = \"90s\", 302 = \"90s\" }"),
        ("proxy_cache_valid 404 0;", "{ 404 = \"0s\" }"),
        (
            "proxy_cache_valid 200 1d; proxy_cache_valid any 1m;",
            "{ 200 = \"86400s\", any = \"60s\" }",
        ),
        ("proxy_cache_valid any 1m; proxy_cache_valid 200 1d;", "{ any = \"60s\" }"),
        ("proxy_cache_valid 404 1m; proxy_cache_valid 404 2m;", "{ 404 = \"60s\" }"),
        ("proxy_cache_valid 200 1y;", "{ 200 = \"31536000s\" }"),
        ("proxy_cache_use_stale off;", "cache = { disk = \"/cache\" }"),
    ];
    for (directives, expected) in table {
        let text = import(directives).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
        assert!(text.contains(expected), "{directives}: {expected}\n{text}");
    }
}

#[test]
fn lifetimes_that_hurtle_has_not_are_refused() {
    let table = [
        ("proxy_cache_valid;", "write a duration, such as 10m"),
        ("proxy_cache_valid any;", "write a duration in seconds"),
        ("proxy_cache_valid 200 500ms;", "write a duration in seconds"),
        ("proxy_cache_valid 200 2y;", "of a year at most"),
        ("proxy_cache_valid 1h 30m;", "write statuses from 200 to 599, or any"),
        ("proxy_cache_valid 100 1m;", "write statuses from 200 to 599, or any"),
        ("proxy_cache_valid 0200 1m;", "write statuses from 200 to 599, or any"),
        ("proxy_cache_valid 200 $time;", "write a duration in seconds"),
        ("proxy_cache_key $uri;", "hurtle's key is the URL"),
        ("proxy_ignore_headers Cache-Control;", "the importer does not know it"),
    ];
    for (directives, expected) in table {
        let problems = import(directives).expect_err(directives);
        assert!(problems[0].starts_with("nginx.conf:3: "), "{problems:?}");
        assert!(problems[0].contains(expected), "{directives}: {expected}\n{problems:?}");
    }
}

#[test]
fn remarks_name_what_nginx_stores_or_sends_otherwise() {
    let table = [
        (
            "",
            "# - nginx.conf:2: GET / with Authorization, with Cache-Control: no-cache, or after a POST",
        ),
        ("", "# - nginx.conf:2: GET / is stored for each Host"),
        ("", "reads X-Accel-Expires, and stores none with Set-Cookie"),
        ("proxy_cache_valid 401 5s;", "# - nginx.conf:3: 401 is never stored: GET / is forwarded"),
        ("proxy_cache_valid any 5s;", "# - nginx.conf:3: 502 and 504 of the proxy itself"),
        (
            "proxy_cache_valid any 5s;",
            "# - nginx.conf:3: 401, 407, 412, 416, 421, 428, 429, 431 and",
        ),
        ("proxy_cache_valid 502 5s;", "# - nginx.conf:3: 502 of the proxy itself is never stored"),
        ("proxy_cache_valid any 200 1m;", "# - nginx.conf:3: 200 has its lifetime by an earlier"),
        ("proxy_cache_use_stale error;", "# - nginx.conf:3: a stale response is sent only if"),
        ("add_header X-Cache $upstream_cache_status;", "in place of `X-Cache: HIT`"),
    ];
    for (directives, expected) in table {
        // Long remarks have several lines.
        let text = import(directives).expect(directives).replace("\n#   ", " ");
        assert!(text.contains(expected), "{directives}: {expected}\n{text}");
    }
    let text = import("proxy_cache_valid any 0;").expect("it is imported");
    assert!(!text.contains("never stored"), "0 is alike: {text}");
}
